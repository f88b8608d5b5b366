"""CS004: feedback that is drawn at random and neither registered nor saved."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from creditscope.linting.expressions import assignments, identifiers, keyword, method_called, vocabulary, words
from creditscope.linting.rules import lint_rule
from creditscope.linting.source import NameScope, SourceFile

FEEDBACK = vocabulary("feedback feedbacks fb")
MATRIX = re.compile(r"B(s|_\w+|\d+)?|backward_weights?|weights?_backward")  # where a file speaks of feedback
DRAWS = re.compile(
    r"(torch\.(randn?|randn?_like|normal)|numpy\.random\.(randn?|normal|uniform|standard_normal)|.*\.(normal_|uniform_))"
)
KEEP = vocabulary("Parameter Buffer ParameterList ParameterDict BufferList BufferDict ModuleList Linear")
KEEPING_CALLS = vocabulary("register_buffer register_parameter setattr save save_file dump savez savez_compressed")
KEEPING_FUNCTIONS = vocabulary("state save checkpoint getstate")
SAVES = vocabulary("save save_file")


@lint_rule(
    "CS004",
    title="feedback that is drawn but never registered or saved",
    message="random feedback is drawn here, and neither registered nor saved",
    why="It is not in the state dict. A network that is loaded again gets other matrices, and Γ is measured against "
    "feedback that never trained it.",
    fix='keep it with the weights: self.register_buffer("feedback", torch.randn(...)), or save it in the checkpoint',
    page="4-feedback-not-saved.md",
    wrong="import torch\nfrom torch import nn\n\n\nclass Layer(nn.Module):\n    def __init__(self):\n"
    "        super().__init__()\n        self.feedback = torch.randn(10, 64)\n",
    right="import torch\nfrom torch import nn\n\n\nclass Layer(nn.Module):\n    def __init__(self):\n"
    '        super().__init__()\n        self.register_buffer("feedback", torch.randn(10, 64))\n',
)
def lost_feedback(source: SourceFile) -> Iterator[ast.expr]:
    """Random tensors with the name of feedback, on modules or in a script that saves its network without them."""
    text = source.text.lower()
    if "feedback" not in text and "fb" not in text:
        return
    speaks = "feedback" in text
    kept = _kept(source)
    modules = {scope.owner for scope in source.scopes if scope.owner is not None and _is_module(source, scope.owner)}
    saves = any(method_called(call) in SAVES for _, call, _ in source.calls)
    for scope in source.scopes:
        for target, value in _drawn(source, scope):
            on_module = isinstance(target, ast.Attribute) and scope.owner in modules
            in_script = isinstance(target, ast.Name) and saves and not _escapes(scope, target.id)
            name = target.attr if isinstance(target, ast.Attribute) else target.id
            named = bool(words(name) & FEEDBACK) or (speaks and MATRIX.fullmatch(name) is not None)
            if named and (on_module or in_script) and name not in kept:
                yield value


def _drawn(source: SourceFile, scope: NameScope) -> Iterator[tuple[ast.Attribute | ast.Name, ast.expr]]:
    """Every (self.name or name, drawn value) of a scope, also where a list is filled by append."""
    pairs = list(assignments(scope))
    fresh = {target.id for target, value in pairs if isinstance(target, ast.Name) and _is_draw(source, value)}
    for call in scope.of(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "append" and len(call.args) == 1:
            pairs.append((call.func.value, call.args[0]))
    for target, value in pairs:
        if isinstance(target, ast.Attribute):
            own = isinstance(target.value, ast.Name) and target.value.id == "self"
            if own and (_is_draw(source, value) or (isinstance(value, ast.Name) and value.id in fresh)):
                yield target, value
        elif isinstance(target, ast.Name) and _is_draw(source, value):
            yield target, value


def _is_draw(source: SourceFile, node: ast.expr) -> bool:
    """Whether a value holds random numbers that nothing keeps; a given generator can draw them again."""
    calls = [inner for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    if isinstance(node, ast.Call) and method_called(node) in KEEP:
        return False
    if any(keyword(call, "generator") is not None for call in calls):
        return False
    names = (source.full_name(call.func) or f".{method_called(call)}" for call in calls)
    return any(DRAWS.fullmatch(name) for name in names)


def _is_module(source: SourceFile, owner: ast.ClassDef) -> bool:
    bases = [source.full_name(base) for base in owner.bases]
    return any(base.startswith("torch.nn.") or base.endswith("Module") for base in bases) or any(
        isinstance(node, ast.FunctionDef) and node.name == "forward" for node in owner.body
    )


def _kept(source: SourceFile) -> set[str]:
    """The names that a file registers or saves somewhere."""
    keepers: list[ast.AST] = [call for _, call, _ in source.calls if method_called(call) in KEEPING_CALLS]
    keepers += [scope.node for scope in source.scopes if words(scope.name) & KEEPING_FUNCTIONS]
    kept = {
        node.attr
        for scope in source.scopes
        for node, value in assignments(scope)
        if isinstance(node, ast.Attribute) and isinstance(value, ast.Call) and method_called(value) in KEEP
    }
    for node in keepers:
        kept |= set(identifiers(node))
        kept |= {
            part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)
        }
    return kept


def _escapes(scope: NameScope, name: str) -> bool:
    """Whether a local name is returned, put into a container or object, or handed to a class: it may be kept there."""
    holders: list[ast.AST | None] = [*(node.value for node in scope.of(ast.Return)), *scope.of(ast.Yield)]
    holders += [*scope.of(ast.Dict)]
    holders += [value for target, value in assignments(scope) if isinstance(target, ast.Attribute | ast.Subscript)]
    holders += [
        call for call in scope.of(ast.Call) if method_called(call)[:1].isupper() or method_called(call) == "dict"
    ]
    return any(name in identifiers(holder) for holder in holders if holder is not None)
