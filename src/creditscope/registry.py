"""Registries: the entries of one folder by name, found by importing its files."""

from __future__ import annotations

import ast
import difflib
import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Generic, TypeVar

from creditscope.errors import CreditscopeError, UnknownName

T = TypeVar("T")
SHOWN = 40  # names in a message; a large network has hundreds of modules


class DuplicateName(CreditscopeError):
    """Two entries have the same name, so a record could not say which one it means."""


class Registry(Mapping[str, T], Generic[T]):
    """The entries of one folder; every file in it is imported at the first look-up."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self._package = package
        self._entries: dict[str, T] = {}
        self._complete = False

    def add(self, name: str, entry: T) -> T:
        """Add `entry` under `name`; the same name twice is an error."""
        if name in self._entries:
            raise DuplicateName(
                f"There are two {self.kind}s called {name!r}: {self._entries[name]!r} and {entry!r}.\n"
                "A record that names one of them could not be traced. Rename the newer one."
            )
        self._entries[name] = entry
        return entry

    def _load(self) -> None:
        if self._complete:
            return
        package = importlib.import_module(self._package)
        for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
            importlib.import_module(f"{self._package}.{module}")
        self._complete = True  # only now: after a failed import the next look-up tries again

    def summaries(self) -> dict[str, str]:
        """Name and summary of every entry, as written in its decorator: no file is imported, and so no torch."""
        named = {name: str(getattr(entry, "summary", "")) for name, entry in self._entries.items()}
        if not self._complete:
            folder = importlib.import_module(self._package).__path__
            named |= {k: v for path in folder for file in sorted(Path(path).glob("*.py")) for k, v in declared(file)}
        return {name: named[name] for name in sorted(named, key=natural_key)}

    def __getitem__(self, name: str) -> T:
        self._load()
        if name not in self:
            folder = self._package.replace(".", "/")
            raise UnknownName(unknown(self.kind, name, self._entries) + f" A new one is a file in {folder}/.")
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(sorted(self._entries, key=natural_key))

    def __len__(self) -> int:
        self._load()
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        self._load()
        return isinstance(name, str) and name in self._entries


def declared(file: Path) -> Iterator[tuple[str, str]]:
    """Name and summary of every entry of a file: the literals in decorators such as @method("dfa", summary="...")."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        for call in getattr(node, "decorator_list", ()):
            if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant):
                for keyword in call.keywords:
                    if keyword.arg == "summary" and isinstance(keyword.value, ast.Constant):
                        yield str(call.args[0].value), str(keyword.value.value)


@lru_cache(maxsize=4096)
def natural_key(name: str) -> tuple[tuple[bool, int, str], ...]:
    """Sorts names as a reader would: D2 before D10, the variant D1:april after D1.

    >>> sorted(["D10", "D2", "D1:april", "D1"], key=natural_key)
    ['D1', 'D1:april', 'D2', 'D10']
    """
    parts = re.findall(r"[0-9]+|[^0-9]+", name)  # a number is compared by its length, then by its digits
    return tuple((part[0].isascii() and part.isdecimal(), _length(part), part) for part in parts)


def _length(part: str) -> int:
    return len(part.lstrip("0")) if part[0].isascii() and part.isdecimal() else 0


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A hint at the closest known name, empty if none is close."""
    close = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def unknown(kind: str, name: object, known: Mapping[str, object] | list[str]) -> str:
    """The error message for an unknown name: the closest known one, and all of them."""
    names = sorted(known, key=natural_key)
    hint = did_you_mean(name, names)
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"There is no {kind} called {name!r}.{hint}\nKnown: {', '.join(names[:SHOWN]) or 'none'}{rest}."
