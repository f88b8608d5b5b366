"""check_rule: every clause of the contract on one rule."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from creditscope import __version__
from creditscope.conformance.clause import Clause, ClauseResult, Outcome
from creditscope.conformance.declared import facts, feedback, kinds, value
from creditscope.conformance.honesty import labels, locality
from creditscope.conformance.identities import decay, direction, exact, identity, update
from creditscope.conformance.purity import loss, pure, randomness, samples
from creditscope.conformance.running import learn, resumed, saved, training
from creditscope.conformance.signals import precision, scales, shapes
from creditscope.conformance.subject import CheckedRule, declared_networks, home, supported
from creditscope.conformance.wrapping import bound, wrappers
from creditscope.errors import InvalidInput
from creditscope.methods import methods
from creditscope.methods.rule import CreditRule
from creditscope.networks import networks
from creditscope.options import filled, options_of

CLAUSES: tuple[Clause, ...] = (
    facts,
    value,
    kinds,
    feedback,
    pure,
    randomness,
    samples,
    shapes,
    precision,
    scales,
    loss,
    exact,
    identity,
    direction,
    update,
    decay,
    locality,
    labels,
    wrappers,
    bound,
    learn,
    training,
    resumed,
    saved,
)


@dataclass(frozen=True, slots=True)
class Conformance:
    """What every clause said of one rule on one network."""

    rule: str
    network: str
    results: tuple[ClauseResult, ...]

    @property
    def conforms(self) -> bool:
        """Whether no clause fails."""
        return not self.failing

    @property
    def complete(self) -> bool:
        """Whether every clause that matters for this rule could be checked."""
        return not self.unknown

    @property
    def unknown(self) -> tuple[str, ...]:
        """What stays unknown of the rule, because it does not declare what a clause needs."""
        return tuple(result.unknown for result in self.results if result.unknown)

    @property
    def failing(self) -> tuple[str, ...]:
        """The names of the clauses that fail."""
        return tuple(result.clause for result in self.results if result.outcome is Outcome.FAILS)

    def to_json(self) -> str:
        """The results as JSON."""
        head = {
            "creditscope": __version__,
            "rule": self.rule,
            "network": self.network,
            "conforms": self.conforms,
            "complete": self.complete,
        }
        return json.dumps({**head, "results": [asdict(one) for one in self.results]}, indent=1, ensure_ascii=False)


def check_rule(rule: str | type[CreditRule] | CreditRule, *, network: str | None = None) -> Conformance:
    """Check that a credit rule keeps every clause of the contract; takes seconds and needs no data.

    rule      a registered name, a class derived from CreditRule, or an instance of one
    network   the registered network to check on, a small one; default: resmlp, or the first that the rule supports

    >>> import creditscope
    >>> checked = creditscope.check_rule("dfa")
    >>> checked.conforms, checked.failing
    (True, ())
    """
    chosen = rule_of(rule)
    on = home(chosen) if network is None else network
    networks[on]  # an unknown name is refused
    if not supported(chosen, on):
        declared = ", ".join(declared_networks(chosen) or ())
        raise InvalidInput(
            f"{type(chosen).__name__} does not support {on!r}: it declares {declared}.\n"
            "Every clause would fail for that one reason. Choose one of these."
        )
    subject = CheckedRule(chosen, on)
    return Conformance(_title(chosen), on, tuple(clause.result(subject) for clause in CLAUSES))


def rule_of(rule: Any, options: Mapping[str, Any] | None = None) -> CreditRule:
    """The rule that a name, a class or an instance means; options are those of a name or class."""
    entry = methods[rule] if isinstance(rule, str) else rule
    if isinstance(entry, CreditRule) and not options:
        return entry
    if inspect.isclass(entry) and issubclass(entry, CreditRule):
        return _made(entry, options or {})
    raise InvalidInput(
        f"{rule!r} is not a credit rule{' that options can be given to' if options else ''}.\n"
        "There is no credit to check. Pass a registered name, or a class derived from "
        "creditscope.methods.rule.CreditRule."
    )


def _made(entry: type[CreditRule], options: Mapping[str, Any]) -> CreditRule:
    try:
        return entry(**filled("method", entry.__name__, options_of("method", entry), options))
    except TypeError as error:
        raise InvalidInput(
            f"{entry.__name__} cannot be made: {error}.\n"
            "A rule is checked with its defaults. Give every option a default and implement every abstract method."
        ) from error


def _title(rule: CreditRule) -> str:
    return rule.facts.name if rule.facts is not None else type(rule).__name__
