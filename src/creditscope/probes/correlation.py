"""Perturbation correlation ρ of predicted and measured changes of the loss, with the error of drawing directions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

PRECISION = 0.01  # directions are drawn until ρ is known to ± this, or until there are enough of them
NORMAL = 1.96  # 95 % of a normal distribution
LEAST_IMAGES = 64  # fewer do not show the spread between directions


class Estimate(NamedTuple):
    """A correlation and the half-width of its 95 % interval over the drawn directions, for these images."""

    value: float
    error: float

    @property
    def precise(self) -> bool:
        """Whether further directions can stay undrawn; NaN is undefined, not imprecise."""
        return not self.error > PRECISION


@dataclass(frozen=True, slots=True)
class Pairs:
    """Changes of the loss at one layer, (directions, images), and the moments of the predictions in closed form.

    credit, gradient   ⟨a, εv⟩ and ⟨g, εv⟩: the change as predicted by the credit and by the gradient
    measured           ℓ(h + εv) - ℓ(h)
    both, own, slope   (images,): E⟨a, εv⟩⟨g, εv⟩ = ε²⟨a, g⟩/d over the unit sphere, ε²‖a‖²/d and ε²‖g‖²/d
    """

    credit: Tensor
    gradient: Tensor
    measured: Tensor
    both: Tensor
    own: Tensor
    slope: Tensor

    def beside(self, others: Pairs) -> Pairs:
        """With the same directions of other images."""
        return Pairs(*(torch.cat([mine, more], -1) for mine, more in zip(self._parts, others._parts, strict=True)))

    def below(self, later: Pairs) -> Pairs:
        """With further directions of the same images."""
        credit, gradient, measured = map(torch.cat, zip(self._parts[:3], later._parts[:3], strict=True))
        return replace(self, credit=credit, gradient=gradient, measured=measured)

    @property
    def _parts(self) -> tuple[Tensor, ...]:
        return self.credit, self.gradient, self.measured, self.both, self.own, self.slope

    def rho(self) -> Estimate:
        """ρ of the credit."""
        return estimate(self)

    def rho_bp(self) -> Estimate:
        """ρ of the backprop gradient in the same setting."""
        own = Pairs(self.gradient, self.gradient, self.measured, self.slope, self.slope, self.slope)
        return estimate(own)

    @property
    def precise(self) -> bool:
        """Whether both are known to ± 0.01; on few images that cannot be told."""
        return self.credit.shape[1] >= LEAST_IMAGES and self.rho().precise and self.rho_bp().precise


def estimate(pairs: Pairs) -> Estimate:
    """Pearson's correlation of credit and measured: plain, or with the gradient as control variate if that is closer.

    For a small step the measured change y is nearly s = ⟨g, εv⟩, whose moments with x = ⟨a, εv⟩ are known over all
    directions. Only the rest r = y - s has to be sampled:

        E xy = E xs + mean(x r),   Var y = E s² + mean(r (y + s)) - mean(r)²,   Var x = E x²,   E x = E s = 0.

    The error is that of the delta method: with ψ the influence of a pair on ρ, 1.96·√(Σ_i var_v(ψ_i)/M)/N over the M
    directions of each of N images. Images are fixed: their own spread, which no direction lowers, is not in it.
    """
    plain = _plain(pairs.credit, pairs.measured)
    if math.isnan(plain.value):
        return plain
    controlled = _controlled(pairs)
    return controlled if controlled.error < plain.error or math.isnan(plain.error) else plain


def _plain(x: Tensor, y: Tensor) -> Estimate:
    x, y = (_scaled(side - side.mean()) for side in (x, y))
    spread = (x.square().mean() * y.square().mean()).sqrt()
    rho = (x * y).mean() / spread
    influence = x * y / spread - rho / 2 * (x.square() / x.square().mean() + y.square() / y.square().mean())
    return Estimate(rho.item(), _error(influence))


def _controlled(pairs: Pairs) -> Estimate:
    x, s, y = pairs.credit, pairs.gradient, pairs.measured
    rest = y - s
    centre = rest.mean()
    own, square = pairs.own.mean(), rest * (y + s)
    variance = pairs.slope.mean() + square.mean() - centre.square()
    if not (own > 0 and variance > 0):
        return Estimate(math.nan, math.inf)
    spread = (own * variance).sqrt()
    rho = (pairs.both.mean() + (x * rest).mean()) / spread
    influence = x * rest / spread - rho / 2 * (square - 2 * centre * rest) / variance
    return Estimate(rho.clamp(-1, 1).item(), _error(influence))


def _error(influence: Tensor) -> float:
    """The half-width over directions; infinite where there is one direction only."""
    directions, images = influence.shape
    if directions < 2:
        return math.inf
    return NORMAL * (influence.var(0).sum() / directions).sqrt().item() / images


def _scaled(values: Tensor) -> Tensor:
    """Values divided by the largest, so that their squares neither over- nor underflow."""
    return values / values.abs().max()
