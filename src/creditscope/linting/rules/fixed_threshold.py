"""CS009: the gradient of a mean loss, compared with a fixed threshold."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from creditscope.linting.expressions import assignments, keyword, method_called, number, vocabulary, words
from creditscope.linting.gradients import NAMED, Gradients
from creditscope.linting.rules import lint_rule
from creditscope.linting.source import NameScope, SourceFile, dotted

LOSSES = vocabulary(
    "cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss binary_cross_entropy binary_cross_entropy_with_logits"
)
LOSS_CLASSES = vocabulary("CrossEntropyLoss NLLLoss MSELoss L1Loss SmoothL1Loss BCELoss BCEWithLogitsLoss")
LARGEST = 1e-3  # thresholds above it bound a gradient from above, as clipping does
SIZES = vocabulary("norm vector_norm abs")
SUMMARIES = vocabulary("item median mean max min amax amin quantile float cpu values float32 detach")


@lint_rule(
    "CS009",
    title="gradient of a mean loss compared with a fixed threshold",
    message="the gradient of a mean loss is compared with a fixed threshold",
    why="A mean over N samples divides each sample's gradient by N. Whether the threshold is passed depends on the "
    "batch size.",
    fix='use each sample\'s own loss (reduction="sum"), or a ratio that has no units',
    page="13-threshold-on-a-mean-loss.md",
    wrong="import torch.nn.functional as F\n\nloss = F.cross_entropy(model(x), y)\nloss.backward()\n"
    "vanished = h.grad.norm() < 1e-7\n",
    right='import torch.nn.functional as F\n\nloss = F.cross_entropy(model(x), y, reduction="sum")\nloss.backward()\n'
    "vanished = h.grad.norm(dim=-1).median() < 1e-5\n",
)
def fixed_threshold(source: SourceFile) -> Iterator[ast.expr]:
    """Comparisons of a gradient's size with a small constant, where the loss is a mean."""
    criteria = _criteria(source)
    for scope in source.scopes:
        comparisons = [node for node in scope.of(ast.Compare) if _threshold(node) is not None]
        if not comparisons or not _has_mean_loss(source, scope, criteria):
            continue
        gradients = Gradients(source, scope)
        names = {
            target.id
            for target, value in assignments(scope)
            if isinstance(target, ast.Name) and _is_size(value, gradients, frozenset())
        }
        for node in comparisons:
            side = _threshold(node)
            if side is not None and _is_size(side, gradients, frozenset(names)):
                yield node


def _threshold(node: ast.Compare) -> ast.expr | None:
    """What is compared with a small constant other than zero, if that is what the comparison does."""
    if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
        return None
    for side, other in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
        value = number(other)
        if value is not None and 0 < value <= LARGEST:
            return side
    return None


def _is_size(node: ast.expr, gradients: Gradients, names: frozenset[str]) -> bool:
    """Whether an expression is the norm or the absolute value of a gradient; differences and ratios are not."""
    while True:
        if isinstance(node, ast.Name):
            return node.id in names or (bool(words(node.id) & NAMED) and bool(words(node.id) & {"norm", "norms"}))
        if isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
            continue
        if not isinstance(node, ast.Call):
            return False
        called = method_called(node)
        inner = node.func.value if isinstance(node.func, ast.Attribute) else None
        given = [side for side in (inner, *node.args[:1]) if side is not None]
        if called in SIZES and any(map(gradients.is_gradient, given)):
            return True
        if called not in SIZES | SUMMARIES or not given:
            return False
        node = given[-1] if inner is None or (isinstance(inner, ast.Name) and node.args) else given[0]


def _criteria(source: SourceFile) -> dict[str, bool]:
    """The losses that a file creates as objects, by name: whether they take a mean."""
    return {
        dotted(target): _takes_mean(value)
        for scope in source.scopes
        for target, value in assignments(scope)
        if isinstance(value, ast.Call) and method_called(value) in LOSS_CLASSES
    }


def _has_mean_loss(source: SourceFile, scope: NameScope, criteria: dict[str, bool]) -> bool:
    """Whether every loss of a scope is a mean, and there is one."""
    means = [_takes_mean(call) for call in scope.of(ast.Call) if method_called(call) in LOSSES]
    means += [criteria[dotted(call.func)] for call in scope.of(ast.Call) if dotted(call.func) in criteria]
    return bool(means) and all(means)


def _takes_mean(call: ast.Call) -> bool:
    reduction = keyword(call, "reduction")
    return reduction is None or (isinstance(reduction, ast.Constant) and reduction.value == "mean")
