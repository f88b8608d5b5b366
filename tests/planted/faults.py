"""Planted faults: sound trained networks, broken on purpose in ways that accuracy need not show.

A fault is applied to a copy of a trained network by dose. `seen` says which diagnostics must notice it; a fault that no
audit from the outside can know is listed with the reason, and the page says so. Where a dose decides whether anything
is broken at all, the criterion of `criterion.py` is asked; doses below it are measured for the dose-response tables and
graded nowhere.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain as joined
from typing import Any, Literal

import torch
import torch.nn.functional as F
from tests.planted.architectures import Maps, ResidualNet, Tokens, chain, groups, highway
from tests.planted.changes import (
    Change,
    Times,
    blind_start,
    changed,
    cut_blocks,
    dead_head,
    dead_last_norm,
    deaf,
    dying,
    exploded,
    first_position,
    forgotten,
    lost_variance,
    negated,
    noisy,
    on_one_line,
    overwrite,
    poison,
    rescaled,
    rescaled_rows,
    rescaled_start,
    saturated,
    shut_gates,
    then,
    unread,
)
from tests.planted.tasks import accuracy, evaluation_batches, split, trained, training_batches
from torch import nn

from creditscope.batch import Batch


@dataclass(frozen=True, slots=True)
class Base:
    """A trained network with its start and its frozen control."""

    model: nn.Module
    initial: nn.Module
    control: float
    control_model: nn.Module

    def audited(self, **changes: Any) -> dict[str, Any]:
        """What `audit` is given for this network."""
        return {
            "model": self.model,
            "batches": evaluation_batches(),
            "control_accuracy": self.control,
            "initial": self.initial,
            "training": training_batches(),
            "blocks": "layers",
            **changes,
        }


Plant = Callable[[Base], dict[str, Any]]
Grade = Literal["fails", "not silent", "dose", "unknown", "measured"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A way to break a network without a word.

    plant       base -> what `audit` is given
    seen        codes of which at least one must fire or stay undecided
    grade       "fails": the verdict must be FAIL; "not silent": no PASS unless a finding fires or a warning is given;
                "dose": too weak to be graded; "unknown": it cannot be known from the outside;
                "measured": it fails where the criterion of the diagnostic `criterion` holds, else it is a dose
    unknown     why it cannot be known
    family      faults of one kind, told apart by dose
    criterion   the diagnostic whose claim the dose makes true
    """

    name: str
    base: str
    plant: Plant
    seen: tuple[str, ...] = ()
    grade: Grade = "fails"
    unknown: str = ""
    family: str = ""
    dose: float = math.nan
    criterion: str = ""
    kind: Literal["network", "claim"] = "network"


BASES: dict[str, Callable[[], nn.Module]] = {
    "residual MLP": lambda: ResidualNet(width=96, depth=4, gain=0.3),
    "deep residual MLP": lambda: ResidualNet(width=48, depth=12, gain=0.2),
    "transformer": lambda: Tokens(width=32, depth=2, pooled=False, first=True),
    "maps": lambda: Maps(channels=16, depth=3, norm=groups),
    "maps with batch norm": lambda: Maps(channels=16, depth=3),
    "highway": highway,
    "plain tanh": lambda: chain([64] * 3, nn.Tanh),
    "plain ReLU": lambda: chain([96] * 3, nn.ReLU),
}
MAIN = ("residual MLP", "transformer", "maps")


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
    return Base(model, start.eval(), accuracy(control), control)


def altered(change: Change, **given: Any) -> Plant:
    """The change is made to the trained network and to its start."""
    return lambda found: found.audited(
        model=changed(found.model, change), initial=changed(found.initial, change), **given
    )


# --- changes of units ---


def _units() -> Iterator[Fault]:
    growth = partial(Fault, seen=("D1", "D1:stream"))
    for dose in (1e1, 1e2, 1e3, 1e4, 3e4, 1e5, 3e5, 1e6, 1e9):
        yield growth(
            f"one block multiplies the stream by {dose:g}",
            "residual MLP",
            altered(rescaled([1, 1, dose, 1])),
            grade="not silent" if dose == 1e4 else "measured",
            family="growth of one block",
            dose=dose,
            criterion="D1:stream",
        )
    for name, depth, doses in (
        ("residual MLP", 4, (3, 12, 18, 30, 300)),
        ("deep residual MLP", 12, (1.5, 2.5, 3, 5, 12)),
    ):
        for dose in doses:
            yield growth(
                f"each of {depth} blocks multiplies the stream by {dose:g}",
                name,
                altered(rescaled([dose] * depth)),
                grade="not silent" if 1e4 < dose**depth < 3e4 else "measured",
                family=f"growth of each of {depth} blocks",
                dose=dose,
                criterion="D1:stream",
            )
    for name, factors in (("transformer", [1, 1e9]), ("transformer", [1e5, 1e5]), ("maps", [1e3, 1e3, 1e3])):
        text = " x ".join(f"{factor:g}" for factor in factors)
        yield growth(
            f"the blocks multiply the stream by {text}", name, altered(rescaled(factors)), criterion="D1:stream"
        )
    for share in (0.02, 0.15, 0.45, 0.9):
        graded = share > 0.1
        yield growth(
            f"the last block multiplies the stream of {100 * share:g} % of the images by 1e9",
            "residual MLP",
            altered(rescaled_rows(1e9, share)),
            grade="fails" if graded else "unknown",
            unknown="" if graded else "fewer than one image in twenty: the 95th percentile does not reach them",
            family="share of exploded images",
            dose=share,
            criterion="D1:stream",
        )
    for name in MAIN:
        yield Fault(
            "the stream is 1e9 times too large from its start on",
            name,
            altered(rescaled_start(1e9)),
            ("D2",),
            "not silent",
        )
    for factor in (1e6, 1e9):
        yield growth(
            f"tokens that nobody reads explode by {factor:g}",
            "transformer",
            altered(unread(factor)),
            grade="not silent",
        )


