"""An audit on another device mixes no devices and has the numbers of the CPU."""

from __future__ import annotations

import pytest
import torch
from tests.devices.pretended import DEVICE, synchronisations

import creditscope
from creditscope.auditing.fingerprints import fetched, sample_hashes
from creditscope.batch import Batch
from creditscope.networks.build import build

IMAGES, CLASSES = 64, 3


def batches(size: int = 8) -> list[tuple[torch.Tensor, torch.Tensor]]:
    inputs = torch.randn(IMAGES, 6, generator=torch.Generator().manual_seed(1))
    return list(zip(inputs.split(size), (torch.arange(IMAGES) % CLASSES).split(size), strict=True))


def report(device: str | torch.device) -> creditscope.Report:
    network = build("resmlp", 6, CLASSES, seed=0, d=8, depth=2).to(device)
    return creditscope.audit(network, batches(), control_accuracy=0.3)


def same_numbers(one: creditscope.Report, other: creditscope.Report) -> None:
    """Statuses alike, numbers alike up to the order of the sums."""
    assert one.verdict == other.verdict
    assert one.findings.keys() == other.findings.keys()
    for code, finding in one.findings.items():
        twin = other.findings[code]
        assert finding.status == twin.status, code
        if finding.measurement is not None:
            assert finding.measurement.value == pytest.approx(twin.measurement.value, rel=1e-5, nan_ok=True), code
            layers = finding.measurement.per_layer
            assert layers == pytest.approx(twin.measurement.per_layer, rel=1e-5, nan_ok=True), code


def test_an_audit_has_the_numbers_of_the_cpu():
    there, here = report(DEVICE), report("cpu")
    same_numbers(there, here)
    assert there.provenance.device == "pretended:0"
    assert there.provenance.guards == here.provenance.guards


@pytest.mark.parametrize("where", [DEVICE, "cpu"])
def test_a_batch_costs_at_most_one_wait_for_the_device_wherever_it_comes_from(where):
    network = build("resmlp", 6, CLASSES, seed=0, d=8, depth=2).to(DEVICE)
    counts = []
    for size in (32, 8):
        moved = [(inputs.to(where), labels.to(where)) for inputs, labels in batches(size)]
        with synchronisations() as waits:
            creditscope.audit(network, moved)
        counts.append(waits.total())
    assert (counts[1] - counts[0]) / (IMAGES // 8 - IMAGES // 32) <= 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8, torch.bool])
def test_hashes_on_a_device_are_those_of_the_cpu(dtype):
    inputs = (100 * torch.randn(5, 3, 7, generator=torch.Generator().manual_seed(2))).to(dtype)
    here = Batch({"a": inputs, "b": inputs[:, 0, 0]}, torch.arange(5))
    there = Batch({name: tensor.to(DEVICE) for name, tensor in here.inputs.items()}, here.labels.to(DEVICE))
    with synchronisations() as waits:
        marks, labels = fetched(there)
    assert waits.total() == 1
    assert (marks == sample_hashes(here)).all()
    assert torch.equal(labels, here.labels)


def test_a_monitor_has_the_numbers_of_the_cpu():
    rows = []
    for device in (DEVICE, "cpu"):
        network = build("resmlp", 6, CLASSES, seed=0, d=8, depth=2).to(device)
        monitor = creditscope.Monitor(network, batches(32))
        monitor.step(0)
        rows.append(monitor.report())
    same_numbers(*rows)


def credit_report(device: str | torch.device) -> creditscope.Report:
    network = build("resmlp", 6, CLASSES, seed=0, d=8, depth=3).to(device)
    rule = creditscope.rule("dfa", network, example=tuple(part.to(device) for part in batches()[0]), seed=0)
    return creditscope.audit(network, batches(32), credit=rule)


@pytest.mark.slow
def test_credit_and_its_nulls_have_the_numbers_of_the_cpu():
    there, here = credit_report(DEVICE), credit_report("cpu")
    same_numbers(there, here)
    assert {"D6", "D7", "D8", "D9"} <= {code for code, finding in here.findings.items() if finding.measurement}
    for name in ("rho", "nudge"):
        assert there.measures[name].per_layer == pytest.approx(here.measures[name].per_layer, abs=1e-4), name
