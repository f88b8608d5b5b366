"""Is the model left as it was, and is what it computes what it claims to be?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from creditscope.adapters import Stream
from creditscope.batch import Batch
from creditscope.errors import NotDeterministic, NotTheGradient
from creditscope.trace import LossFunction, capture, losses_at

PROBE_IMAGES = 32  # the guards look at the first images of the first batch
STEP = 1e-5  # of a state's own norm, in float64
TOLERANCE = 0.01
COARSE_STEP, COARSE_TOLERANCE = 1e-2, 0.1  # where float64 is impossible


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for the block's duration; modes, buffers and random state come back as they were."""
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    devices = sorted({tensor.device.index for tensor in model.parameters() if tensor.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices):
        try:
            for module, _ in modes:
                module.training = False
            yield
        finally:
            for module, training in modes:
                module.training = training
            with torch.no_grad():
                for buffer, before in buffers:
                    buffer.copy_(before)


@contextmanager
def in_float64(model: nn.Module) -> Iterator[None]:
    """The model itself in float64; its own tensors come back whatever happens."""
    tensors = [tensor for tensor in (*model.parameters(), *model.buffers()) if tensor.is_floating_point()]
    own = [tensor.data for tensor in tensors]
    try:
        for tensor in tensors:
            tensor.data = tensor.data.double()
        yield
    finally:
        for tensor, data in zip(tensors, own, strict=True):
            tensor.data = data


def first_images(batch: Batch, count: int) -> Batch:
    """The first samples of a batch."""
    return Batch(_each(batch.inputs, lambda tensor: tensor[:count]), batch.labels[:count])


def as_float64(batch: Batch) -> Batch:
    """The batch with its floating-point tensors in float64."""
    widen = lambda tensor: tensor.double() if tensor.is_floating_point() else tensor  # noqa: E731
    return Batch(_each(batch.inputs, widen), widen(batch.labels))


def check_deterministic(stream: Stream, batch: Batch) -> Tensor:
    """The logits of a batch, once it is certain that the model gives them twice."""
    with torch.no_grad():
        first, second = (stream.run(batch.inputs).logits for _ in range(2))
    if not torch.allclose(first, second, rtol=1e-3, atol=1e-5, equal_nan=True):
        raise NotDeterministic(
            f"{type(stream.model).__name__} gave the same images two different logits in evaluation mode, "
            f"up to {(first - second).abs().max().item():.3g} apart.\n"
            "Medians and gradients would depend on the draw. Is dropout or noise applied regardless of .training?"
        )
    return first


def check_gradient(stream: Stream, batch: Batch, loss_fn: LossFunction) -> str:
    """Refuse a model whose backward pass is not its gradient; say how it was checked.

    Every state moves by δ_l = ε‖h_l‖(ĝ_l + r_l) per sample, r_l a random unit vector. The backward pass promises
    Σ ⟨g_l, δ_l⟩; the loss changes by (ℓ(h + δ) - ℓ(h - δ))/2.
    """
    try:
        with in_float64(stream.model):
            promised, found, scale = _directional(stream, as_float64(batch), loss_fn, STEP)
        step, tolerance, precision = STEP, TOLERANCE, "float64"
    except (RuntimeError, TypeError):  # a layer insists on its own precision
        if next(stream.model.parameters()).dtype in (torch.float16, torch.bfloat16):
            return "not possible: the model runs in half precision only"
        promised, found, scale = _directional(stream, batch, loss_fn, COARSE_STEP)
        step, tolerance, precision = COARSE_STEP, COARSE_TOLERANCE, "float32"
    resolution = 1e-15 if precision == "float64" else 1e-6
    if not promised * 0 == found * 0 == 0:
        return "not possible: the numbers are not finite"
    if abs(promised) < 1e2 * resolution * scale:
        return "not possible: the loss does not move beyond rounding"
    if abs(found - promised) > tolerance * abs(promised):
        raise NotTheGradient(
            f"Along a random direction the loss changes by {found / step:.3e}, but the backward pass of "
            f"{type(stream.model).__name__} promises {promised / step:.3e}.\n"
            "A diagnostic would compare credit with something that is not a gradient.\n"
            "Does a layer define its own backward? Load the weights into a plain network, or pass reference= a plain twin."
        )
    return f"passed: finite difference within {tolerance:.0%}, in {precision}"


def _directional(stream: Stream, batch: Batch, loss_fn: LossFunction, step: float) -> tuple[float, float, float]:
    """The promised change of the loss, the found one, and the size of the losses."""
    trace = capture(stream, batch, loss_fn)
    generator = torch.Generator().manual_seed(0)
    shifts = {
        layer: _direction(state, gradient, generator) * step
        for layer, (state, gradient) in enumerate(zip(trace.hiddens, trace.gradients, strict=True))
    }
    promised = sum((trace.gradients[layer] * shift).sum().item() for layer, shift in shifts.items())
    forth, back = (
        losses_at(stream, batch, {layer: sign * shift for layer, shift in shifts.items()}, loss_fn) for sign in (1, -1)
    )
    return promised, ((forth - back).sum() / 2).item(), (1 + trace.losses.abs()).sum().item()


def _direction(state: Tensor, gradient: Tensor, generator: torch.Generator) -> Tensor:
    """‖h‖(ĝ + r) per sample, r a random unit vector."""
    noise = torch.randn(state.shape, generator=generator, dtype=torch.float64).to(state)
    norm = lambda x: x.flatten(1).norm(dim=1).view(-1, *[1] * (x.dim() - 1))  # noqa: E731
    size = norm(gradient)
    unit = torch.where(size > 0, gradient / size, gradient)
    return norm(state) * (unit + noise / norm(noise))


def _each(inputs: object, change: object) -> object:
    if isinstance(inputs, Tensor):
        return change(inputs)  # type: ignore[operator]
    if isinstance(inputs, dict):
        return {key: _each(value, change) for key, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return type(inputs)(_each(value, change) for value in inputs)
    return inputs
