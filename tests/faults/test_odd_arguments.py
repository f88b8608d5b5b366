"""Odd arguments of the public functions end in our own errors, and the model stays as it was."""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.masked import masked_tensor

import creditscope
from creditscope.errors import BadFile, CreditscopeError, InvalidInput, UnknownName
from creditscope.networks.build import build
from creditscope.records.report import Report

NETWORK = build("resmlp", 6, 3, seed=0, d=8, depth=2)
INPUTS, LABELS = torch.linspace(-1, 1, 48).view(8, 6), torch.arange(8) % 3
BATCHES = [(INPUTS, LABELS)]
MEASURED = {"check_gradient": False}


def failing(*arguments: Any) -> None:
    raise ZeroDivisionError("the user's own")


def ones(batch: creditscope.Batch) -> list[Tensor]:
    return [torch.ones(len(batch.labels), 8)] * 3


def tensors() -> dict[str, Tensor]:
    return {
        "sparse": INPUTS.to_sparse(),
        "nested": torch.nested.nested_tensor([INPUTS[:4], INPUTS[4:]]),
        "masked": masked_tensor(INPUTS, INPUTS > 0),
        "meta": INPUTS.to("meta"),
        "quantised": torch.quantize_per_tensor(INPUTS, 0.1, 0, torch.qint8),
    }


@pytest.mark.filterwarnings("ignore")
def test_tensors_that_are_not_plain_numbers_are_refused_as_inputs_and_labels():
    for name, tensor in tensors().items():
        with pytest.raises(InvalidInput, match=f"The inputs of batch 0 are .*{name}"):
            creditscope.audit(NETWORK, [(tensor, LABELS)])
        with pytest.raises(InvalidInput, match=f"The inputs of batch 0 are .*{name}"):
            creditscope.residual_norms(NETWORK, tensor)
    with pytest.raises(InvalidInput, match="The labels of batch 0 are sparse"):
        creditscope.audit(NETWORK, [(INPUTS, LABELS.to_sparse())])


def test_a_negative_bit_is_resolved_and_changes_no_number():
    plain = creditscope.audit(NETWORK, [(-INPUTS, LABELS)], **MEASURED)
    marked = creditscope.audit(NETWORK, [(torch._neg_view(INPUTS), LABELS)], **MEASURED)
    assert marked.findings == plain.findings


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([("D1", 1)], "thresholds is a list, not a table of limits by code"),
        (torch.ones(2), "thresholds is a Tensor"),
        ({"D1": 10**400}, "The threshold of D1 is 1000"),
        ({"D1": float("inf")}, "The threshold of D1 is inf"),
    ],
)
def test_limits_that_are_no_table_or_beyond_floats_are_refused(given, words):
    for act in (creditscope.audit, creditscope.Monitor):
        with pytest.raises(InvalidInput, match=words):
            act(NETWORK, BATCHES, thresholds=given)


@pytest.mark.parametrize("argument", ["credit", "predict", "updates", "loss_fn"])
@pytest.mark.parametrize("function", [failing, lambda: 1], ids=["raises", "takes no argument"])
def test_a_function_that_fails_is_named_with_its_own_traceback_as_the_cause(argument, function):
    with pytest.raises(InvalidInput, match=rf"^{argument} failed: (ZeroDivisionError|TypeError)") as caught:
        creditscope.audit(NETWORK, BATCHES, **{argument: function}, **MEASURED)
    cause = caught.value.__cause__
    assert isinstance(cause, ZeroDivisionError | TypeError)
    assert cause.__traceback__ is not None


