"""An audit on another device mixes no devices and has the numbers of the CPU."""

from __future__ import annotations

import pytest
import torch
from tests.devices.pretended import DEVICE

import creditscope
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
