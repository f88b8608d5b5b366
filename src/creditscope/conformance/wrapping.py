"""Wrappers and binding: penalty, frozen blocks, ladder and shallow change what learns, never the credit."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from creditscope.conformance.clause import Remark, clause
from creditscope.conformance.identities import close
from creditscope.conformance.subject import CheckedRule, Trial, differing, seeded
from creditscope.errors import InvalidInput
from creditscope.methods.rule import CreditRule
from creditscope.methods.wrappers import Frozen, Ladder, Penalty, Shallow


@clause(
    "wrappers",
    states="Penalty, frozen blocks and ladder change which gradients there are, and neither signals nor feedback.",
)
def wrappers(subject: CheckedRule) -> Iterator[Remark]:
    """Gradients are those of exactly the parameters in scope."""
    case = subject.case()
    plain, before, rule = case.credit(), case.tensors(), case.rule
    for wrapped in (Penalty(rule, 0.1), Frozen(rule), Ladder(rule, 1), Frozen(Penalty(rule, 0.1))):
        name, credit = _name(wrapped), case.credit(wrapped)
        learning = wrapped.scope(case.network).parameters(case.network)
        wrong = sorted(credit.gradients.keys() ^ learning.keys())
        if wrong:
            yield Remark(f"{name}: gradients and learning parameters differ in {', '.join(wrong[:2])}")
        if any(not bool(g.isfinite().all()) or g.requires_grad for g in credit.gradients.values()):
            yield Remark(f"{name}: a gradient is not finite, or carries a graph")
        if not all(close(one, two) for one, two in zip(plain.signals, credit.signals, strict=True)):
            yield Remark(f"{name}: the signals change")
        feedback = wrapped.feedback(case.network, case.batch, seeded(1))
        if differing(before, case._replace(feedback=feedback).tensors()):
            yield Remark(f"{name}: the feedback changes")
        if wrapped.innermost is not rule:
            yield Remark(f"{name}: innermost is not the rule")
    yield from _penalty(case)
    yield from _shallow(subject)


def _penalty(case: Trial) -> Iterator[Remark]:
    """λ times the gradient of the batch mean of ‖f_l(h_l)‖², beside whatever the rule says, in the last block."""
    network, last = case.network, case.network.depth - 1
    state = network.states(case.batch.inputs)[-2].detach()
    size = network.branch(last, state).square().sum() / len(case.batch.labels)
    name = [n for n, _ in network.named_parameters() if network.block_of(n) == last and n.endswith("weight")][-1]
    (expected,) = torch.autograd.grad(size, network.get_parameter(name))
    plain = case.credit().gradients[name]
    for strength in (0.5, 1.0):
        added = case.credit(Penalty(case.rule, strength)).gradients[name] - plain
        if not torch.allclose(added, strength * expected, rtol=1e-2, atol=1e-4):
            yield Remark(f"a penalty of {strength:g} does not add its gradient to {name}")


def _shallow(subject: CheckedRule) -> Iterator[Remark]:
    """Without blocks the rule works or is refused."""
    case = subject.case()
    rule = Shallow(case.rule)
    try:
        shallow = rule.prepare(case.network, case.batch)
    except InvalidInput:
        return  # the read-out cannot take h_0
    credit = rule.credit(shallow, rule.feedback(shallow, case.batch, seeded(1)), case.batch)
    if len(credit.signals) != int(case.rule.at_states):
        yield Remark(f"without blocks there are {len(credit.signals)} signals")
    if credit.gradients.keys() != dict(shallow.named_parameters()).keys():
        yield Remark("without blocks not every parameter has a gradient")


def _name(wrapped: CreditRule) -> str:
    return type(wrapped).__name__.lower()


@clause(
    "bound", states="Bound to a network the rule gives the same signals and updates, and fresh feedback on request."
)
def bound(subject: CheckedRule) -> Iterator[Remark]:
    """As training, an audit and its null of redrawn feedback ask for it."""
    case = subject.case()
    source, credit = case.bound(), case.credit()
    signals = source.signals(case.batch)
    if len(signals) != len(credit.signals) or not all(map(torch.equal, signals, credit.signals)):
        yield Remark("signals_under gives other signals than credit")
    if differing(dict(source.updates(case.batch)), credit.gradients):
        yield Remark("the updates of the bound rule are not its gradients")
    if case.feedback.networks is not None:
        return
    draws = [case.rule.feedback(case.network, case.batch, seeded(seed)) for seed in (3, 4)]
    learning = [p.requires_grad for p in case.network.parameters()]
    for feedback, several in zip(draws, case.rule.signals_under(case.network, draws, case.batch), strict=True):
        alone = case._replace(feedback=feedback).credit().signals
        if not all(map(torch.equal, several, alone)):
            yield Remark("several feedbacks at once give other signals than each by itself")
    if learning != [p.requires_grad for p in case.network.parameters()]:
        yield Remark("signals_under leaves a parameter with another requires_grad")
    redrawn = source.redrawn(seeded(9))
    if redrawn is None:
        return
    again = case.rule.feedback(case.network, case.batch, seeded(9))
    if differing(dict(redrawn.feedback.tensors), dict(again.tensors)):
        yield Remark("redrawn feedback is not what feedback() draws from the same generator")
    if not differing(dict(redrawn.feedback.tensors), dict(case.feedback.tensors)):
        yield Remark("redrawn feedback is the old one")
