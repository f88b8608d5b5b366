"""What does a rule cost in a loop of your own, against loss.backward(), and against the path of our own networks?"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from _timing import interleaved, ratio
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.methods import methods
from creditscope.methods.adapted import AdaptedNetwork
from creditscope.methods.binding import rule
from creditscope.methods.rule import CreditRule, run_generator
from creditscope.networks.build import build
from creditscope.networks.staged import StagedNetwork
from creditscope.stream.find import find_stream

BATCH, SHAPE, CLASSES, DEPTH = 64, (3, 32, 32), 10, 6
MOST = 1.15  # of forward and loss.backward()
REPLACES = 1.03  # of the path of our own networks: then the one for any model would replace it


class Transformer(nn.Module):
    """A ViT of 6 blocks as somebody else would write it: a plain module, skip connections outside the blocks."""

    def __init__(self) -> None:
        super().__init__()
        made = build("vit_mini", SHAPE, CLASSES, 0, depth=DEPTH)
        self.entry, self.layers, self.exit = made.embedding, made.blocks, made.readout
        self.made = nn.ModuleList([made])  # holds the parameters

    def forward(self, images: Tensor) -> Tensor:
        """Logits."""
        h = self.entry(images)
        for layer in self.layers:
            h = h + layer(h)
        return self.exit(h)


def noise(shape: tuple[int, ...] = SHAPE, count: int = BATCH) -> Batch:
    """Random images."""
    generator = torch.Generator().manual_seed(0)
    return Batch(torch.randn(count, *shape, generator=generator), torch.arange(count) % CLASSES)


def in_a_loop(repeats: int) -> dict[str, float]:
    """Forward and backward of one batch, each rule over loss.backward()."""
    model, batch = Transformer(), noise()
    rules = {name: rule(name, model, example=batch) for name in ("bp", "dfa", "fa", "fa_weights")}

    def plain() -> None:
        model.zero_grad()
        F.cross_entropy(model(batch.inputs), batch.labels).backward()

    def by(name: str) -> Callable[[], None]:
        def step() -> None:
            model.zero_grad()
            rules[name].backward(*batch)

        return step

    taken = interleaved({"loss.backward()": plain, **{name: by(name) for name in rules}}, repeats, time.process_time)
    return {name: ratio(taken, name, "loss.backward()") for name in rules}


def two_paths(network: StagedNetwork, batch: Batch, repeats: int) -> dict[str, float]:
    """The credit of one of our networks as any model, over its own path."""
    view = AdaptedNetwork(network, find_stream(network))
    view.learn_structure(batch.inputs)
    ways: dict[str, Callable[[], object]] = {}
    for name in ("bp", "dfa"):
        chosen = methods[name]()
        ways[name] = _crediting(chosen, network, batch)
        ways[f"{name} as any model"] = _crediting(chosen, view, batch)
    taken = interleaved(ways, repeats, time.process_time)
    return {name: ratio(taken, f"{name} as any model", name) for name in ("bp", "dfa")}


def _crediting(chosen: CreditRule, network: StagedNetwork, batch: Batch) -> Callable[[], object]:
    feedback = chosen.feedback(network, batch, run_generator(0))
    return lambda: chosen.credit(network, feedback, batch)


def main(repeats: int = 25) -> None:
    """Print the ratios."""
    torch.set_num_threads(1)
    print(
        f"torch {torch.__version__}, one thread, load {os.getloadavg()[0]:.1f}; medians of {repeats} repeats in turns\n"
    )
    print(f"ViT of {DEPTH} blocks, d = 128, {BATCH} images {SHAPE}: rule.backward / forward and loss.backward()")
    for name, cost in in_a_loop(repeats).items():
        bound = f"   at most {MOST:.2f}   {'kept' if cost <= MOST else 'MISSED'}" if name == "dfa" else ""
        print(f"  {name:<12}{cost:.2f}{bound}")
    print(f"\ncredit of our networks as of any model / by their own path (at most {REPLACES:.2f} would replace it)")
    for name, network in (
        ("resmlp", build("resmlp", SHAPE, CLASSES, 0)),
        ("vit_mini", build("vit_mini", SHAPE, CLASSES, 0)),
    ):
        costs = two_paths(network, noise(count=128 if name == "resmlp" else BATCH), repeats)
        print(f"  {name:<12}" + "   ".join(f"{method} {cost:.2f}" for method, cost in costs.items()))


if __name__ == "__main__":
    main()
