"""Which tensors of a forward pass depend on the inputs, and which of them everything has to pass through."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any

from torch import Tensor

from creditscope.stream.forward_calls import Edge, ForwardCalls, edge_of


class Bottlenecks:
    """The graph between the inputs and the logits, put in order.

    A tensor is a bottleneck if every path from the inputs to the logits passes through it. In an order in which
    everything follows what it is computed from, no edge may jump over a bottleneck, and over any other tensor one does.
    """

    def __init__(self, recorded: ForwardCalls, logits: Tensor, without: Iterable[Edge | None] = ()) -> None:
        self._recorded, self._logits, self._without = recorded, logits, frozenset(without)
        self._sources = set(recorded.sources)
        end = edge_of(logits)
        order = [] if end is None else _ordered(end, self._without)
        self._used, self._fed = set(order), set[Edge]()
        for tensor in order:
            if tensor in self._sources or any(before in self._fed for before in _before(tensor, self._without)):
                self._fed.add(tensor)
        self._uses: dict[Edge | None, list[int]] = {}
        for node in {tensor[0] for tensor in order}:
            for before in node.next_functions:
                self._uses.setdefault(before, []).append(node._sequence_nr())
        self._narrow = self._swept([tensor for tensor in order if tensor in self._fed])

    def without(self, tensors: Iterable[Edge | None]) -> Bottlenecks:
        """The graph without these tensors, and so without all that reaches the logits through them alone."""
        return Bottlenecks(self._recorded, self._logits, tensors)

    def fed(self, tensor: Edge | None) -> bool:
        """Whether a tensor depends on the inputs and the logits on it."""
        return tensor in self._fed

    def used(self, tensor: Edge | None) -> bool:
        """Whether the logits depend on a tensor; taken for granted where the model cannot be differentiated."""
        return not self._used or tensor in self._used

    def used_after(self, tensor: Edge | None, clock: int) -> bool:
        """Whether the logits are the tensor or something computed from it after this moment of autograd's clock."""
        if not self._used or tensor == edge_of(self._logits):
            return True
        return any(at >= clock for at in self._uses.get(tensor, ()))

    def narrow(self, tensor: Edge | None) -> bool:
        """Whether a tensor is a bottleneck."""
        return tensor in self._narrow

    def follows(self, tensor: Edge | None, other: Edge | None) -> bool:
        """Whether a tensor was computed from another one."""
        return tensor is not None and other in _ordered(tensor)

    def _swept(self, order: list[Edge]) -> set[Edge]:
        place = {tensor: number for number, tensor in enumerate(order)}
        ends = [place[tensor] for tensor in order if tensor in self._sources]
        farthest = [max(ends, default=0)]  # over the tensors before this one, where the last use of them is
        last_use = [-1] * len(order)
        for tensor, number in place.items():
            for before in () if tensor in self._sources else _before(tensor, self._without):
                if before in place:
                    last_use[place[before]] = max(last_use[place[before]], number)
        for use in last_use:
            farthest.append(max(farthest[-1], use))
        return {tensor for tensor, number in place.items() if farthest[number] <= number}


def _before(tensor: Edge, without: Set[Edge | None] = frozenset()) -> list[Edge]:
    """The tensors that a tensor was computed from."""
    return [edge for edge in tensor[0].next_functions if edge[0] is not None and edge not in without]


def _ordered(end: Edge, without: Set[Edge | None] = frozenset()) -> list[Edge]:
    """All tensors that this one was computed from, each after those that it was computed from itself."""
    order: list[Edge] = []
    visited: set[Edge] = set()
    waiting: list[tuple[Any, bool]] = [(end, False)]
    while waiting:
        tensor, expanded = waiting.pop()
        if expanded:
            order.append(tensor)
        elif tensor not in visited:
            visited.add(tensor)
            waiting.append((tensor, True))
            waiting.extend((before, False) for before in _before(tensor, without) if before not in visited)
    return order
