"""Relaxation of nudged states: gradient steps on E + βℓ over all states at once, with a guard for each sample.

E = ½ Σ_l ‖ε_l‖²,   ε_0 = h_0 - embed(x),   ε_{l+1} = h_{l+1} - F_l(h_l),   F_l(h) = merge(l, h, f_l(h))
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from creditscope.methods.forecast import predict
from creditscope.methods.loss import each_loss
from creditscope.networks.staged import StagedNetwork

ROUNDING = 64  # units in the last place of the objective's terms: smaller increases count as rounding
Statistics = dict[_BatchNorm, tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class Schedule:
    """T steps of one size; `guard` takes back a step that raised a sample's objective and halves that sample's step."""

    steps: int
    step_size: float
    guard: bool = True


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the relaxation: h_l, ε_l, ∂(E + βℓ)/∂h_l; per sample E + βℓ and how much of it rounding may hide."""

    states: list[Tensor]
    errors: list[Tensor]
    slopes: list[Tensor]
    objective: Tensor
    slack: Tensor


@dataclass(frozen=True, slots=True)
class Settled:
    """Where the relaxation ended: h_l, ε_l, E + βℓ per sample, and the share of all steps that were taken back."""

    states: list[Tensor]
    errors: list[Tensor]
    objective: Tensor
    rejected: Tensor


def relax(
    network: StagedNetwork, free: tuple[Tensor, ...], labels: Tensor, beta: Tensor, schedule: Schedule
) -> Settled:
    """T simultaneous gradient steps from the free states h_0..h_L; `beta` (N,) has the sign of the nudge.

    Samples settle independently of each other.
    """
    current = _start(network, free, labels, beta)
    size = torch.full_like(beta, schedule.step_size)
    rejected = torch.zeros_like(beta)
    for _ in range(schedule.steps):
        pairs = zip(current.states, current.slopes, strict=True)
        moved = [torch.addcmul(state, _along(size, state), slope, value=-1) for state, slope in pairs]
        proposed = _at(network, moved, free[0], labels, beta)
        if not schedule.guard:
            current = proposed
            continue
        kept = proposed.objective <= current.objective + current.slack  # false for NaN
        if kept.device.type == "cpu" and bool(kept.all()):  # elsewhere this look would wait for the device
            current = proposed
            continue
        current = _chosen(kept, proposed, current)
        size = torch.where(kept, size, size / 2)
        rejected += ~kept
    return Settled(current.states, current.errors, current.objective, rejected.mean() / schedule.steps)


def nudged_loss(network: StagedNetwork, state: Tensor, labels: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """ℓ_i at h_L and β_i ∂ℓ_i/∂h_L, through the read-out alone."""
    with torch.enable_grad():
        leaf = state.detach().requires_grad_()
        logits = network.readout(leaf)
        if network.loss_fn is None:
            losses = _small_cross_entropy(logits, labels)
        else:
            losses = each_loss(network.loss_fn, logits, labels)
        (slope,) = torch.autograd.grad(losses, leaf, beta)
    return losses.detach(), slope


def _small_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """softplus(log Σ_{j≠y} exp(z_j - z_y)): cross-entropy with its digits kept where it is tiny and β huge."""
    gaps = logits - logits.gather(1, labels[:, None])
    return F.softplus(gaps.scatter(1, labels[:, None], -torch.inf).logsumexp(1))


def _start(network: StagedNetwork, free: tuple[Tensor, ...], labels: Tensor, beta: Tensor) -> Point:
    """The free phase: no prediction error anywhere, so that only h_L feels a slope."""
    losses, slope = nudged_loss(network, free[-1], labels, beta)
    nothing = [torch.zeros_like(state) for state in free]
    return Point(list(free), nothing, [*nothing[:-1], slope], beta * losses, slack(beta * losses))


def _at(network: StagedNetwork, states: list[Tensor], embedded: Tensor, labels: Tensor, beta: Tensor) -> Point:
    """One forward and one backward pass through every stage alone.

    ∂/∂h_l = ε_l - (∂F_l/∂h_l)ᵀ ε_{l+1},   ∂/∂h_L = ε_L + β ∂ℓ/∂h_L
    """
    forecast = predict(network, states)
    errors = forecast.errors(states, embedded)
    losses, nudge = nudged_loss(network, states[-1], labels, beta)
    slopes = forecast.slopes(errors, nudge)
    energy = sum((error.flatten(1).square().sum(1) for error in errors), torch.zeros_like(beta)) / 2
    return Point(states, list(errors), list(slopes), energy + beta * losses, slack(energy, beta * losses))


def slack(*terms: Tensor) -> Tensor:
    """The largest rounding error of a sum of these terms."""
    sizes = sum((term.abs() for term in terms), torch.zeros_like(terms[0]))
    return ROUNDING * torch.finfo(sizes.dtype).eps * sizes


def _chosen(kept: Tensor, proposed: Point, current: Point) -> Point:
    """The new point for samples that keep their step, the old one for the others."""

    def each(new: list[Tensor], old: list[Tensor]) -> list[Tensor]:
        return [torch.where(_along(kept, b), a, b) for a, b in zip(new, old, strict=True)]

    return Point(
        each(proposed.states, current.states),
        each(proposed.errors, current.errors),
        each(proposed.slopes, current.slopes),
        torch.where(kept, proposed.objective, current.objective),
        torch.where(kept, proposed.slack, current.slack),
    )


def _along(per_sample: Tensor, state: Tensor) -> Tensor:
    """A number per sample in a shape that broadcasts over a state."""
    return per_sample.view(-1, *[1] * (state.dim() - 1))


@contextmanager
def recorded_statistics(network: nn.Module) -> Iterator[Statistics]:
    """Record the batch statistics that every BatchNorm in training mode uses inside this block."""
    statistics: Statistics = {}

    def record(layer: _BatchNorm, inputs: tuple[Tensor, ...]) -> None:
        state = inputs[0].detach()
        spread, centre = torch.var_mean(state, [axis for axis in range(state.dim()) if axis != 1], correction=0)
        statistics[layer] = (centre, spread)

    layers = [layer for layer in network.modules() if isinstance(layer, _BatchNorm) and layer.training]
    hooks = [layer.register_forward_pre_hook(record) for layer in layers]
    try:
        yield statistics
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def held_statistics(statistics: Statistics) -> Iterator[None]:
    """Let every BatchNorm use the statistics given, as constants; its own are restored at the end."""
    own = {layer: (layer.running_mean, layer.running_var) for layer in statistics}
    try:
        for layer, (centre, spread) in statistics.items():
            layer.training, layer.running_mean, layer.running_var = False, centre, spread
        yield
    finally:
        for layer, (centre_, spread_) in own.items():
            layer.training, layer.running_mean, layer.running_var = True, centre_, spread_
