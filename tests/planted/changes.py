"""Ways to break a network: changes of its units, losses of influence, weights that were never learnt."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

Change = Callable[[nn.Module], None]


def changed(model: nn.Module, change: Change) -> nn.Module:
    """A changed copy."""
    broken = copy.deepcopy(model)
    with torch.no_grad():
        change(broken)
    return broken


# --- changes of units: the function stays, the scale of the stream does not ---


class Rescaled(nn.Module):
    """A block of a stream whose states are `before` times as large going in and `after` times coming out."""

    def __init__(self, block: nn.Module, before: float, after: float, rows: float = 1.0) -> None:
        super().__init__()
        self.block, self.before, self.after, self.rows = block, before, after, rows

    def forward(self, state: Tensor) -> Tensor:
        plain = self.block(state / self.before)
        return plain * self.after if self.rows == 1 else plain * _some(plain, self.after, self.rows)


class Unscaled(nn.Module):
    """The last norm of a stream that was rescaled: it does not feel the scale, as the LayerNorm it wraps does not."""

    def __init__(self, norm: nn.Module, factor: float, rows: float = 1.0) -> None:
        super().__init__()
        self.norm, self.factor, self.rows = norm, factor, rows

    def forward(self, state: Tensor) -> Tensor:
        return self.norm(state / (self.factor if self.rows == 1 else _some(state, self.factor, self.rows)))


def _some(state: Tensor, factor: float, share: float) -> Tensor:
    """`factor` for the first share of the images, 1 for the others."""
    exploded = torch.arange(len(state)) < share * len(state)
    return torch.where(exploded, factor, 1.0).view(-1, *[1] * (state.dim() - 1)).to(state)


def rescaled(growth: list[float]) -> Change:
    """The same function with a stream that grows by these factors, block by block."""

    def change(model: nn.Module) -> None:
        scale = 1.0
        for index, factor in enumerate(growth):
            model.layers[index] = Rescaled(model.layers[index], scale, scale * factor)
            scale *= factor
        model.last = Unscaled(model.last, scale)

    return change


def rescaled_rows(factor: float, share: float) -> Change:
    """The same function; the last block multiplies the stream of a share of the images."""

    def change(model: nn.Module) -> None:
        model.layers[-1] = Rescaled(model.layers[-1], 1.0, factor, share)
        model.last = Unscaled(model.last, factor, share)

    return change


def rescaled_start(factor: float) -> Change:
    """The same function with a stream that is large from its start on: no block grows it."""

    def change(model: nn.Module) -> None:
        model.start = nn.Sequential(model.start, Times(factor))
        for name in {"token", "place"} & dict(model.named_parameters()).keys():  # of a transformer: added to its start
            model.get_parameter(name).mul_(factor)
        for index, block in enumerate(model.layers):
            model.layers[index] = Rescaled(block, factor, factor)
        model.last = Unscaled(model.last, factor)

    return change


class Times(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, state: Tensor) -> Tensor:
        return self.factor * state


class OtherTokens(nn.Module):
    """A block that multiplies the tokens that the head does not read."""

    def __init__(self, block: nn.Module, factor: float) -> None:
        super().__init__()
        self.block, self.factor = block, factor

    def forward(self, state: Tensor) -> Tensor:
        out = self.block(state)
        return torch.cat([out[:, :1], out[:, 1:] * self.factor], 1)


def unread(factor: float) -> Change:
    """The other tokens of a transformer explode in the last block, after everybody has read them."""

    def change(model: nn.Module) -> None:
        model.layers[-1] = OtherTokens(model.layers[-1], factor)

    return change


# --- losses of influence ---


def dead_head(factor: float) -> Change:
    def change(model: nn.Module) -> None:
        model.out.weight *= factor
        model.out.bias *= factor

    return change


def dead_last_norm(factor: float) -> Change:
    """The gain of the last norm is scaled away; its bias stays."""

    def change(model: nn.Module) -> None:
        model.last.weight *= factor

    return change


class Cut(nn.Module):
    """A block of whose branch a share is left."""

    def __init__(self, block: nn.Module, share: float) -> None:
        super().__init__()
        self.block, self.share = block, share

    def forward(self, state: Tensor) -> Tensor:
        return state + self.share * (self.block(state) - state)


def cut_blocks(share: float) -> Change:
    def change(model: nn.Module) -> None:
        for index, block in enumerate(model.layers):
            model.layers[index] = Cut(block, share)

    return change


class Overwriting(nn.Module):
    """A block that replaces the stream by ones and keeps a share of it, in all images or in a part of them."""

    def __init__(self, block: nn.Module, share: float, images: float = 1.0) -> None:
        super().__init__()
        self.block, self.share, self.images = block, share, images

    def forward(self, state: Tensor) -> Tensor:
        out = self.block(state)
        over = self.share * out + (1 - self.share) * torch.ones_like(out)
        hit = out.flatten(1).mean(1).mul(1e3).abs().frac() < self.images  # by the image, not by its place in the batch
        return torch.where(hit.view(-1, *[1] * (out.dim() - 1)), over, out)


def overwrite(index: int, share: float, images: float = 1.0) -> Change:
    def change(model: nn.Module) -> None:
        model.layers[index] = Overwriting(model.layers[index], share, images)

    return change


class Then(nn.Module):
    """A block, and something done to what it returns."""

    def __init__(self, block: nn.Module, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.block, self.change = block, change

    def forward(self, state: Tensor) -> Tensor:
        return self.change(self.block(state))


class First(nn.Module):
    """Something done to the state, and the block."""

    def __init__(self, change: Callable[[Tensor], Tensor], block: nn.Module) -> None:
        super().__init__()
        self.change, self.block = change, block

    def forward(self, state: Tensor) -> Tensor:
        return self.block(self.change(state))


def then(index: int, change: Callable[[Tensor], Tensor], undone: Callable[[Tensor], Tensor] | None = None) -> Change:
    """The state after a block is changed; `undone` before the next one, so that one state alone is."""

    def plant(model: nn.Module) -> None:
        model.layers[index] = Then(model.layers[index], change)
        if undone is not None:
            model.layers[index + 1] = First(undone, model.layers[index + 1])

    return plant


def first_position(factor: float) -> Callable[[Tensor], Tensor]:
    """Multiplies one pixel of a map."""

    def change(state: Tensor) -> Tensor:
        factors = torch.ones_like(state)
        factors[:, :, 0, 0] = factor
        return state * factors

    return change


def exploded(share: float) -> Callable[[Tensor], Tensor]:
    """Multiplies the state of a share of the images, chosen by the image."""

    def change(state: Tensor) -> Tensor:
        hit = state.flatten(1).mean(1).mul(1e3).abs().frac() < share
        return torch.where(hit.view(-1, *[1] * (state.dim() - 1)), 1e9 * state, state)

    return change


def on_one_line(state: Tensor) -> Tensor:
    """Projected on one direction."""
    direction = torch.randn(state.shape[-1], generator=torch.Generator().manual_seed(3)).to(state)
    return (state @ direction)[..., None] * direction / direction.square().sum()


def negated(model: nn.Module) -> None:
    """Every branch has the wrong sign."""
    for layer in model.layers:
        for parameter in layer.inner[-1].parameters():
            parameter.neg_()


def deaf(model: nn.Module) -> None:
    """The read-out answers the same for every image."""
    model.out.weight.zero_()


def forgotten(model: nn.Module) -> None:
    """Batch norms have lost their running statistics."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()


