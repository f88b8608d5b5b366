"""What a rule declares: its facts, its options, the networks that it supports."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

from creditscope.conformance.clause import Remark, clause, note
from creditscope.conformance.subject import CheckedRule, differing, seeded, supported
from creditscope.errors import CreditscopeError
from creditscope.networks import networks


@clause(
    "facts",
    states="Name, summary, formula, paper and revision are declared, and the law of feedback where there is one.",
)
def facts(subject: CheckedRule) -> Iterator[Remark]:
    """By @method, which every record of a run copies."""
    rule, declared = subject.rule, subject.rule.facts
    if declared is None:
        yield Remark(
            "no facts: register the class with @method(name, summary=..., formula=..., feedback=..., paper=...)"
        )
        return
    if "facts" not in vars(type(rule)):
        yield Remark(f"the facts are those of {declared.name!r}, which it is derived from: register it with @method")
        return
    if not declared.name or rule.name != declared.name or rule.summary != declared.summary:
        yield Remark(f"the facts name {declared.name!r}, the rule itself {rule.name!r}")
    if not declared.summary.endswith(".") or "\n" in declared.summary:
        yield Remark("the summary is not one sentence that ends with a full stop")
    if "=" not in declared.formula:
        yield Remark(f"the formula {declared.formula!r} has no '='")
    if not declared.paper:
        yield Remark("no paper: say where the rule comes from, or that it is your own")
    if rule.revision < 1:
        yield Remark(f"revision must be at least 1, got {rule.revision}")
    feedback = subject.case().feedback
    if feedback.tensors and not declared.feedback:
        yield Remark("feedback is drawn, but no law of it is declared (feedback=...)")
    if declared.feedback and not feedback.tensors and feedback.networks is None:
        yield Remark("the law of feedback is declared, but none is drawn")


@clause(
    "value", states="The rule is a value: a frozen dataclass of plain options, equal to another of the same options."
)
def value(subject: CheckedRule) -> Iterator[Remark]:
    """Records and snapshots tell runs apart by what a rule is written as."""
    rule: Any = subject.rule
    how = getattr(rule, "__dataclass_params__", None)
    if how is None:
        yield Remark("the class is no dataclass, so that its options are not recorded")
        return
    other = subject.fresh()
    if rule != other or repr(rule) != repr(other) or " at 0x" in repr(rule):
        yield Remark("two rules of the same options are not equal, or are written differently")
    for option in dataclasses.fields(rule):
        given = getattr(rule, option.name)
        parts = given if isinstance(given, tuple) else (given,)
        if not all(isinstance(part, bool | int | float | str) for part in parts):
            yield Remark(f"the option {option.name} is a {type(given).__name__}, which no record can hold")
    if not how.frozen:
        yield Remark("the dataclass is not frozen, so that its options can change during a run")


@clause(
    "networks",
    states="Flat states, tokens and convolutions are supported, or refused in words where the rule leaves them out.",
)
def kinds(subject: CheckedRule) -> Iterator[Remark]:
    """On one small network of every registered kind."""
    rule = subject.rule
    unknown = sorted(set(rule.supported_networks or ()) - set(networks))
    if unknown:
        yield Remark(f"networks= names {', '.join(unknown)}, which is not registered")
    refused = []
    for on in networks:
        try:
            case = CheckedRule(rule, on).case()
            credit = case.credit()
        except CreditscopeError as error:
            if supported(rule, on):
                yield Remark(f"{on} is refused, but declared as supported: {_first(error)}")
            refused.append(on)
        except Exception as error:  # noqa: BLE001  whatever the rule raises, it is not a refusal in words
            yield Remark(f"{on} ends in {type(error).__name__}, not in a refusal: {_first(error)}")
        else:
            if not supported(rule, on):
                yield Remark(f"{on} is not declared as supported, but not refused")
            expected = len(case.network.states(case.batch.inputs)) if rule.at_states else 0
            if len(credit.signals) != expected:
                yield Remark(f"{on}: {len(credit.signals)} signals for {expected} states")
    yield note(f"refuses {', '.join(refused)}" if refused else "all registered networks")


def _first(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


@clause(
    "feedback",
    states="Feedback is decided by the generator alone, needs no gradient, and drawing it changes nothing else.",
)
def feedback(subject: CheckedRule) -> Iterator[Remark]:
    """In both modes of the network: BatchNorm must not learn from the example."""
    for training in (True, False):
        case = subject.case()
        case.network.train(training)
        before, state = case.tensors(), torch.get_rng_state()
        again, other = (
            case._replace(feedback=case.rule.feedback(case.network, case.batch, seeded(seed))).tensors()
            for seed in (1, 2)
        )
        changed = [name for name in differing(before, again) if not name.startswith(("feedback", "auxiliary"))]
        if changed:
            yield Remark(f"drawing feedback changes {', '.join(changed[:2])}")
        elif differing(before, again):
            yield Remark("two draws from the same seed differ")
        if case.feedback.tensors and case.rule.redraws and not differing(again, other):
            yield Remark("two draws from different seeds are the same")
        if not torch.equal(torch.get_rng_state(), state):
            yield Remark("drawing feedback moves the global random state")
        if any(module.training != training for module in case.network.modules()):
            yield Remark("drawing feedback leaves the network in another mode")
        if any(tensor.requires_grad for tensor in case.feedback.tensors.values()):
            yield Remark("a fixed feedback tensor requires a gradient")