# --- losses of influence ---


def _doses() -> Iterator[Fault]:
    for name in MAIN:
        for dose in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 3e-7, 1e-7, 3e-8, 1e-8, 1e-9, 1e-10):
            yield Fault(
                f"read-out times {dose:g}",
                name,
                altered(dead_head(dose)),
                ("D11",),
                "measured",
                family="read-out",
                dose=dose,
                criterion="D11",
            )
        for dose in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 3e-7, 1e-7, 3e-8, 1e-8, 0.0):
            yield Fault(
                f"every branch times {dose:g}",
                name,
                altered(cut_blocks(dose)),
                ("D12", "D3", "D10"),
                "measured",
                family="branches",
                dose=dose,
                criterion="D12",
            )
        for dose in (1e-2, 1e-4, 1e-6, 1e-8, 0.0):
            yield Fault(
                f"block 1 overwrites the stream, {dose:g} of it left",
                name,
                altered(overwrite(1, dose)),
                ("D11", "D3", "D10"),
                "fails" if dose < 2e-6 else "dose",
                family="overwritten stream",
                dose=dose,
            )
        yield Fault("the embedding hears its bias alone", name, altered(blind_start), ("D3", "D10", "D11"))


def _influence() -> Iterator[Fault]:
    for name in ("residual MLP", "transformer"):
        for dose in (1e-6, 1e-7, 1e-8, 1e-9):
            yield Fault(
                f"gain of the last norm times {dose:g}",
                name,
                altered(dead_last_norm(dose)),
                ("D11",),
                "measured",
                dose=dose,
                criterion="D11",
            )
    for name in ("highway", "plain tanh", "plain ReLU"):
        for dose in (1e-6, 1e-7, 1e-8, 1e-9):
            yield Fault(
                f"read-out times {dose:g}",
                name,
                altered(dead_head(dose)),
                ("D11",),
                "measured",
                dose=dose,
                criterion="D11",
            )
    for share in (0.05, 0.15, 0.45):
        graded = share > 0.1
        yield Fault(
            f"the last block overwrites the stream of {100 * share:g} % of the images",
            "residual MLP",
            altered(overwrite(3, 0.0, share)),
            ("D11", "D3", "D10"),
            "fails" if graded else "unknown",
            "" if graded else "fewer than one image in ten: the 10th percentile does not reach them",
            family="share of overwritten images",
            dose=share,
        )
    for bias in (-20.0, -40.0):
        yield Fault(
            f"gates shut, bias {bias:g}", "highway", altered(shut_gates(bias)), ("D12", "D3", "D10"), criterion="D12"
        )
    for index in (0, 2):
        yield Fault(
            f"the units of layer {index} never open", "plain ReLU", altered(dying(index, -1e4)), ("D11", "D3", "D10")
        )
    for factor in (1e4, 1e8):
        yield Fault(
            f"layer 1 saturates, weights times {factor:g}", "plain tanh", altered(saturated(1, factor)), ("D11",)
        )
    yield Fault(
        "running variances times 1e16",
        "maps with batch norm",
        altered(lost_variance(1e16)),
        ("D12", "D3", "D10", "D11"),
    )


# --- broken numbers, weights that were not learnt ---


def _numbers() -> Iterator[Fault]:
    for name, where in (
        ("residual MLP", "layers.1.inner.0.weight"),
        ("residual MLP", "out.bias"),
        ("transformer", "start.weight"),
        ("maps", "layers.0.inner.0.weight"),
    ):
        for value in (math.nan, math.inf):
            yield Fault(f"{value} in {where}", name, altered(poison(value, where)), ("D0",))
    yield Fault(
        "nan in a running mean",
        "maps with batch norm",
        altered(poison(math.nan, "layers.1.inner.1.running_mean")),
        ("D0",),
    )


def reset(found: Base) -> dict[str, Any]:
    """The trained network with its blocks set back to their start."""
    model = copy.deepcopy(found.model)
    model.layers.load_state_dict(found.initial.layers.state_dict())
    return found.audited(model=model)


def shuffled(found: Base) -> dict[str, Any]:
    """Trained on labels in another order."""
    model = copy.deepcopy(found.initial)
    return found.audited(model=trained(model, list(model.parameters()), shuffled=True))


