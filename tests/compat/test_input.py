"""The published interfaces against bad input: refused, with what was found, why it matters and what to do."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.published_models import Contract, random_batches
from torch import Tensor, nn

from creditscope import DiagnosticReport, DiagnosticThresholds, FAProtocol, bp_grad_norms, diagnose, residual_norms
from creditscope.errors import InvalidInput, ModelMismatch, NotTheGradient


def test_one_number_may_be_of_any_kind() -> None:
    batches = random_batches([20] * 2)
    reports = [diagnose(Contract(), batches, kind(0.5), kind(0.25)) for kind in (float, np.float32, torch.tensor)]
    assert reports[0].to_dict() == reports[1].to_dict() == reports[2].to_dict()
    assert isinstance(reports[0], DiagnosticReport)


class Crooked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, h: Tensor) -> Tensor:
        return h.clone()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return -2 * gradient


class OwnBackward(nn.Module):
    def forward(self, h: Tensor) -> Tensor:
        return Crooked.apply(h)


def test_no_verdict_is_drawn_from_a_backward_pass_that_is_not_the_gradient() -> None:
    model, batches = Contract(), random_batches([20] * 2)
    model.out_ln = nn.Sequential(model.out_ln, OwnBackward())
    with pytest.raises(NotTheGradient, match="the backward pass of Contract promises"):
        diagnose(model, batches, 0.5, 0.3)
    with pytest.raises(NotTheGradient):
        FAProtocol(model, *batches[0]).run()


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "percent": (lambda: diagnose(Contract(), random_batches([9] * 2), 31), "headline_acc = 31 .* Did you mean 0.31"),
    "percent baseline": (
        lambda: FAProtocol(Contract(), *random_batches([9])[0]).run(34.6),
        "frozen_baseline_acc = 34.6 is not a share",
    ),
    "seeds": (
        lambda: diagnose(Contract(), random_batches([9] * 2), [0.3, 0.4]),  # type: ignore[arg-type]
        r"headline_acc is \[0.3, 0.4\], not one number.*creditscope.audit",
    ),
    "threshold": (
        lambda: DiagnosticThresholds(g_norm_floor=math.nan),
        "g_norm_floor is nan.*everything would pass. Pass a number",
    ),
    "protocol threshold": (
        lambda: FAProtocol(Contract(), *random_batches([9])[0], d2_eps=math.nan),
        "d2_eps is nan.*everything would pass. Pass a number",
    ),
    "layer": (
        lambda: diagnose(Contract(), random_batches([9] * 2), 0.5, layer_for_stability=4),
        "There is no layer 4: the stream has the states h_0 to h_3.*Pass a layer from 0 to 3",
    ),
    "no batches": (lambda: diagnose(Contract(), [], 0.5), "There are no batches"),
    "twice": (lambda: diagnose(Contract(), random_batches([9]) * 2, 0.5), "Batches 0 and 1 hold the same samples"),
    "shape": (lambda: residual_norms(Contract(), torch.zeros(9, 3)), r"Contract cannot take inputs of shape \(9, 3\)"),
    "labels": (
        lambda: bp_grad_norms(Contract(), torch.zeros(9, 20), torch.full((9,), 4)),
        "labels from 4 to 4, but the model has 4 classes",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_what_why_and_what_to_do(case: str) -> None:
    call, message = BAD[case]
    with pytest.raises(InvalidInput, match=f"(?s){message}"):
        call()


def test_a_model_that_hides_its_stream_is_refused() -> None:
    x, y = random_batches([9])[0]
    with pytest.raises(ModelMismatch, match="Linear has no recognisable stream"):
        FAProtocol(nn.Linear(20, 4), x, y).run()
