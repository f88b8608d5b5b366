"""CS003: one cosine of the gradients of all layers, concatenated."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from creditscope.linting.cosines import cosines
from creditscope.linting.expressions import assignments, identifiers, method_called, number, vocabulary
from creditscope.linting.gradients import SAME_DIRECTION, Gradients
from creditscope.linting.rules import lint_rule
from creditscope.linting.source import NameScope, SourceFile

CONCATENATE = vocabulary("cat concat concatenate hstack")
PRODUCTS = vocabulary("dot vdot inner mul matmul einsum")
NORM = vocabulary("norm vector_norm")


@lint_rule(
    "CS003",
    title="one cosine of the concatenated gradients of the whole network",
    message="the cosine is taken of the gradients of all layers, concatenated",
    why="The layer with the largest gradient decides the number. It stays near 1 where every other layer is at chance.",
    fix="take one cosine per layer, and report all of them",
    page="8-concatenated-gradients.md",
    wrong="import torch\n\n"
    "flat = torch.cat([p.grad.flatten() for p in model.parameters()])\n"
    "gamma = torch.cosine_similarity(credit, flat, dim=0, eps=1e-30)\n",
    right="import torch\n\n"
    "gammas = [\n    torch.cosine_similarity(a.flatten(), p.grad.flatten(), dim=0, eps=1e-30)\n"
    "    for a, p in zip(credit, model.parameters())\n]\n",
)
def concatenated_cosine(source: SourceFile) -> Iterator[ast.expr]:
    """Cosines, torch's or written out, of a concatenation of flattened gradients."""
    if not any(method_called(call) in CONCATENATE for _, call, _ in source.calls):
        return
    views = {scope: _Concatenations(source, scope) for scope in source.scopes}
    functions = {scope.name for scope, view in views.items() if view.is_returned()} - {""}
    for view in views.values():
        view.collect(functions)
    for cosine, scope in cosines(source):
        if any(map(views[scope].is_concatenation, cosine.vectors)):
            yield cosine.call
    for scope, view in views.items():
        yield from (node for node in scope.of(ast.BinOp) if view.is_written_out_cosine(node))


class _Concatenations:
    """Which names of a scope hold the concatenated gradients of several layers."""

    def __init__(self, source: SourceFile, scope: NameScope) -> None:
        self.scope = scope
        self.gradients = Gradients(source, scope)
        self.lists: set[str] = set()
        self.names: set[str] = set()
        self.functions: set[str] = set()
        self.collect(set())

    def collect(self, functions: set[str]) -> None:
        """Find lists of flattened gradients and what is concatenated from them."""
        self.functions |= functions
        for call in self.scope.of(ast.Call):
            if method_called(call) == "append" and len(call.args) == 1 and self._is_flattened(call.args[0]):
                self.lists |= {owner.id for owner in [getattr(call.func, "value", None)] if isinstance(owner, ast.Name)}
        for target, value in assignments(self.scope):
            if isinstance(target, ast.Name):
                self.lists |= {target.id} if self._is_list(value) else set()
                self.names |= {target.id} if self.is_concatenation(value) else set()

    def is_returned(self) -> bool:
        """Whether the function returns a concatenation."""
        return any(node.value is not None and self.is_concatenation(node.value) for node in self.scope.of(ast.Return))

    def is_concatenation(self, node: ast.expr) -> bool:
        """Whether an expression is the concatenation of the gradients of several layers."""
        node = _stripped(node)
        if isinstance(node, ast.Name):
            return node.id in self.names
        if not isinstance(node, ast.Call):
            return False
        called = method_called(node)
        return called in self.functions or (called in CONCATENATE and bool(node.args) and self._is_list(node.args[0]))

    def is_written_out_cosine(self, node: ast.BinOp) -> bool:
        """Whether an expression is a·b / (‖a‖ ‖b‖) with a concatenation a."""
        if not isinstance(node.op, ast.Div) or not any(map(_multiplies, ast.walk(node.left))):
            return False
        norms = [call for call in ast.walk(node.right) if isinstance(call, ast.Call) and method_called(call) in NORM]
        return any(self.names & set(identifiers(call)) & set(identifiers(node.left)) for call in norms)

    def _is_list(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self.lists
        return isinstance(node, ast.ListComp | ast.GeneratorExp) and self._is_flattened(node.elt)

    def _is_flattened(self, node: ast.expr) -> bool:
        """Whether an expression is a gradient flattened to one axis."""
        while isinstance(node, ast.Call):
            called, owner = method_called(node), getattr(node.func, "value", None)
            to_one_axis = [number(arg) for arg in node.args] == [-1] if called in ("view", "reshape") else not node.args
            if called in ("view", "reshape", "flatten", "ravel") and to_one_axis:
                return owner is not None and self.gradients.is_gradient(owner)
            if called in ("flatten", "ravel") and len(node.args) == 1:  # torch.flatten(g)
                return self.gradients.is_gradient(node.args[0])
            if called not in SAME_DIRECTION or owner is None:
                return False
            node = owner
        return False


def _multiplies(node: ast.AST) -> bool:
    """Whether a node is a product of two vectors."""
    if isinstance(node, ast.Call):
        return method_called(node) in PRODUCTS
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.MatMult)


def _stripped(node: ast.expr) -> ast.expr:
    """The expression without .detach(), .unsqueeze(0) and their kin, and without [None]."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and method_called(node) in SAME_DIRECTION - CONCATENATE
        ):
            node = node.func.value
        else:
            return node
