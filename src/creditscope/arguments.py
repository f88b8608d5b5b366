"""Checks of arguments where they enter: paths, texts, flags and functions; calls of a user's own functions."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from creditscope.errors import BadFile, CreditscopeError, FunctionFailed, InvalidInput
from creditscope.machine import machine_error
from creditscope.terminal import one_line

if TYPE_CHECKING:
    import torch


def as_path(given: Any) -> Path:
    """A path; what is none, or holds a NUL, which no file system takes, is refused."""
    named = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(named, str):
        raise InvalidInput(f"A {type(given).__name__} is not a path.\nNo file is meant by it. Pass a string or a Path.")
    if "\0" in named:
        raise BadFile(f"{one_line(named)} is not a path: it holds a NUL character.\nCheck the path.")
    return Path(named)


def as_text(what: str, given: Any) -> str:
    """A text that can be stored; bytes that the locale could not decode are read as UTF-8 if they are that."""
    if not isinstance(given, str):
        raise InvalidInput(
            f"{what} = {given!r} is a {type(given).__name__}, not a string.\n"
            "It could not be stored in the report. Pass a string."
        )
    try:
        text = given.encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError as error:
        raise InvalidInput(
            f"{what} = {one_line(given)!r} holds half characters, which are no text.\n"
            "It could not be written to a file. Pass text that is valid in UTF-8."
        ) from error
    if "\0" in text:
        raise InvalidInput(f"{what} = {one_line(text)!r} holds a NUL character.\nNo page can show it. Remove it.")
    return text


def as_count(what: str, given: Any) -> int:
    """A whole number of at least 0, of Python, NumPy or torch; anything else is refused."""
    try:
        count = -1 if isinstance(given, bool) else operator.index(given)
    except (TypeError, ValueError, RuntimeError):
        count = -1
    if not 0 <= count < 2**63:
        raise InvalidInput(
            f"{what} must be a whole number of at least 0, got {one_line(repr(given))}.\nPass the number itself."
        )
    return count


def as_device(given: Any) -> torch.device:
    """A device that can be used; any other is refused with the reason."""
    import torch

    try:
        chosen = torch.device(given)
        torch.zeros(1, device=chosen).item()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InvalidInput(
            f"The device {one_line(repr(given))} cannot be used: {reason}\n"
            "Nothing was done. Choose a device of this machine."
        ) from error
    return chosen


def check_flags(**given: object) -> None:
    """Refuse what is not True or False."""
    for what, flag in given.items():
        if not isinstance(flag, bool) and type(flag).__name__ not in ("bool", "bool_"):  # numpy has one of its own
            raise InvalidInput(
                f"{what} must be True or False, got {one_line(repr(flag))}.\nIt is not clear which was meant."
            )


def check_choice(what: str, given: object, choices: Sequence[str], because: str) -> None:
    """Refuse what is not one of a few words; `because` says what the choice decides."""
    if given not in choices:
        first, last = ", ".join(map(repr, choices[:-1])), repr(choices[-1])
        raise InvalidInput(
            f"{what} must be {first} or {last}, got {given!r}.\n"
            f"{because} Choose one of the {('two', 'three')[len(choices) - 2]}."
        )


def check_callable(what: str, function: object, wanted: str) -> None:
    """Refuse what cannot be called; `wanted` says which function to pass."""
    if function is not None and not callable(function):
        raise InvalidInput(
            f"{what} is a {type(function).__name__}, not a function.\nIt could not be called. Pass {wanted}."
        )


@contextmanager
def reported(told: Callable[[Exception], CreditscopeError]) -> Iterator[None]:
    """Report an error of somebody else's code as one of ours, the error itself beneath as its cause.

    Our own errors, and those of a machine that lacks something, pass as they are.
    """
    try:
        yield
    except CreditscopeError:
        raise
    except Exception as error:
        if machine_error(error) is not None:
            raise
        raise told(error) from error


def calling(what: str, wanted: str) -> AbstractContextManager[None]:
    """Report an error of a user's own function as such."""
    return reported(
        lambda error: FunctionFailed(
            f"{what} failed: {type(error).__name__}: {one_line(str(error), 200)}\n"
            f"There is nothing to measure without it. It must be {wanted}; its own traceback is above."
        )
    )
