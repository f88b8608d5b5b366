"""Odd calls of the public functions: each works or raises one of our errors, and the model keeps every bit."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.faults.test_fuzzed_commands import SECONDS, at_most, examples
from torch import nn

import creditscope
from creditscope.errors import CreditscopeError
from creditscope.networks.build import build
from creditscope.records.report import Report
from creditscope.runs.run import train_into
from creditscope.runs.spec import RunSpec

INPUTS, LABELS = torch.linspace(-1, 1, 48).view(8, 6), torch.arange(8) % 3
BATCHES = [(INPUTS, LABELS), (-INPUTS, LABELS.flip(0))]


def network() -> nn.Module:
    return build("resmlp", 6, 3, seed=0, d=8, depth=2)


def failing(*arguments: Any, **options: Any) -> None:
    raise ZeroDivisionError("the user's own")


class Hostile:
    """An object that refuses to be looked at."""

    def __len__(self) -> int:
        raise ZeroDivisionError("the user's own")

    def __repr__(self) -> str:
        return "x" * 10_000


ODD: dict[str, Any] = {
    **{repr(one)[:30]: one for one in ("x", "", "a\0b", "a\udcffb", "\x1b[2J", "é" * 999, "three", "D1", "all")},
    **{repr(one)[:30]: one for one in (0, 1, -1, 1.5, 10**400, -(2**63), True, None, math.nan, math.inf, 1j, b"x")},
    **{repr(one)[:30]: one for one in ([], [1], ["x"], [None], {}, {"D1": 1}, {"a": 1}, {1: {}}, (), (1, 2), {1})},
    **{repr(one)[:30]: one for one in ([0.1, 0.2], [math.nan], {"a": [0.5]}, {0: 0.5}, range(3), [0, 0], [-1])},
    **{f"tensor {n}": one for n, one in enumerate((torch.ones(2), torch.ones(0), torch.tensor(1), INPUTS, LABELS))},
    **{f"array {n}": one for n, one in enumerate((np.ones(3), np.array("x"), np.array([None]), np.ones((2, 8, 8))))},
    "batches of nothing": [(INPUTS[:0], LABELS[:0])],
    "labels of a third class": [(INPUTS, LABELS + 1)],
    "labels that are numbers": [(INPUTS, LABELS.double())],
    "inputs of another width": [(INPUTS[:, :5], LABELS)],
    "NaN": [(INPUTS * math.nan, LABELS)],
    "half precision": [(INPUTS.half(), LABELS)],
    "one batch twice": [BATCHES[0], BATCHES[0]],
    "three of a batch": [(INPUTS, LABELS, LABELS)],
    "path": Path("no such"),
    "object": object(),
    "hostile": Hostile(),
    "class": int,
    "generator": (one for one in ()),
    "takes none": lambda: 1,
    "takes all": lambda *arguments, **options: None,
    "returns ones": lambda *arguments, **options: torch.ones(3),
    "returns text": lambda *arguments, **options: "x",
    "failing": failing,
    "linear": nn.Linear(2, 2),
    "no parameters": nn.Identity(),
    "empty": nn.Sequential(),
    "network": network(),
    "optimiser": torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1),
}  # fmt: skip


def train(model: nn.Module, seed: int) -> None:
    """A user's training that does nothing."""


def layers(width: int) -> list[Any]:
    return [np.random.default_rng(layer).normal(size=(8, width)) for layer in range(3)]


def _bytes(tensor: torch.Tensor | None) -> bytes:
    return b"" if tensor is None else tensor.detach().numpy().tobytes()


def _hooks(module: nn.Module) -> tuple[int, ...]:
    kinds = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return tuple(map(len, kinds))


