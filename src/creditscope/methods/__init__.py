"""Credit rules and their wrappers; one file per rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from creditscope.records.run import MethodFacts
from creditscope.registry import Registry

if TYPE_CHECKING:
    from creditscope.methods.rule import CreditRule

    R = TypeVar("R", bound=type[CreditRule])

methods: Registry[type[CreditRule]] = Registry("method", __name__)


def method(
    name: str,
    *,
    summary: str,
    formula: str,
    feedback: str = "",
    paper: str = "",
    reference: str = "",
    identities: Mapping[str, str] | None = None,
    fails: str = "",
    networks: tuple[str, ...] | None = None,
    revision: int = 1,
) -> Callable[[R], R]:
    """Register a rule with its facts; every record of a run carries those up to `reference`.

    summary     what the rule does, in one sentence
    formula     its credit a_l
    feedback    the law of its fixed random feedback; empty if it draws none
    paper       where it comes from
    reference   what it descends where that is not the loss, as "the layer's own loss"; empty: BP
    identities  what is proved about it, each with the test that proves it, as "tests/...py::test_..."
    fails       when it fails, in a sentence or two
    networks    names of the registered networks that it supports; None for all of them
    revision    raise it when a fix changes the rule's numbers
    """

    def enter(cls: R) -> R:
        cls.name, cls.summary, cls.revision, cls.networks = name, summary, revision, networks
        cls.identities, cls.fails = dict(identities or {}), fails
        cls.facts = MethodFacts(
            name=name, summary=summary, formula=formula, feedback=feedback, paper=paper, reference=reference
        )
        methods.add(name, cls)
        return cls

    return enter