def test_functions_beside_others_are_named_too():
    with pytest.raises(InvalidInput, match="^redraw failed: ZeroDivisionError"):
        creditscope.audit(NETWORK, BATCHES, credit=ones, redraw=failing, **MEASURED)
    updates = {name: torch.ones_like(p) for name, p in NETWORK.named_parameters()}
    with pytest.raises(InvalidInput, match="^own_reference failed: ZeroDivisionError"):
        creditscope.audit(NETWORK, BATCHES, updates=lambda batch: updates, own_reference=failing, **MEASURED)
    with pytest.raises(InvalidInput, match="^logger failed: ZeroDivisionError"):
        creditscope.Monitor(NETWORK, BATCHES, logger=failing, **MEASURED).step(0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"predict": lambda batch: None}, "predict returned a NoneType for 8 images"),
        ({"predict": lambda batch: torch.ones(3)}, r"predict returned shape [(]3,[)] for 8 images"),
        ({"credit": lambda batch: [t.to_sparse() for t in ones(batch)]}, "a_0 is a sparse, nested or meta tensor"),
        ({"loss_fn": lambda logits, labels: None}, "loss_fn returned a NoneType, not a tensor"),
        ({"loss_fn": torch.ones(2)}, "loss_fn is a Tensor, not a function"),
        ({"disjoint": torch.ones(2)}, "disjoint must be True or False"),
        ({"check_gradient": "no"}, "check_gradient must be True or False, got 'no'"),
        ({"name": "a\0b"}, "holds a NUL character"),
        ({"notes": "a\ud800b"}, "holds half characters"),
        ({"name": 3}, "not a string"),
    ],
)
def test_wrong_results_flags_and_texts_are_refused(options, words):
    with pytest.raises(InvalidInput, match=words):
        creditscope.audit(NETWORK, BATCHES, **{**MEASURED, **options})


def test_a_name_that_the_locale_could_not_decode_is_read_as_utf_8():
    typed = "größe 中".encode().decode("ascii", "surrogateescape")
    assert creditscope.audit(NETWORK, BATCHES, name=typed, **MEASURED).subject.name == "größe 中"


@pytest.mark.parametrize("epoch", ["x", None, 1.5, -1, True, [0], torch.ones(2), np.ones(3), 10**400])
def test_monitor_steps_only_by_whole_numbers(epoch):
    monitor = creditscope.Monitor(NETWORK, BATCHES, **MEASURED)
    with pytest.raises(InvalidInput, match="epoch must be a whole number of at least 0, got"):
        monitor.step(epoch)
    assert monitor.history == []
    assert monitor.step(np.int64(0)).epoch == 0


@pytest.mark.parametrize("path", ["a\0b", None, 3, b"x", ["x"]])
def test_what_is_no_path_is_refused(path):
    report = creditscope.audit(NETWORK, BATCHES, **MEASURED)
    for act in (report.to_html, lambda p: report.to("text", p) if p is not None else report.to_html(p)):
        with pytest.raises((BadFile, InvalidInput), match="is not a path"):
            act(path)
    for act in (creditscope.load, Report.from_json):
        with pytest.raises((BadFile, InvalidInput)):
            act(path)


def test_names_that_are_not_strings_are_unknown():
    for act in (creditscope.explain, lambda name: creditscope.rule(name, NETWORK, example=BATCHES[0])):
        with pytest.raises(UnknownName):
            act(["dfa"])
    with pytest.raises(UnknownName):
        creditscope.audit(NETWORK, BATCHES, protocol=["three"])
    with pytest.raises(InvalidInput, match="seed must be a whole number"):
        creditscope.rule("dfa", NETWORK, example=BATCHES[0], seed="x")


def test_memory_that_runs_out_in_a_function_is_not_blamed_on_it():
    with pytest.raises(RuntimeError, match="allocate"):
        creditscope.audit(NETWORK, BATCHES, credit=lambda batch: torch.empty(10**16), **MEASURED)


ODD: dict[str, Any] = {
    "text": "x",
    "empty": "",
    "NUL": "a\0b",
    "half": "a\udcffb",
    "negative": -1,
    "beyond float": 10**400,
    "float": 1.5,
    "NaN": float("nan"),
    "list": [1],
    "nothing": [],
    "table": {"a": 1},
    "bytes": b"x",
    "function": lambda: 1,
    "failing": failing,
    "object": object(),
    "class": int,
    "tensor": torch.ones(2),
    "array": np.ones(3),
    "complex": 1j,
    "module": nn.Linear(2, 2),
    "set": {1},
}
PARAMETERS = [name for name in inspect.signature(creditscope.audit).parameters if name not in ("model", "batches")]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("parameter", ["model", "batches", *PARAMETERS])
def test_no_odd_value_of_any_argument_ends_in_another_error_or_changes_the_model(parameter):
    before = {name: (id(p), p.detach().numpy().tobytes()) for name, p in NETWORK.named_parameters()}
    for given in ODD.values():
        options = {"model": NETWORK, "batches": BATCHES, parameter: given}
        with suppress(CreditscopeError):
            creditscope.audit(**options)
        assert {name: (id(p), p.detach().numpy().tobytes()) for name, p in NETWORK.named_parameters()} == before
