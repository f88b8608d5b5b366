"""Guards: checks of a model's answers (the same twice, and for each image by itself) and of its backward pass."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from creditscope.batch import Batch, each_tensor
from creditscope.errors import FunctionFailed, ModelMismatch, NotDeterministic, NotTheGradient
from creditscope.provenance import Guard, GuardStatus
from creditscope.stream.isolation import as_float64, float64_copies
from creditscope.stream.states import Stream
from creditscope.stream.trace import LossFunction, capture, losses_at
from creditscope.stream.unwrap import autocasts

REMEDY = "Does a layer define its own backward? Pass reference=creditscope.plain_twin(model), or your own plain copy."
SWITCHES = Guard(GuardStatus.NOT_POSSIBLE, "the model switches to half precision by itself")
INDEPENDENT, INDEPENDENT_COARSELY = 1e-3, 0.1  # of the largest logit, in float64 and in a lower precision
PROBE_IMAGES = 8  # the guards use the first images of the first batch


# In float64, relative to a state's own norm. The last step is far below float32's resolution.
FINE_STEPS, BELOW_FLOAT32, FINE_TOLERANCE, FLOAT64_ROUNDING = (3e-7, 3e-8), 3e-9, 1e-4, 1e-15
# In float32, or in float64 with parts that round in float32
COARSE_STEPS = tuple(10 ** (-power / 2) for power in range(4, 15))  # 1e-2 to 1e-7
FLOAT32_ROUNDING = 6e-8  # float32's unit, of the numbers in the loss; other rounding shows between the slopes
TRUST = 5  # a slope is exact to so many times its distance from the slopes at the steps beside it
COARSEST = 0.1  # a finite difference that is less exact cannot tell right from wrong


def answers(stream: Stream, batch: Batch) -> Tensor:
    """The logits of a batch, without a graph."""
    with torch.no_grad():
        return stream.run(batch.inputs).logits


def check_deterministic(stream: Stream, batch: Batch, first: Tensor | None = None) -> Tensor:
    """The logits of a batch (`first` if they are known); a model that does not give the same ones twice is refused."""
    first = answers(stream, batch) if first is None else first
    second = answers(stream, batch)
    if not _agree(first, second):
        raise NotDeterministic(
            f"{type(stream.model).__name__} returned two different logits for the same images in evaluation mode, "
            f"up to {(first - second).abs().max().item():.3g} apart.\n"
            "Medians and gradients would vary from run to run. Is dropout or noise applied regardless of .training?"
        )
    stream.verify(batch.inputs, first)
    return first


def check_answers(
    stream: Stream, batch: Batch, first: Tensor, within: Tensor | None = None, *, independent: bool = True
) -> Guard:
    """Refuse a model that is not deterministic, or whose answer for an image depends on the others in its batch.

    first   the logits of the batch
    within  those of the same images as part of a larger batch; without them, half of the images are run once more,
            in reverse order. Where they agree with `first`, one pass has answered both questions
    independent  False if the caller knows of the dependence: it is said in the guard, not refused
    """
    few = None if within is not None else _half(batch)
    try:
        other = within if within is not None else answers(stream, few or batch)
    except (RuntimeError, ValueError, TypeError, LookupError):
        few, other = None, answers(stream, batch)  # it takes no other number of images
    own = _half_of(first) if few is not None else first
    if other.numel() == own.numel() and _agree(own, other.reshape(own.shape)):
        stream.verify(batch.inputs, first)
        if few is None and within is None:
            return Guard(GuardStatus.NOT_POSSIBLE, "the model was run on one set of images only")
        return Guard(GuardStatus.PASSED)
    check_deterministic(stream, batch, first)
    if few is None:
        few = _half(batch)
    apart, limit = (0.0, 0.0) if few is None else _apart(stream, batch, few)
    if apart > limit and not independent:
        text = f"answers differ by {100 * apart:.2g} % of the largest logit when other images are left out"
        return Guard(GuardStatus.OFF, text)
    if apart > limit:
        raise ModelMismatch(
            f"The answers of {type(stream.model).__name__} for the same images differ by {100 * apart:.2g} % of the "
            "largest logit when other images of the batch are left out.\n"
            "States and gradients of an image would depend on how the images are batched. Does a normalisation use "
            "batch statistics in evaluation mode (track_running_stats=False)? Give it running statistics, or pass "
            "independent=False to have the dependence reported instead."
        )
    return Guard(GuardStatus.PASSED, "up to rounding")


def _apart(stream: Stream, batch: Batch, few: Batch) -> tuple[float, float]:
    """How far apart the answers are, of the largest, and how far rounding may move them.

    In float64 where possible: there a chaotic network does not amplify rounding to the size of the logits.
    """
    try:
        with float64_copies(stream.model):
            whole, part = (answers(stream, as_float64(images)) for images in (batch, few))
        limit = INDEPENDENT
    except (FunctionFailed, RuntimeError, TypeError, AttributeError):  # a layer requires its own precision
        whole, part, limit = answers(stream, batch), answers(stream, few), INDEPENDENT_COARSELY
    largest = whole.abs().max()
    return (float((_half_of(whole) - part).abs().max() / largest) if largest > 0 else 0.0), limit


def _half(batch: Batch) -> Batch | None:
    """The first half of the images in reverse order; None of a single image."""
    count = len(batch.labels)
    if count < 2:
        return None

    def half(tensor: Tensor) -> Tensor:
        return _half_of(tensor) if tensor.dim() and len(tensor) == count else tensor

    return Batch(each_tensor(batch.inputs, half), half(batch.labels))


def _half_of(tensor: Tensor) -> Tensor:
    return tensor[: (len(tensor) + 1) // 2].flip(0)


def _agree(first: Tensor, second: Tensor) -> bool:
    return torch.allclose(first, second, rtol=1e-3, atol=1e-5, equal_nan=True)


def check_gradient(stream: Stream, batch: Batch, loss_fn: LossFunction) -> Guard:
    """The outcome of the gradient check; a model whose backward pass is not its gradient is refused.

    Every state moves by δ_l = ε‖h_l‖(ĝ_l + r_l) per sample, r_l a random unit vector. The backward pass promises
    the slope Σ ⟨g_l, δ_l⟩/ε; the loss changes by (ℓ(h + δ) - ℓ(h - δ))/2ε.

    In float64 tiny steps decide, within 0.01 %. They can only if the forward pass resolves them: where the measured
    slopes at several tiny steps differ from each other (which no backward pass can cause), something inside rounds in
    float32, as a norm or a loss that upcasts. Then larger steps decide, as exactly as they agree with each other.
    """
    try:
        with float64_copies(stream.model):
            line = _line(stream, as_float64(batch), loss_fn)
            fine = _finely_compared(line)
            if fine is not None or _autocasts(stream, line.batch):
                return fine or SWITCHES
            return _coarsely_compared(line, "in float64 with parts in float32")
    except NotTheGradient:
        if _autocasts(stream, batch):
            return SWITCHES
        raise
    except (FunctionFailed, RuntimeError, TypeError, AttributeError):  # a layer requires its own precision
        if next(stream.model.parameters(), torch.zeros(())).dtype in (torch.float16, torch.bfloat16):
            return Guard(GuardStatus.NOT_POSSIBLE, "the model runs in half precision only")
        return _compared_in_float32(stream, batch, loss_fn)


def _autocasts(stream: Stream, batch: Batch) -> bool:
    with torch.no_grad():
        return autocasts(stream.model, lambda: stream.run(batch.inputs))


def _compared_in_float32(stream: Stream, batch: Batch, loss_fn: LossFunction) -> Guard:
    try:
        return _coarsely_compared(_line(stream, batch, loss_fn), "in float32")
    except (AttributeError, NotImplementedError) as error:  # raised by a custom backward pass
        raise NotTheGradient(
            f"The forward pass of {type(stream.model).__name__} works, but its backward pass fails: "
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
    exactness = sorted(
        (max(TRUST * max(abs(slope - before), abs(slope - after)) / abs(line.promised), rounded), slope)
        for before, slope, after, rounded in zip(slopes, slopes[1:], slopes[2:], rounding[1:], strict=False)
    )
    best = exactness[0][0]
    if best > COARSEST:
        return Guard(GuardStatus.NOT_POSSIBLE, "the loss is too rough for a finite difference at any step")
    for tolerance, slope in exactness:
        if line.error(slope) <= tolerance <= min(10 * best, COARSEST):
            return Guard(GuardStatus.PASSED, f"finite difference within {100 * tolerance:.1g} %, {precision}")
    raise _not_the_gradient(line, exactness[0][1])


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
