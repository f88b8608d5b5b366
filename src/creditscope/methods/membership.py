"""Which parameters of any model belong to its embedding, to each block and to its read-out, read off the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from creditscope.errors import ModelMismatch

Tied = Literal["embedding", "readout"]
SUMS = ("AddBackward0", "AliasBackward0", "ViewBackward0")  # nodes through which a skip connection leads
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Members:
    """The parameters of each part by name; a parameter that several parts use is in all of them.

    stages   of the embedding, then of each block
    readout  of what lies after h_L
    tied     used by embedding and read-out, and by no block; `assigned` says which of the two it learns in
    """

    stages: tuple[frozenset[str], ...]
    readout: frozenset[str]
    assigned: Tied | None = None

    @property
    def tied(self) -> frozenset[str]:
        """Parameters of the embedding that the read-out uses too."""
        return self.stages[0] & self.readout

    def block_of(self, name: str) -> int | None:
        """The first block that uses a parameter; None if no block does."""
        return next((block for block, names in enumerate(self.stages[1:]) if name in names), None)

    def separate(self, model: str) -> Members:
        """Every parameter in one part; refused where two blocks, or a block and another part, use one."""
        users = self._users()
        crossing = {
            name: parts for name, parts in users.items() if len(parts) > 1 and parts != ["embedding", "read-out"]
        }
        if crossing:
            raise _shared(model, crossing)
        if self.tied and self.assigned is None:
            raise ModelMismatch(
                f"{_listed(sorted(self.tied))} of {model} serves both its embedding and its read-out.\n"
                "A local rule gives it credit at h_0 on one side and the exact gradient of the loss on the other: two "
                'different updates. Say which it learns by: tied="embedding" or tied="readout".'
            )
        first = self.stages[0] if self.assigned == "embedding" else self.stages[0] - self.tied
        readout = self.readout - self.tied if self.assigned == "embedding" else self.readout
        return Members((first, *self.stages[1:]), readout)

    def _users(self) -> dict[str, list[str]]:
        parts = ["embedding", *(f"block {index}" for index in range(len(self.stages) - 1)), "read-out"]
        users: dict[str, list[str]] = {}
        for part, names in zip(parts, (*self.stages, self.readout), strict=True):
            for name in names:
                users.setdefault(name, []).append(part)
        return users


def _shared(model: str, crossing: Mapping[str, list[str]]) -> ModelMismatch:
    some = [f"{name} ({', '.join(parts)})" for name, parts in sorted(crossing.items())]
    return ModelMismatch(
        f"Several parts of {model} use the same parameters: {_listed(some)}.\n"
        "A local rule updates each block from its own credit, and these would get contradicting updates. Use blocks "
        "with weights of their own, name other blocks with blocks=, or train with the rule 'bp'."
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def members(states: Sequence[Tensor], anchors: Sequence[Tensor], logits: Tensor, names: Mapping[int, str]) -> Members:
    """The parts of one forward pass; `names` gives the parameters by id.

    The walk through the graph of h_{l+1} ends at h_0..h_l, whichever way it reaches them, that of the logits at
    h_0..h_L.
    """
    borders = [_node(anchor) for anchor in anchors]
    stages = [_reached(state, borders[:layer], names) for layer, state in enumerate(states)]
    return Members(tuple(stages), _reached(logits, borders, names))


def adds(after: Tensor, before: Tensor) -> bool:
    """Whether h_{l+1} is a sum in which h_l itself is a term: the stage has a skip connection."""
    if after.shape != before.shape:
        return False
    border = _node(before)
    found = False

    def follow(node: Any) -> bool:
        nonlocal found
        found |= node is border
        return node is not border and node.name() in SUMS and getattr(node, "_saved_alpha", 1) == 1

    _walk(_node(after), follow)
    return found


def _reached(tensor: Tensor, borders: Iterable[Any], names: Mapping[int, str]) -> frozenset[str]:
    stops = {node for node in borders if node is not None}
    reached: set[str] = set()

    def follow(node: Any) -> bool:
        if node in stops:
            return False
        name = names.get(id(getattr(node, "variable", None)))
        if name is not None:
            reached.add(name)
        return True

    _walk(_node(tensor), follow)
    return frozenset(reached)


def _walk(start: Any, follow: Callable[[Any], bool]) -> None:
    """Visit every node once, from the output towards the parameters, as far as `follow` says."""
    visited: set[Any] = set()
    waiting = [start]
    while waiting:
        node = waiting.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        if follow(node):
            waiting.extend(following for following, _ in node.next_functions)


def _node(tensor: Tensor) -> Any:
    """The node that a gradient at this tensor enters; of a leaf, the one that accumulates it."""
    if tensor.grad_fn is not None or not tensor.requires_grad:
        return tensor.grad_fn
    return tensor.view_as(tensor).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
