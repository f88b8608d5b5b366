"""Networks of many kinds, small enough to train in seconds: start, `layers`, an optional last norm, read-out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LENGTH, CLASSES = 40, 10  # of MNIST-1D
Norm = Callable[[int], nn.Module]


def nothing(width: int) -> nn.Module:
    return nn.Identity()


def groups(channels: int) -> nn.Module:
    return nn.GroupNorm(4, channels)


def instances(channels: int) -> nn.Module:
    return nn.InstanceNorm2d(channels, affine=True)


def rms(width: int) -> nn.Module:
    return nn.RMSNorm(width)


class Residual(nn.Module):
    """h + gain · f(norm(h)), f two layers wide."""

    def __init__(
        self, width: int, norm: Norm, activation: nn.Module, gain: float | nn.Parameter = 1.0, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.norm, self.gain = norm(width), gain
        self.inner = nn.Sequential(nn.Linear(width, width), activation, nn.Dropout(dropout), nn.Linear(width, width))

    def forward(self, state: Tensor) -> Tensor:
        return state + self.gain * self.inner(self.norm(state))


class ResidualNet(nn.Module):
    """Start, residual blocks, an optional last norm, read-out.

    learnt  the gain is a parameter of every block (one number, as in ReZero and LayerScale)
    tied    all blocks share the weights of their branch
    """

    def __init__(
        self,
        width: int = 64,
        depth: int = 4,
        classes: int = CLASSES,
        norm: Norm = nn.LayerNorm,
        last: Norm = nn.LayerNorm,
        activation: nn.Module | None = None,
        gain: float = 1.0,
        *,
        learnt: bool = False,
        tied: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.start = nn.Linear(LENGTH, width)
        self.layers = nn.ModuleList(
            Residual(
                width, norm, activation or nn.GELU(), nn.Parameter(torch.tensor(gain)) if learnt else gain, dropout
            )
            for _ in range(depth)
        )
        if tied:
            for layer in self.layers[1:]:
                for index in (0, 3):
                    layer.inner[index].weight = self.layers[0].inner[index].weight
                    layer.inner[index].bias = self.layers[0].inner[index].bias
        self.last, self.out = last(width), nn.Linear(width, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        state = self.start(inputs.flatten(1))
        for layer in self.layers:
            state = layer(state)
        return self.out(self.last(state))


class Highway(nn.Module):
    """t · f(h) + (1 - t) · h with a learnt gate t = σ(W h + b), b = -1 at the start."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.gate = nn.Linear(width, width)
        nn.init.constant_(self.gate.bias, -1.0)

    def forward(self, state: Tensor) -> Tensor:
        gate = torch.sigmoid(self.gate(state))
        return gate * self.inner(state) + (1 - gate) * state


class Plain(nn.Module):
    """Linear, optional norm, activation; no skip."""

    def __init__(self, before: int, width: int, activation: Callable[[], nn.Module], norm: Norm) -> None:
        super().__init__()
        self.inner, self.norm, self.activation = nn.Linear(before, width), norm(width), activation()

    def forward(self, state: Tensor) -> Tensor:
        return self.activation(self.norm(self.inner(state)))


