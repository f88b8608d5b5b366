"""Credit is a function of network, feedback and batch: the same twice, and nothing moves."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy
import torch
import torch.nn.functional as F

from creditscope.batch import Batch
from creditscope.conformance.clause import Remark, clause
from creditscope.conformance.signals import needs_states
from creditscope.conformance.subject import CheckedRule, differing, same_credit
from creditscope.stream.isolation import preserved_rng


@clause(
    "pure", states="The same batch gives the same credit twice; network, feedback, inputs and labels stay as they were."
)
def pure(subject: CheckedRule) -> Iterator[Remark]:
    """Also under no_grad, where an audit may ask."""
    case = subject.case()
    before = case.tensors()
    modes = [module.training for module in case.network.modules()]
    first, again = case.credit(), case.credit()
    if not same_credit(first, again):
        yield Remark("two calls with the same batch give different credit")
    changed = differing(before, case.tensors())
    if changed:
        yield Remark(f"a call changes {', '.join(changed[:3])}")
    if modes != [module.training for module in case.network.modules()]:
        yield Remark("a call leaves the network in another mode")
    if any(p.grad is not None for p in case.network.parameters()):
        yield Remark("a call leaves .grad in the network; return the gradients instead")
    if not all(p.requires_grad for p in case.network.parameters()):
        yield Remark("a call leaves a parameter without requires_grad")
    with torch.no_grad():
        silent = case.credit()
    if not same_credit(first, silent):
        yield Remark("under torch.no_grad() the credit is another one: use torch.enable_grad() inside")


@clause("random", states="The global random states of torch, numpy and Python neither decide the credit nor move.")
def randomness(subject: CheckedRule) -> Iterator[Remark]:
    """Randomness comes from the generator of the run alone: that of `feedback`, and of the moment in `learn`."""
    credits, steps = [], []
    with preserved_rng():
        for seed in (11, 12):
            torch.manual_seed(seed)
            numpy.random.seed(seed)  # noqa: NPY002  the legacy state is the global one
            random.seed(seed)
            before = _random_states()
            credits.append(subject.case().credit())
            steps.append(subject.case().step())
            if before != _random_states():
                yield Remark("a call moves a global random state; draw from the generator that is passed in")
                return
    if not same_credit(*credits):
        yield Remark("the credit depends on the global random state")
    elif not same_credit(*steps):
        yield Remark("a step of training depends on the global random state")


def _random_states() -> tuple[bytes, str, str]:
    legacy = numpy.random.get_state()  # noqa: NPY002
    return torch.get_rng_state().numpy().tobytes(), repr(legacy), repr(random.getstate())


@clause("samples", states="In evaluation mode a sample's credit does not depend on the other samples of its batch.")
def samples(subject: CheckedRule) -> Iterator[Remark]:
    """Within 1e-3: matrix products of another size round otherwise."""
    case = subject.case()
    needs_states(case)
    order = torch.tensor([4, 0, 5, 1])
    fewer = case.credit(batch=Batch(case.batch.inputs[order], case.batch.labels[order])).signals
    for layer, (every, some) in enumerate(zip(case.credit().signals, fewer, strict=True)):
        difference = (some - every[order]).abs()
        if not bool((difference <= 1e-3 * every[order].abs() + 1e-4 * every.abs().max()).all()):
            yield Remark(f"a_{layer} of a sample changes with its neighbours, by up to {difference.max().item():.1g}")


@clause("loss", states="The loss of a credit is the mean cross-entropy of the batch.")
def loss(subject: CheckedRule) -> Iterator[Remark]:
    """Without a penalty and without auxiliary losses: histories compare it across rules."""
    case = subject.case()
    expected = F.cross_entropy(case.network(case.batch.inputs), case.batch.labels).item()
    found = case.credit().loss
    if found.dim() or found.requires_grad or not abs(found.item() - expected) <= 1e-5 * (1 + abs(expected)):
        yield Remark(f"the loss is {found.detach().mean().item():.6g}, the mean cross-entropy {expected:.6g}")
