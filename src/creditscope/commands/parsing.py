"""Values of the command line; every refusal says what was expected."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from creditscope.arguments import as_device
from creditscope.errors import BadFile, InvalidInput, UnknownName
from creditscope.files import unwritable
from creditscope.options import Option, Scalar
from creditscope.registry import unknown

if TYPE_CHECKING:
    import torch

    from creditscope.stream.reading import Read


def value(text: str) -> Option:
    """A whole number, a number, true or false, else the text itself; several with commas between them are a tuple."""
    parts = text.split(",")
    return scalar(text) if len(parts) == 1 else tuple(scalar(part.strip()) for part in parts if part.strip())


def scalar(text: str) -> Scalar:
    """One value of an option."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def number(given: str | float) -> Scalar:
    """A whole number or a number where the text is one, else the text, which whoever checks the value refuses."""
    parsed = scalar(str(given))
    return str(given) if isinstance(parsed, bool) else parsed


def choice(kind: str, name: str, known: Sequence[str]) -> str:
    """The name, if it is one of the known ones."""
    if name not in known:
        raise UnknownName(f"{unknown(kind, name, list(known))}\nNothing was done.")
    return name


def pairs(given: Sequence[str] | None, option: str, example: str) -> dict[str, Option]:
    """name=value, as often as it was given; the same name twice is an error."""
    values: dict[str, Option] = {}
    for text in given or ():
        name, separator, right = text.partition("=")
        if not separator or not name or not right:
            raise InvalidInput(
                f"{option} {text} is not of the form name=value.\nWrite, for example, {option} {example}."
            )
        if name in values:
            raise InvalidInput(
                f"{option} gives {name} twice: {values[name]} and {right}.\n"
                "It is not clear which one is meant. Give it once."
            )
        values[name] = value(right)
    return values


def thresholds(given: Sequence[str] | None) -> dict[str, float]:
    """Limits by code."""
    limits = {}
    for code, at in pairs(given, "--threshold", "D1=100").items():
        if not isinstance(at, int | float) or isinstance(at, bool):
            raise InvalidInput(f"--threshold {code}={at} is not a number.\nWrite a limit such as D1=100.")
        limits[code] = float(at)
    return limits


def read(text: str) -> Read:
    """A read rule: a word, which the audit checks, or a token index."""
    rule = value(text)
    return rule if isinstance(rule, int) else text  # type: ignore[return-value]  # checked by the audit


def blocks(text: str | None) -> str | list[str] | None:
    """The path of a list of blocks, or several module names with commas between them."""
    if text is None or "," not in text:
        return text
    return [name.strip() for name in text.split(",") if name.strip()]


def device(name: str) -> torch.device:
    """A device that can be used; any other is refused with the reason."""
    return as_device(name)


def writable(path: Path, what: str = "The report") -> Path:
    """The path, if a file can be written there; checked before any work is done, and nothing is created."""
    reason = "it is a folder" if path.is_dir() else unwritable(Path(os.path.realpath(path)).parent)
    if not reason and path.exists() and not os.access(path, os.W_OK):
        reason = "no permission to overwrite it"
    if reason:
        raise BadFile(f"{path} cannot be written: {reason}.\n{what} would be lost. Choose another place.")
    return path
