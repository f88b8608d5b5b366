"""Networks in the form embedding | stages | read-out; one file per network."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from creditscope.registry import Registry

if TYPE_CHECKING:
    from creditscope.networks.staged import StagedNetwork

    N = TypeVar("N", bound=type[StagedNetwork])


class NetworkRegistry(Registry["type[StagedNetwork]"]):
    """The registered networks by name, and models of other people as `package.module:factory`."""

    def __getitem__(self, name: str) -> Any:
        if ":" not in name:
            return super().__getitem__(name)
        from creditscope.networks.factory import Factory

        return Factory(name)

    def __contains__(self, name: object) -> bool:
        return (isinstance(name, str) and ":" in name) or super().__contains__(name)


networks = NetworkRegistry("network", __name__)


def network(name: str, *, summary: str, revision: int = 1) -> Callable[[N], N]:
    """Register a network class; raise `revision` when a fix changes its numbers."""

    def enter(cls: N) -> N:
        cls.name, cls.summary, cls.revision = name, summary, revision
        networks.add(name, cls)
        return cls

    return enter
