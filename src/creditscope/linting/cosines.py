"""Which expressions are cosines of two vectors, and of what."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from creditscope.linting.expressions import argument, assignments, keyword, takes_unknown_arguments
from creditscope.linting.source import NameScope, SourceFile, dotted

FUNCTIONS = ("torch.nn.functional.cosine_similarity", "torch.cosine_similarity")
MODULE = "torch.nn.CosineSimilarity"


@dataclass(frozen=True, slots=True)
class Cosine:
    """A call of torch's cosine: the two vectors, and whether the text says what eps is."""

    call: ast.Call
    vectors: tuple[ast.expr, ...]
    eps_given: bool


def cosines(source: SourceFile) -> Iterator[tuple[Cosine, NameScope]]:
    """Every call of cosine_similarity or of a CosineSimilarity module, with its scope."""
    modules = {
        dotted(target): _has_eps(value, 1)
        for scope in source.scopes
        for target, value in assignments(scope)
        if isinstance(value, ast.Call) and source.full_name(value.func) == MODULE and dotted(target)
    }
    for name, call, scope in source.calls:
        if name in FUNCTIONS:
            yield Cosine(call, _vectors(call), _has_eps(call, 3)), scope
        elif dotted(call.func) in modules:
            yield Cosine(call, _vectors(call), modules[dotted(call.func)]), scope
        elif isinstance(call.func, ast.Call) and source.full_name(call.func.func) == MODULE:
            yield Cosine(call, _vectors(call), _has_eps(call.func, 1)), scope


def _vectors(call: ast.Call) -> tuple[ast.expr, ...]:
    given = (argument(call, 0, "x1"), argument(call, 1, "x2"))
    return tuple(vector for vector in given if vector is not None)


def _has_eps(call: ast.Call, position: int) -> bool:
    return len(call.args) > position or keyword(call, "eps") is not None or takes_unknown_arguments(call)
