"""Progress of long measurements: the library names its steps, and whoever listens shows them.

>>> with listening(lambda step: print(step.name, step.done, step.total)):
...     sizes = [len(word) for word in steps("reading words", ["a", "bc"])]
reading words 0 2
reading words 1 2
reading words 2 2
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """What is being done, how much of it is done, and of how much; None if that is not known."""

    name: str
    done: int = 0
    total: int | None = None


Listener = Callable[[Step], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call `listener` with every step that is taken inside, an audit's among them."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def step(name: str, done: int = 0, total: int | None = None) -> None:
    """Tell the listener, if there is one."""
    listener = _listener.get()
    if listener is not None:
        listener(Step(name, done, total))


def steps(name: str, items: Iterable[T]) -> Iterator[T]:
    """The items, with a step before each and one after the last."""
    total, done = len(items) if isinstance(items, Sized) else None, 0
    for item in items:
        step(name, done, total)
        yield item
        done += 1
    step(name, done, total)
