"""The gradient check: does the loss change along a line through the states as the backward pass promises?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.errors import FunctionFailed, NotTheGradient
from creditscope.provenance import Guard, GuardStatus
from creditscope.stream.guards import FEW_IMAGES, PROBE_IMAGES
from creditscope.stream.isolation import as_float64, float64_copies, float64_size
from creditscope.stream.states import Stream
from creditscope.stream.trace import LossFunction, capture, losses_at
from creditscope.stream.unwrap import autocasts

REMEDY = "Does a layer define its own backward? Pass reference=creditscope.plain_twin(model), or your own plain copy."
SWITCHES = Guard(GuardStatus.NOT_POSSIBLE, "the model switches to half precision by itself")

COPIED = 256 * 2**20  # bytes: a float64 copy of a larger model is made only if nothing cheaper clears it
# In float64, relative to a state's own norm. The last step is far below float32's resolution.
FINE_STEPS, BELOW_FLOAT32, FINE_TOLERANCE, FLOAT64_ROUNDING = (3e-7, 3e-8), 3e-9, 1e-4, 1e-15
# In float32, or in float64 with parts that round in float32
COARSE_STEPS = tuple(10 ** (-power / 2) for power in range(4, 15))  # 1e-2 to 1e-7
FLOAT32_ROUNDING = 6e-8  # float32's unit, of the numbers in the loss; other rounding shows between the slopes
TRUST = 5  # a slope is exact to so many times its distance from the slopes at the steps beside it
CLEAR_STEPS, CLEARLY = COARSE_STEPS[:6], 1e-3  # agreement within this, at a step that is as exact, is clear
COARSEST = 0.1  # a finite difference that is less exact cannot tell right from wrong


def check_gradient(stream: Stream, batch: Batch, loss_fn: LossFunction) -> Guard:
    """The outcome of the gradient check; a model whose backward pass is not its gradient is refused.

    Every state moves by δ_l = ε‖h_l‖(ĝ_l + r_l) per sample, r_l a random unit vector. The backward pass promises
    the slope Σ ⟨g_l, δ_l⟩/ε; the loss changes by (ℓ(h + δ) - ℓ(h - δ))/2ε.

    In float64 tiny steps decide, within 0.01 %. They can only if the forward pass resolves them: where the measured
    slopes at several tiny steps differ from each other (which no backward pass can cause), something inside rounds in
    float32, as a norm or a loss that upcasts. Then larger steps decide, as exactly as they agree with each other.

    Of a model whose float64 copy would be larger than `COPIED` a few steps in its own precision are enough where they
    agree within 0.1 % with each other and with the promise. Only a model that they do not clear is copied.
    """
    try:
        return _compared(stream, batch, loss_fn)
    except NotTheGradient:
        if _autocasts(stream, batch):
            return SWITCHES
        raise


def _compared(stream: Stream, batch: Batch, loss_fn: LossFunction) -> Guard:
    try:
        if float64_size(stream.model) > COPIED:
            clear = _clearly_compared(_line(stream, batch, loss_fn))
            if clear is not None:
                return clear
        with float64_copies(stream.model):
            line = _line(stream, as_float64(batch), loss_fn)
            fine = _finely_compared(line)
            if fine is not None or _autocasts(stream, line.batch):
                return fine or SWITCHES
            return _coarsely_compared(line, "in float64 with parts in float32")
    except (FunctionFailed, RuntimeError, TypeError, AttributeError):  # a layer requires its own precision
        return _compared_in_own_precision(stream, batch, loss_fn)


def images_needed(states: Sequence[Tensor]) -> int:
    """As many images as have `PROBE_IMAGES` positions in every state, at least two; a flat state has one an image."""
    positions = min(math.prod(state.shape[2:]) if state.dim() > 3 else state[0, ..., 0].numel() for state in states)
    return max(FEW_IMAGES, math.ceil(PROBE_IMAGES / positions))


def _autocasts(stream: Stream, batch: Batch) -> bool:
    with torch.no_grad():
        return autocasts(stream.model, lambda: stream.run(batch.inputs))


def _compared_in_own_precision(stream: Stream, batch: Batch, loss_fn: LossFunction) -> Guard:
    if next(stream.model.parameters(), torch.zeros(())).dtype in (torch.float16, torch.bfloat16):
        return Guard(GuardStatus.NOT_POSSIBLE, "the model runs in half precision only")
    with failing_backward(stream.model):
        return _coarsely_compared(_line(stream, batch, loss_fn), "in float32")


@contextmanager
def failing_backward(model: nn.Module) -> Iterator[None]:
    """Report the errors that a backward pass of the model's own raises."""
    try:
        yield
    except (AttributeError, NotImplementedError) as error:
        raise NotTheGradient(
            f"The forward pass of {type(model).__name__} works, but its backward pass fails: "
            f"{type(error).__name__}: {error}\n"
            "Without a gradient there is nothing to compare credit with.\n"
            f"{REMEDY}"
        ) from error


@dataclass(frozen=True, slots=True)
class _Line:
    """A line through the states: the slope that the backward pass promises along it, and the size of the numbers."""

    stream: Stream
    batch: Batch
    loss_fn: LossFunction
    directions: dict[int, Tensor]
    promised: float
    scale: float

    def slope(self, step: float) -> float:
        """The measured slope: the central difference of the summed loss."""
        forth, back = (
            losses_at(
                self.stream,
                self.batch,
                {layer: sign * step * direction for layer, direction in self.directions.items()},
                self.loss_fn,
            ).double()
            for sign in (1, -1)
        )
        return ((forth - back).sum() / (2 * step)).item()

    def error(self, slope: float) -> float:
        """How far a measured slope is from the promised one, relative to that."""
        return abs(slope - self.promised) / abs(self.promised) if self.promised else math.inf

    def rounding(self, step: float, unit: float) -> float:
        """How much of the promised change rounding may hide."""
        return unit * self.scale / (step * abs(self.promised)) if self.promised else math.inf


