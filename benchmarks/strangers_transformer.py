"""A stranger's pre-LN transformer on MNIST-1D, trained by DFA and by backprop in a plain loop, one experiment each.

    python benchmarks/strangers_transformer.py            # about three CPU minutes on one thread
    python benchmarks/strangers_transformer.py --out FILE

Writes results/strangers_transformer.json: accuracies of trained and frozen networks over three seeds, D3 with its
interval paired over images beside the one from accuracies alone, the correlation of right answers, and the verdicts.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import creditscope
from creditscope.datasets import datasets
from creditscope.experiments.answers import unpacked
from creditscope.records.experiment import ExperimentReport
from creditscope.statistics.margin import margin_of_accuracies, margin_of_answers

DATA = datasets["mnist1d"]()
WIDTH, DEPTH, PATCH, EPOCHS, BATCH = 32, 3, 4, 20, 128
SEEDS = (0, 1, 2)
OUT = Path(__file__).resolve().parents[1] / "results" / "strangers_transformer.json"


class Block(nn.Module):
    """Attention and an MLP, each after a LayerNorm and added to the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, h: Tensor) -> Tensor:
        """The next state of the stream."""
        normed = self.before_attention(h)
        h = h + self.attention(normed, normed, normed, need_weights=False)[0]
        return h + self.mlp(self.before_mlp(h))


class Transformer(nn.Module):
    """Patches of four numbers as tokens, a learned position for each, and the mean of all tokens as the read-out."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Linear(PATCH, WIDTH)
        self.positions = nn.Parameter(torch.randn(1, 40 // PATCH, WIDTH) * 0.02)
        self.layers = nn.ModuleList(Block() for _ in range(DEPTH))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the ten classes."""
        h = self.patches(x.view(len(x), -1, PATCH)) + self.positions
        for layer in self.layers:
            h = layer(h)
        logits: Tensor = self.head(self.norm(h).mean(1))
        return logits


def make(seed: int) -> nn.Module:
    """An untrained network."""
    torch.manual_seed(seed)
    return Transformer()


def loop(model: nn.Module, seed: int, step: Any) -> None:
    """Adam over shuffled batches; `step` fills the gradients."""
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=2e-3)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(DATA.train.labels), generator=generator).split(BATCH):
            inputs, labels = DATA.training_batch(chosen, generator)
            optimiser.zero_grad()
            step(inputs, labels)
            optimiser.step()


def example() -> Any:
    """A batch on which a rule finds the blocks."""
    return next(iter(DATA.test_batches(16)))


def by_backprop(model: nn.Module, seed: int) -> None:
    """Train by backprop."""
    loop(model, seed, lambda inputs, labels: F.cross_entropy(model(inputs), labels).backward())


def by_dfa(model: nn.Module, seed: int) -> None:
    """Train by direct feedback alignment."""
    loop(model, seed, creditscope.rule("dfa", model, example=example(), seed=seed).backward)


def accuracy(model: nn.Module) -> float:
    """Share of the test images that the network gets right."""
    with torch.no_grad():
        right = [(model(inputs).argmax(1) == labels).sum().item() for inputs, labels in DATA.test_batches(500)]
    return float(sum(right) / len(DATA.test.labels))


def image_ratio(trained: float, frozen: float, correlation: float) -> float:
    """Error of a margin over images if the two accuracies are taken apart, over that if answers are paired.

    √((v + w)/(v + w - 2 r √(v w))),  v = p(1 - p) and w = q(1 - q)
    """
    one, other = trained * (1 - trained), frozen * (1 - frozen)
    apart, r = one + other, round(correlation, 3)
    return round(math.sqrt(apart / (apart - 2 * r * math.sqrt(one * other))), 3)


def summary(result: ExperimentReport, seconds: float) -> dict[str, Any]:
    """The record of one experiment, with D3's interval paired over images and from accuracies alone."""
    tables = {
        variant: numpy.stack([unpacked(run.right, run.images) for run in result.runs if run.variant == variant])
        for variant in result.variants
    }
    trained, frozen = tables["trained"], tables["frozen"]
    paired = margin_of_answers(trained, frozen, matched=True)
    unpaired = margin_of_accuracies(
        trained.mean(1).tolist(), frozen.mean(1).tolist(), images=trained.shape[1], matched=True
    )
    ends = [margin.interval or (0.0, 0.0) for margin in (paired, unpaired)]
    widths = [high - low for low, high in ends]
    correlation = [float(numpy.corrcoef(a, b)[0, 1]) for a, b in zip(trained, frozen, strict=True)]
    gamma = result.report.measures.get("gamma")
    return {
        "verdict": str(result.verdict),
        "accuracy": [round(share, 4) for share in result.accuracy()],
        "frozen": [round(share, 4) for share in result.accuracy("frozen")],
        "D3": round(100 * paired.value, 2),
        "interval_paired_over_images": [round(100 * end, 2) for end in ends[0]],
        "interval_from_accuracies": [round(100 * end, 2) for end in ends[1]],
        "ratio_of_widths": round(widths[1] / widths[0], 3),
        "correlation_of_answers": [round(value, 3) for value in correlation],
        "ratio_of_image_errors": [
            image_ratio(*each) for each in zip(result.accuracy(), result.accuracy("frozen"), correlation, strict=True)
        ],
        "findings": {
            code: {"status": finding.status.value, "value": finding.value} for code, finding in result.findings.items()
        },
        "gamma": None if gamma is None else [round(value, 4) for value in gamma.per_layer],
        "blocks": list(result.blocks),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    """Run both experiments and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    record: dict[str, Any] = {
        "network": f"pre-LN transformer, {DEPTH} blocks of width {WIDTH}, mean over tokens",
        "data": f"mnist1d, {len(DATA.test.labels):,} test images",
        "recipe": f"Adam 2e-3, {EPOCHS} epochs, batches of {BATCH}",
        "seeds": list(SEEDS),
    }
    for name, train, credit in (
        ("bp", by_backprop, None),
        ("dfa", by_dfa, lambda model, seed: creditscope.rule("dfa", model, example=example(), seed=seed)),
    ):
        start = time.perf_counter()
        result = creditscope.experiment(
            make, train, accuracy, seeds=SEEDS, batches=DATA.test_batches(128), credit=credit, name=name
        )
        record[name] = summary(result, time.perf_counter() - start)
        print(result, "\n")
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
