"""Three faults of the published protocol: the twin has each of them, nothing of ours has any."""

from __future__ import annotations

import math

import pytest
import tests.published_twin as twin
import torch
from tests.published_models import Contract, Parts, Patches, exploded, random_batches, residual_mlp, with_nan
from torch import Tensor, nn

from creditscope import DiagnosticThresholds, FAProtocol, audit, diagnose

QUIET = DiagnosticThresholds(stability_drift_ceiling=1.0)  # drift of random networks is not what is asked here
NETS = [residual_mlp, Contract, Parts, Patches]


@pytest.fixture
def batches() -> list[tuple[Tensor, Tensor]]:
    return random_batches([128] * 3)


@pytest.mark.parametrize("make", NETS)
def test_a_network_of_nan_is_trusted_by_the_published_protocol_and_never_by_ours(make, batches) -> None:
    net = with_nan(make())
    assert twin.diagnose(net, batches, 0.5, 0.3) == "trustworthy"
    assert twin.protocol(net, *batches[0]) == "PASS"
    assert diagnose(net, batches, 0.5, 0.3).verdict == "needs walk-back: non-finite"
    assert FAProtocol(net, *batches[0]).run(0.0)["verdict"] == "FAIL(D0)"
    assert str(audit(net, batches, accuracy=0.5, control_accuracy=0.3).verdict) == "FAIL(D0)"


def test_the_answers_about_a_network_of_nan_are_not_known(batches) -> None:
    answers = FAProtocol(with_nan(Contract()), *batches[0]).run(0.0)["diagnostics"]
    assert math.isnan(answers["D1_scale_growth"]["value"])
    assert math.isnan(answers["D2_ref_validity"]["value"])
    assert answers["D1_scale_growth"]["fires"] is answers["D2_ref_validity"]["fires"] is None


def test_one_nan_that_no_median_shows_is_enough(batches) -> None:
    x, y = batches[1]
    batches[1] = (x.index_fill(0, torch.tensor([3]), math.nan), y)
    report = diagnose(Contract(), batches, 0.5, 0.3, thresholds=QUIET)
    assert all(math.isfinite(norm) for norm in (*report.residual_norms, *report.bp_grad_norms))
    assert report.verdict == "needs walk-back: non-finite"


def test_nan_in_a_weight_that_no_sample_reaches_is_found(batches) -> None:
    net = Contract()
    net.spare = nn.Parameter(torch.full((3,), math.nan))
    assert diagnose(net, batches, 0.5, 0.3, thresholds=QUIET).verdict == "needs walk-back: non-finite"
    assert FAProtocol(net, *batches[0]).run(0.0)["verdict"] == "FAIL(D0)"
    assert str(audit(net, batches, accuracy=0.5, control_accuracy=0.3).verdict) == "FAIL(D0)"


@pytest.mark.parametrize("make", NETS)
def test_a_baseline_that_was_not_run_passes_there_and_stays_open_here(make, batches) -> None:
    net = make()
    assert twin.protocol(net, *batches[0], None) == "PASS"
    assert "(d)" not in twin.diagnose(net, batches, 0.5, None)
    assert FAProtocol(net, *batches[0]).run()["verdict"] == "INCONCLUSIVE(D3)"
    assert diagnose(net, batches, 0.5, thresholds=QUIET).verdict == "incomplete: (d) not measured"
    assert str(audit(net, batches, accuracy=0.5).verdict) == "INCONCLUSIVE(D3)"


def test_a_raised_flag_needs_no_baseline(batches) -> None:
    assert diagnose(exploded(), batches, 0.5).verdict.startswith("needs walk-back: (a) scale; (b) reference")
    assert FAProtocol(exploded(), *batches[0]).run()["verdict"] == "FAIL(D1+D2)"


def near_the_floor(times: float) -> nn.Module:
    """An exploded stream whose reference, at 128 samples, lies at `times` the published floor."""
    net, ((x, y),) = exploded(3e4), random_batches([1024])
    for _ in range(3):  # almost linear in the head
        at_128 = 8 * twin.bp_grad_norms(net, x, y)[-1]
        net.out_head.weight.data.mul_(times * 1e-7 / at_128)
    return net


@pytest.mark.parametrize(("times", "sound"), [(2.0, True), (0.5, False)])
def test_the_floor_moves_with_n_there_and_stays_here(times: float, sound: bool) -> None:
    net, ((x, y),) = near_the_floor(times), random_batches([1024])
    sizes = (32, 128, 1024)
    published = [twin.protocol(net, x[:n], y[:n]) for n in sizes]
    assert published == (["PASS", "PASS", "FAIL(D1+D2)"] if sound else ["PASS", "FAIL(D1+D2)", "FAIL(D1+D2)"])
    ours = {FAProtocol(net, x[:n], y[:n]).run(0.0)["verdict"] for n in sizes}
    assert ours == {"PASS" if sound else "FAIL(D1+D2)"}
    flags = {"(b)" in diagnose(net, [(x[:n], y[:n])], 0.5, 0.3).verdict for n in sizes}
    assert flags == {not sound}
    assert twin.bp_grad_norms(net, x[:32], y[:32])[-1] > 1e-7  # which is why 32 samples hide it there


@pytest.mark.parametrize("times", [2.0, 0.5])
def test_an_audit_gives_one_reference_validity_however_the_images_are_cut(times: float) -> None:
    net, ((x, y),) = near_the_floor(times), random_batches([1024])
    reports = [
        audit(net, list(zip(x.split(n), y.split(n), strict=True)), accuracy=0.5, control_accuracy=0.3)
        for n in (16, 128, 512)
    ]
    values = [report.findings["D2"].value for report in reports]
    assert values == pytest.approx([times * 1e-7] * 3, rel=0.01)
    assert len({str(report.verdict) for report in reports}) == 1
    pieces = [twin.bp_grad_norms(net, x[:n], y[:n])[-1] for n in (16, 512)]
    assert pieces[0] / pieces[1] == pytest.approx(32, rel=0.3)
