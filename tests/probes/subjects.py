"""Networks, images and credit functions that the tests of the probes share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.credit import CreditSource
from creditscope.methods.bound_rule import BoundRule
from creditscope.methods.dfa import DirectFeedback
from creditscope.methods.fa import BlockFeedback
from creditscope.methods.rule import CreditRule
from creditscope.networks.build import build
from creditscope.networks.staged import StagedNetwork
from creditscope.probes.credit import CreditLedger
from creditscope.probes.images import Piece
from creditscope.probes.source import FunctionSource
from creditscope.stream.find import find_stream
from creditscope.stream.trace import capture

Credit = Callable[[Batch], list[Tensor]]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def network(
    name: str = "resmlp", shape: int | tuple[int, ...] = 40, seed: int = 3, **options: bool | int | float
) -> StagedNetwork:
    """A small network with random weights, its blocks as large as trained ones."""
    defaults: dict[str, bool | int | float] = {"d": 48, "depth": 3, "w2_std": 0.15} if name == "resmlp" else {}
    return build(name, shape, 10, seed, **(defaults | options)).eval()


def images(count: int, shape: Sequence[int] = (40,), seed: int = 1) -> Batch:
    drawn = generator(seed)
    return Batch(torch.randn(count, *shape, generator=drawn), torch.randint(10, (count,), generator=drawn))


def batches(count: int, size: int = 128, shape: Sequence[int] = (40,)) -> list[Batch]:
    whole = images(count, shape)
    return [Batch(*pair) for pair in zip(whole.inputs.split(size), whole.labels.split(size), strict=True)]


def backprop(model: nn.Module) -> Credit:
    """The gradient itself, as a user would write it."""
    return lambda batch: list(capture(find_stream(model), batch).gradients)


def noise(model: nn.Module, seed: int = 5) -> Credit:
    drawn = generator(seed)
    return lambda batch: [torch.randn(h.shape, generator=drawn) for h in capture(find_stream(model), batch).hiddens]


def bound(rule: CreditRule, model: StagedNetwork, seed: int = 7) -> BoundRule:
    example = images(2, (model.embed.in_features,)) if hasattr(model, "embed") else images(2)
    return BoundRule(rule, model, rule.feedback(model, example, generator(seed)), example)


def dfa(model: StagedNetwork, seed: int = 7) -> BoundRule:
    return bound(DirectFeedback(), model, seed)


def fa(model: StagedNetwork, seed: int = 7) -> BoundRule:
    return bound(BlockFeedback(), model, seed)


def pieces(model: nn.Module, credit: Credit | CreditSource, given: Sequence[Batch]) -> list[Piece]:
    """What an audit would keep of these batches."""
    stream = find_stream(model)
    source = credit if isinstance(credit, CreditSource) else FunctionSource(credit)
    ledger = CreditLedger(stream, source)
    for batch in given:
        ledger.add(batch, capture(stream, batch))
    return ledger.pieces
