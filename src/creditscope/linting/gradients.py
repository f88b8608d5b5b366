"""Which expressions are gradients: by name, by `.grad`, and by what a name was assigned."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from creditscope.linting.expressions import assignments, method_called, vocabulary, words
from creditscope.linting.source import NameScope, SourceFile

NAMED = vocabulary("grad grads gradient gradients")
# Words that turn the name of a gradient into that of a number, a switch or a schedule.
NOT_A_DIRECTION = vocabulary(
    "norm norms clip clipping requires require no zero enabled fn scaler scale scaling accum accumulation steps step "
    "checkpoint checkpointing ckpt mask set has with check penalty cam size sizes shape bucket hook hooks sync "
    "enable disable is use ctx context descent"
)
GRAD_FUNCTIONS = ("torch.autograd.grad", "autograd.grad")
GRAD_TRANSFORMS = ("torch.func.grad", "jax.grad", "functorch.grad")
SAME_DIRECTION = vocabulary(  # methods and functions whose result still is the gradient
    "flatten view reshape ravel clone detach mean sum float double cpu cuda numpy to squeeze unsqueeze t contiguous "
    "permute transpose cat concat concatenate stack hstack asarray array tensor as_tensor list tuple half bfloat16 "
    "parameters_to_vector"
)


def is_gradient_name(name: str) -> bool:
    """Whether a name says that it holds a gradient."""
    parts = words(name)
    return bool(parts & NAMED) and not parts & NOT_A_DIRECTION


class Gradients:
    """What holds a gradient in one scope."""

    def __init__(self, source: SourceFile, scope: NameScope) -> None:
        self.source = source
        self.names: set[str] = set()
        size = -1
        while size < len(self.names):
            size = len(self.names)
            for outer in scope.outwards():
                for target, value in bindings(outer):
                    self._bind(target, value)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.names.update([target.id] if self.is_gradient(value) else [])
        elif isinstance(target, ast.Tuple | ast.List):
            values = value.elts if isinstance(value, ast.Tuple | ast.List) else [value] * len(target.elts)
            for inner, given in zip(target.elts, values, strict=False):
                self._bind(inner, given)

    def is_gradient(self, node: ast.expr) -> bool:
        """Whether an expression is a gradient, in any shape or several of them in a list."""
        if isinstance(node, ast.Name):
            return node.id in self.names or is_gradient_name(node.id)
        if isinstance(node, ast.Attribute):
            return is_gradient_name(node.attr) or (node.attr in ("T", "data") and self.is_gradient(node.value))
        if isinstance(node, ast.Call):
            return self._is_gradient_call(node)
        return any(map(self.is_gradient, _parts(node)))

    def _is_gradient_call(self, call: ast.Call) -> bool:
        name = self.source.full_name(call.func)
        if name in GRAD_FUNCTIONS:
            return True
        if isinstance(call.func, ast.Call):
            return self.source.full_name(call.func.func) in GRAD_TRANSFORMS
        if method_called(call) not in SAME_DIRECTION:
            return False
        of_a_tensor = isinstance(call.func, ast.Attribute) and self.is_gradient(call.func.value)
        return of_a_tensor or any(map(self.is_gradient, call.args[:1]))


def _parts(node: ast.expr) -> list[ast.expr]:
    """The parts of an expression that make it a gradient if they are one."""
    match node:
        case ast.Subscript() | ast.Starred() | ast.NamedExpr():
            return [node.value]
        case ast.UnaryOp():
            return [node.operand]
        case ast.IfExp():
            return [node.body, node.orelse]
        case ast.List() | ast.Tuple():
            return node.elts
        case ast.ListComp() | ast.GeneratorExp():
            return [node.elt]
        case ast.BinOp(op=ast.Mult() | ast.Div()):  # a scaled gradient
            return [side for side in (node.left, node.right) if not isinstance(side, ast.BinOp)]
    return []


def bindings(scope: NameScope) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Every (target, value) of a scope: assignments, and the variables of loops with what they run over."""
    yield from assignments(scope)
    for loop in scope.of(ast.For):
        yield from _loop(loop.target, loop.iter)
    for part in scope.of(ast.comprehension):
        yield from _loop(part.target, part.iter)


def _loop(target: ast.expr, over: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The variables of `for a, g in zip(credit, gradients)`, each with its own list."""
    if isinstance(over, ast.Call) and isinstance(target, ast.Tuple):
        function = method_called(over)
        if function == "enumerate" and over.args and len(target.elts) == 2:
            yield from _loop(target.elts[1], over.args[0])
            return
        if function == "zip":
            yield from zip(target.elts, over.args, strict=False)
            return
    if isinstance(target, ast.Name):
        yield target, over
