"""Mutation testing of what decides a verdict: change one comparison, number, sign or operator, and a test must fail.

python -m tests.faults.mutants [MODULE ...]   modules such as verdict or diagnostics/scale; default: all
"""

from __future__ import annotations

import ast
import copy
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "creditscope"
# The tests that must notice, by the beginning of a module's path.
TESTS = {
    "verdict": ["tests/test_verdict.py", "tests/diagnostics", "tests/contracts"],
    "diagnostics/": ["tests/diagnostics", "tests/contracts"],
    "evidence/": ["tests/evidence", "tests/diagnostics"],
    "statistics/": ["tests/statistics", "tests/diagnostics"],
    "stream/trace": ["tests/stream", "tests/evidence"],
    "methods/local": ["tests/methods"],
    "study/store": ["tests/study/test_store.py", "tests/study/test_driver.py", "tests/faults/test_trust.py"],
}
SECONDS = 300  # for the tests of one mutant
COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.FloorDiv: ast.Div,
}  # fmt: skip


def mutate(node: ast.AST) -> str:
    """Change a node in place; what was done, empty if there is nothing to change."""
    match node:
        case ast.Compare(ops=[operator, *_]):
            node.ops[0] = COMPARED[type(operator)]()
        case ast.BinOp(op=operator) if type(operator) in COMPUTED and not _is_text(node):
            node.op = COMPUTED[type(operator)]()
        case ast.BoolOp(op=operator):
            node.op = ast.Or() if isinstance(operator, ast.And) else ast.And()
        case ast.UnaryOp(op=ast.USub()):
            node.op = ast.UAdd()
        case ast.UnaryOp(op=ast.Not()):
            node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)
        case ast.Constant(value=bool(value)):
            node.value = not value
        case ast.Constant(value=int(value) | float(value)):
            node.value = value + 1
        case _:
            return ""
    return type(node).__name__


def _is_text(node: ast.BinOp) -> bool:
    """Whether an operation may be one on types or texts, such as int | None."""
    return any(isinstance(side, ast.JoinedStr | ast.List) for side in (node.left, node.right))


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """Every mutant of a module: its line, the line as it now reads, and the whole text."""
    tree = ast.parse(source)
    for index, node in enumerate(ast.walk(tree)):
        other = copy.deepcopy(tree)
        place = next(one for at, one in enumerate(ast.walk(other)) if at == index)
        if mutate(place):
            yield getattr(node, "lineno", 0), ast.unparse(place), ast.unparse(ast.fix_missing_locations(other))


def survives(module: str, text: str) -> bool:
    """Whether every test passes on a copy of the source with this text for the module."""
    tests = next(paths for start, paths in TESTS.items() if module.startswith(start))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cp", "-r", SOURCE.parent, folder], check=True)
        (Path(folder) / "src" / "creditscope" / f"{module}.py").write_text(text)
        environment = {
            **os.environ,
            "PYTHONPATH": f"{folder}/src",
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests]
        try:
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0


def modules() -> list[str]:
    """Every module that decides a verdict."""
    names = sorted(str(path.relative_to(SOURCE).with_suffix("")) for path in SOURCE.rglob("*.py"))
    return [name for name in names if any(name.startswith(start) for start in TESTS)]


def main(chosen: list[str]) -> int:
    """Try every mutant; print the survivors and how many there were."""
    tried = alive = 0
    for module in chosen or modules():
        for line, now, text in mutants((SOURCE / f"{module}.py").read_text()):
            tried += 1
            if survives(module, text):
                alive += 1
                print(f"survives: {module}.py:{line}: {now}", flush=True)  # noqa: T201
    print(f"{tried} mutants, {alive} survive")  # noqa: T201
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
