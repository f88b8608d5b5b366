"""Controls of a run: the same training with its blocks frozen, removed, or with only the last few learning."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from creditscope.errors import InvalidInput, UnknownName
from creditscope.registry import did_you_mean

Kind = Literal["none", "frozen", "shallow", "ladder"]
RUNG = re.compile(r"ladder-(0|[1-9][0-9]*)")  # one spelling per rung, so that equal runs have equal keys


@dataclass(frozen=True, slots=True)
class Control:
    """none (the run itself), frozen, shallow, or rung k of the ladder: only the last k blocks learn."""

    kind: Kind = "none"
    rung: int | None = None

    @classmethod
    def parse(cls, text: str) -> Control:
        """A control from its name; anything else is refused."""
        if isinstance(text, str):
            match text:
                case "none" | "frozen" | "shallow":
                    return cls(text)
            if rung := RUNG.fullmatch(text):
                return cls("ladder", int(rung[1]))
        hint = did_you_mean(str(text), ["none", "frozen", "shallow", "ladder-1"])
        raise UnknownName(
            f"There is no control called {str(text)!r}.{hint}\n"
            "Known: none, frozen, shallow, ladder-0, ladder-1 and so on."
        )

    @classmethod
    def ladder(cls, depth: int) -> list[Control]:
        """The rungs of a network of `depth` blocks, from 0 to all blocks but the first."""
        return [cls("ladder", rung) for rung in range(depth)]

    def check(self, depth: int) -> None:
        """Refuse a rung that the ladder of a network of `depth` blocks does not have."""
        if self.rung is not None and not 0 <= self.rung <= depth:
            raise InvalidInput(
                f"The ladder has rungs 0 to {depth} on this network, got {self.rung}.\n"
                "The rung is the number of last blocks that learn. Choose one of these."
            )

    @property
    def trains_no_block(self) -> bool:
        """Whether no block learns, so that there is nothing to penalise."""
        return self.kind in ("frozen", "shallow") or self.rung == 0

    def __str__(self) -> str:
        return self.kind if self.rung is None else f"ladder-{self.rung}"
