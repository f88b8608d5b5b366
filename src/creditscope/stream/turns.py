"""Which argument and which result of a block's calls is the state."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from torch import nn

from creditscope.stream.block_pass import BlockCalls
from creditscope.stream.bottlenecks import Bottlenecks
from creditscope.stream.forward_calls import Call, record_calls
from creditscope.stream.states import logits_of


def calls_in_turn(model: nn.Module, inputs: Any, blocks: Sequence[nn.Module]) -> BlockCalls:
    """The calls of blocks that the model calls several times, in turn."""
    recorded = record_calls(model, inputs)
    graph = Bottlenecks(recorded, logits_of(recorded.answer))
    own = {id(block) for block in blocks}
    calls = sorted((call for call in recorded.calls if id(call.module) in own), key=lambda call: call.began)
    return block_calls(from_the_first_input(with_their_state(calls, graph), graph))


def block_calls(calls: Sequence[Call]) -> BlockCalls:
    """What the hooks have to know of these calls."""
    argument, result = (calls[0].argument, calls[0].result) if calls else (0, 0)
    return BlockCalls(tuple(call.module for call in calls), tuple(call.ordinal for call in calls), argument, result)


def with_their_state(calls: Sequence[Call], graph: Bottlenecks) -> list[Call]:
    """Calls in turn, told which argument and which result is the state: what one returns is what enters the next.

    Where there are several such pairs, the first of which the last result is used later. In a recurrent cell it is the
    memory; of a block with two streams the one that is read.
    """
    handed = [
        {
            (result, argument)
            for result, left in enumerate(one.results)
            for argument, entered in enumerate(other.arguments)
            if left is entered
        }
        for one, other in pairwise(calls)
    ]
    shared = sorted(set.intersection(*handed)) if handed else []
    first, last = (calls[0], calls[-1]) if calls else (None, None)
    pairs = [(r, a) for r, a in shared if first and last and r < len(last.results) and a < len(first.arguments)]
    used = [pair for pair in pairs if last and graph.used_after(last.exit_edges[pair[0]], last.left_at)]
    result, argument = next(iter((*used, *pairs)), (0, 0))
    for call in calls:
        call.argument, call.result = argument, result
    return list(calls)


def from_the_first_input(calls: list[Call], graph: Bottlenecks) -> list[Call]:
    """The calls without those whose state is a constant, as the start of a memory is: no input has reached it."""
    while calls and not graph.fed(calls[0].entry):
        calls = calls[1:]
    return calls
