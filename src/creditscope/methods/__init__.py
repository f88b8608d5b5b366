"""Credit rules and their wrappers; one file per rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from creditscope.registry import Registry

if TYPE_CHECKING:
    from creditscope.methods.rule import CreditRule

    R = TypeVar("R", bound=type[CreditRule])

methods: Registry[type[CreditRule]] = Registry("method", __name__)


def method(name: str, *, revision: int = 1) -> Callable[[R], R]:
    """Register a rule; raise `revision` when a fix changes its numbers."""

    def enter(cls: R) -> R:
        cls.name, cls.revision = name, revision
        methods.add(name, cls)
        return cls

    return enter