def shut_gates(bias: float) -> Change:
    """The gates of a highway network close."""

    def change(model: nn.Module) -> None:
        for layer in model.layers:
            layer.gate.bias.fill_(bias)

    return change


def dying(index: int, bias: float) -> Change:
    """The units of one ReLU layer never open."""

    def change(model: nn.Module) -> None:
        model.layers[index].inner.bias.fill_(bias)

    return change


def saturated(index: int, factor: float) -> Change:
    """The units of one tanh layer saturate."""

    def change(model: nn.Module) -> None:
        model.layers[index].inner.weight *= factor

    return change


def lost_variance(factor: float) -> Change:
    """The running variances of batch norms are wrong by a factor."""

    def change(model: nn.Module) -> None:
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d) and module.running_var is not None:
                module.running_var *= factor

    return change


def blind_start(model: nn.Module) -> None:
    """The embedding hears its bias alone."""
    model.start.weight.zero_()


# --- broken numbers and weights that were not learnt ---


def poison(value: float, where: str) -> Change:
    def change(model: nn.Module) -> None:
        model.state_dict()[where].view(-1)[3] = value

    return change


def noisy(share: float) -> Change:
    """Noise on every weight of the blocks, as a multiple of the weights' own spread."""

    def change(model: nn.Module) -> None:
        generator = torch.Generator().manual_seed(0)
        for weight in model.layers.parameters():
            if weight.dim() > 1:
                weight += share * weight.std() * torch.randn(weight.shape, generator=generator)

    return change
