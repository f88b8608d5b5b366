"""Imports point one way, and what needs no tensor imports no torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import creditscope

ROOT = Path(creditscope.__file__).parent
TYPING, LATER = "typing", "later"  # imported for type checkers only; inside a function

# What each part may import of ours. A part that is not listed here is free, as long as nothing becomes a circle; but a
# part that is listed imports nothing else, so that the newcomer stays above it.
MAY: dict[str, str] = {
    "errors": "",
    "batch": "",
    "intervals": "",
    "padding": "",
    "files": "errors",
    "registry": "errors",
    "verdict": "errors registry",
    "records": "errors files verdict",
    "hooks": "errors",
    "stream": "batch errors hooks",
    "contract": "errors hooks stream",
    "unwrapping": "errors",
    "observation": "hooks stream",
    "discovery": "errors hooks observation stream",
    "adapters": "batch contract discovery errors hooks registry stream unwrapping",
    "trace": "adapters batch errors",
    "guards": "adapters batch errors trace unwrapping",
    "twins": "adapters batch errors trace unwrapping",
    "incoming": "adapters batch errors trace",
    "norms": "errors",
    "evidence": "adapters credit_evidence errors norms trace verdict",
    "diagnostics": "aggregation intervals registry verdict",
    "probes": "adapters alignment batch credit_evidence errors evidence guards padding trace verdict",
    "networks": "batch errors registry",
    "datasets": "batch errors files registry",
    "methods": "alignment batch errors files networks padding registry trace",
    "report": "errors files intervals records verdict",
}
# Exceptions that cost nothing when the part is imported.
MAY_FOR_TYPES = {"diagnostics": "credit_evidence evidence"}
MAY_LATER = {"records": "report schema", "report": "schema"}


def part(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


@cache
def imported(path: Path) -> list[tuple[str, str]]:
    """Every (part of ours, when) that a file imports."""

    def names(node: ast.AST) -> list[str]:
        if isinstance(node, ast.ImportFrom) and node.module == "creditscope":
            return [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            return (
                [(node.module or "").removeprefix("creditscope.")]
                if (node.module or "").startswith("creditscope.")
                else []
            )
        if isinstance(node, ast.Import):
            return [alias.name[12:] for alias in node.names if alias.name.startswith("creditscope.")]
        return []

    def visit(node: ast.AST, when: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            inner = when
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                inner = TYPING
            elif isinstance(child, ast.FunctionDef | ast.Lambda) and when != TYPING:
                inner = LATER
            yield from ((name.partition(".")[0], when) for name in names(child) if not name.startswith("__"))
            yield from visit(child, inner)

    return list(visit(ast.parse(path.read_text(encoding="utf-8")), "at once"))


FILES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("name", MAY)
def test_a_part_imports_only_what_lies_below_it(name: str) -> None:
    for path in FILES:
        if part(path) != name:
            continue
        for other, when in imported(path):
            allowed = {name, *MAY[name].split()}
            allowed |= set(MAY_FOR_TYPES.get(name, "").split()) if when == TYPING else set()
            allowed |= set(MAY_LATER.get(name, "").split()) if when == LATER else set()
            assert other in allowed, f"{path.relative_to(ROOT)} imports creditscope.{other} {when}"


def test_methods_and_diagnostics_never_meet() -> None:
    for path in FILES:
        others = {other for other, _ in imported(path)}
        assert not (part(path) == "methods" and "diagnostics" in others)
        assert not (part(path) == "diagnostics" and "methods" in others)


def test_there_is_no_circle() -> None:
    below: dict[str, set[str]] = {}
    for path in FILES:
        others = {other for other, when in imported(path) if when == "at once" and other != part(path)}
        below.setdefault(part(path), set()).update(others)
    while below:
        free = {name for name, others in below.items() if not others & set(below)}
        assert free, f"these import each other: {below}"
        below = {name: others for name, others in below.items() if name not in free}


def test_every_part_of_the_diagram_exists() -> None:
    assert {part(path) for path in FILES} >= set(MAY)


@pytest.mark.parametrize(
    "statement",
    [
        "import creditscope; dir(creditscope); creditscope.__version__",
        "from creditscope import Report, CreditscopeError, Batch",
        "import creditscope.verdict, creditscope.records, creditscope.registry, creditscope.intervals",
        "from creditscope.diagnostics import diagnostics; [(e.question, e.formula) for e in diagnostics.values()]",
        "from creditscope.records import Report; Report.json_schema()",
    ],
)
def test_what_needs_no_tensor_imports_no_heavy_library(statement: str) -> None:
    heavy = "{'torch', 'scipy', 'ray', 'lightning', 'altair', 'tensorboard', 'pandas'}"
    code = f"{statement}\nimport sys\nprint(sorted({heavy} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip().splitlines()[-1] == "[]"


def test_an_unknown_name_is_an_attribute_error_and_the_public_ones_are_listed() -> None:
    with pytest.raises(AttributeError, match="module 'creditscope' has no attribute 'auditt'"):
        creditscope.auditt  # noqa: B018
    assert {"audit", "Report", "FAProtocol", "diagnose", "__version__"} <= set(dir(creditscope))
    for name in creditscope.__all__:
        assert getattr(creditscope, name) is not None
