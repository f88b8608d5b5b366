"""Seely and Gould (2026), Augmented Lagrangian Predictive Coding: BP, PC and PC-ALM on Fashion-MNIST."""

from __future__ import annotations

from pathlib import Path

from creditscope.papers.paper import Experiment, Paper, VerdictSection
from creditscope.papers.published import read_published
from creditscope.papers.reasons import read_reasons
from creditscope.runs.spec import RunSpec
from creditscope_papers.seely2026.claims import CLAIMS, FINDINGS
from creditscope_papers.seely2026.rows import GRID, HEADLINE, WHOLE, headline, width_depth

FOLDER = Path(__file__).parent
INTRODUCTION = """The network is a residual MLP of width N with L layers, L - 2 of them blocks, without biases,
trained for one epoch on the squared error. PC relaxes its states for T = 2L steps and updates the weights there; PC-ALM
also has a multiplier for every prediction error. "Whole network" is the published cosine: update and backprop gradient,
all weights laid end to end. Γ compares the credit at a state with the gradient there, layer by layer; layers are
counted from the input, h_0 to h_L, and quarters are quarters of these layers. Both methods carry credit through the
weights above, so that D9 does not judge them; they have no feedback to draw afresh, so that D6 does not apply.
**The trained PC of the published cell teaches its first layer next to nothing.** The pull on the first states is
smaller there than the rounding of float32, so that the credit at h_0 is exactly zero for nearly all images:
[D13](diagnostics/D13.md) is the share that has some. Γ of PC at h_0 is the mean over these; the cosine of the
embedding's update is undefined, or theirs.
[Predictive coding and its options](methods/predictive_coding.md)."""


def published_row(spec: RunSpec) -> str:
    """The row of the published figures: BP, PC or PC-ALM."""
    if spec.method == "bp":
        return "bp"
    return "PC-ALM" if spec.setting("method.multipliers") else "PC"


PAPER = Paper(
    name="seely2026",
    title="Augmented Lagrangian Predictive Coding",
    citation="Seely and Gould, Augmented Lagrangian Predictive Coding, arXiv 2605.31022 (2026): the reference figures "
    "of its public code and of the port lebidan/torch-pc-alm",
    studies=FOLDER / "studies",
    published=read_published(FOLDER / "published.json"),
    experiments=(
        Experiment(HEADLINE, "Does PC-ALM match BP in the published cell, and at every depth?", headline),
        Experiment(GRID, "Does PC-ALM match BP at other widths and depths?", width_depth),
    ),
    claims=CLAIMS,
    findings=FINDINGS,
    reasons=read_reasons(FOLDER / "reasons.json"),
    introduction=INTRODUCTION,
    alignments=(WHOLE.name,),
    verdicts=VerdictSection(HEADLINE, "Our verdicts on the published cell", published_row),
)
