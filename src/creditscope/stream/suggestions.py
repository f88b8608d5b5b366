"""A `blocks=` for a model whose stream was not found: tried on the model before it is named."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.errors import CreditscopeError
from creditscope.stream.bottlenecks import Bottlenecks
from creditscope.stream.candidates import COVERS, has_matrix
from creditscope.stream.forward_calls import Call, ForwardCalls, record_calls
from creditscope.stream.gradient_check import check_gradient
from creditscope.stream.hooked import HookStream
from creditscope.stream.states import logits_of

Option = str | tuple[str, ...]  # the path of a list of modules, or their names
TRIES = 8  # a try takes about seven passes of the model


def suggestion(model: nn.Module, inputs: Any, first: Sequence[Option] = ()) -> str:
    """A sentence that names blocks= which was tried and works, or says that none of those tried did."""
    tried = 0
    try:
        recorded = record_calls(model, inputs)
        graph = Bottlenecks(recorded, logits_of(recorded.answer))
        for option in islice(dict.fromkeys((*first, *_options(recorded))), TRIES):
            tried += 1
            if _works(recorded, graph, option):
                return f"Tried on this batch, and it works: blocks={json.dumps(option)}."
    except (CreditscopeError, RuntimeError, TypeError, AttributeError, ValueError):
        pass  # the first error says what is wrong
    return f"None of {tried} lists of modules works as blocks=." if tried else "It has no list of modules to try."


def _options(recorded: ForwardCalls) -> Iterator[Option]:
    """Lists of modules, those with the most parameters first, then the modules of one parent in the order they ran.

    Two of them at least have a matrix, and a detail of the model is not tried.
    """

    def size(module: nn.Module) -> int:
        return sum(parameter.numel() for parameter in module.parameters())

    whole = [pair for pair in recorded.model.named_modules() if size(pair[1]) >= COVERS * size(recorded.model)]
    named = sorted(whole, key=lambda pair: -size(pair[1]))
    for name, module in named:
        if name and isinstance(module, nn.ModuleList | nn.Sequential) and sum(map(has_matrix, module)) > 1:
            yield name
    ran = {call.name: call for call in recorded.calls if call.ordinal == 0}
    for name, module in named:
        prefix = f"{name}." if name else ""
        children = [ran[prefix + child] for child, _ in module.named_children() if prefix + child in ran]
        inner = [call for call in sorted(children, key=lambda call: call.began) if has_matrix(call.module)][1:-1]
        if len(inner) > 1:
            yield tuple(call.name for call in inner)


def _works(recorded: ForwardCalls, graph: Bottlenecks, option: Option) -> bool:
    """Whether each block leads to the next, and states, their gradients and a finite difference agree."""
    modules = dict(recorded.model.named_modules())
    blocks = list(modules[option].children()) if isinstance(option, str) else [modules[name] for name in option]
    if not _in_order(recorded, graph, blocks):
        return False
    try:
        stream = HookStream(recorded.model, "auto", blocks)
        logits = stream.settle(recorded.inputs)
        with torch.no_grad():
            for state in stream.run(recorded.inputs).hiddens:
                stream.reading.rows(state)
        check_gradient(stream, Batch(recorded.inputs, torch.zeros(len(logits))), _projected)
    except (CreditscopeError, RuntimeError, TypeError, AttributeError, ValueError):
        return False
    return True


def _in_order(recorded: ForwardCalls, graph: Bottlenecks, blocks: Sequence[nn.Module]) -> bool:
    """Whether the blocks ran in this order, each one on what was computed from the one before."""
    calls: list[Call] = [call for block in blocks for call in recorded.calls if call.module is block]
    if {id(call.module) for call in calls} != set(map(id, blocks)):
        return False
    calls.sort(key=lambda call: call.began)
    return all(graph.follows(other.entry, one.exit_edge) for one, other in pairwise(calls))


def _projected(logits: Tensor, labels: Tensor) -> Tensor:
    """One number per sample, linear in the logits: labels are not known here."""
    rows = logits.reshape(len(labels), -1)
    weights = torch.randn(rows.shape[1], generator=torch.Generator().manual_seed(0))
    return rows @ weights.to(rows)
