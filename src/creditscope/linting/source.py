"""A parsed file: its scopes, its calls by their full names, and its imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

Function = ast.FunctionDef | ast.AsyncFunctionDef
Node = TypeVar("Node", bound=ast.AST)
# What these names stand for where a file does not import them itself, as after a star import.
USUAL = {"F": "torch.nn.functional", "nn": "torch.nn", "np": "numpy"}


@dataclass(eq=False)
class NameScope:
    """The module or one function: its nodes in the order of the text, without those of the functions inside it."""

    node: ast.Module | Function
    parent: NameScope | None = None
    owner: ast.ClassDef | None = None
    nodes: list[ast.AST] = field(default_factory=list)

    def of(self, kind: type[Node]) -> list[Node]:
        """All nodes of exactly this kind."""
        return self._by_kind.get(kind, [])  # type: ignore[return-value]  # each list holds the nodes of its key

    @cached_property
    def _by_kind(self) -> dict[type[ast.AST], list[ast.AST]]:
        kinds: dict[type[ast.AST], list[ast.AST]] = {}
        for node in self.nodes:
            kinds.setdefault(type(node), []).append(node)
        return kinds

    @property
    def name(self) -> str:
        """The name of the function; empty for the module."""
        return "" if isinstance(self.node, ast.Module) else self.node.name

    @property
    def decorators(self) -> list[ast.expr]:
        """The decorators of the function."""
        return [] if isinstance(self.node, ast.Module) else self.node.decorator_list

    def outwards(self) -> Iterator[NameScope]:
        """This scope and those around it."""
        scope: NameScope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent


@dataclass(eq=False)
class SourceFile:
    """One parsed file."""

    text: str
    tree: ast.Module

    @cached_property
    def scopes(self) -> list[NameScope]:
        """The module, then every function, in the order of the text."""
        module = NameScope(self.tree)
        scopes = [module]
        stack: list[tuple[ast.AST, NameScope, ast.ClassDef | None]] = [(self.tree, module, None)]
        while stack:
            node, scope, owner = stack.pop()
            if isinstance(node, Function):
                scope, owner = NameScope(node, scope, owner), None
                scopes.append(scope)
            elif isinstance(node, ast.ClassDef):
                owner = node
            scope.nodes.append(node)
            stack += [(child, scope, owner) for child in ast.iter_child_nodes(node)][::-1]
        return scopes

    @cached_property
    def aliases(self) -> dict[str, str]:
        """What an imported name stands for: {"F": "torch.nn.functional", "load": "torch.load"}."""
        names = dict(USUAL)
        for scope in self.scopes:
            for plain in scope.of(ast.Import):
                names |= {alias.asname: alias.name for alias in plain.names if alias.asname}
            for chosen in scope.of(ast.ImportFrom):
                names |= {alias.asname or alias.name: f"{chosen.module}.{alias.name}" for alias in chosen.names}
        return names

    @cached_property
    def calls(self) -> list[tuple[str, ast.Call, NameScope]]:
        """Every call with the full name of what is called, empty if it has none, and its scope."""
        return [(self.full_name(call.func), call, scope) for scope in self.scopes for call in scope.of(ast.Call)]

    def calls_of(self, *names: str) -> Iterator[ast.Call]:
        """The calls of functions with one of these full names."""
        return (call for name, call, _ in self.calls if name in names)

    def full_name(self, node: ast.AST) -> str:
        """The dotted name of an expression with its imports spelt out; empty if it is no dotted name."""
        first, dot, rest = dotted(node).partition(".")
        return self.aliases.get(first, first) + dot + rest


def dotted(node: ast.AST) -> str:
    """A name or a chain of attributes as text, `self.model.head`; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
