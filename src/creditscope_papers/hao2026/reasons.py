"""Likeliest reasons for differences, as data; the first that fits is shown, and only where a number differs."""

from __future__ import annotations

import math

from creditscope.papers.paper import Reason
from creditscope.papers.published import IMAGES
from creditscope.papers.tables import ComparisonRow
from creditscope_papers.hao2026.experiments import LARGER, SHUFFLED

PENALISED_DFA = ("dfa", "dfa, penalty 0.0001", "dfa, penalty 0.01", "dfa, penalty 0.1")
RATE = (
    "The published stream grows more slowly, as ours does at half the learning rate (experiment learning_rate). The "
    "cause is not known."
)
TIMES = LARGER / IMAGES
ABOUT = math.log10(1.5)  # decades: "about" is within a factor of 1.5


def _larger_batch(row: ComparisonRow) -> bool:
    """Whether a gradient is about as many times too large as the two published batch sizes differ by."""
    known = row.published is not None and row.published.images == IMAGES and row.difference is not None
    return known and abs((row.difference or 0.0) - math.log10(TIMES)) < ABOUT


REASONS = (
    Reason(
        f"Ours is about {TIMES:g} times too large: the published figure may have been measured at N = {LARGER:,}.",
        quantities=("g_L",),
        condition=_larger_batch,
    ),
    Reason(
        "Ours relaxes all states with a guard against steps that raise the energy; theirs is not described.",
        rows=("ep",),
    ),
    Reason(
        "The published text leaves open how G is trained. Ours sees raw states, and its loss is relative to ‖h_L‖.",
        rows=("state_bridge", "state_bridge, penalty 0.01"),
    ),
    Reason(
        "The published text leaves open how V is trained and when the blocks begin to follow it. Ours sees raw states, "
        "matches the gradient at h_L, and the blocks wait for a fifth of the steps.",
        rows=("credit_bridge", "credit_bridge, penalty 0.01"),
    ),
    Reason(
        "N is not stated for the published figure; ours is at N = 128.",
        experiments=("main_audit",),
        rows=("fa",),
        quantities=("g_L",),
    ),
    Reason(
        "The mean includes one exact layer; the others vary with seed and length of training.",
        experiments=("main_audit",),
        rows=("fa",),
        quantities=("deep_gamma",),
    ),
    Reason(
        "The normalisation of FA's credit is not stated; ours is divided by the batch's rms.",
        experiments=("penalty",),
        rows=("fa, penalty 0.0001", "fa, penalty 0.01"),
        quantities=("accuracy",),
    ),
    Reason(
        "In the published main audit FA lies above the frozen control, as ours does.",
        experiments=("ladder",),
        rows=("fa",),
    ),
    Reason(
        "How the published control was trained is not stated.",
        experiments=("main_audit",),
        rows=("bp, frozen",),
        quantities=("accuracy",),
    ),
    Reason(
        "The method that trained the published control is not stated.",
        experiments=("main_audit",),
        rows=("dfa, frozen",),
        quantities=("accuracy",),
    ),
    Reason(
        "Ours cuts the image into patches of 8 by 8, a quarter as many tokens.",
        experiments=("temporal",),
        rows=("vit_mini, dfa", "vit_mini, bp"),
    ),
    Reason(
        "On a stream of this size an absolute step is lost in the rounding of float32: the gradient has no ρ either.",
        experiments=("triangulation",),
        rows=("dfa",),
        quantities=("rho_absolute",),
    ),
    Reason(
        "The published healthy extreme is EP as it was relaxed there.",
        experiments=("threshold_sensitivity",),
        quantities=("healthy",),
    ),
    Reason(
        "No epoch of ours reaches it. The padding colour of crops is not stated and may differ; ours is black.",
        experiments=("early_epochs",),
        quantities=("gamma_0",),
    ),
    Reason(  # shorter runs have not grown as far
        RATE, experiments=("main_audit",), rows=("dfa, index input",), quantities=("h_L", "g_L"), budget="paper"
    ),
    Reason(RATE, experiments=("early_epochs",), quantities=tuple(f"g_L_{epoch}" for epoch in range(6))),
    Reason(
        RATE,
        experiments=("temporal",),
        rows=("resmlp, dfa, index input",),
        quantities=("first_D1", f"first_D2_{LARGER}"),
    ),
    Reason(
        RATE,
        experiments=("causal_controls",),
        rows=(SHUFFLED,),
        quantities=tuple(f"h_L_{epoch}" for epoch in range(4)),
    ),
    Reason(
        "It is not stated whether the published spread is that of the mean over layers, as ours, or of one layer.",
        experiments=("fresh_feedback",),
        quantities=("null_std",),
    ),
    Reason(
        "The count follows from which methods fail; the main audit names them.",
        experiments=("decision_utility",),
    ),
    Reason(  # it moves Γ and ρ, and hardly the scales: both are within a factor of two of each other
        'The published DFA trains a block on the credit at its input; ours, with index = "output", on that at its '
        "output.",
        experiments=("penalty", "fresh_feedback", "triangulation"),
        rows=PENALISED_DFA,
        quantities=("deep_gamma", "rho_absolute"),
    ),
)
