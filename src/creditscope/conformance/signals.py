"""Signals and gradients: their shapes, precision and range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from creditscope.batch import Batch
from creditscope.conformance.clause import NotChecked, Remark, clause, note
from creditscope.conformance.subject import Case, Subject
from creditscope.credit import Credit

SCALES = (1e-6, 1e-3, 1e3, 1e6)
FEW = 8  # a tensor of fewer different sizes may be signs or steps, which half precision holds exactly
HALF = (torch.float16, torch.bfloat16)


@clause(
    "shapes",
    states="One finite signal per state and of its shape, one finite gradient per parameter, none with a graph.",
)
def shapes(subject: Subject) -> Iterator[Remark]:
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
    blind="Half precision in a tensor of fewer than 8 different sizes.",
)
def precision(subject: Subject) -> Iterator[Remark]:
    """Numbers that float16 or bfloat16 would hold exactly were computed in it, whatever type they are returned in."""
    single, double = subject.case(), subject.case()
    double.network.double()
    double = double._replace(batch=Batch(double.batch.inputs.double(), double.batch.labels))
    credits = {torch.float32: single.credit(), torch.float64: double.credit()}
    for dtype, credit in credits.items():
        for name, tensor in named(credit).items():
            if tensor.dtype != dtype:
                yield Remark(f"{name} is {_kind(tensor.dtype)} on a network in {_kind(dtype)}")
            elif coarse := _held_in_half(tensor):
                yield Remark(f"{name} was rounded to {_kind(coarse)}")
    for layer, (one, two) in enumerate(zip(*(credit.signals for credit in credits.values()), strict=True)):
        if not bool(F.cosine_similarity(one.double().flatten(1), two.double().flatten(1)).min() > 0.999):
            yield Remark(f"a_{layer} in float32 and in float64 point in different directions")


@clause(
    "scales", states="Signals and gradients are finite for inputs and read-out weights of 1e-6 to 1e6 times their size."
)
def scales(subject: Subject) -> Iterator[Remark]:
    """Trained networks explode: the instrument must still be able to read the credit of such a one."""
    for scale in SCALES:
        for what in ("inputs", "read-out weights"):
            bad = [name for name, t in named(_at(subject.case(), what, scale)).items() if not bool(t.isfinite().all())]
            if bad:
                yield Remark(f"{', '.join(bad[:2])} is not finite with {what} times {scale:g}")


def _at(case: Case, what: str, scale: float) -> Credit:
    if what == "inputs":
        return case.credit(batch=Batch(case.batch.inputs * scale, case.batch.labels))
    head = readout_weight(case)
    with torch.no_grad():
        case.network.get_parameter(head).mul_(scale)
    return case.credit()


def readout_weight(case: Case) -> str:
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


def needs_states(case: Case) -> None:
    """End a clause about credit at the states on a rule that has none."""
    if not case.rule.at_states:
        raise NotChecked("the rule declares no credit at the states")
