"""The fused optimiser takes PyTorch's own steps."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from creditscope.training.fused import FusedAdamW


def parameters(dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((5, 3), (7,), (2, 2, 2))
    return [nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in shapes]


def trajectory(kind: type[torch.optim.Optimizer], dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Eight steps: a parameter without a gradient at times, another rate at each, and a resumption halfway."""
    learning, noise = parameters(dtype), torch.Generator().manual_seed(1)
    optimiser = kind(learning, lr=1e-2, weight_decay=0.1, fused=True)
    for step in range(8):
        if step == 4:
            saved = optimiser.state_dict()
            optimiser = kind(learning, lr=1.0, fused=True)
            optimiser.load_state_dict(saved)
        for index, parameter in enumerate(learning):
            gradient = torch.randn(parameter.shape, generator=noise).to(dtype)
            parameter.grad = None if step % 3 == index == 2 else gradient
        optimiser.param_groups[0]["lr"] = 1e-2 / (1 + step)
        optimiser.step()
    return [p.detach() for p in learning] + [optimiser.state[p][name] for p in learning for name in ("step", "exp_avg")]


def test_every_step_is_pytorchs_own_to_the_bit() -> None:
    for dtype in (torch.float32, torch.float64):
        ours, theirs = trajectory(FusedAdamW, dtype), trajectory(torch.optim.AdamW, dtype)
        assert all(torch.equal(own, other) for own, other in zip(ours, theirs, strict=True))


def test_no_step_imports_pytorchs_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch._dynamo", None)  # importing it fails from now on
    with pytest.raises(ImportError):
        trajectory(torch.optim.AdamW)
    trajectory(FusedAdamW)


def test_a_closure_is_evaluated_as_pytorch_does() -> None:
    (weight, *_) = parameters()
    optimiser = FusedAdamW([weight], lr=1e-2, fused=True)
    for _ in range(2):
        weight.grad = torch.ones_like(weight)
        assert optimiser.step(lambda: 3.0) == 3.0


def test_the_usual_step_does_not_reach_pytorchs_slower_one(monkeypatch: pytest.MonkeyPatch) -> None:
    learning = parameters()
    optimiser = FusedAdamW(learning, lr=1e-2, fused=True)
    for parameter in learning:
        parameter.grad = torch.ones_like(parameter)
    optimiser.step()
    monkeypatch.setattr(torch.optim.AdamW, "step", None)
    before = learning[0].clone()
    optimiser.step()
    assert not torch.equal(before, learning[0])
