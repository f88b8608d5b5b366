"""Sound networks of many kinds, made here: whatever the audit says against one of these is a false alarm."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain as joined
from typing import Any

import torch
from tests.planted.architectures import (
    CLASSES,
    LENGTH,
    Maps,
    Mixer,
    Pyramid,
    ResidualNet,
    Tokens,
    chain,
    groups,
    highway,
    instances,
    nothing,
    plain,
    rms,
)
from tests.planted.kinds import KINDS, LEARNT
from tests.planted.tasks import EPOCHS, evaluation_batches, trained, training_batches
from torch import nn

from creditscope.networks.build import build

Make = Callable[[], nn.Module]


@dataclass(frozen=True, slots=True)
class Sound:
    """A sound network: how it is made, whether it is trained first, and how many images it is audited on."""

    name: str
    make: Make
    epochs: int = 0
    classes: int = CLASSES
    images: int = 1000

    def audited(self) -> dict[str, Any]:
        """What `audit` is given: training images and the start of a trained network, so that depth can be judged."""
        torch.manual_seed(0)
        model = self.make().eval()
        given = {"model": model, "batches": evaluation_batches(self.classes, self.images)}
        if not self.epochs:
            return given
        start = copy.deepcopy(model)
        trained(model, list(model.parameters()), self.classes, self.epochs)
        return {**given, "initial": start, "training": training_batches(self.classes)}


def own(network: str, shape: tuple[int, ...] = (LENGTH,), classes: int = CLASSES, **options: object) -> Make:
    return lambda: build(network, shape, classes, 0, **options)  # type: ignore[arg-type]


def he(model: nn.Module) -> nn.Module:
    """He et al. (2015): the initialisation for ReLU."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            nn.init.zeros_(module.bias)
    return model


