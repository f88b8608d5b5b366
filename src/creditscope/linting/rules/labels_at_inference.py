"""CS008: labels handed to the network whose predictions are compared with them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from creditscope.linting.expressions import (
    assignments,
    blocks_without_gradients,
    identifiers,
    is_evaluation,
    method_called,
    vocabulary,
    words,
)
from creditscope.linting.rules import lint_rule
from creditscope.linting.source import NameScope, SourceFile

LABELS = vocabulary("y ys label labels target targets")
ARGMAX = vocabulary("argmax max topk")
NOT_A_NETWORK = vocabulary("criterion loss losses metric metrics accuracy acc score collate mixup zip")
FORWARD = vocabulary("forward predict infer")


@lint_rule(
    "CS008",
    title="labels handed to inference",
    message="the labels are passed to the network whose predictions are then compared with them",
    why="If any path leads from them to the logits, the accuracy is that of the labels, not of the network.",
    fix="predict from the inputs alone, and compare with the labels afterwards",
    page="12-labels-at-inference.md",
    wrong="import torch\n\n\n@torch.no_grad()\ndef evaluate(model, x, y):\n    logits = model(x, y)\n"
    "    return (logits.argmax(1) == y).float().mean()\n",
    right="import torch\n\n\n@torch.no_grad()\ndef evaluate(model, x, y):\n    logits = model(x)\n"
    "    return (logits.argmax(1) == y).float().mean()\n",
)
def labels_at_inference(source: SourceFile) -> Iterator[ast.expr]:
    """Calls of a network in an evaluation with the labels that its largest output is compared with."""
    for scope in source.scopes:
        compared = _compared(scope)
        if not compared:
            continue
        predicted = _predicted(scope)
        outputs = {value: target for target, value in assignments(scope) if isinstance(target, ast.Name)}
        for call in _inference_calls(scope):
            target = outputs.get(call)
            used = call in predicted or (isinstance(target, ast.Name) and target.id in _names(predicted))
            if used and _is_network(call) and _handed(call) & compared:
                yield call


def _inference_calls(scope: NameScope) -> Iterator[ast.Call]:
    """The calls of an evaluation: all of an evaluating function, or those in its blocks without gradients."""
    if is_evaluation(scope):
        yield from scope.of(ast.Call)
        return
    blocks = {node for block in blocks_without_gradients(scope) for node in ast.walk(block)}
    yield from (call for call in scope.of(ast.Call) if call in blocks)


def _predicted(scope: NameScope) -> set[ast.expr]:
    """What the scope takes the largest entry of: `out` in out.argmax(1) and in torch.max(out, 1)."""
    values = set()
    for call in scope.of(ast.Call):
        if method_called(call) in ARGMAX and isinstance(call.func, ast.Attribute):
            values |= {call.func.value, *call.args[:1]}
    return values


def _names(values: set[ast.expr]) -> set[str]:
    """The plain names among values; of out.data too, but not of out.logits, where labels only give a loss."""
    inner = {value.value if isinstance(value, ast.Attribute) and value.attr == "data" else value for value in values}
    return {value.id for value in inner if isinstance(value, ast.Name)}


def _compared(scope: NameScope) -> set[str]:
    """The names of labels that something is compared with, by == or .eq()."""
    sides: list[ast.expr] = []
    for node in scope.of(ast.Compare):
        if any(isinstance(operator, ast.Eq) for operator in node.ops):
            sides += [node.left, *node.comparators]
    for call in scope.of(ast.Call):
        if method_called(call) in ("eq", "equal"):
            sides += [getattr(call.func, "value", call), *call.args]
    plain = (side for side in sides if not isinstance(side, ast.Constant))
    return {name for side in plain for name in identifiers(side) if words(name) & LABELS}


def _handed(call: ast.Call) -> set[str]:
    """The plain names among the arguments after the inputs, and among the keywords."""
    given = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
    return {value.id for value in given if isinstance(value, ast.Name)}


def _is_network(call: ast.Call) -> bool:
    """Whether a call may be that of a network: f(x), self.model(x), model.forward(x)."""
    if isinstance(call.func, ast.Attribute):
        own = isinstance(call.func.value, ast.Name) and call.func.value.id == "self"
        if not own and call.func.attr not in FORWARD:
            return False
    return not words(method_called(call)) & NOT_A_NETWORK
