"""Sound networks of further kinds: gated, dense, recurrent, iterated, of experts, of volumes, with messages."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from tests.planted.architectures import CLASSES, LENGTH, ResidualNet
from torch import Tensor, nn
from torch.nn.utils import parametrizations


class Stacked(nn.Module):
    """Start, `layers`, last norm, read-out over any shape of state; `over` are the axes of the mean at the end."""

    def __init__(
        self, shape: tuple[int, ...], start: nn.Module, layers: list[nn.Module], width: int, over: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        self.shape, self.over = shape, over
        self.start, self.layers = start, nn.ModuleList(layers)
        self.last: nn.Module = nn.Identity()
        self.out = nn.Linear(width, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        state = self.start(inputs.reshape(len(inputs), *self.shape))
        for layer in self.layers:
            state = layer(state)
        state = self.last(state)
        return self.out(state.mean(self.over) if self.over else state)


class Around(nn.Module):
    """h + f(h), or f(h) alone; f is any module, of which the first result counts."""

    def __init__(self, inner: nn.Module, *, skip: bool = True) -> None:
        super().__init__()
        self.inner, self.skip = inner, skip

    def forward(self, state: Tensor) -> Tensor:
        change = self.inner(state)
        change = change[0] if isinstance(change, tuple) else change
        return state + change if self.skip else change


class SpatialGate(nn.Module):
    """gMLP (Liu et al., 2021): half of the features gate the others across tokens."""

    def __init__(self, width: int, tokens: int = 8) -> None:
        super().__init__()
        self.norm, self.wide, self.narrow = (
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.Linear(2 * width, width),
        )
        self.across = nn.Linear(tokens, tokens)
        nn.init.normal_(self.across.weight, std=1e-6)
        nn.init.ones_(self.across.bias)

    def forward(self, state: Tensor) -> Tensor:
        one, other = F.gelu(self.wide(self.norm(state))).chunk(2, -1)
        return self.narrow(one * self.across(other.transpose(1, 2)).transpose(1, 2))


class Scan(nn.Module):
    """A selective scan with a gate, as in Mamba: c_t = a_t c_{t-1} + b_t x_t."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.into = nn.RMSNorm(width), nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, state: Tensor) -> Tensor:
        values, keep, gate = self.into(self.norm(state)).chunk(3, -1)
        memory, outputs = torch.zeros_like(values[:, 0]), []
        for step in range(state.shape[1]):
            kept = torch.sigmoid(keep[:, step])
            memory = kept * memory + (1 - kept) * values[:, step]
            outputs.append(memory)
        return self.out(torch.stack(outputs, 1) * F.silu(gate))


class Messages(nn.Module):
    """Every node hears the mean of the messages of all others."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.say = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, state: Tensor) -> Tensor:
        count = state.shape[1]
        pairs = torch.cat([state[:, :, None].expand(-1, -1, count, -1), state[:, None].expand(-1, count, -1, -1)], -1)
        return self.say(pairs).mean(2)


class Experts(nn.Module):
    """The most probable of four experts answers for an image."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.router = nn.LayerNorm(width), nn.Linear(width, 4)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(4)
        )

    def forward(self, state: Tensor) -> Tensor:
        read = self.norm(state)
        weight, chosen = self.router(read).softmax(-1).max(-1, keepdim=True)
        every = torch.stack([expert(read) for expert in self.experts], 1)
        return weight * every.gather(1, chosen[..., None].expand(-1, -1, state.shape[-1]))[:, 0]


class Dense(nn.Module):
    """The state beside what is computed from it: wider from block to block."""

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, growth))

    def forward(self, state: Tensor) -> Tensor:
        return torch.cat([state, self.inner(state)], 1)


class Scaled(nn.Module):
    """h + α_l f_l(h), scaled by the model: ReZero with α_l learnt from 0, or Euler's steps of one function."""

    def __init__(self, *, shared: bool, start: float, width: int = 48, steps: int = 6) -> None:
        super().__init__()
        self.start, self.out, self.steps = nn.Linear(LENGTH, width), nn.Linear(width, CLASSES), steps
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width))
            for _ in range(1 if shared else steps)
        )
        self.scales = nn.Parameter(torch.full((steps,), start))

    def forward(self, inputs: Tensor) -> Tensor:
        state = self.start(inputs.flatten(1))
        for index, scale in enumerate(self.scales):
            state = state + scale * self.layers[index % len(self.layers)](state)
        return self.out(state)


