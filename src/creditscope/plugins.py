"""Plugins: modules of the user's own, named on the command line or declared by an installed package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from creditscope.errors import CreditscopeError, InvalidInput, UnknownName
from creditscope.registry import did_you_mean

GROUP = "creditscope.plugins"
_vouched: set[str] = set()  # modules that the user named, on the command line or in code of his own


class FaultyPlugin(CreditscopeError):
    """A module of the user that cannot be imported."""


class UntrustedModule(CreditscopeError):
    """A module that a file names, and that the user did not: it is not imported."""


def vouch(modules: Iterable[str]) -> None:
    """Take modules as named by the user himself."""
    _vouched.update(modules)


def check_vouched(modules: Iterable[str], source: str) -> None:
    """Refuse to go on with a file that needs modules imported which the user did not name."""
    unknown = [name for name in dict.fromkeys(modules) if name not in _vouched]
    if not unknown:
        return
    raise UntrustedModule(
        f"{source} names code outside creditscope: {', '.join(unknown)}.\n"
        "A file that somebody sent could make creditscope run anything, so nothing was imported. "
        "If you know what is in them, pass --trust-plugins (in Python: trust_plugins=True), or name each plugin "
        "with --plugin."
    )


def load_plugin(name: str) -> ModuleType:
    """Import a module that registers entries, named by the user; the current folder is searched last."""
    vouch([name])
    with _current_folder_last():
        return _imported(name, f"The plugin {name!r}")


def load_installed_plugins() -> None:
    """Import every plugin that an installed package declares in the entry-point group `creditscope.plugins`."""
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        vouch([entry.module])
        _imported(entry.module, f"The installed plugin {entry.name!r} ({entry.value})")


def named_object(path: str) -> Any:
    """The object that `package.module:name` names; the current folder is searched last."""
    module_name, separator, name = path.partition(":")
    if not separator or not module_name or not name:
        raise InvalidInput(
            f"{path!r} does not name a function.\nNothing can be called. Write it as package.module:function."
        )
    with _current_folder_last():
        target: Any = _imported(module_name, f"The module {module_name!r}")
    for part in name.split("."):
        if not hasattr(target, part):
            hint = did_you_mean(part, (key for key in dir(target) if not key.startswith("_")))
            raise UnknownName(f"{module_name!r} has no {name!r}.{hint}\nCheck the name after the colon.")
        target = getattr(target, part)
    return target


def _imported(module: str, what: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except CreditscopeError as error:
        raise FaultyPlugin(f"{what} was refused: {error}") from error
    except (Exception, SystemExit) as error:  # `sys.exit(0)` there must not end an audit as passed
        raise FaultyPlugin(
            f"{what} cannot be imported: {type(error).__name__}: {error}\n"
            f'Nothing was registered. Check the module name and that `python -c "import {module}"` works.'
        ) from error


@contextmanager
def _current_folder_last() -> Iterator[None]:
    """Search the current folder too, after everything installed: a file there must not stand in for a library."""
    folder = str(Path.cwd())
    added = folder not in sys.path
    if added:
        sys.path.append(folder)
    try:
        yield
    finally:
        if added and folder in sys.path:
            sys.path.remove(folder)
