"""Sound networks of many kinds, made here: whatever the audit says against one of these is a false alarm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from creditscope.networks.build import build

LENGTH, CLASSES = 40, 10  # of MNIST-1D
Make = Callable[[], nn.Module]


@dataclass(frozen=True, slots=True)
class Sound:
    """A network that is sound, how it is made and whether it is trained before it is audited."""

    name: str
    make: Make
    epochs: int = 0
    classes: int = CLASSES
    blocks: str | None = None


class Residual(nn.Module):
    """h + f(norm(h)), f two layers wide."""

    def __init__(self, width: int, norm: Callable[[int], nn.Module], activation: nn.Module, gain: float = 1.0) -> None:
        super().__init__()
        self.norm, self.gain = norm(width), gain
        self.inner = nn.Sequential(nn.Linear(width, width), activation, nn.Linear(width, width))

    def forward(self, state: Tensor) -> Tensor:
        return state + self.gain * self.inner(self.norm(state))


class ResidualNet(nn.Module):
    """Embedding, residual blocks, an optional last norm, head."""

    def __init__(
        self,
        width: int = 64,
        depth: int = 4,
        classes: int = CLASSES,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
        last: Callable[[int], nn.Module] = nn.LayerNorm,
        activation: nn.Module | None = None,
        gain: float = 1.0,
    ) -> None:
        super().__init__()
        self.start = nn.Linear(LENGTH, width)
        self.layers = nn.ModuleList(Residual(width, norm, activation or nn.GELU(), gain) for _ in range(depth))
        self.last, self.out = last(width), nn.Linear(width, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        state = self.start(inputs.flatten(1))
        for layer in self.layers:
            state = layer(state)
        return self.out(self.last(state))


def nothing(width: int) -> nn.Module:
    return nn.Identity()


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
            nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True, norm_first=first)
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
        norm: Callable[[int], nn.Module] = nn.BatchNorm2d,
        *,
        residual: bool = True,
        side: int = 1,
    ) -> None:
        super().__init__()
        self.side = side
        self.start = nn.Conv2d(1, channels, 3, padding=1)
        self.layers = nn.ModuleList(Convolved(channels, norm, residual) for _ in range(depth))
        self.out = nn.Linear(channels, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        state = inputs.reshape(len(inputs), 1, 8, 5)
        if self.side > 1:
            state = F.interpolate(state, scale_factor=self.side)
        state = self.start(state)
        for layer in self.layers:
            state = layer(state)
        return self.out(state.mean((2, 3)))


class Convolved(nn.Module):
    def __init__(self, channels: int, norm: Callable[[int], nn.Module], residual: bool) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), norm(channels), nn.ReLU())
        self.residual = residual

    def forward(self, state: Tensor) -> Tensor:
        return state + self.inner(state) if self.residual else self.inner(state)


def plain(widths: list[int], activation: Callable[[], nn.Module], norm: Callable[[int], nn.Module] | None) -> nn.Module:
    """A sequence without skips."""
    layers: list[nn.Module] = [nn.Flatten()]
    before = LENGTH
    for width in widths:
        layers += [nn.Linear(before, width), *([norm(width)] if norm else []), activation()]
        before = width
    return nn.Sequential(*layers, nn.Linear(before, CLASSES))


def own(network: str, shape: tuple[int, ...] = (LENGTH,), classes: int = CLASSES, **options: object) -> Make:
    return lambda: build(network, shape, classes, 0, **options)  # type: ignore[arg-type]


def groups(channels: int) -> nn.Module:
    return nn.GroupNorm(4, channels)


def instances(channels: int) -> nn.Module:
    return nn.InstanceNorm2d(channels, affine=True)


def rms(width: int) -> nn.Module:
    return nn.RMSNorm(width)


MADE: tuple[Sound, ...] = (
    *(Sound(f"residual MLP, width {d}", own("resmlp", d=d)) for d in (16, 256, 1024, 4096)),
    *(Sound(f"residual MLP, {k} blocks", own("resmlp", d=64, depth=k)) for k in (2, 12, 24, 48)),
    *(Sound(f"residual MLP, {c} classes", own("resmlp", d=64, classes=c), classes=c) for c in (2, 100, 1000)),
    Sound("residual MLP without a last norm", own("resmlp", d=64, terminal_ln=False)),
    Sound("student network", own("student_net")),
    *(
        Sound(f"transformer, {'mean' if pooled else 'class token'}, norm {'first' if first else 'last'}", make)
        for pooled in (False, True)
        for first in (False, True)
        for make in [lambda pooled=pooled, first=first: Tokens(pooled=pooled, first=first)]
    ),
    Sound("mixer", Mixer),
    *(
        Sound(f"{kind} of maps, {name}", make)
        for kind, residual in (("residual net", True), ("plain net", False))
        for name, norm in (("batch norm", nn.BatchNorm2d), ("group norm", groups), ("instance norm", instances))
        for make in [lambda norm=norm, residual=residual: Maps(norm=norm, residual=residual)]
    ),
    Sound("maps of 64 x 40", lambda: Maps(norm=groups, side=8, depth=2)),
    Sound("root mean square norm", lambda: ResidualNet(norm=rms, last=rms)),
    Sound("no norm at all", lambda: ResidualNet(norm=nothing, last=nothing, gain=0.3)),
    Sound("batch norm in the blocks", lambda: ResidualNet(norm=nn.BatchNorm1d)),
    Sound("tanh", lambda: ResidualNet(activation=nn.Tanh())),
    Sound("plain, ReLU", lambda: plain([64, 64, 64], nn.ReLU, None)),
    Sound("plain, tanh", lambda: plain([64, 64, 64], nn.Tanh, None)),
    Sound("plain, batch norm", lambda: plain([96, 64, 48], nn.ReLU, nn.BatchNorm1d)),
    Sound("plain, six layers", lambda: plain([64] * 6, nn.GELU, nn.LayerNorm)),
)
