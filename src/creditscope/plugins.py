"""How does a user's own code come in?  By a module named on the command line, or by a package installed beside us."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from creditscope.errors import CreditscopeError, InvalidInput, UnknownName

GROUP = "creditscope.plugins"


class FaultyPlugin(CreditscopeError):
    """A module of the user's that cannot be imported."""


def load_plugin(name: str) -> ModuleType:
    """Import a module that registers entries of its own; the current folder is searched first."""
    with _current_folder_first():
        return _imported(name, f"The plugin {name!r}")


def load_installed_plugins() -> None:
    """Import every plugin that an installed package declares in the entry-point group `creditscope.plugins`."""
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        _imported(entry.module, f"The installed plugin {entry.name!r} ({entry.value})")


def named_object(path: str) -> Any:
    """What `package.module:name` names; the current folder is searched first."""
    module_name, separator, name = path.partition(":")
    if not separator or not module_name or not name:
        raise InvalidInput(
            f"{path!r} names no function.\n"
            "Without it there is no network to put the weights into. Write it as package.module:function."
        )
    with _current_folder_first():
        found: Any = _imported(module_name, f"The module {module_name!r}")
    for part in name.split("."):
        if not hasattr(found, part):
            public = [key for key in dir(found) if not key.startswith("_")]
            close = difflib.get_close_matches(part, public, n=1, cutoff=0.5)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise UnknownName(f"{module_name!r} has no {name!r}.{hint}\nCheck the name behind the colon.")
        found = getattr(found, part)
    return found


def _imported(module: str, what: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except CreditscopeError as error:
        raise FaultyPlugin(f"{what} was refused: {error}") from error
    except Exception as error:
        raise FaultyPlugin(
            f"{what} cannot be imported: {type(error).__name__}: {error}\n"
            "What it would have added is missing. Check its name, and that it imports without creditscope."
        ) from error


@contextmanager
def _current_folder_first() -> Iterator[None]:
    """Modules beside the user are found, as `python -m` would find them."""
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