def _unlearnt() -> Iterator[Fault]:
    for name in BASES:
        yield Fault(
            "blocks never trained, presented as trained",
            name,
            lambda found: found.audited(model=found.control_model),
            ("D3",),
        )
    for name in (*MAIN, "deep residual MLP", "highway"):
        yield Fault(
            "blocks never trained, no control given",
            name,
            lambda found: found.audited(model=found.control_model, control_accuracy=None),
            ("D10", "D3"),
        )
    for name in (*MAIN, "highway"):
        yield Fault("blocks set back to their start", name, reset, ("D3", "D10"))
    for name in ("residual MLP", "plain ReLU"):
        yield Fault("trained on shuffled labels", name, shuffled, ("D3", "D10"))
    for name in ("residual MLP", "maps"):
        for dose in (0.1, 0.3, 1.0, 3.0, 10.0):
            yield Fault(
                f"noise of {dose:g} standard deviations on the weights of the blocks",
                name,
                lambda found, dose=dose: found.audited(model=changed(found.model, noisy(dose))),
                ("D3", "D10"),
                "fails" if dose > 1 else "dose",
                family="noise on the weights of the blocks",
                dose=dose,
            )


# --- changes of one state, or of what the audit is given ---


def _states() -> Iterator[Fault]:
    plain, growth = "residual MLP", ("D1", "D1:stream")
    yield Fault(
        "explodes in block 1, shrinks back in block 2",
        plain,
        altered(then(1, Times(1e9), Times(1e-9))),
        growth,
        criterion="D1:stream",
    )
    for share in (0.12, 0.25):
        yield Fault(
            f"the last block multiplies {100 * share:g} % of the images by 1e9, and the last norm absorbs it",
            plain,
            altered(then(3, exploded(share))),
            growth,
            criterion="D1:stream",
        )
    yield Fault(
        "one pixel explodes by 1e8 for one state",
        "maps",
        altered(then(1, first_position(1e8), first_position(1e-8))),
        growth,
        "not silent",
        criterion="D1:stream",
    )
    yield Fault(
        "a constant of 1e4 is added to one state",
        plain,
        altered(then(1, partial(torch.add, other=1e4), partial(torch.add, other=-1e4))),
        growth,
        "not silent",
    )
    yield Fault("block 1 rounds the stream to halves", plain, altered(then(1, lambda h: (2 * h).round() / 2)), ("D11",))
    yield Fault("block 2 clamps the stream to 1e-6", plain, altered(then(2, lambda h: h.clamp(-1e-6, 1e-6))), ("D11",))
    yield Fault("the read-out hears its bias alone", plain, altered(deaf), ("D11",))
    unlearnt = ("D3", "D10")
    yield Fault("block 1 projects the stream on one direction", plain, altered(then(1, on_one_line)), unlearnt)
    for name, text, change in (
        (plain, "branches with the wrong sign", negated),
        ("maps with batch norm", "running statistics lost", forgotten),
    ):
        yield Fault(
            text, name, lambda found, change=change: found.audited(model=changed(found.model, change)), unlearnt
        )
    yield Fault(
        "blocks in the wrong order",
        plain,
        lambda found: found.audited(model=changed(found.model, lambda m: setattr(m, "layers", m.layers[::-1]))),
        unlearnt,
        "not silent",
    )
    yield Fault("labels shifted by one", plain, lambda found: found.audited(batches=relabelled()), unlearnt)


def relabelled() -> list[Batch]:
    return [Batch(inputs, (labels + 1) % 10) for inputs, labels in evaluation_batches()]


# --- claims that the numbers do not carry ---


def typed(share: float | list[float], control: float | list[float]) -> Plant:
    return lambda found: found.audited(accuracy=share, control_accuracy=control, training=None, initial=None)


def _claims() -> Iterator[Fault]:
    claim = partial(Fault, base="residual MLP", seen=("D3",), kind="claim")
    yield claim("one typed margin of exactly 2 points", plant=typed(0.52, 0.50), grade="not silent")
    yield claim("one typed margin of 9 points", plant=typed(0.59, 0.50), grade="not silent")
    yield claim("one lucky seed of three", plant=typed([0.66, 0.51, 0.50], [0.5, 0.51, 0.5]), grade="not silent")
    yield claim("three seeds against one control", plant=typed([0.53, 0.56, 0.50], 0.5), grade="not silent")
    yield claim(
        "one run against a control of four seeds", plant=typed(0.56, [0.5, 0.53, 0.47, 0.5]), grade="not silent"
    )
    yield claim("worse than its control", plant=typed([0.3, 0.31, 0.3], [0.36, 0.35, 0.36]))
    unknown = partial(claim, seen=(), grade="unknown")
    yield unknown(
        "a better control was trained and not shown",
        plant=lambda found: found.audited(control_accuracy=0.2),
        unknown="a typed accuracy is taken as given; pass the control's weights",
    )
    yield unknown(
        "the test images were in the training set",
        plant=lambda found: found.audited(model=trained_on_test(found)),
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


FAULTS: tuple[Fault, ...] = tuple(
    joined(_units(), _doses(), _influence(), _numbers(), _unlearnt(), _states(), _claims())
)
