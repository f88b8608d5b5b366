"""What do the words of a command line stand for?  Every refusal says what was expected."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from creditscope.errors import BadFile, InvalidInput
from creditscope.options import Option, Scalar

if TYPE_CHECKING:
    import torch

    from creditscope.stream.states import Read


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


def pairs(given: Sequence[str] | None, option: str, example: str) -> dict[str, Option]:
    """name=value, as often as it was given; the same name twice is an error."""
    found: dict[str, Option] = {}
    for text in given or ():
        name, separator, right = text.partition("=")
        if not separator or not name or not right:
            raise InvalidInput(
                f"{option} {text} is not of the form name=value.\nWrite, for example, {option} {example}."
            )
        if name in found:
            raise InvalidInput(
                f"{option} gives {name} twice: {found[name]} and {right}.\n"
                "It is not clear which one is meant. Give one."
            )
        found[name] = value(right)
    return found


def thresholds(given: Sequence[str] | None) -> dict[str, float]:
    """Limits by code."""
    found = {}
    for code, at in pairs(given, "--threshold", "D1=100").items():
        if not isinstance(at, int | float) or isinstance(at, bool):
            raise InvalidInput(f"--threshold {code}={at} is no number.\nA limit must be one, for example D1=100.")
        found[code] = float(at)
    return found


def read(text: str) -> Read:
    """A read rule: a word, or a token index. Which words there are the audit says."""
    found = value(text)
    return found if isinstance(found, int) else text  # type: ignore[return-value]  # checked by the audit


def blocks(text: str | None) -> str | list[str] | None:
    """The path of a list of blocks, or several module names with commas between them."""
    if text is None or "," not in text:
        return text
    return [name.strip() for name in text.split(",") if name.strip()]


def device(name: str) -> torch.device:
    """A device that can hold a number, or a clear refusal."""
    import torch

    try:
        found = torch.device(name)
        torch.zeros(1, device=found).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InvalidInput(
            f"The device {name!r} cannot be used: {reason}\nNothing was done. Take --device cpu, or one that is there."
        ) from error
    return found


def writable(path: Path, what: str = "The report") -> Path:
    """The path of a file that can be written, found out before any work is done; nothing is created."""
    nearest = next(folder for folder in path.absolute().parents if folder.exists())
    reason = (
        "it is a folder"
        if path.is_dir()
        else f"{nearest} is not a folder"
        if not nearest.is_dir()
        else f"no permission to write in {nearest}"
        if not os.access(path if path.exists() else nearest, os.W_OK)
        else ""
    )
    if reason:
        raise BadFile(f"{path} cannot be written: {reason}.\n{what} would be lost. Choose another place.")
    return path
