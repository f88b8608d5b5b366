"""Facts about expressions that several rules ask for: words in names, keywords, contexts of a call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from creditscope.linting.source import NameScope, SourceFile, dotted


def vocabulary(text: str) -> frozenset[str]:
    """The words of a text, as a set to compare names with."""
    return frozenset(text.split())


WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+")
EVALUATION = vocabulary(
    "test testing eval evaluate evaluation val valid validate validation predict prediction infer inference"
)
WITHOUT_GRADIENTS = ("no_grad", "inference_mode")
LOGGING = vocabulary("print info log log_dict log_metrics add_scalar write debug warning")


@lru_cache(maxsize=1 << 16)
def words(name: str) -> frozenset[str]:
    """The words of a name or a text in small letters, without digits.

    >>> sorted(words("grad_layer1")), sorted(words("DirectFeedback"))
    (['grad', 'layer'], ['direct', 'feedback'])
    """
    return frozenset(word.lower() for word in WORD.findall(name))


def identifiers(node: ast.AST) -> Iterator[str]:
    """Every name and attribute in an expression."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Attribute):
            yield inner.attr


def mentions(node: ast.AST, wanted: frozenset[str]) -> bool:
    """Whether a name in an expression has one of the wanted words."""
    return any(words(name) & wanted for name in identifiers(node))


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword of a call."""
    return next((given.value for given in call.keywords if given.arg == name), None)


def takes_unknown_arguments(call: ast.Call) -> bool:
    """Whether a call passes on *args or **kwargs, which may hold any argument."""
    return any(given.arg is None for given in call.keywords) or any(isinstance(arg, ast.Starred) for arg in call.args)


def argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """An argument, whether it is given by its position or by its name."""
    return call.args[position] if position < len(call.args) else keyword(call, name)


def number(node: ast.AST | None) -> float | None:
    """The value of a number in the text, with its sign."""
    sign = 1
    while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        sign = -sign if isinstance(node.op, ast.USub) else sign
        node = node.operand
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return sign * node.value
    return None


def assignments(scope: NameScope) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Every (target, value) of a scope, one for each target."""
    for statement in scope.of(ast.Assign):
        yield from ((target, statement.value) for target in statement.targets)
    yield from ((node.target, node.value) for node in scope.of(ast.AnnAssign) if node.value is not None)
    yield from ((walrus.target, walrus.value) for walrus in scope.of(ast.NamedExpr))


def method_called(call: ast.Call) -> str:
    """The last part of what is called: `norm` for both x.norm() and norm(x)."""
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def switches_gradients_off(node: ast.AST) -> bool:
    """Whether an expression is torch.no_grad or torch.inference_mode, called or not."""
    func = node.func if isinstance(node, ast.Call) else node
    return dotted(func).rpartition(".")[2] in WITHOUT_GRADIENTS


def blocks_without_gradients(scope: NameScope) -> Iterator[ast.With]:
    """The `with torch.no_grad():` blocks of a scope."""
    for block in scope.of(ast.With):
        if any(switches_gradients_off(item.context_expr) for item in block.items):
            yield block


def is_evaluation(scope: NameScope) -> bool:
    """Whether a function evaluates, by its name or because it runs without gradients."""
    return bool(words(scope.name) & EVALUATION) or any(map(switches_gradients_off, scope.decorators))


def log_calls(source: SourceFile) -> Iterator[tuple[ast.Call, NameScope]]:
    """Every call that prints or logs, with its scope."""
    return ((call, scope) for _, call, scope in source.calls if method_called(call) in LOGGING)
