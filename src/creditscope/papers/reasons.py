"""Why would ours differ?  The likeliest reason of a line that differs; shown only where one does."""

from __future__ import annotations

import math
from fnmatch import fnmatchcase

from creditscope.papers.published import LARGER, USUAL, published
from creditscope.papers.sheet import Line, Sheet

# It moves Γ and ρ. It hardly moves the scales of the main audit: both are within a factor of two of each other.
INDEX = 'The published DFA lets a block hear the credit of its input; here index = "output", that of its output.'
RESOLUTION = (
    "On a stream of this size an absolute step is lost in the rounding of float32: the gradient has no ρ either."
)
RATE = (
    "The published stream grows more slowly, as ours does at half the learning rate (experiment learning_rate). Why is "
    "not known."
)
NORMALISED = "It is not said how FA's credit was normalised; ours is divided by the batch's rms."
OUTSET = 0.2  # of all epochs: there a cosine schedule is still above 0.9
ABOUT = math.log10(1.5)  # decades: "about as many times" is within half of it more

# experiment or table, row, quantity (patterns), and the reason; the first that matches is shown
REASONS: tuple[tuple[str, str, str, str], ...] = (
    (
        "*",
        "ep",
        "*",
        "Ours relaxes all states with a guard against steps that raise the energy; theirs is not described.",
    ),
    (
        "*",
        "state_bridge*",
        "*",
        "The published text leaves open how G is trained. Ours sees raw states, and its loss is relative to ‖h_L‖.",
    ),
    (
        "*",
        "credit_bridge*",
        "*",
        "The published text leaves open how V is trained and when the blocks begin to follow it. Ours sees raw states, "
        "matches the gradient at h_L, and the blocks wait for a fifth of the steps.",
    ),
    ("main_audit", "fa", "g_L", "N is not stated for the published figure; ours is at N = 128."),
    ("*", "fa*", "deep_gamma", "The mean holds one exact layer; the others differ with seed and length of training."),
    ("penalty", "fa*", "accuracy", NORMALISED),
    ("ladder", "fa", "*", "In the published main audit FA lies above the frozen control, as ours does."),
    ("main_audit", "bp, frozen", "accuracy", "How the published control was trained is not said."),
    ("main_audit", "dfa, frozen", "accuracy", "It is not said by which method the published control learnt."),
    ("temporal", "vit_mini, *", "*", "Ours cuts the image into patches of 8 by 8, a quarter as many tokens."),
    ("*", "dfa", "rho_absolute", RESOLUTION),
    ("threshold_sensitivity", "*", "healthy", "The published healthy extreme is EP as it was relaxed there."),
    (
        "early_epochs",
        "*",
        "gamma_0",
        "No epoch of ours reaches it. Perhaps the colour that crops are padded with, which is not said; ours is black.",
    ),
    ("main_audit-paper", "dfa, index input", "[gh]_L", RATE),  # shorter runs have not grown as far
    ("early_epochs", "*", "g_L_*", RATE),
    ("temporal", "resmlp, dfa*", "first_*", RATE),
    ("causal_controls", "random labels*", "h_L_*", RATE),
    (
        "fresh_feedback",
        "*",
        "null_std",
        "It is not said whether the published spread is that of the mean over layers, as ours, or of one layer.",
    ),
    ("decision_utility", "*", "*", "The count follows from which methods fail: their names stand in the main audit."),
    ("[!me]*", "*dfa*", "*gamma*", INDEX),  # neither main_audit nor early_epochs, which have both
    ("[!me]*", "*dfa*", "rho*", INDEX),
)


def reason(sheet: Sheet, line: Line) -> str:
    """The likeliest reason, in words; the length of training first, where that differs."""
    known = next(
        (
            because
            for experiment, row, quantity, because in REASONS
            if (fnmatchcase(sheet.experiment, experiment) or experiment == sheet.stem)
            and fnmatchcase(line.row, row)
            and fnmatchcase(line.quantity, quantity)
        ),
        "",
    )
    over = published().epochs(sheet.experiment)
    alike = line.epochs is None or over is None or line.epochs == over or _early(line)
    shorter = "" if alike else f"Ours: {line.epochs} epochs; theirs: {over} epochs."
    return " ".join(part for part in (_batch(line), known, shorter) if part) or "Not known."


def _batch(line: Line) -> str:
    """Where a gradient is about as many times too large as two batch sizes are: the other one, perhaps."""
    apart = LARGER / USUAL
    figure, found = line.published, line.difference
    if figure is None or found is None or not line.quantity.startswith("g_L") or figure.images != USUAL:
        return ""
    if abs(found - math.log10(apart)) < ABOUT:
        return f"Ours is about {apart:g} times too large: perhaps the published figure was measured at N = {LARGER:,}."
    return ""


def _early(line: Line) -> bool:
    """Whether a number belongs to the first epochs, where a longer cosine schedule is hardly above ours."""
    if line.kind == "epoch":
        return line.epochs is not None and bool(line.values) and max(line.values) <= line.epochs * OUTSET
    return any(word in line.heading for word in ("after epoch", "last valid epoch"))