def lecun(model: nn.Module) -> nn.Module:
    """Klambauer et al. (2017): the initialisation for SELU."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="linear")
            nn.init.zeros_(module.bias)
    return model


NORMS = (("batch norm", nn.BatchNorm2d), ("group norm", groups), ("instance norm", instances))


def _vectors() -> Iterator[Sound]:
    for width in (16, 256, 1024):
        yield Sound(f"residual MLP, width {width}", own("resmlp", d=width))
    yield Sound("residual MLP, width 4096", own("resmlp", d=4096, depth=2), images=256)
    for depth in (2, 12, 24, 48):
        yield Sound(f"residual MLP, {depth} blocks", own("resmlp", d=64, depth=depth))
    for classes in (2, 100, 1000):
        yield Sound(f"residual MLP, {classes} classes", own("resmlp", d=64, classes=classes), classes=classes)
    yield Sound("residual MLP without a last norm", own("resmlp", d=64, terminal_ln=False))
    yield Sound("student network", own("student_net"))
    yield Sound("root mean square norm", lambda: ResidualNet(norm=rms, last=rms))
    yield Sound("no norm at all", lambda: ResidualNet(norm=nothing, last=nothing, gain=0.3))
    yield Sound("batch norm in the blocks", lambda: ResidualNet(norm=nn.BatchNorm1d))
    yield Sound("tanh in the branches", lambda: ResidualNet(activation=nn.Tanh()))
    yield Sound("weights tied over six blocks", lambda: ResidualNet(depth=6, tied=True))
    yield Sound("highway gates", highway)
    yield Sound("plain, ReLU", lambda: plain([64, 64, 64], nn.ReLU, None))
    yield Sound("plain, tanh", lambda: plain([64, 64, 64], nn.Tanh, None))
    yield Sound("plain, batch norm", lambda: plain([96, 64, 48], nn.ReLU, nn.BatchNorm1d))
    yield Sound("plain, six layers", lambda: plain([64] * 6, nn.GELU, nn.LayerNorm))
    yield Sound("plain, ELU", lambda: chain([64] * 4, nn.ELU))
    yield Sound("plain, SELU, eight layers", lambda: lecun(chain([64] * 8, nn.SELU)))
    yield Sound("plain, ReLU, twelve layers, He initialisation", lambda: he(chain([64] * 12, nn.ReLU)))


def _positions() -> Iterator[Sound]:
    for pooled in (False, True):
        for first in (False, True):
            name = f"transformer, {'mean' if pooled else 'class token'}, norm {'first' if first else 'last'}"
            yield Sound(name, lambda pooled=pooled, first=first: Tokens(pooled=pooled, first=first))
    yield Sound("transformer of twelve blocks", lambda: Tokens(width=32, depth=12, pooled=False, first=True))
    yield Sound("mixer", Mixer)
    for kind, residual in (("residual net", True), ("plain net", False)):
        for name, norm in NORMS:
            yield Sound(
                f"{kind} of maps, {name}", lambda norm=norm, residual=residual: Maps(norm=norm, residual=residual)
            )
    yield Sound("maps of 64 x 40, group norm", lambda: Maps(12, 2, norm=groups, side=8), images=256)
    yield Sound("maps of 32 x 20, instance norm", lambda: Maps(12, 2, norm=instances, side=4), images=256)
    yield Sound("maps that shrink from block to block", Pyramid)


def _trained() -> Iterator[Sound]:
    made: dict[str, Make] = {
        "residual MLP of six blocks": lambda: ResidualNet(width=128, depth=6, gain=0.3),
        "residual MLP of width 16": lambda: ResidualNet(width=16),
        "residual MLP of 24 blocks": lambda: ResidualNet(width=32, depth=24, gain=0.2),
        "residual MLP with dropout": lambda: ResidualNet(dropout=0.1),
        "root mean square norm": lambda: ResidualNet(norm=rms, last=rms),
        "no norm at all": lambda: ResidualNet(norm=nothing, last=nothing, gain=0.3),
        "branches that start at 1e-4": lambda: ResidualNet(gain=1e-4, learnt=True),
        "branches that start at zero": lambda: ResidualNet(gain=0.0, learnt=True),
        "weights tied over six blocks": lambda: ResidualNet(depth=6, tied=True),
        "highway gates, eight blocks": lambda: highway(48, 8),
        "plain, SELU": lambda: lecun(chain([64] * 4, nn.SELU)),
        "plain, tanh, two layers": lambda: chain([128] * 2, nn.Tanh),
        "plain, ReLU, widths that shrink": lambda: chain([128, 96, 64], nn.ReLU),
        "transformer, mean": lambda: Tokens(width=32, depth=2, pooled=True, first=True),
        "transformer, class token, norm last": lambda: Tokens(width=32, depth=2, pooled=False, first=False),
        "mixer": lambda: Mixer(width=32, depth=3),
        "residual net of maps, batch norm, five blocks": lambda: Maps(12, 5),
        "plain net of maps, instance norm": lambda: Maps(16, 3, norm=instances, residual=False),
        "maps that shrink from block to block": Pyramid,
    }
    for name, make in made.items():
        yield Sound(f"{name}, trained", make, EPOCHS)
    for classes in (2, 100):
        name = f"residual MLP, {classes} classes, trained"
        yield Sound(name, lambda classes=classes: ResidualNet(classes=classes), EPOCHS, classes)


def _vanishing() -> Iterator[Sound]:
    """Deep networks without skips, and networks whose BatchNorms have no running statistics yet.

    The signal shrinks from layer to layer at their initialisation.
    """
    for name, make in {
        "plain, ReLU, six layers": lambda: chain([64] * 6, nn.ReLU),
        "plain, ReLU, twelve layers": lambda: chain([64] * 12, nn.ReLU),
        "plain, tanh, twelve layers": lambda: chain([64] * 12, nn.Tanh),
        "plain net of maps, eight layers, batch norm": lambda: Maps(12, 8, residual=False),
    }.items():
        for epochs in (0, EPOCHS):
            yield Sound(f"{name}, {'trained' if epochs else 'at initialisation'}", make, epochs, images=256)
    yield Sound("plain, ReLU, 24 layers", lambda: chain([64] * 24, nn.ReLU), images=256)
    yield Sound("plain, tanh, 24 layers", lambda: chain([64] * 24, nn.Tanh), images=256)
    yield Sound("plain net of maps, 16 layers, batch norm", lambda: Maps(12, 16, residual=False), images=256)
    yield Sound("residual net of maps, 24 blocks, batch norm", lambda: Maps(12, 24), images=256)


def _small_branches() -> Iterator[Sound]:
    """Branches that start small, as in ReZero (0), LayerScale (1e-1 to 1e-6, by depth) and ConvNeXt (1e-6)."""
    for gain in (1e-1, 1e-4, 1e-5, 1e-6, 0.0):
        yield Sound(f"branches that start at {gain:g}", lambda gain=gain: ResidualNet(gain=gain, learnt=True))


def _kinds() -> Iterator[Sound]:
    for name, make in KINDS.items():
        yield Sound(name, make, images=256)
    for name, make in LEARNT.items():
        yield Sound(f"{name}, trained", make, EPOCHS)


HEALTHY: tuple[Sound, ...] = tuple(
    joined(_vectors(), _positions(), _trained(), _vanishing(), _small_branches(), _kinds())
)
