"""Signals and gradients: their shapes, precision and range."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from creditscope.batch import Batch
from creditscope.conformance.clause import NotChecked, Remark, clause, note
from creditscope.conformance.subject import CheckedRule, Trial
from creditscope.credit import Credit

SCALES = (1e-6, 1e-3, 1e3, 1e6)
FEW = 8  # a tensor of fewer different sizes may be signs or steps, which half precision holds exactly
HALF = (torch.float16, torch.bfloat16)
AGREE = 1e-4  # ‖float32 - float64‖/‖float64‖; rounding in float32 costs 1e-7 to 1e-5
ROUNDING = 10  # or so many times what one unit in the last place of the weights changes: at most 6 in our own rules
STEP, JUMP = 1e-5, 1e-5  # of the weights; of a gradient, which bends by 1e-8 where it is smooth and by 1e-4 in half
PLACES = (0.0, 3e-5, 6e-5, 9e-5)  # a kink of the network, such as that of a ReLU, is not at all of them


@clause(
    "shapes",
    states="One finite signal per state and of its shape, one finite gradient per parameter, none with a graph.",
)
def shapes(subject: CheckedRule) -> Iterator[Remark]:
    """A rule without credit at the states returns no signals."""
    case = subject.case()
    credit, states = case.credit(), case.network.states(case.batch.inputs)
    wanted = [state.shape for state in states] if case.rule.at_states else []
    found = [signal.shape for signal in credit.signals]
    if found != wanted:
        yield Remark(f"the signals have the shapes {_listed(found)}, the states {_listed(wanted)}")
    for layer, signal in enumerate(credit.signals):
        if not bool(signal.abs().max() > 0):
            yield Remark(f"a_{layer} is 0 or NaN everywhere")
    parameters = dict(case.network.named_parameters())
    wrong = sorted(parameters.keys() ^ credit.gradients.keys())
    if wrong:
        yield Remark(f"gradients and parameters differ in {', '.join(wrong[:3])}")
    for name, gradient in credit.gradients.items():
        if name in parameters and gradient.shape != parameters[name].shape:
            yield Remark(f"the gradient of {name} has the shape {tuple(gradient.shape)}")
        elif not bool(gradient.any()):
            yield note(f"the gradient of {name} is 0 everywhere: nothing but weight decay moves it")
    tensors = named(credit)
    yield from (Remark(f"{name} is not finite") for name, t in tensors.items() if not bool(t.isfinite().all()))
    yield from (Remark(f"{name} carries a graph: detach it") for name, t in tensors.items() if t.requires_grad)


@clause(
    "precision",
    states="Signals and gradients have the network's own precision, and agree between float32 and float64.",
    blind="Rounding of what no weight moves, such as credit made of labels alone; float64 computed in float32.",
)
def precision(subject: CheckedRule) -> Iterator[Remark]:
    """Numbers that float16 or bfloat16 would hold exactly were computed in it, whatever type they are returned in.

    A rule that divides a small difference by a small number magnifies rounding. How much shows in float32 itself, when
    every weight moves by one unit in its last place. What was rounded to half on the way is so in float64 too, but then
    it moves in jumps where the weights move smoothly.
    """
    credits = {dtype: _moved(subject, dtype).credit() for dtype in (torch.float32, torch.float64)}
    for dtype, credit in credits.items():
        for name, tensor in named(credit).items():
            if tensor.dtype != dtype:
                yield Remark(f"{name} is {_kind(tensor.dtype)} on a network in {_kind(dtype)}")
            elif coarse := _held_in_half(tensor):
                yield Remark(f"{name} was rounded to {_kind(coarse)}")
    for layer, (one, two) in enumerate(zip(*(credit.signals for credit in credits.values()), strict=True)):
        if not bool(F.cosine_similarity(one.double().flatten(1), two.double().flatten(1)).min() > 0.999):
            yield Remark(f"a_{layer} in float32 and in float64 point in different directions")
    nudged = _moved(subject, torch.float32, torch.finfo(torch.float32).eps).credit()
    yield from _disagreements(*map(named, (credits[torch.float32], credits[torch.float64], nudged)))
    jumping = _jumping(subject, PLACES[0])
    for place in PLACES[1:]:
        jumping = jumping and jumping & _jumping(subject, place)
    yield from (
        Remark(f"{name} jumps when the weights move by {STEP:g}: it was rounded on the way") for name in sorted(jumping)
    )


def _moved(subject: CheckedRule, dtype: torch.dtype, by: float = 0.0) -> Trial:
    """The rule on a network in this precision, with weights that are larger by this share."""
    case = subject.case()
    case.network.to(dtype)
    with torch.no_grad():
        for parameter in case.network.parameters():
            parameter.mul_(1 + by)
    return case._replace(batch=Batch(case.batch.inputs.to(dtype), case.batch.labels))


def _disagreements(
    single: Mapping[str, Tensor], double: Mapping[str, Tensor], nudged: Mapping[str, Tensor]
) -> Iterator[Remark]:
    """Where float32 is further from float64 than rounding explains."""
    largest = 0.0
    for name in [name for name in single if name in double and name in nudged]:
        one, two, moved = (tensors[name].double() for tensors in (single, double, nudged))
        size, apart, rounding = two.norm().item(), (one - two).norm().item(), (one - moved).norm().item()
        share = apart / size if size else math.inf if apart else 0.0
        if not apart <= max(AGREE * size, ROUNDING * rounding):
            yield Remark(f"{name} in float32 differs from that in float64 by {share:.1g} of its size")
        largest = max(largest, share)
    yield note(f"float32 and float64 agree to {largest:.1g} of the size")


def _jumping(subject: CheckedRule, at: float) -> set[str]:
    """The signals and gradients in float64 that do not move evenly with the weights around this share."""
    below, here, above = (named(_moved(subject, torch.float64, at + by).credit()) for by in (-STEP, 0.0, STEP))
    return {
        name
        for name in here
        if not (above[name] - 2 * here[name] + below[name]).norm().item() <= JUMP * here[name].norm().item()
    }


@clause(
    "scales", states="Signals and gradients are finite for inputs and read-out weights of 1e-6 to 1e6 times their size."
)
def scales(subject: CheckedRule) -> Iterator[Remark]:
    """Trained networks explode: the instrument must still be able to read the credit of such a one."""
    for scale in SCALES:
        for what in ("inputs", "read-out weights"):
            bad = [name for name, t in named(_at(subject.case(), what, scale)).items() if not bool(t.isfinite().all())]
            if bad:
                yield Remark(f"{', '.join(bad[:2])} is not finite with {what} times {scale:g}")


def _at(case: Trial, what: str, scale: float) -> Credit:
    if what == "inputs":
        return case.credit(batch=Batch(case.batch.inputs * scale, case.batch.labels))
    head = readout_weight(case)
    with torch.no_grad():
        case.network.get_parameter(head).mul_(scale)
    return case.credit()


def readout_weight(case: Trial) -> str:
    """The name of the last weight outside the blocks: that of the head."""
    outside = [name for name, _ in case.network.named_parameters() if case.network.block_of(name) is None]
    return [name for name in outside if name.endswith("weight")][-1]


def named(credit: Credit) -> dict[str, Tensor]:
    """Signals and gradients by name."""
    gradients: Mapping[str, Tensor] = {f"the gradient of {name}": g for name, g in credit.gradients.items()}
    return {**{f"a_{layer}": signal for layer, signal in enumerate(credit.signals)}, **gradients}


def _held_in_half(tensor: Tensor) -> torch.dtype | None:
    """The half precision that holds every number of a tensor of many different sizes exactly; None if none does."""
    if len(torch.unique(tensor.abs())) < FEW:
        return None
    return next((kind for kind in HALF if torch.equal(tensor.to(kind).to(tensor.dtype), tensor)), None)


def _kind(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _listed(found: list[torch.Size]) -> str:
    return ", ".join(str(tuple(shape)) for shape in found) or "none"


def needs_states(case: Trial, unknown: str = "") -> None:
    """End a clause about credit at the states on a rule that has none."""
    if not case.rule.at_states:
        raise NotChecked("the rule declares no credit at the states", unknown)
