"""The published interfaces: numbers equal to a slow twin of the published algorithm, verdicts that fail closed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import fields
from itertools import pairwise

import pytest
import tests.published_twin as twin
import torch
from tests.published_models import Contract, Noisy, Parts, Patches, exploded, random_batches, residual_mlp, with_nan
from torch import nn

import creditscope
from creditscope import (
    DiagnosticThresholds,
    FAProtocol,
    bp_grad_norms,
    cross_batch_direction_stability,
    diagnose,
    residual_norms,
)
from creditscope.compat.numbers import mean_pairwise

Maker = Callable[[], nn.Module]
MODELS: list[Maker] = [residual_mlp, Contract, Parts, Patches, exploded]
SIZES = [[128, 128], [7, 30, 16], [1, 2, 33, 5]]
EXACT = 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("make", MODELS)
def test_numbers_equal_the_published_algorithm(make: Maker, sizes: list[int], dtype: torch.dtype) -> None:
    model = make().to(dtype)
    batches = [(x.to(dtype), y) for x, y in random_batches(sizes)]
    x, y = batches[0]
    assert residual_norms(model, x) == pytest.approx(twin.residual_norms(model, x), rel=EXACT)
    assert bp_grad_norms(model, x, y) == pytest.approx(twin.bp_grad_norms(model, x, y), rel=EXACT, abs=0)
    for layer in range(len(model.blocks) + 1):
        ours, slow = (f(model, batches, layer) for f in (cross_batch_direction_stability, twin.stability))
        near_zero = EXACT if dtype is torch.float32 else 0  # rounding of a unit vector, not of a cosine near 0
        assert ours == pytest.approx(slow, rel=EXACT, abs=near_zero)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("make", MODELS)
def test_a_report_holds_the_numbers_of_the_single_functions(make: Maker, sizes: list[int]) -> None:
    model, batches = make(), random_batches(sizes)
    report = diagnose(model, iter(batches), 0.5, 0.3)
    assert report.residual_norms == residual_norms(model, batches[0][0])
    assert report.bp_grad_norms == bp_grad_norms(model, *batches[0])
    assert report.stability_layer == max(1, (len(model.blocks) + 1) // 2)
    assert report.cross_batch_stability == cross_batch_direction_stability(model, batches, report.stability_layer)


@pytest.mark.parametrize(("frozen", "flag"), [(0.3, ""), (0.49, "(d) depth")])
@pytest.mark.parametrize("make", MODELS)
def test_at_128_samples_with_every_number_known_the_verdicts_are_the_published_ones(
    make: Maker, frozen: float, flag: str
) -> None:
    model, batches = make(), random_batches([128] * 3)
    expected = twin.diagnose(model, batches, 0.5, frozen)
    assert diagnose(model, batches, 0.5, frozen).verdict == expected
    assert flag in expected
    for baseline in (0.0, 0.9):
        assert FAProtocol(model, *batches[0]).run(baseline)["verdict"] == twin.protocol(model, *batches[0], baseline)


def test_an_exploded_network_raises_scale_and_reference() -> None:
    (x, y), *_ = batches = random_batches([128] * 3)
    thresholds = DiagnosticThresholds(stability_drift_ceiling=1.0)
    report = diagnose(exploded(), batches, 0.5, 0.3, thresholds=thresholds)
    assert report.verdict == "needs walk-back: (a) scale; (b) reference"
    assert FAProtocol(exploded(), x, y).run()["verdict"] == "FAIL(D1+D2)"
    assert FAProtocol(exploded(), x, y).run(0.9)["verdict"] == "FAIL(D1+D2+D3)"
    assert FAProtocol(residual_mlp(), x, y).run(0.9)["verdict"] == "FAIL(D3)"
    assert FAProtocol(residual_mlp(), x, y).run(0.0)["verdict"] == "PASS"


def test_a_reference_that_is_small_because_the_network_fits_fails_as_published_but_not_in_an_audit() -> None:
    model, ((x, _),) = exploded(1e4), random_batches([128])
    model.out_head.weight.data.mul_(1e3)
    labels = model(x).argmax(1)
    assert FAProtocol(model, x, labels).run(0.0)["verdict"] == twin.protocol(model, x, labels, 0.0) == "FAIL(D1+D2)"
    report = creditscope.audit(model, [(x, labels)], accuracy=1.0, control_accuracy=0.3)
    assert (report.findings["D2"].cause, str(report.verdict)) == ("fitted", "PASS")


def test_the_protocol_names_value_threshold_and_answer_of_each_diagnostic() -> None:
    model, ((x, y),) = residual_mlp(), random_batches([64])
    skipped, measured = FAProtocol(model, x, y).run(), FAProtocol(model, x, y).run(frozen_baseline_acc=0.1)
    assert set(skipped) == {"verdict", "diagnostics"}
    assert skipped["diagnostics"] == {
        "D1_scale_growth": {"value": pytest.approx(twin.growth(model, x)), "threshold": 50.0, "fires": False},
        "D2_ref_validity": {
            "value": pytest.approx(twin.bp_grad_norms(model, x, y)[-1]),
            "threshold": pytest.approx(1e-7),
            "fires": False,
        },
        "D3_depth_utility": {"value": None, "threshold": 2.0, "fires": None},
    }
    margin = 100 * (twin.accuracy(model, x, y) - 0.1)
    assert measured["diagnostics"]["D3_depth_utility"]["value"] == pytest.approx(margin)


def test_every_threshold_of_the_protocol_is_obeyed() -> None:
    ((x, y),) = random_batches([128])
    strict = FAProtocol(residual_mlp(), x, y, 0.5, 1e-2, 1e3, 200.0).run(0.0)
    assert strict["verdict"] == "FAIL(D1+D2+D3)"
    assert [answer["threshold"] for answer in strict["diagnostics"].values()] == [0.5, 10.0, 200.0]
    assert all(answer["fires"] for answer in strict["diagnostics"].values())


@pytest.mark.parametrize(
    ("name", "at", "flag"),
    [
        ("h_norm_explosion_ratio", 0.5, "(a) scale"),
        ("g_norm_floor", 10.0, "(b) reference"),
        ("stability_drift_ceiling", -1.0, "(c) drift"),
        ("frozen_acc_margin_pp", 20.1, "(d) depth"),
    ],
)
def test_each_threshold_of_diagnose_raises_its_own_flag(name: str, at: float, flag: str) -> None:
    quiet = {"stability_drift_ceiling": 1.0}
    model, batches = residual_mlp(), random_batches([40] * 3)
    assert diagnose(model, batches, 0.5, 0.3, thresholds=DiagnosticThresholds(**quiet)).verdict == "trustworthy"
    report = diagnose(model, batches, 0.5, 0.3, thresholds=DiagnosticThresholds(**(quiet | {name: at})))
    assert report.verdict == f"needs walk-back: {flag}"


def test_the_published_defaults_stand() -> None:
    assert DiagnosticThresholds() == DiagnosticThresholds(1e-7, 50.0, 0.30, 2.0)
    assert [field.default for field in fields(FAProtocol)][3:] == [50.0, 1e-8, 10.0, 2.0]


def test_scale_is_judged_per_block_not_relative_to_layer_0() -> None:
    model, batches = residual_mlp(), random_batches([64] * 2)
    with torch.no_grad():
        model.embed.weight.mul_(1e-3)
        model.embed.bias.mul_(1e-3)
        for block, factor in zip(model.blocks, (3, 40, 1000), strict=True):
            block.w2.weight.mul_(factor)
    norms = residual_norms(model, batches[0][0])
    assert max(norms) / norms[0] > 50 > max(b / a for a, b in pairwise(norms))
    assert "(a)" not in diagnose(model, batches, 0.5, 0.3).verdict
    assert "(a)" in str(creditscope.audit(model, batches, accuracy=0.5, control_accuracy=0.3, protocol="april").verdict)


def test_the_record_has_the_published_keys_and_is_plain() -> None:
    report = diagnose(Contract(), random_batches([20] * 2), 0.5, 0.3, "DFA", "seed 42", layer_for_stability=1)
    record = report.to_dict()
    assert list(record) == [
        *("method_name", "notes", "residual_norms", "bp_grad_norms", "stability_layer", "cross_batch_stability"),
        *("headline_acc", "frozen_baseline_acc", "verdict", "thresholds"),
    ]
    assert record["thresholds"] == {
        "g_norm_floor": 1e-7,
        "h_norm_explosion_ratio": 50.0,
        "stability_drift_ceiling": 0.30,
        "frozen_acc_margin_pp": 2.0,
    }
    assert (record["method_name"], record["notes"], record["stability_layer"]) == ("DFA", "seed 42", 1)
    assert (record["headline_acc"], record["frozen_baseline_acc"]) == (0.5, 0.3)
    assert json.loads(json.dumps(record)) == record
    assert all(record[name] == getattr(report, name) for name in record if name != "thresholds")


def test_a_report_reads_as_a_page() -> None:
    page = str(diagnose(exploded(), random_batches([128] * 2), 0.5, None, "DFA", "seed 42"))
    assert page.startswith("DFA: needs walk-back: (a) scale; (b) reference")
    lines = page.splitlines()
    assert lines[1] == "seed 42"
    assert [line.split()[0] for line in lines[4:8]] == ["0", "1", "2", "3"]
    assert [line.split()[0] for line in lines[9:14]] == ["(a)", "(b)", "(c)", "(d)", "non-finite"]
    assert "fires above 50" in lines[9]
    assert "fires below 1e-07" in lines[10]
    assert "skipped" in lines[12]
    assert "no frozen-block control" in lines[12]
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("make", [Noisy, residual_mlp, Parts])
def test_the_model_comes_back_as_it_was_even_under_no_grad(make: Maker) -> None:
    model, batches = make().train(), random_batches([20] * 2)
    model.blocks[0].eval()
    next(model.parameters()).requires_grad_(False)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    wanted = [parameter.requires_grad for parameter in model.parameters()]
    with torch.no_grad():
        report = diagnose(model, batches, 0.5, 0.3)
        verdict = FAProtocol(model, *batches[0]).run(0.0)["verdict"]
        residual_norms(model, batches[0][0])
    assert [module.training for module in model.modules()] == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == wanted
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    model.eval()
    assert (report.bp_grad_norms, verdict) == (
        pytest.approx(twin.bp_grad_norms(model, *batches[0]), rel=EXACT),
        twin.protocol(model, *batches[0], 0.0),
    )


def test_inputs_follow_the_model_to_its_precision() -> None:
    ((x, y),) = random_batches([20])
    assert residual_norms(Contract().double(), x) == pytest.approx(residual_norms(Contract(), x), rel=1e-5)
    assert bp_grad_norms(Contract().double(), x, y) == pytest.approx(bp_grad_norms(Contract(), x, y), rel=1e-4)


def test_scaling_the_batch_by_repetition_divides_the_gradient_and_nothing_else() -> None:
    ((x, y),) = random_batches([21])
    model = Contract().double()
    once, thrice = bp_grad_norms(model, x, y), bp_grad_norms(model, x.repeat(3, 1), y.repeat(3))
    assert [3 * value for value in thrice] == pytest.approx(once)
    assert residual_norms(model, x.repeat(3, 1)) == pytest.approx(residual_norms(model, x))


def test_a_negative_layer_counts_back_from_the_deepest() -> None:
    model, batches = Contract(), random_batches([20] * 2)
    assert cross_batch_direction_stability(model, batches, -1) == cross_batch_direction_stability(model, batches, 3)
    assert diagnose(model, batches, 0.5, layer_for_stability=-2).stability_layer == 2


def test_the_sum_of_directions_gives_the_mean_over_pairs() -> None:
    units = nn.functional.normalize(torch.randn(6, 9, dtype=torch.float64), dim=1)
    units[2] = 0
    cosines = (units @ units.T)[torch.triu(torch.ones(6, 6), diagonal=1).bool()]
    assert mean_pairwise(list(units)) == pytest.approx(cosines.mean().item())


def test_a_vanished_gradient_counts_as_published_but_is_never_trusted() -> None:
    model, batches = Contract(), random_batches([20] * 3)
    nn.init.zeros_(model.out_head.weight)
    report = diagnose(model, batches, 0.5, 0.3, thresholds=DiagnosticThresholds(g_norm_floor=0.0))
    assert report.cross_batch_stability == twin.stability(model, batches, 2) == 0
    assert report.verdict == "incomplete: (c) undefined"
    assert "at layer 2: the mean gradient of 3 of 3 batches vanishes" in str(report)


def test_one_batch_leaves_drift_open() -> None:
    batches = random_batches([20])
    report = diagnose(Contract(), batches, 0.5, 0.3)
    assert math.isnan(report.cross_batch_stability)
    assert math.isnan(cross_batch_direction_stability(Contract(), batches, 1))
    assert report.verdict == "incomplete: (c) not measured"
    assert "needs at least two disjoint batches, got one" in str(report)


def test_an_undefined_margin_leaves_depth_open() -> None:
    thresholds = DiagnosticThresholds(stability_drift_ceiling=1.0)
    report = diagnose(Contract(), random_batches([20] * 2), math.nan, 0.3, thresholds=thresholds)
    assert report.verdict == "incomplete: (d) undefined"


def test_a_network_with_nan_gets_numbers_but_no_trust() -> None:
    model, batches = with_nan(Contract()), random_batches([20] * 2)
    norms = residual_norms(model, batches[0][0])
    assert norms[0] > 0
    assert all(math.isnan(norm) for norm in norms[1:])
    assert all(math.isnan(norm) for norm in bp_grad_norms(model, *batches[0]))
    page = str(diagnose(model, batches, 0.5, 0.3))
    assert page.startswith("method: needs walk-back: non-finite")
