"""Planted faults: sound trained networks, broken on purpose in ways that accuracy does not show.

A fault is applied to a copy of a trained network by dose. `seen` says which diagnostics must notice it; a fault that no
audit from the outside can know is listed with the reason, and the page says so.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from tests.planted.healthy import Maps, ResidualNet, Tokens, groups
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.datasets import datasets

EPOCHS = 12


@dataclass(frozen=True, slots=True)
class Base:
    """A trained network with its start, its frozen control's accuracy, and the data of both."""

    model: nn.Module
    initial: nn.Module
    control: float
    control_model: nn.Module

    def audited(self, **changes: Any) -> dict[str, Any]:
        """What `audit` is given for this network."""
        return {
            "model": self.model,
            "batches": test_batches(),
            "control_accuracy": self.control,
            "initial": self.initial,
            "training": training_batches(),
            "blocks": "layers",
            **changes,
        }


@dataclass(frozen=True, slots=True)
class Fault:
    """A way to break a network without a word.

    plant    base -> what `audit` is given
    seen     codes of which at least one must fire; empty where the fault cannot be known from the outside
    unknown  why it cannot be known
    """

    name: str
    base: str
    plant: Callable[[Base], dict[str, Any]]
    seen: tuple[str, ...] = ()
    unknown: str = ""
    fails: bool = True  # the verdict must be FAIL, not only short of a silent PASS
    dose: float = field(default=float("nan"))


@cache
def split() -> tuple[Batch, Batch]:
    data = datasets["mnist1d"]()
    return tuple(Batch(data.prepare(part.inputs), part.labels) for part in (data.train, data.test))


def cut(batch: Batch, size: int) -> list[Batch]:
    return [Batch(*pair) for pair in zip(batch.inputs.split(size), batch.labels.split(size), strict=True)]


def training_batches() -> list[Batch]:
    return cut(split()[0], 500)


def test_batches() -> list[Batch]:
    return cut(split()[1], 128)


def trained(model: nn.Module, learning: list[nn.Parameter], epochs: int = EPOCHS) -> nn.Module:
    """Backprop over the given parameters, AdamW, one order of the images for all networks."""
    inputs, labels = split()[0]
    optimiser = torch.optim.AdamW(learning, lr=1e-3, weight_decay=0.01)
    generator = torch.Generator().manual_seed(0)
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(labels), generator=generator).split(128)[:-1]:
            optimiser.zero_grad()
            F.cross_entropy(model(inputs[rows]), labels[rows]).backward()
            optimiser.step()
    return model.eval()


@torch.no_grad()
def accuracy(model: nn.Module) -> float:
    test = split()[1]
    return float((model(test.inputs).argmax(1) == test.labels).double().mean())


BASES: dict[str, Callable[[], nn.Module]] = {
    "residual MLP": lambda: ResidualNet(width=96, depth=4, gain=0.3),
    "deep residual MLP": lambda: ResidualNet(width=48, depth=12, gain=0.2),
    "transformer": lambda: Tokens(width=32, depth=2, pooled=False, first=True),
    "maps": lambda: Maps(channels=16, depth=3, norm=groups),
}


@cache
def base(name: str) -> Base:
    """Train a network and its frozen control once."""
    torch.manual_seed(0)
    start = BASES[name]()
    frozen = copy.deepcopy(start)
    frozen.layers.requires_grad_(False)
    control = trained(frozen, [p for p in frozen.parameters() if p.requires_grad])
    model = copy.deepcopy(start)
    trained(model, list(model.parameters()))
    return Base(model, start, accuracy(control), control)


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


def rescaled(model: nn.Module, growth: list[float], rows: float = 1.0) -> nn.Module:
    """The same function with a stream that grows by these factors, block by block."""
    broken = copy.deepcopy(model)
    scale = 1.0
    for index, factor in enumerate(growth):
        block = broken.layers[index]
        if rows == 1:
            broken.layers[index] = Rescaled(block, scale, scale * factor)
        scale *= factor
    if rows < 1:
        broken.layers[len(growth) - 1] = Rescaled(broken.layers[len(growth) - 1], 1.0, scale, rows)
        for index in range(len(growth), len(broken.layers)):
            raise ValueError(f"block {index} would see exploded images")
    broken.last = Unscaled(broken.last, scale, rows)
    return broken


