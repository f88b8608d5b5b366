"""CS010: Γ averaged over layers before it is printed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from creditscope.linting.expressions import (
    assignments,
    identifiers,
    log_calls,
    mentions,
    method_called,
    vocabulary,
    words,
)
from creditscope.linting.gradients import is_gradient_name
from creditscope.linting.rules import lint_rule
from creditscope.linting.source import NameScope, SourceFile

COSINE = vocabulary("cos cosine cosines gamma align alignment angle")
LAYERS = vocabulary(
    "layer layers block blocks param params parameters module modules weights depth grads gradients hiddens "
    "states credit credits"
)
SAMPLES = vocabulary("batch batches loader dataloader epoch epochs seed seeds iteration iterations")
MEANS = vocabulary("mean nanmean fmean average")


@lint_rule(
    "CS010",
    title="Γ averaged over layers before printing",
    message="the cosines of all layers are averaged before they are printed",
    why="One aligned layer, often the embedding below all blocks, can carry the mean while the rest are at chance.",
    fix="print one number per layer; a mean may stand beside them",
    page="6-the-aggregate-hides-layers.md",
    wrong="gammas = [cosine(a, g) for a, g in zip(credit, gradients)]\nprint(sum(gammas) / len(gammas))\n",
    right="gammas = [cosine(a, g) for a, g in zip(credit, gradients)]\nprint(gammas, sum(gammas) / len(gammas))\n",
)
def averaged_layers(source: SourceFile) -> Iterator[ast.expr]:
    """Printed means of a list of cosines, one per layer, that is used for nothing else."""
    logs: dict[NameScope, list[ast.Call]] = {}
    for call, scope in log_calls(source):
        logs.setdefault(scope, []).append(call)
    for scope, calls in logs.items():
        for name in sorted(_cosines_per_layer(scope)):
            means = [node for node in scope.nodes if isinstance(node, ast.expr) and _is_mean(node, name)]
            if means and not _used_otherwise(scope, name, means):
                yield from _printed(scope, means, calls)


def _cosines_per_layer(scope: NameScope) -> set[str]:
    """The names of lists that hold a cosine with a gradient for every layer."""
    names = set()
    for target, value in assignments(scope):
        if isinstance(target, ast.Name) and isinstance(value, ast.ListComp):
            loops = value.generators
            if len(loops) == 1 and _over_layers(loops[0].iter) and _is_cosine(value.elt, loops[0].iter):
                names.add(target.id)
    for loop in scope.of(ast.For):
        inner = {
            node
            for other in ast.walk(loop)
            if isinstance(other, ast.For) and other is not loop
            for node in ast.walk(other)
        }
        for call in (node for node in ast.walk(loop) if isinstance(node, ast.Call) and node not in inner):
            owner = getattr(call.func, "value", None)
            filled = method_called(call) == "append" and isinstance(owner, ast.Name) and len(call.args) == 1
            if (
                filled
                and isinstance(owner, ast.Name)
                and _over_layers(loop.iter)
                and _is_cosine(call.args[0], loop.iter)
            ):
                names.add(owner.id)
    return names


def _over_layers(iterated: ast.expr) -> bool:
    return mentions(iterated, LAYERS) and not mentions(iterated, SAMPLES)


def _is_cosine(element: ast.expr, iterated: ast.expr) -> bool:
    """Whether an element is a cosine, and gradients are in it or in what the loop runs over."""
    called = [method_called(node) for node in ast.walk(element) if isinstance(node, ast.Call)]
    names = [*identifiers(element), *identifiers(iterated)]
    return any(words(name) & COSINE for name in called) and any(map(is_gradient_name, names))


def _is_mean(node: ast.expr, name: str) -> bool:
    """Whether an expression is the mean of a list: np.mean(x), torch.stack(x).mean(), sum(x) / len(x)."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        parts = (node.left, node.right)
        return [method_called(part) for part in parts if isinstance(part, ast.Call)] == ["sum", "len"] and all(
            name in identifiers(part) for part in parts
        )
    return isinstance(node, ast.Call) and method_called(node) in MEANS and name in identifiers(node)


def _used_otherwise(scope: NameScope, name: str, means: list[ast.expr]) -> bool:
    """Whether the list is read outside these means: then the layers may be shown one by one."""
    inside = {node for mean in means for node in ast.walk(mean)}
    inside |= {getattr(call.func, "value", call) for call in scope.of(ast.Call) if method_called(call) == "append"}
    reads = (node for node in scope.of(ast.Name) if node.id == name and isinstance(node.ctx, ast.Load))
    return any(node not in inside for node in reads)


def _printed(scope: NameScope, means: list[ast.expr], calls: list[ast.Call]) -> Iterator[ast.expr]:
    """The first mean that is printed, directly or under a name."""
    names = {target.id for target, value in assignments(scope) if value in means and isinstance(target, ast.Name)}
    for call in calls:
        given = [node for argument in call.args for node in ast.walk(argument)]
        if any(node in means or (isinstance(node, ast.Name) and node.id in names) for node in given):
            yield call
            return
