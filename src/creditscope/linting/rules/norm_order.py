"""CS001: `.norm(-1)`, where -1 is the order and not the axis."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from creditscope.linting.expressions import keyword, number, vocabulary
from creditscope.linting.rules import lint_rule
from creditscope.linting.source import SourceFile

# Functions whose second argument is the order; of x.norm() it is the first.
FUNCTIONS = vocabulary("torch.norm torch.linalg.norm torch.linalg.vector_norm numpy.linalg.norm jax.numpy.linalg.norm")


@lint_rule(
    "CS001",
    title="`norm(-1)` takes -1 as the order, not as the axis",
    message="norm(-1) is the L₋₁ norm of the whole tensor, not the norm along the last axis",
    why="The first argument is the order. The result is one number, dominated by the entry nearest to zero, and an "
    "exploded stream looks healthy.",
    fix="write norm(dim=-1) (NumPy: axis=-1)",
    page="1-norm-of-minus-one.md",
    wrong="size = h.norm(-1)\n",
    right="size = h.norm(dim=-1)\n",
)
def norm_order(source: SourceFile) -> Iterator[ast.expr]:
    """Calls of norm with a negative order and no axis."""
    for name, call, _ in source.calls:
        position = 1 if name in FUNCTIONS else 0
        is_norm = name in FUNCTIONS or (isinstance(call.func, ast.Attribute) and call.func.attr == "norm")
        if not is_norm or len(call.args) != position + 1 or keyword(call, "dim") or keyword(call, "axis"):
            continue
        order = number(call.args[position])
        if order is not None and order < 0:
            yield call
