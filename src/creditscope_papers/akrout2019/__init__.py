"""Akrout et al. (2019), Deep Learning without Weight Transport: weight mirrors and Kolen-Pollack on MNIST."""

from __future__ import annotations

from pathlib import Path

from creditscope.papers.paper import Experiment, Paper
from creditscope.papers.published import read_published
from creditscope.papers.reasons import read_reasons
from creditscope_papers.akrout2019.claims import CLAIMS, FINDINGS
from creditscope_papers.akrout2019.curves import CURVES
from creditscope_papers.akrout2019.rows import ROWS

FOLDER = Path(__file__).parent
INTRODUCTION = """The network is 784-500-10 with sigmoids, trained by plain SGD on the cross-entropy of every class
alone. "Credit angle" is the angle of the hidden layer's credit to the backprop gradient, "weight angle" the one between
the feedback B and the weight W of the last layer. The network has no block behind its hidden layer, so that D1, D3, D10
and D12 do not apply. [Kolen-Pollack without decay](pitfalls/14-feedback-without-decay.md) is a pitfall of its own."""

PAPER = Paper(
    name="akrout2019",
    title="Deep Learning without Weight Transport",
    citation="Akrout, Wilson, Humphreys, Lillicrap and Tweed, Deep Learning without Weight Transport (2019): the "
    "per-epoch logs of its public code on MNIST",
    studies=FOLDER / "studies",
    published=read_published(FOLDER / "published.json"),
    experiments=(
        Experiment("weight_transport", "Do mirrors and Kolen-Pollack learn the weights, and what does decay do?", ROWS),
    ),
    claims=CLAIMS,
    findings=FINDINGS,
    reasons=read_reasons(FOLDER / "reasons.json"),
    introduction=INTRODUCTION,
    curves=CURVES,
    accuracies=("accuracy_30",),
    alignments=("credit_angle_30",),
)