class Given:
    """What the calls are given: one model, whose every bit is compared, and files."""

    def __init__(self, folder: Path) -> None:
        self.model = network()
        self.model.register_forward_hook(lambda module, inputs, output: None)
        next(self.model.parameters()).grad = torch.ones_like(next(self.model.parameters()))
        train_into(folder / "run", RunSpec(method="dfa", epochs=0, network_options={"d": 8, "depth": 2}, seed=3))
        creditscope.audit(self.model, BATCHES, check_gradient=False).to_json(folder / "report.json")
        self.folder = folder

    def bits(self) -> dict[str, Any]:
        """Every bit that a caller could find changed: tensors, gradients, flags, hooks, modules."""
        named = {n: (id(t), _bytes(t)) for n, t in self.model.state_dict(keep_vars=True).items()}
        gradients = {n: (p.requires_grad, _bytes(p.grad)) for n, p in self.model.named_parameters()}
        modules = {n: (id(m), m.training, _hooks(m)) for n, m in self.model.named_modules()}
        ambient = (torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads())
        return {"tensors": named, "gradients": gradients, "modules": modules, "ambient": ambient}

    def doors(self) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
        """By name, a public function and good arguments, of which a call replaces some."""
        quick = {"check_gradient": False}
        measured = {"model": self.model, "batches": BATCHES, **quick}
        own = {"make_model": lambda seed: network(), "train": train, "evaluate": lambda model: 0.4}
        arrays = {"hiddens": layers(8), "gradients": layers(8), "labels": LABELS.numpy()}
        bound = {"name": "dfa", "model": self.model, "example": BATCHES[0]}
        return {
            "audit": (creditscope.audit, measured),
            "Monitor": (lambda **o: creditscope.Monitor(**o).step(0), measured),
            "Monitor.step": (creditscope.Monitor(**measured).step, {"epoch": 0}),
            "rule": (creditscope.rule, bound),
            "experiment": (creditscope.experiment, {**own, "seeds": [0], "batches": BATCHES}),
            "depth_utility": (
                creditscope.depth_utility,
                {"make_network": own["make_model"], "train": train, "evaluate": own["evaluate"], "seeds": [0]},
            ),
            "compare": (
                creditscope.compare,
                {"methods": {"a": {0: 0.5, 1: 0.6}, "b": {0: 0.4, 1: 0.5}}, "images": 100},
            ),
            "audit_arrays": (creditscope.audit_arrays, arrays),
            "load": (creditscope.load, {"folder": self.folder / "run"}),
            "Report.from_json": (lambda path: Report.from_json(path).to_json(), {"path": self.folder / "report.json"}),
            "plain_twin": (creditscope.plain_twin, {"model": self.model}),
            "explain": (creditscope.explain, {"word": "D1"}),
            "residual_norms": (creditscope.residual_norms, {"model": self.model, "x": INPUTS}),
        }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Given:
    return Given(tmp_path_factory.mktemp("given"))


def parameters(function: Callable[..., Any], given_ones: dict[str, Any]) -> list[str]:
    """The names that a call may replace: those of the signature, else the good ones."""
    named = [p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
    extra = list(inspect.signature(creditscope.Monitor).parameters) if "check_gradient" in given_ones else []
    return sorted({*named, *given_ones, *(extra if not named else [])})


def call_all(made: Given, count: int) -> Counter[str]:
    """Make so many calls; how often each door answered or refused, every call counted once."""
    doors = made.doors()
    ends: dict[tuple[str, ...], str] = {}

    @examples(count)
    @given(st.data())
    def call(data: Any) -> None:
        door = data.draw(st.sampled_from(sorted(doors)))
        function, good = doors[door]
        names = data.draw(st.lists(st.sampled_from(parameters(function, good)), min_size=1, max_size=2, unique=True))
        odd = {name: data.draw(st.sampled_from(sorted(ODD))) for name in names}
        before = made.bits()
        try:
            with at_most(SECONDS):
                function(**{**good, **{name: ODD[value] for name, value in odd.items()}})
            end = "answered"
        except CreditscopeError as error:
            end = type(error).__name__
        assert made.bits() == before
        ends[(door, *(f"{name}={value}" for name, value in sorted(odd.items())))] = end

    call()
    return Counter(ends.values())


@pytest.mark.filterwarnings("ignore")
def test_some_odd_calls_are_answered_or_refused_and_leave_the_model_alone(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sum(call_all(made, 20).values()) >= 15


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_five_hundred_odd_calls_are_answered_or_refused_and_leave_the_model_alone(made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ends = call_all(made, 650)
    with capsys.disabled():
        print(f"{sum(ends.values()):,} odd calls by their end: {dict(ends)}")  # noqa: T201
    assert sum(ends.values()) >= 500