def unread(model: nn.Module, factor: float) -> nn.Module:
    """A transformer whose other tokens explode in the last block, after everybody has read them."""
    broken = copy.deepcopy(model)
    broken.layers[-1] = OtherTokens(broken.layers[-1], factor)
    return broken


class OtherTokens(nn.Module):
    def __init__(self, block: nn.Module, factor: float) -> None:
        super().__init__()
        self.block, self.factor = block, factor

    def forward(self, state: Tensor) -> Tensor:
        out = self.block(state)
        return torch.cat([out[:, :1], out[:, 1:] * self.factor], 1)


# --- losses of influence ---


def changed(model: nn.Module, change: Callable[[nn.Module], None]) -> nn.Module:
    broken = copy.deepcopy(model)
    with torch.no_grad():
        change(broken)
    return broken


def dead_head(factor: float) -> Callable[[nn.Module], None]:
    def change(model: nn.Module) -> None:
        model.out.weight *= factor
        model.out.bias *= factor

    return change


class Cut(nn.Module):
    """A block whose output is its input times a share: nothing, or nearly nothing, of the branch is left."""

    def __init__(self, block: nn.Module, share: float) -> None:
        super().__init__()
        self.block, self.share = block, share

    def forward(self, state: Tensor) -> Tensor:
        return state + self.share * (self.block(state) - state)


def cut_blocks(share: float) -> Callable[[nn.Module], None]:
    def change(model: nn.Module) -> None:
        for index, block in enumerate(model.layers):
            model.layers[index] = Cut(block, share)

    return change


class Overwriting(nn.Module):
    """A block that replaces the stream by a constant and keeps a share of it."""

    def __init__(self, block: nn.Module, share: float) -> None:
        super().__init__()
        self.block, self.share = block, share

    def forward(self, state: Tensor) -> Tensor:
        out = self.block(state)
        return self.share * out + (1 - self.share) * torch.ones_like(out)


def overwrite(index: int, share: float) -> Callable[[nn.Module], None]:
    def change(model: nn.Module) -> None:
        model.layers[index] = Overwriting(model.layers[index], share)

    return change


def poison(value: float, where: str) -> Callable[[nn.Module], None]:
    def change(model: nn.Module) -> None:
        dict(model.named_parameters())[where].view(-1)[3] = value

    return change


# --- claims that are not true ---


def frozen_as_trained(found: Base) -> dict[str, Any]:
    """The frozen control, presented as the trained network."""
    return found.audited(model=found.control_model)


def shallow_as_deep(found: Base) -> dict[str, Any]:
    """Blocks at their start under a trained embedding and head, no control given."""
    return found.audited(model=found.control_model, control_accuracy=None)


def typed(accuracy: float | list[float], control: float | list[float]) -> Callable[[Base], dict[str, Any]]:
    return lambda found: found.audited(accuracy=accuracy, control_accuracy=control, training=None, initial=None)


def network(change: Callable[[nn.Module], nn.Module]) -> Callable[[Base], dict[str, Any]]:
    return lambda found: found.audited(model=change(found.model), initial=change(found.initial))


def altered(change: Callable[[nn.Module], None]) -> Callable[[Base], dict[str, Any]]:
    return network(lambda model: changed(model, change))


