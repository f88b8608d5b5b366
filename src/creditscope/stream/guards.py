"""Guards: checks that a model is deterministic and that its backward pass is the gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from creditscope.batch import Batch
from creditscope.errors import NotDeterministic, NotTheGradient
from creditscope.provenance import Guard, GuardStatus
from creditscope.stream.isolation import as_float64, float64_copies
from creditscope.stream.states import Stream
from creditscope.stream.trace import LossFunction, capture, losses_at
from creditscope.stream.unwrap import autocasts

REMEDY = "Does a layer define its own backward? Pass reference=creditscope.plain_twin(model), or your own plain copy."
PROBE_IMAGES = 8  # the guards use the first images of the first batch


@dataclass(frozen=True, slots=True)
class _Precision:
    """How finely a backward pass can be compared with a finite difference."""

    name: str
    steps: tuple[float, ...]  # of a state's own norm
    tolerance: float  # of the predicted change
    resolution: float  # of the logits: rounding


FINE = _Precision("float64", (3e-7, 3e-8), 1e-4, 1e-15)
COARSE = _Precision("float32", (1e-2, 1e-3, 1e-4), 0.1, 1e-6)  # where float64 is impossible


def answers(stream: Stream, batch: Batch) -> Tensor:
    """The logits of a batch, without a graph."""
    with torch.no_grad():
        return stream.run(batch.inputs).logits


def check_deterministic(
    stream: Stream, batch: Batch, first: Tensor | None = None, within: Tensor | None = None
) -> Tensor:
    """The logits of a batch; a model that does not give the same ones twice is refused.

    first   its logits, if they are known already
    within  the logits of the same images as part of a larger batch. Where both agree, they are the two answers; where
            they do not, rounding or the other images may be the reason, and the model is run again
    """
    first = answers(stream, batch) if first is None else first
    if within is None or within.shape != first.shape or not _agree(first, within):
        second = answers(stream, batch)
        if not _agree(first, second):
            raise NotDeterministic(
                f"{type(stream.model).__name__} returned two different logits for the same images in evaluation mode, "
                f"up to {(first - second).abs().max().item():.3g} apart.\n"
                "Medians and gradients would vary from run to run. Is dropout or noise applied regardless of .training?"
            )
    stream.verify(batch.inputs, first)
    return first


def _agree(first: Tensor, second: Tensor) -> bool:
    return torch.allclose(first, second, rtol=1e-3, atol=1e-5, equal_nan=True)


def check_gradient(stream: Stream, batch: Batch, loss_fn: LossFunction) -> Guard:
    """The outcome of the gradient check; a model whose backward pass is not its gradient is refused.

    Every state moves by δ_l = ε‖h_l‖(ĝ_l + r_l) per sample, r_l a random unit vector. The backward pass predicts
    Σ ⟨g_l, δ_l⟩; the loss changes by (ℓ(h + δ) - ℓ(h - δ))/2. Curvature and kinks cause a difference that falls with
    ε: agreement at one ε is enough to pass, and only the smallest ε can refuse.
    """
    try:
        with float64_copies(stream.model):
            return _compared(stream, as_float64(batch), loss_fn, FINE)
    except NotTheGradient:
        with torch.no_grad():
            if autocasts(stream.model, lambda: stream.run(batch.inputs)):
                return Guard(GuardStatus.NOT_POSSIBLE, "the model switches to half precision by itself")
        raise
    except (RuntimeError, TypeError, AttributeError):  # a layer requires its own precision
        if next(stream.model.parameters(), torch.zeros(())).dtype in (torch.float16, torch.bfloat16):
            return Guard(GuardStatus.NOT_POSSIBLE, "the model runs in half precision only")
        return _coarsely_compared(stream, batch, loss_fn)


def _coarsely_compared(stream: Stream, batch: Batch, loss_fn: LossFunction) -> Guard:
    try:
        return _compared(stream, batch, loss_fn, COARSE)
    except (AttributeError, NotImplementedError) as error:  # raised by a custom backward pass
        raise NotTheGradient(
            f"The forward pass of {type(stream.model).__name__} works, but its backward pass fails: "
            f"{type(error).__name__}: {error}\n"
            "Without a gradient there is nothing to compare credit with.\n"
            f"{REMEDY}"
        ) from error


def _compared(stream: Stream, batch: Batch, loss_fn: LossFunction, how: _Precision) -> Guard:
    for step in how.steps:
        probe = _probe(stream, batch, loss_fn, step)
        if not (math.isfinite(probe.predicted) and math.isfinite(probe.measured)):
            return Guard(GuardStatus.NOT_POSSIBLE, "the numbers are not finite")
        resolved = abs(probe.predicted) * how.tolerance > how.resolution * probe.scale
        if resolved and probe.error <= how.tolerance:
            text = f"finite difference within {100 * how.tolerance:g} %, in {how.name}"
            return Guard(GuardStatus.PASSED, text)
    if not resolved:
        return Guard(GuardStatus.NOT_POSSIBLE, "the loss does not move beyond rounding")
    raise NotTheGradient(
        f"Along a random direction the loss changes by {probe.measured / step:.3e}, but the backward pass of "
        f"{type(stream.model).__name__} promises {probe.predicted / step:.3e}.\n"
        "A diagnostic would compare credit with something that is not a gradient.\n"
        f"{REMEDY}"
    )


@dataclass(frozen=True, slots=True)
class _Probe:
    """The predicted and the measured change of the loss, and the size of the numbers in it."""

    predicted: float
    measured: float
    scale: float

    @property
    def error(self) -> float:
        return abs(self.measured - self.predicted) / abs(self.predicted)


def _probe(stream: Stream, batch: Batch, loss_fn: LossFunction, step: float) -> _Probe:
    trace = capture(stream, batch, loss_fn)
    generator = torch.Generator().manual_seed(0)
    shifts = {
        layer: _direction(state, gradient, generator) * step
        for layer, (state, gradient) in enumerate(zip(trace.hiddens, trace.gradients, strict=True))
        if stream.certain(layer)
    }
    predicted = sum((trace.gradients[layer].double() * shift).sum().item() for layer, shift in shifts.items())
    forth, back = (
        losses_at(stream, batch, {layer: sign * shift for layer, shift in shifts.items()}, loss_fn).double()
        for sign in (1, -1)
    )
    scale = (1 + trace.losses.abs()).sum() + trace.logits.flatten(1).abs().amax(1).sum()
    return _Probe(predicted, ((forth - back).sum() / 2).item(), scale.item())


def _direction(state: Tensor, gradient: Tensor, generator: torch.Generator) -> Tensor:
    """‖h‖(ĝ + r), r a random unit vector; every position of a state with positions moves by its own size.

    Exact zeros stay, because they may lie on a kink.
    """
    noise = torch.randn(state.shape, generator=generator, dtype=torch.float64).to(state.device)
    size = _norm(gradient)
    unit = torch.where(size > 0, gradient / size, 0.0)
    return (_norm(state) * (unit + noise / _norm(noise)) * (state != 0)).to(state.dtype)


def _norm(x: Tensor) -> Tensor:
    """‖·‖₂ along the features in float64, of a shape that broadcasts with x: one per sample, token or pixel."""
    axis = 1 if x.dim() == 4 else -1
    norms: Tensor = torch.linalg.vector_norm(x, dim=axis, keepdim=True, dtype=torch.float64)
    return norms
