"""The command `new`: a runnable entry and its test, written from a template."""

from __future__ import annotations

import importlib.util
import keyword
import re
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from creditscope.commands import command, parsing, say
from creditscope.commands.entries import Kind, package, registry
from creditscope.errors import InvalidInput
from creditscope.files import write_text

NAME = re.compile(r"[a-z][a-z0-9_]*")


class Entry(StrEnum):
    """What can be added by one file and one decorator."""

    METHOD = "method"
    DIAGNOSTIC = "diagnostic"
    DATASET = "dataset"
    NETWORK = "network"
    FORMAT = "format"


@command("new")
def new(
    kind: Annotated[str, typer.Argument(metavar="|".join(Entry), help="What to add.", show_default=False)],
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name such as my_rule; for a diagnostic a code, X1.")],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder of the new files.")] = Path(),
) -> int:
    """Write a runnable method, diagnostic, dataset, network or report format of your own, and its test.

    The files are a plugin: use it with --plugin NAME. With the entry's own folder of a clone as FOLDER (such as
    src/creditscope/methods) the entry is found without --plugin, and its test is written below tests/.
    """
    wanted = Entry(parsing.choice("kind of entry", kind, list(Entry)))
    module = _checked(wanted, name)
    test_folder = _test_folder(wanted, out)
    plugin = test_folder is None
    entry, test = out / f"{module}.py", (test_folder or out) / f"test_{module}.py"
    for path in (entry, test):
        if path.exists():
            raise InvalidInput(
                f"{path} exists.\nIt would be lost, so nothing was written. Choose another name or folder."
            )
    if plugin and importlib.util.find_spec(module) is not None:
        raise InvalidInput(
            f"A module called {module!r} can be imported already.\n"
            "One of the two would hide the other. Choose another name."
        )
    for path, template in ((test, f"test_{kind}.py.txt"), (entry, f"{kind}.py.txt")):
        write_text(path, _filled(template, name, module, plugin=plugin))
    use = f"creditscope list {kind}s" + (f" --plugin {module}" if plugin else "")
    say(f"{entry}\n{test}\n\nTest it:  python -m pytest {test}\nSee it:   {use}")
    return 0


def _test_folder(kind: Entry, out: Path) -> Path | None:
    """Where tests of this kind are kept in a clone, if `out` is the folder of its entries; None for a plugin."""
    root, home = (Path(str(files(name))).resolve() for name in ("creditscope", package(_kind(kind))))
    tests = root.parents[1] / "tests"
    return tests / home.relative_to(root) if out.resolve() == home and tests.is_dir() else None


def _kind(kind: Entry) -> Kind:
    return Kind(f"{kind}s")


def _checked(kind: Entry, name: str) -> str:
    """The module's name, if the entry can have this name."""
    from creditscope.diagnostics import CODE

    if kind is Entry.DIAGNOSTIC:
        pattern, wanted = CODE, "capital letters and a number, such as X1"
    else:
        pattern, wanted = NAME, "a Python name in small letters, such as my_rule"
    if not pattern.fullmatch(name) or keyword.iskeyword(name):
        raise InvalidInput(f"A {kind} cannot be called {name!r}.\nThe name becomes a Python module. Use {wanted}.")
    if name in registry(_kind(kind)):
        raise InvalidInput(
            f"There is a {kind} called {name!r} already.\n"
            f"A record could not say which one it means. Choose another name; `creditscope list {kind}s` shows all."
        )
    return name.lower()


def _filled(template: str, name: str, module: str, *, plugin: bool) -> str:
    text = (files(__package__) / "templates" / template).read_text(encoding="utf-8")
    words = module.split("_")
    return Template(text).substitute(
        name=name,
        title=" ".join(words).capitalize(),
        classname="".join(word.capitalize() for word in words),
        import_line=f"\nimport {module}  # noqa: F401  registers it" if plugin else "",
    )