def _units() -> Iterator[Fault]:
    for dose in (1e4, 1e6, 1e9):
        yield Fault(
            f"one block multiplies the stream by {dose:g}",
            "residual MLP",
            network(lambda model, dose=dose: rescaled(model, [1, 1, dose, 1])),
            ("D1", "D1:stream"),
            fails=dose > 1e5,
            dose=dose,
        )
    for dose in (12.0, 30.0, 300.0):
        yield Fault(
            f"each of four blocks multiplies the stream by {dose:g}",
            "residual MLP",
            network(lambda model, dose=dose: rescaled(model, [dose] * 4)),
            ("D1:stream",),
            fails=dose > 20,
            dose=dose**4,
        )
    for dose in (3.0, 5.0, 12.0):
        yield Fault(
            f"each of twelve blocks multiplies the stream by {dose:g}",
            "deep residual MLP",
            network(lambda model, dose=dose: rescaled(model, [dose] * 12)),
            ("D1:stream",),
            fails=dose > 4,
            dose=dose**12,
        )
    for share in (0.15, 0.45, 0.9):
        yield Fault(
            f"the last block multiplies the stream of {100 * share:g} % of the images by 1e9",
            "residual MLP",
            network(lambda model, share=share: rescaled(model, [1, 1, 1, 1e9], share)),
            ("D1:stream",),
            dose=share,
        )
    yield Fault(
        "tokens that nobody reads explode by 1e9",
        "transformer",
        network(lambda model: unread(model, 1e9)),
        ("D1:stream",),
        fails=False,
    )


def _influence() -> Iterator[Fault]:
    for name in ("residual MLP", "transformer", "maps"):
        for dose in (1e-5, 1e-6, 1e-8, 1e-10):
            yield Fault(f"read-out times {dose:g}", name, altered(dead_head(dose)), ("D11",), dose=dose)
        for dose in (0.0, 1e-8, 1e-6):
            yield Fault(
                f"every branch times {dose:g}", name, altered(cut_blocks(dose)), ("D12", "D3", "D10"), dose=dose
            )
        for dose in (0.0, 1e-8, 1e-6):
            yield Fault(
                f"block 1 overwrites the stream, {dose:g} of it left",
                name,
                altered(overwrite(1, dose)),
                ("D11", "D3", "D10"),
                dose=dose,
            )


def _numbers() -> Iterator[Fault]:
    for name, where in (
        ("residual MLP", "layers.1.inner.0.weight"),
        ("residual MLP", "out.bias"),
        ("transformer", "start.weight"),
        ("maps", "layers.0.inner.0.weight"),
    ):
        for value in (float("nan"), float("inf")):
            yield Fault(f"{value} in {where}", name, altered(poison(value, where)), ("D0",))


def _claims() -> Iterator[Fault]:
    for name in BASES:
        yield Fault("blocks never trained, presented as trained", name, frozen_as_trained, ("D3",))
        yield Fault("blocks never trained, no control given", name, shallow_as_deep, ("D10", "D3"))
    yield Fault("one typed margin of exactly 2 points", "residual MLP", typed(0.52, 0.50), ("D3",), fails=False)
    yield Fault("one typed margin of 9 points", "residual MLP", typed(0.59, 0.50), ("D3",), fails=False)
    yield Fault(
        "one lucky seed of three", "residual MLP", typed([0.66, 0.51, 0.50], [0.5, 0.51, 0.5]), ("D3",), fails=False
    )
    yield Fault("three seeds against one control", "residual MLP", typed([0.53, 0.56, 0.50], 0.5), ("D3",), fails=False)
    yield Fault(
        "a control of ten seeds against one run",
        "residual MLP",
        typed(0.56, [0.5, 0.53, 0.47, 0.5]),
        ("D3",),
        fails=False,
    )
    yield Fault("worse than its control", "residual MLP", typed([0.3, 0.31, 0.3], [0.36, 0.35, 0.36]), ("D3",))


def _unknowable() -> Iterator[Fault]:
    yield Fault(
        "a better control was trained and not shown",
        "residual MLP",
        lambda found: found.audited(control_accuracy=0.2),
        unknown="a typed accuracy is taken as given; pass the control's weights",
    )
    yield Fault(
        "the test images were in the training set",
        "residual MLP",
        lambda found: found.audited(model=trained_on_test(found)),
        unknown="nothing in the weights says which images were used",
    )


def trained_on_test(found: Base) -> nn.Module:
    model, test = copy.deepcopy(found.model), split()[1]
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(30):
        optimiser.zero_grad()
        F.cross_entropy(model(test.inputs), test.labels).backward()
        optimiser.step()
    return model.eval()


FAULTS: tuple[Fault, ...] = tuple(chain(_units(), _influence(), _numbers(), _claims(), _unknowable()))
