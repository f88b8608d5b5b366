"""What does a registered method or network say about itself?  Read from its source, so that nothing is imported."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

FOLDERS = {"method": "methods", "network": "networks", "dataset": "datasets"}


@dataclass(frozen=True, slots=True)
class Entry:
    """The description of one registered entry and the defaults of its options."""

    summary: str = ""
    formula: str = ""
    defaults: dict[str, Any] = field(default_factory=dict)


def entry(kind: str, name: str) -> Entry:
    """The entry of that name; an empty one for a plugin's, whose source is elsewhere."""
    return _entries(kind).get(name, Entry())


@cache
def _entries(kind: str) -> dict[str, Entry]:
    """Every class or function below the kind's decorator, from the files of its folder."""
    folder = files("creditscope").joinpath(FOLDERS[kind])
    found: dict[str, Entry] = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".py"):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef | ast.FunctionDef):
                    found |= {name: _described(node) for name in _names(node, kind)}
    return found


def _names(node: ast.ClassDef | ast.FunctionDef, kind: str) -> list[str]:
    calls = [call for call in node.decorator_list if isinstance(call, ast.Call) and call.args]
    return [
        str(call.args[0].value)
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == kind and isinstance(call.args[0], ast.Constant)
    ]


def _described(node: ast.ClassDef | ast.FunctionDef) -> Entry:
    text = ast.get_docstring(node) or ""
    indented = [line.strip() for line in text.splitlines() if line.startswith("    ") and line.strip()]
    return Entry(text.partition("\n")[0], " ".join(" ".join(indented[:2]).split()), _defaults(node))


def _defaults(node: ast.ClassDef | ast.FunctionDef) -> dict[str, Any]:
    """Options with a constant default: fields of a dataclass, or keyword parameters."""
    if isinstance(node, ast.FunctionDef):
        return _keywords(node.args)
    inside = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
    fields = [part for part in node.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)]
    own = {ast.unparse(part.target): part.value.value for part in fields if isinstance(part.value, ast.Constant)}
    return own | (_keywords(inside[0].args) if inside else {})


def _keywords(arguments: ast.arguments) -> dict[str, Any]:
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {argument.arg: default.value for argument, default in pairs if isinstance(default, ast.Constant)}
