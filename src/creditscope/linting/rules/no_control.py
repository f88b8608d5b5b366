"""CS006: the accuracy of a method without backprop, reported beside no control."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from creditscope.linting.expressions import identifiers, log_calls, vocabulary, words
from creditscope.linting.rules import lint_rule
from creditscope.linting.source import SourceFile

PHRASE = re.compile(
    r"feedback[ _-]?alignment|(direct|random)[ _-]?feedback|equilibrium[ _-]?prop|target[ _-]?prop|weight[ _-]?mirror|"
    r"sign[ _-]?symmetry|direct[ _-]?random[ _-]?target",
    re.IGNORECASE,
)
WORDS = vocabulary("dfa drtp biotorch")
ACCURACY = vocabulary("acc accs accuracy accuracies")
CONTROL = vocabulary("control controls frozen freeze baseline baselines chance shallow")


@lint_rule(
    "CS006",
    title="accuracy of a method without backprop, beside no control",
    message="an accuracy is reported, and the file names no frozen control or baseline to compare it with",
    why="A network whose blocks are frozen at random values often reaches the same accuracy. Without that number the "
    "accuracy does not show that anything but the read-out was trained.",
    fix="train the same network with frozen blocks, same recipe and seeds, and print both accuracies",
    page="10-accuracy-without-control.md",
    wrong='model = train(DirectFeedbackAlignment())\nprint(f"accuracy {accuracy(model):.1%}")\n',
    right="model, frozen = train(DirectFeedbackAlignment()), train(DirectFeedbackAlignment(), freeze_blocks=True)\n"
    'print(f"accuracy {accuracy(model):.1%}, with frozen blocks {accuracy(frozen):.1%}")\n',
)
def no_control(source: SourceFile) -> Iterator[ast.expr]:
    """The first report of an accuracy in a file about such a method that names no control."""
    reports = [call for call, _ in log_calls(source) if _reports_accuracy(call)]
    if reports:
        texts = _names(source) | _texts(source)
        about_a_method = any(PHRASE.search(text) or words(text) & WORDS for text in texts)
        if about_a_method and not any(words(text) & CONTROL for text in texts):
            yield reports[0]


def _names(source: SourceFile) -> set[str]:
    """Every name in a file: variables, attributes, functions, classes, arguments, modules."""
    names: set[str] = set()
    for scope in source.scopes:
        for node in scope.nodes:
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                    names.add(name)
                case ast.keyword(arg=str(name)) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    names.add(name)
                case ast.ImportFrom(module=str(name)):
                    names.add(name)
    return names


def _texts(source: SourceFile) -> set[str]:
    """Every text in a file but the docstrings."""
    nodes = [node for scope in source.scopes for node in scope.nodes]
    docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
    constants = (node for node in nodes if isinstance(node, ast.Constant) and node not in docstrings)
    return {node.value for node in constants if isinstance(node.value, str)}


def _reports_accuracy(call: ast.Call) -> bool:
    """Whether a call prints or logs a value that it calls an accuracy."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    inner = [node for argument in given for node in ast.walk(argument)]
    texts = [node.value for node in inner if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    names = [name for argument in given for name in identifiers(argument)]
    return bool(names) and any(words(text) & ACCURACY for text in (*names, *texts))