class Chain(nn.Module):
    """Any blocks of vectors between a linear start and a linear read-out."""

    def __init__(self, layers: list[nn.Module], width: int, last: int, classes: int = CLASSES) -> None:
        super().__init__()
        self.start, self.layers, self.last = nn.Linear(LENGTH, width), nn.ModuleList(layers), nn.Identity()
        self.out = nn.Linear(last, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        state = self.start(inputs.flatten(1))
        for layer in self.layers:
            state = layer(state)
        return self.out(self.last(state))


def highway(width: int = 64, depth: int = 4) -> nn.Module:
    return Chain([Highway(width) for _ in range(depth)], width, width)


def chain(widths: list[int], activation: Callable[[], nn.Module], norm: Norm = nothing) -> nn.Module:
    """Blocks without skips, of these widths."""
    before = [widths[0], *widths[:-1]]
    layers: list[nn.Module] = [Plain(a, b, activation, norm) for a, b in zip(before, widths, strict=True)]
    return Chain(layers, widths[0], widths[-1])


def plain(widths: list[int], activation: Callable[[], nn.Module], norm: Norm | None) -> nn.Module:
    """A flat nn.Sequential without skips."""
    layers: list[nn.Module] = [nn.Flatten()]
    before = LENGTH
    for width in widths:
        layers += [nn.Linear(before, width), *([norm(width)] if norm else []), activation()]
        before = width
    return nn.Sequential(*layers, nn.Linear(before, CLASSES))


class Tokens(nn.Module):
    """A transformer over eight tokens of five numbers: class token or mean, normalised before or after."""

    def __init__(
        self,
        width: int = 64,
        depth: int = 3,
        classes: int = CLASSES,
        *,
        pooled: bool,
        first: bool,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.start, self.pooled = nn.Linear(5, width), pooled
        self.place = nn.Parameter(0.02 * torch.randn(9, width))
        self.token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, dropout, batch_first=True, norm_first=first)
            for _ in range(depth)
        )
        self.last = nn.LayerNorm(width) if first else nn.Identity()
        self.out = nn.Linear(width, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        state = self.start(inputs.reshape(len(inputs), 8, 5))
        state = torch.cat([self.token.expand(len(inputs), -1, -1), state], 1) + self.place
        for layer in self.layers:
            state = layer(state)
        state = self.last(state)
        return self.out(state.mean(1) if self.pooled else state[:, 0])


class Mixer(nn.Module):
    """Tokens mixed by one small network and features by another, as MLP-Mixer does."""

    def __init__(self, width: int = 48, depth: int = 4, classes: int = CLASSES) -> None:
        super().__init__()
        self.start = nn.Linear(5, width)
        self.layers = nn.ModuleList(Mixing(width) for _ in range(depth))
        self.last, self.out = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        state = self.start(inputs.reshape(len(inputs), 8, 5))
        for layer in self.layers:
            state = layer(state)
        return self.out(self.last(state).mean(1))


class Mixing(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.within = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, state: Tensor) -> Tensor:
        state = state + self.across(self.first(state).transpose(1, 2)).transpose(1, 2)
        return state + self.within(self.second(state))


class Maps(nn.Module):
    """Convolutions over an image of 8 x 5: plain or residual, with any norm, global average at the end."""

    def __init__(
        self,
        channels: int = 24,
        depth: int = 4,
        classes: int = CLASSES,
        norm: Norm = nn.BatchNorm2d,
        *,
        residual: bool = True,
        side: int = 1,
    ) -> None:
        super().__init__()
        self.side = side
        self.start = nn.Conv2d(1, channels, 3, padding=1)
        self.layers = nn.ModuleList(Convolved(channels, norm, residual) for _ in range(depth))
        self.last, self.out = nn.Identity(), nn.Linear(channels, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        state = inputs.reshape(len(inputs), 1, 8, 5)
        if self.side > 1:
            state = F.interpolate(state, scale_factor=self.side)
        state = self.start(state)
        for layer in self.layers:
            state = layer(state)
        return self.out(self.last(state).mean((2, 3)))


class Convolved(nn.Module):
    def __init__(self, channels: int, norm: Norm, residual: bool) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), norm(channels), nn.ReLU())
        self.residual = residual

    def forward(self, state: Tensor) -> Tensor:
        return state + self.inner(state) if self.residual else self.inner(state)


class Pyramid(nn.Module):
    """Maps that halve their side and double their channels from block to block."""

    def __init__(self, channels: int = 8, depth: int = 3, norm: Norm = nn.BatchNorm2d) -> None:
        super().__init__()
        sizes = [channels * 2**index for index in range(depth + 1)]
        self.start = nn.Conv2d(1, channels, 3, padding=1)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), norm(b), nn.ReLU()) for a, b in pairwise(sizes)
        )
        self.out = nn.Linear(sizes[-1], CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        state = self.start(F.interpolate(inputs.reshape(len(inputs), 1, 8, 5), scale_factor=2))
        for layer in self.layers:
            state = layer(state)
        return self.out(state.mean((2, 3)))
