"""Why would ours differ?  The likeliest reason of a line that differs; shown only where one does."""

from __future__ import annotations

from fnmatch import fnmatchcase

from creditscope.reproduction.sheet import Line, Sheet

# experiment, row, quantity (patterns), and the reason; the first that matches is shown
REASONS: tuple[tuple[str, str, str, str], ...] = (
    ("*", "ep", "*", "Ours relaxes with a guard until the states settle; the published relaxation probably did not."),
    (
        "*",
        "state_bridge*",
        "*",
        "The published text leaves open how G is trained. Ours sees raw states and a relative loss, stays healthy and "
        "learns.",
    ),
    (
        "*",
        "credit_bridge*",
        "*",
        "Ours explodes once the gate opens, as published, but further: V is then fitted to states of 1e8 and the "
        "accuracy falls to chance. With a penalty on the blocks V stays in its range.",
    ),
    ("main_audit", "fa", "g_L", "N is not stated for the published figure; ours is at N = 128."),
    ("*", "fa*", "deep_gamma", "The mean holds one exact layer; the others differ with seed and length of training."),
    ("*", "bp, frozen", "accuracy", "It is not said by which method the published control trained its embedding."),
    (
        "temporal",
        "*",
        "first_D2",
        "The published D2 was probably measured at N = 1,024, where the floor is met earlier.",
    ),
    ("threshold_sensitivity", "*", "healthy", "The published healthy extreme is EP as it was relaxed there."),
    (
        "early_epochs",
        "*",
        "g_L_*",
        "The published figures, of one seed, are said to be at N = 1,024 and are given here at N = 128, eight times as "
        "large. Perhaps only the first of them was measured so: as they are printed they lie close to ours.",
    ),
)


def reason(sheet: Sheet, line: Line) -> str:
    """The likeliest reason, in words; the length of training first, where that differs."""
    known = next(
        (
            because
            for experiment, row, quantity, because in REASONS
            if fnmatchcase(sheet.experiment, experiment)
            and fnmatchcase(line.row, row)
            and fnmatchcase(line.quantity, quantity)
        ),
        "",
    )
    shorter = "" if _length(sheet.ours) == _length(sheet.theirs) else f"Ours: {sheet.ours}; theirs: {sheet.theirs}."
    return " ".join(part for part in (known, shorter) if part) or "Not known."


def _length(settings: str) -> str:
    return settings.partition(",")[0]