class ZeroToken(nn.Module):
    """A transformer whose class token starts at zero and comes last."""

    def __init__(self, width: int = 32, depth: int = 3) -> None:
        super().__init__()
        self.start, self.token = nn.Linear(5, width), nn.Parameter(torch.zeros(1, 1, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True, norm_first=True)
            for _ in range(depth)
        )
        self.last, self.out = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        state = self.start(inputs.reshape(len(inputs), 8, 5))
        state = torch.cat([state, self.token.expand(len(inputs), -1, -1)], 1)
        for layer in self.layers:
            state = layer(state)
        return self.out(self.last(state)[:, -1])


def blurred(channels: int = 16, depth: int = 3) -> nn.Module:
    """Plain maps without borders, normalised per image: a shift of all pixels alike changes nothing."""

    def layer() -> nn.Module:
        convolution = nn.Conv2d(channels, channels, 3, padding=1, padding_mode="circular")
        return Around(nn.Sequential(convolution, nn.InstanceNorm2d(channels, affine=True), nn.ReLU()), skip=False)

    return Stacked((1, 8, 5), nn.Conv2d(1, channels, 3, padding=1), [layer() for _ in range(depth)], channels, (2, 3))


def volumes(channels: int = 12, depth: int = 3) -> nn.Module:
    def layer() -> nn.Module:
        return nn.Sequential(nn.Conv3d(channels, channels, 3, padding=1), nn.GroupNorm(4, channels), nn.ReLU())

    layers: list[nn.Module] = [Around(layer()) for _ in range(depth)]
    return Stacked((1, 2, 4, 5), nn.Conv3d(1, channels, 3, padding=1), layers, channels, (2, 3, 4))


def tokens(inner: Callable[[int], nn.Module], width: int = 32, depth: int = 3) -> nn.Module:
    return Stacked((8, 5), nn.Linear(5, width), [Around(inner(width)) for _ in range(depth)], width, (1,))


def vectors(inner: Callable[[int], nn.Module], width: int = 48, depth: int = 4) -> nn.Module:
    return Stacked((LENGTH,), nn.Linear(LENGTH, width), [Around(inner(width)) for _ in range(depth)], width)


def dense(width: int = 32, growth: int = 24, depth: int = 5) -> nn.Module:
    layers: list[nn.Module] = [Dense(width + growth * index, growth) for index in range(depth)]
    return Stacked((LENGTH,), nn.Linear(LENGTH, width), layers, width + growth * depth)


def parametrised(change: Callable[[nn.Module], object]) -> nn.Module:
    model = ResidualNet()
    for layer in model.layers:
        for index in (0, 3):
            change(layer.inner[index])
    return model


KINDS: dict[str, Callable[[], nn.Module]] = {
    "spatial gates": lambda: tokens(SpatialGate),
    "gated scan": lambda: tokens(Scan),
    "message passing": lambda: tokens(Messages),
    "recurrent blocks": lambda: tokens(lambda width: nn.GRU(width, width, batch_first=True)),
    "mixture of experts": lambda: vectors(Experts),
    "dense connections": dense,
    "maps without borders, instance norm": blurred,
    "volumes": volumes,
    "class token that starts at zero": ZeroToken,
    "branches scaled by the model": lambda: Scaled(shared=False, start=0.1),
    "Euler's steps of one function": lambda: Scaled(shared=True, start=0.125),
    "spectral norm": lambda: parametrised(parametrizations.spectral_norm),
    "weight norm": lambda: parametrised(parametrizations.weight_norm),
}
LEARNT: dict[str, Callable[[], nn.Module]] = {
    "maps without borders, instance norm": blurred,
    "branches scaled by the model from zero": lambda: Scaled(shared=False, start=0.0),
    "dense connections": dense,
    "mixture of experts": lambda: vectors(Experts),
}
