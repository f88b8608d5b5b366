"""audit(updates=...): Γ^W per tensor and per block, its null, and the number as usually reported."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import creditscope
from creditscope.batch import Batch
from creditscope.conformance.subject import home
from creditscope.errors import InvalidInput
from creditscope.methods import methods
from creditscope.methods.bound_rule import BoundRule
from creditscope.networks.build import build
from creditscope.networks.staged import StagedNetwork
from creditscope.records.report import Report
from creditscope.report.text import page

FEW_STEPS = {"ep": {"steps": 3}, "predictive_coding": {"steps": 3}}
REDRAWN = {"dfa", "drtp", "fa", "fa_weights", "pepita"}  # fixed feedback that carries the alignment


def batches(count: int = 3) -> list[Batch]:
    generator = torch.Generator().manual_seed(4)
    drawn = torch.randn(count, 64, 6, generator=generator)
    return [Batch(inputs, torch.randint(3, (64,), generator=generator)) for inputs in drawn]


@pytest.fixture
def network() -> StagedNetwork:
    return build("resmlp", 6, 3, 0, d=12, depth=2)


def gradients(network: StagedNetwork, batch: Batch) -> dict[str, Tensor]:
    named = dict(network.named_parameters())
    found = torch.autograd.grad(F.cross_entropy(network(batch.inputs), batch.labels), list(named.values()))
    return dict(zip(named, found, strict=True))


def bound(network: StagedNetwork, name: str) -> BoundRule:
    rule, example = methods[name](**FEW_STEPS.get(name, {})), batches(1)[0]
    return BoundRule(rule, network, rule.feedback(network, example, torch.Generator().manual_seed(1)), example)


def test_the_gradient_scores_one_everywhere_and_its_negative_minus_one(network: StagedNetwork) -> None:
    for sign in (1, -1):
        report = creditscope.audit(
            network, batches(), updates=lambda batch, s=sign: {k: s * g for k, g in gradients(network, batch).items()}
        )
        found = report.measures["gamma_update"]
        assert found.per_layer == pytest.approx([sign] * 3, abs=1e-6)
        assert list(found.per_tensor) == [name for name, _ in network.named_parameters()]
        assert list(found.per_tensor.values()) == pytest.approx([sign] * len(found.per_tensor), abs=1e-5)
        assert report.measures["gamma_update_whole"].value == pytest.approx(sign, abs=1e-6)
        assert "3 batches, 192 images" in found.note
        assert "gamma" not in report.measures  # no credit at the states was given


def test_the_null_of_a_function_is_its_update_for_permuted_labels(network: StagedNetwork) -> None:
    report = creditscope.audit(network, batches(), updates=lambda batch: gradients(network, batch))
    null = report.measures["gamma_update_null"]
    assert "10 draws with permuted labels" in null.note
    assert abs(null.value) < 0.9 < report.measures["gamma_update"].value


@pytest.mark.parametrize("name", methods)
def test_every_rule_brings_its_updates(name: str) -> None:
    """As a slow twin: the median over the batches of the cosines with autograd's gradient."""
    sizes = {"resmlp": {"d": 12, "depth": 2}, "mlp": {"widths": (12,), "depth": 2}}
    network = build(home(methods[name]), 6, 3, 0, **sizes[home(methods[name])])
    source = bound(network, name)
    report = creditscope.audit(network, batches(), credit=source)
    found = report.measures["gamma_update"]
    for key, value in found.per_tensor.items():
        cosines = []
        for batch in batches():
            u, b = source.updates(batch)[key].double().flatten(), gradients(network, batch)[key].double().flatten()
            cosines.append(float(u @ b / u.norm() / b.norm()))
        assert value == pytest.approx(sorted(cosines)[1], abs=1e-6)
    kind = "fresh feedback" if name in REDRAWN else "permuted labels"
    assert kind in report.measures["gamma_update_null"].note


def test_the_report_shows_it_and_survives_a_round_trip(network: StagedNetwork) -> None:
    report = creditscope.audit(network, batches(), credit=bound(network, "dfa"))
    again = Report.model_validate_json(report.model_dump_json())
    for key in ("gamma_update", "gamma_update_null", "gamma_update_whole"):
        assert again.measures[key] == report.measures[key]
    assert "Γ^W" in page(report, full=True)
    for form in ("html", "json", "csv"):
        assert "gamma_update" in report.to(form) or "Γ^W" in report.to(form), form


