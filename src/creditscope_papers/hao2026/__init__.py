"""Hao, Wan and Zhai (2026), What Accuracy and Gradient Cosine Miss: figures, studies, claims and findings."""

from __future__ import annotations

from pathlib import Path

from creditscope.papers.paper import Paper, VerdictSection
from creditscope.papers.published import read_published
from creditscope.papers.reasons import read_reasons
from creditscope_papers.hao2026.claims import CLAIMS
from creditscope_papers.hao2026.experiments import EXPERIMENTS
from creditscope_papers.hao2026.findings import FINDINGS
from creditscope_papers.hao2026.remarks import describe_dfa, published_row, remarks

FOLDER = Path(__file__).parent
INTRODUCTION = """Notation: Γ is the cosine between credit and gradient, "deep Γ" its mean over layers 1 to L, an
"exact" layer one whose credit is the gradient by construction; ρ correlates credit with changes of the loss. "Absolute
step" is the published form of ρ and of nudging. The published flags are (a) scale, our D1, (b) reference, our D2, (c)
drift, our D4, and (d) depth, our D3; a method is rejected when a flag is raised. A record alone is judged without D3:
here a run is compared with its frozen control, where that was run. Verdicts are those of protocol `three`, in which
drift is advisory. In our DFA each block is trained on the credit at its output (index = "output") unless the row says
otherwise; the published version uses the credit at its input.
[Diagnostics](diagnostics/index.md), [credit](credit.md), [methods and their options](methods.md)."""

PAPER = Paper(
    name="hao2026",
    title="What Accuracy and Gradient Cosine Miss",
    citation="Hao, Wan and Zhai, What Accuracy and Gradient Cosine Miss, arXiv 2606.21126 (2026), and its public "
    "reference protocol",
    studies=FOLDER / "studies",
    published=read_published(FOLDER / "published.json"),
    experiments=EXPERIMENTS,
    claims=CLAIMS,
    findings=FINDINGS,
    reasons=read_reasons(FOLDER / "reasons.json"),
    introduction=INTRODUCTION,
    protocol="three",
    verdicts=VerdictSection("main_audit", "Our verdicts on the main audit", published_row, remarks),
    describe_runs=describe_dfa,
)
