"""Every small change to a source that a test ought to notice: another operator, number, sign or name, or no call.

A changed module is put in place when it is imported, or by giving other code to the functions that exist.
"""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from types import CodeType, FunctionType
from typing import Any

COMPARED: dict[type[ast.cmpop], list[type[ast.cmpop]]] = {
    ast.Lt: [ast.LtE, ast.GtE], ast.LtE: [ast.Lt, ast.Gt], ast.Gt: [ast.GtE, ast.LtE], ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq], ast.Is: [ast.IsNot], ast.IsNot: [ast.Is], ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}  # fmt: skip
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult, ast.MatMult: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
NAMES = {"min": "max", "amin": "amax", "any": "all", "sum": "mean", "isfinite": "isnan"}
NAMES |= {other: name for name, other in NAMES.items()}
Lines = tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: where, what the place read before and reads now, and the module's code with it.

    lines   first and last line of the outermost function around it; None outside of functions
    """

    place: tuple[int, int]  # line and column
    was: str
    now: str
    code: CodeType
    lines: Lines


def alternatives(node: ast.AST) -> Iterator[ast.AST]:  # noqa: C901  one case per kind
    """What may stand in place of a node."""
    match node:
        case ast.Compare(left, ops, comparators):
            for at, operator in enumerate(ops):
                for other in COMPARED[type(operator)]:
                    yield ast.Compare(left, [*ops[:at], other(), *ops[at + 1 :]], comparators)
        case ast.BinOp(left, operator, right) if type(operator) in COMPUTED and not _is_text(left, right):
            yield ast.BinOp(left, COMPUTED[type(operator)](), right)
        case ast.AugAssign(target, operator, value) if type(operator) in COMPUTED and not _is_text(value):
            yield ast.AugAssign(target, COMPUTED[type(operator)](), value)
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.USub() | ast.Not(), operand):
            yield operand
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(float(value)):
            yield ast.Constant(value * 1.1 if value else 1.0)
        case ast.Call(ast.Name(name), arguments, keywords) if name in ("min", "max", "any", "all"):
            yield ast.Call(ast.Name(NAMES[name], ast.Load()), arguments, keywords)
        case ast.Call(ast.Attribute(value, name), arguments, keywords) if name in NAMES:
            yield ast.Call(ast.Attribute(value, NAMES[name], ast.Load()), arguments, keywords)
        case ast.If(test, body, orelse) if _plain(test):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.IfExp(test, body, orelse) if _plain(test):
            yield ast.IfExp(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.Expr(ast.Call()) | ast.Raise():
            yield ast.Pass()
        case ast.Continue():
            yield ast.Break()


def _is_text(*sides: ast.expr) -> bool:
    """Whether an operation is one on texts or lists, whose other operators only fail."""
    return any(isinstance(side, ast.JoinedStr | ast.List | ast.Tuple) for side in sides) or any(
        isinstance(side, ast.Constant) and isinstance(side.value, str | bytes) for side in sides
    )


def _plain(test: ast.expr) -> bool:
    """Whether nothing else in a condition is changed already."""
    return not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp)


Place = tuple[ast.AST, str, int | None, ast.AST, Lines]


def _places(tree: ast.AST, around: Lines = None) -> Iterator[Place]:
    """Every node that runs: its parent, the field and the index there, itself, the outermost function around it."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns") or (isinstance(tree, ast.ClassDef) and field == "decorator_list"):
            continue  # types, and frozen or slots of a record, change no number
        for index, node in enumerate(value) if isinstance(value, list) else ((None, value),):
            if not isinstance(node, ast.AST):
                continue
            inside = around
            if isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef) and field == "body" and around is None:
                first = min([tree.lineno, *(one.lineno for one in tree.decorator_list)])
                inside = (first, tree.end_lineno or tree.lineno)
            yield tree, field, index, node, inside
            yield from _places(node, inside)


def mutants(source: str, path: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its lines."""
    tree = ast.parse(source)
    for parent, field, index, node, lines in list(_places(tree)):
        for other in alternatives(node):
            ast.fix_missing_locations(ast.copy_location(other, node))
            _put(parent, field, index, other)
            try:
                code = compile(tree, path, "exec")
            finally:
                _put(parent, field, index, node)
            was, now = ast.unparse(node), ast.unparse(other)
            place = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
            yield Mutant(place, was.partition("\n")[0], now.partition("\n")[0], code, lines)


def _put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


# --- in place of the module ---


class Replaced(SourceFileLoader):
    """Imports one module with the code of its mutant."""

    def __init__(self, dotted: str, code: CodeType) -> None:
        super().__init__(dotted, code.co_filename)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return self._code

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        return spec_from_file_location(fullname, self.path, loader=self) if fullname == self.name else None


def functions(code: CodeType) -> Iterator[CodeType]:
    """The code of every function in a module's code, those inside of others included."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from functions(constant)


def living(paths: set[str]) -> tuple[list[FunctionType], list[Any]]:
    """The functions of some files that exist now, and the caches of our own functions."""
    everything = gc.get_objects()
    made = [thing for thing in everything if type(thing) is FunctionType and thing.__code__.co_filename in paths]
    caches = [thing for thing in everything if type(thing) is functools._lru_cache_wrapper]
    return made, [thing for thing in caches if str(thing.__module__).startswith("creditscope")]


def install(mutant: Mutant, made: list[FunctionType], caches: list[Any]) -> None:
    """Give every living function of the module the code that it has in the mutant, and forget cached results."""
    new = {(code.co_qualname, code.co_firstlineno): code for code in functions(mutant.code)}
    for function in made:
        if function.__code__.co_filename == mutant.code.co_filename and function.__name__ != "<lambda>":
            code = new.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
            function.__code__ = function.__code__ if code is None else code
    for cached in caches:
        cached.cache_clear()
