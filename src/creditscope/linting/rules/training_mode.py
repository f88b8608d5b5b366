"""CS007: a network that is still in training mode while it is evaluated."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from creditscope.linting.expressions import (
    EVALUATION,
    blocks_without_gradients,
    mentions,
    method_called,
    vocabulary,
    words,
)
from creditscope.linting.rules import lint_rule
from creditscope.linting.source import NameScope, SourceFile, dotted

MEASURING = EVALUATION | vocabulary("correct acc accuracy argmax")


@lint_rule(
    "CS007",
    title="`model.train()` left on during evaluation",
    message="the network is evaluated in training mode: train() was called before, and eval() was not",
    why="Dropout drops units, and batch norm normalises with the test batch and learns from it. Accuracy and "
    "gradients are those of another network, and change from call to call.",
    fix="call model.eval() before the evaluation, and model.train() after it",
    page="11-training-mode.md",
    wrong="import torch\n\nmodel.train()\nfit(model, batches)\nwith torch.no_grad():\n"
    "    correct = (model(x).argmax(1) == y).sum()\n",
    right="import torch\n\nmodel.train()\nfit(model, batches)\nmodel.eval()\nwith torch.no_grad():\n"
    "    correct = (model(x).argmax(1) == y).sum()\n",
)
def training_mode(source: SourceFile) -> Iterator[ast.expr]:
    """The first call of a network in a block without gradients that measures, after train() and no eval()."""
    for scope in source.scopes:
        for block in blocks_without_gradients(scope):
            modes = _modes(scope, block)
            if modes and _measures(scope, block):
                yield from [call for call in _calls(block) if modes.get(dotted(call.func))][:1]


def _modes(scope: NameScope, block: ast.With) -> dict[str, bool]:
    """Which networks are in training mode where a block ends: True, False, or absent if the text does not say."""
    training: dict[str, bool] = {}
    for call in scope.of(ast.Call):
        if call.lineno > (block.end_lineno or block.lineno):
            break
        called, owner = method_called(call), dotted(getattr(call.func, "value", call.func))
        if called == "train" and isinstance(call.func, ast.Attribute):
            switch = call.args[0] if call.args else call.keywords[0].value if call.keywords else ast.Constant(True)
            training[owner] = isinstance(switch, ast.Constant) and switch.value is True
        elif called == "eval" and owner in training:
            training[owner] = False
        elif words(called) & EVALUATION:  # a function that may switch the mode of what it is handed
            training = {name: mode for name, mode in training.items() if not _is_handed(call, name)}
    return training


def _is_handed(call: ast.Call, name: str) -> bool:
    return any(dotted(argument) == name for argument in call.args)


def _calls(block: ast.With) -> Iterator[ast.Call]:
    return (node for node in ast.walk(block) if isinstance(node, ast.Call))


def _measures(scope: NameScope, block: ast.With) -> bool:
    """Whether a block computes something of a test, by its own names or by the loop around it."""
    loops = [loop for loop in scope.of(ast.For) if any(inner is block for inner in ast.walk(loop))]
    return mentions(block, MEASURING) or any(mentions(loop.iter, EVALUATION) for loop in loops)
