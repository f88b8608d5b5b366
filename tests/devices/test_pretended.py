"""The pretended device refuses what a GPU refuses, counts what a GPU waits for, and has the CPU's numbers."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tests.devices.pretended import DEVICE, synchronisations
from torch import Tensor, nn

MODEL = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))


def gradients(device: str | torch.device) -> list[Tensor]:
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)).to(device)
    model.load_state_dict(MODEL.state_dict())
    inputs, labels = torch.linspace(-1, 1, 30).view(5, 6).to(device), torch.arange(5).to(device) % 3
    F.cross_entropy(model(inputs), labels).backward()
    return [parameter.grad.cpu() for parameter in model.parameters()]


def test_a_backward_pass_has_the_gradients_of_the_cpu():
    assert all(map(torch.equal, gradients(DEVICE), gradients("cpu")))


@pytest.mark.parametrize(
    "mix",
    [
        lambda there, here: there + here,
        lambda there, here: here @ there.T,
        lambda there, here: torch.cat([there, here]),
        lambda there, here: there.normal_(generator=torch.Generator()),
        lambda there, here: torch.randn(2, device=DEVICE, generator=torch.Generator()),
    ],
)
def test_operands_on_two_devices_are_refused(mix):
    with pytest.raises(RuntimeError, match="Expected"):
        mix(torch.ones(2, 3, device=DEVICE), torch.ones(2, 3))


@pytest.mark.parametrize(
    ("wait", "times"),
    [
        (lambda there: there.sum().item(), 1),
        (lambda there: bool((there > 0).all()), 1),
        (lambda there: there.tolist(), 1),
        (lambda there: there.cpu(), 1),
        (lambda there: torch.zeros(3).copy_(there), 1),
        (lambda there: torch.equal(there, there), 1),
        (lambda there: torch.allclose(there, there), 1),
        (lambda there: there[there > 0], 1),
        (lambda there: (there * 2 + 1).sum(), 0),
        (lambda there: there.add_(1)[1:].clone().to(DEVICE, torch.float64), 0),
    ],
)
def test_what_the_host_waits_for_is_counted(wait, times):
    there = torch.ones(3).to(DEVICE)
    with synchronisations() as waits:
        wait(there)
    assert waits.total() == times


def test_in_place_operators_and_views_share_their_numbers():
    there = torch.zeros(2, 3, device=DEVICE)
    assert there[0].add_(1) is not there
    assert there.cpu().tolist() == [[1, 1, 1], [0, 0, 0]]
    assert there.mul_(2) is there
    there.data = there.data.double()
    assert there.dtype == torch.float64
    assert (there + 1).tolist() == [[3, 3, 3], [1, 1, 1]]