def _line(stream: Stream, batch: Batch, loss_fn: LossFunction) -> _Line:
    trace = capture(stream, batch, loss_fn)
    generator = torch.Generator().manual_seed(0)
    directions = {
        layer: _direction(state, gradient, generator)
        for layer, (state, gradient) in enumerate(zip(trace.hiddens, trace.gradients, strict=True))
        if stream.certain(layer)
    }
    promised = sum((trace.gradients[layer].double() * way).sum().item() for layer, way in directions.items())
    scale = (1 + trace.losses.abs()).sum() + trace.logits.flatten(1).abs().amax(1).sum()
    return _Line(stream, batch, loss_fn, directions, promised, scale.item())


def _finely_compared(line: _Line) -> Guard | None:
    """By tiny steps in float64; None where the forward pass does not resolve them."""
    slopes = []
    for step in FINE_STEPS:
        slopes.append(line.slope(step))
        if not (math.isfinite(line.promised) and math.isfinite(slopes[-1])):
            return Guard(GuardStatus.NOT_POSSIBLE, "the numbers are not finite")
        resolved = line.rounding(step, FLOAT64_ROUNDING) < FINE_TOLERANCE
        if resolved and line.error(slopes[-1]) <= FINE_TOLERANCE:
            return _finely_passed()
    if not resolved:
        return Guard(GuardStatus.NOT_POSSIBLE, "the loss does not move beyond rounding")
    if line.rounding(BELOW_FLOAT32, FLOAT64_ROUNDING) < FINE_TOLERANCE:
        slopes.append(line.slope(BELOW_FLOAT32))
        if line.error(slopes[-1]) <= FINE_TOLERANCE:  # a loss so steep that the steps before were large
            return _finely_passed()
    if max(slopes) - min(slopes) <= FINE_TOLERANCE * max(map(abs, slopes)):
        raise _not_the_gradient(line, slopes[-1])
    return None


def _finely_passed() -> Guard:
    return Guard(GuardStatus.PASSED, f"finite difference within {100 * FINE_TOLERANCE:g} %, in float64")


def _clearly_compared(line: _Line) -> Guard | None:
    """By a few larger steps in float32; None where they do not agree clearly with each other and with the promise."""
    slopes: list[float] = []
    for step in CLEAR_STEPS:
        slopes.append(line.slope(step))
        if len(slopes) > 2:
            tolerance = _exactness(line, slopes[-3:], line.rounding(CLEAR_STEPS[len(slopes) - 2], FLOAT32_ROUNDING))
            if line.error(slopes[-2]) <= tolerance <= CLEARLY:  # never of NaN
                return _coarsely_passed(tolerance, "in float32")
    return None


def _coarsely_compared(line: _Line, precision: str) -> Guard:
    """By larger steps, each as exact as its slope agrees with those at the steps beside it.

    Curvature and kinks move the slopes at large steps apart, rounding those at small ones. A slope is exact to `TRUST`
    times the distance from its neighbours, and to rounding. Agreement at one step is enough to pass, the most exact
    or any up to ten times less so: a kink beside a state can make larger steps agree on another slope.
    """
    slopes = [line.slope(step) for step in COARSE_STEPS]
    if not all(map(math.isfinite, (line.promised, *slopes))):
        return Guard(GuardStatus.NOT_POSSIBLE, "the numbers are not finite")
    rounding = [line.rounding(step, FLOAT32_ROUNDING) for step in COARSE_STEPS]
    if min(rounding) > COARSEST:
        return Guard(GuardStatus.NOT_POSSIBLE, "the loss does not move beyond rounding")
    triples = zip(slopes, slopes[1:], slopes[2:], strict=False)
    exactness = sorted(
        (_exactness(line, triple, rounded), triple[1]) for triple, rounded in zip(triples, rounding[1:], strict=False)
    )
    best = exactness[0][0]
    if best > COARSEST:
        return Guard(GuardStatus.NOT_POSSIBLE, "the loss is too rough for a finite difference at any step")
    for tolerance, slope in exactness:
        if line.error(slope) <= tolerance <= min(10 * best, COARSEST):
            return _coarsely_passed(tolerance, precision)
    raise _not_the_gradient(line, exactness[0][1])


def _exactness(line: _Line, slopes: Sequence[float], rounding: float) -> float:
    """How exact the middle one of three slopes is, relative to the promised one."""
    before, slope, after = slopes
    apart = max(abs(slope - before), abs(slope - after))
    return max(TRUST * apart / abs(line.promised), rounding) if line.promised else math.inf


def _coarsely_passed(tolerance: float, precision: str) -> Guard:
    return Guard(GuardStatus.PASSED, f"finite difference within {100 * tolerance:.1g} %, {precision}")


def _not_the_gradient(line: _Line, slope: float) -> NotTheGradient:
    return NotTheGradient(
        f"Along a random direction the loss changes by {slope:.3e}, but the backward pass of "
        f"{type(line.stream.model).__name__} promises {line.promised:.3e}.\n"
        "A diagnostic would compare credit with something that is not a gradient.\n"
        f"{REMEDY}"
    )


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
    axis = 1 if x.dim() > 3 else -1
    norms: Tensor = torch.linalg.vector_norm(x, dim=axis, keepdim=True, dtype=torch.float64)
    return norms
