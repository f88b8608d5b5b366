"""Networks in the form embedding | stages | read-out; one file per network."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from creditscope.registry import Registry

if TYPE_CHECKING:
    from creditscope.networks.staged import StagedNetwork

    N = TypeVar("N", bound=type[StagedNetwork])

networks: Registry[type[StagedNetwork]] = Registry("network", __name__)


def network(name: str, *, summary: str, revision: int = 1) -> Callable[[N], N]:
    """Register a network class; raise `revision` when a fix changes its numbers."""

    def enter(cls: N) -> N:
        cls.name, cls.summary, cls.revision = name, summary, revision
        networks.add(name, cls)
        return cls

    return enter
