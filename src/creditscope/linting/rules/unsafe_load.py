"""CS005: torch.load without weights_only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from creditscope.linting.expressions import keyword, takes_unknown_arguments
from creditscope.linting.rules import lint_rule
from creditscope.linting.source import SourceFile


@lint_rule(
    "CS005",
    title="`torch.load` without `weights_only`",
    message="torch.load without weights_only=",
    why="Before torch 2.6 the default is to unpickle, which runs whatever code the file holds: code that can change "
    "the seed, the model or the measurement. The same line does two things in two versions.",
    fix="pass weights_only=True, or keep weights as safetensors",
    page="9-pickled-checkpoints.md",
    wrong='import torch\n\nmodel.load_state_dict(torch.load("weights.pt"))\n',
    right='import torch\n\nmodel.load_state_dict(torch.load("weights.pt", weights_only=True))\n',
)
def unsafe_load(source: SourceFile) -> Iterator[ast.expr]:
    """Calls of torch.load that do not say weights_only, unless one that does was tried first."""
    fallbacks = set(_fallbacks(source))
    for call in source.calls_of("torch.load"):
        if not _says(call) and call not in fallbacks:
            yield call


def _says(call: ast.Call) -> bool:
    return keyword(call, "weights_only") is not None or takes_unknown_arguments(call)


def _fallbacks(source: SourceFile) -> Iterator[ast.AST]:
    """What stands in the except clauses after a torch.load with weights_only: for a torch without that argument."""
    for scope in source.scopes:
        for attempt in scope.of(ast.Try):
            tried = [node for statement in attempt.body for node in ast.walk(statement) if isinstance(node, ast.Call)]
            if any(source.full_name(call.func) == "torch.load" and keyword(call, "weights_only") for call in tried):
                for handler in attempt.handlers:
                    yield from ast.walk(handler)
