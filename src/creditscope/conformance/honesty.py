"""Locality and labels: credit depends on the weights above only where it says so, and answers never on the labels."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.conformance.clause import NotChecked, Remark, clause, note
from creditscope.conformance.signals import needs_states
from creditscope.conformance.subject import CheckedRule, drawn, seeded
from creditscope.diagnostics import diagnostics
from creditscope.probes.hidden_backprop import hidden_backprop
from creditscope.probes.label_leak import answers_of, label_leak
from creditscope.stream.find import find_stream
from creditscope.stream.trace import cross_entropy
from creditscope.verdict import Missing


@clause(
    "locality",
    states="Local credit does not change when weights above change where the forward pass cannot see it.",
    blind="Rules without credit at the states; weights whose inputs leave no direction free.",
)
def locality(subject: CheckedRule) -> Iterator[Remark]:
    """D9, with its limit."""
    case = subject.case(samples=12)
    needs_states(case)
    found = hidden_backprop(
        find_stream(case.network),
        case.bound(),
        list(case.network.blocks),
        case.batch,
        loss_fn=cross_entropy,
        generator=seeded(4),
    )
    if isinstance(found, Missing):
        raise NotChecked(found.text)
    if not found.reads_network:
        raise NotChecked("the credit does not change with the weights of the network at all")
    ratios = [ratio for ratio in found.ratios if ratio == ratio]
    if not ratios:
        raise NotChecked("no gradient changed: the weights above hardly affect it")
    limit = diagnostics["D9" if found.precision == "float64" else "D9:single"].limit.at
    measured = f"D9 = {max(ratios):.2g}, limit {limit:g}"
    if case.rule.uses_weights_above:
        yield note(f"declared to use the weights above: {measured}")
    else:
        yield Remark(measured, fault=not max(ratios) <= limit)


@clause(
    "labels", states="Predictions do not depend on the labels of their batch, not even after its credit was computed."
)
def labels(subject: CheckedRule) -> Iterator[Remark]:
    """D8: every sample is shown under every other label."""
    case = subject.case()
    answers = answers_of(find_stream(case.network), case.bound(), None)
    found = label_leak(answers, [drawn(31, 12)], seeded(4))
    if isinstance(found, Missing):
        raise NotChecked(found.text)
    if found.share > 0:
        yield Remark(f"{found.share:.0%} of the predictions change with the labels")