def test_an_audit_without_updates_measures_none(network: StagedNetwork) -> None:
    assert "gamma_update" not in creditscope.audit(network, batches()).measures


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("no function", "updates is a str, not a function"),
        (lambda _: [torch.zeros(3)], "updates returned a list, not tensors by parameter name"),
        (lambda _: {"nothing": torch.zeros(3)}, "updates returned no parameter of this network"),
        (lambda _: {"embed.bias": torch.zeros(3)}, "updates returned the wrong shape for embed.bias"),
    ],
)
def test_updates_of_another_network_are_refused(network: StagedNetwork, given: Any, found: str) -> None:
    with pytest.raises(InvalidInput, match=found):
        creditscope.audit(network, batches(), updates=given)


def test_parameters_without_an_update_are_undefined(network: StagedNetwork) -> None:
    report = creditscope.audit(
        network, batches(), updates=lambda batch: {"embed.weight": gradients(network, batch)["embed.weight"]}
    )
    found = report.measures["gamma_update"]
    assert found.per_tensor["embed.weight"] == pytest.approx(1, abs=1e-6)
    assert math.isnan(found.per_tensor["out_head.weight"])
    assert 0 < found.per_layer[0] < 1  # its bias got nothing


def test_the_table_has_every_stage_and_tensor_with_its_null(network: StagedNetwork) -> None:
    report = creditscope.audit(network, batches(), credit=bound(network, "dfa"))
    table = report.updates
    assert table is not None
    assert [row.name for row in table.stages] == ["embedding", "block 1", "block 2", "read-out"]
    assert [row.stage for row in table.tensors] == sorted(row.stage for row in table.tensors)
    found, null = report.measures["gamma_update"], report.measures["gamma_update_null"]
    assert {row.name: row.cosine for row in table.tensors} == found.per_tensor
    assert {row.name: row.null for row in table.tensors} == null.per_tensor
    assert tuple(row.cosine for row in table.stages[:-1]) == found.per_layer
    assert all(row.null_std is not None and row.null_std > 0 for row in table.stages[:-1])
    assert (table.whole, table.reference) == (report.measures["gamma_update_whole"].value, "")
    shown, html = page(report, 80, full=True), report.to("html")
    for name in ("Updates, tensor by tensor", "blocks.1.w2.weight", "whole network, as usually reported"):
        assert name in shown
        assert name in html
    assert max(map(len, shown.splitlines())) <= 80
    assert "own reference" not in shown


def test_a_methods_own_reference_is_compared_first_and_no_alignment_to_bp_is_claimed(network: StagedNetwork) -> None:
    """A method that descends the squared error: its updates have cosine 1 with that, and another one with BP."""

    def squared(batch: Batch) -> dict[str, Tensor]:
        named = dict(network.named_parameters())
        loss = F.mse_loss(network(batch.inputs), F.one_hot(batch.labels, 3).float())
        return dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True))

    report = creditscope.audit(network, batches(), updates=squared, own_reference=squared)
    assert report.measures["gamma_update_own"].per_layer == pytest.approx([1] * 3, abs=1e-6)
    assert report.measures["gamma_update"].value < 0.99
    for text in (page(report, 200), page(report, 200, full=True), report.to_markdown(), report.to("html")):
        assert "Reference: the method's own loss" in text.replace("&#39;", "'")
        assert "No alignment to BP is claimed" in text
    assert "own reference" in page(report, full=True)
    assert report.updates is not None
    assert all(row.own == pytest.approx(1, abs=1e-6) for row in report.updates.tensors)


def test_a_reference_that_cannot_be_computed_gives_its_reason() -> None:
    uneven = build("mlp", 6, 3, 0, widths=(8, 5), depth=2)
    report = creditscope.audit(uneven, batches(1), credit=bound(uneven, "target_prop"))
    assert math.isnan(report.measures["gamma_own"].value)
    assert report.measures["gamma_own"].cause == "not applicable"
    assert "It was not computed: the states have 8, 5, 5 features, so that J has no inverse." in page(report, 300)


def test_an_own_reference_needs_updates_and_names_of_this_network(network: StagedNetwork) -> None:
    known = lambda batch: gradients(network, batch)  # noqa: E731
    for given, found in (
        ({"own_reference": known}, "own_reference was given without updates"),
        ({"updates": known, "own_reference": 3}, "own_reference is a int, not a function"),
        ({"updates": known, "own_reference": lambda _: 3}, "own_reference returned a int, not tensors"),
        ({"updates": known, "own_reference": lambda _: {"x": torch.ones(2)}}, "own_reference returned no parameter"),
    ):
        with pytest.raises(InvalidInput, match=found):
            creditscope.audit(network, batches(), **given)
