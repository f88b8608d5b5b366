"""The picture of a reproduction at a glance: its dots, its caption, and how a page shows it in light and dark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from creditscope.papers.comparison import Agreement, Kind
from creditscope.papers.glance import ComparedNumber, length_in_words
from creditscope.records.labels import counted
from creditscope.report.charts.identity import IdentityDot, Panel

PER_CENT = Panel("accuracies and their differences, per cent")
COSINES = Panel("cosines: Γ, drift, ρ")
SCALES = Panel("norms and growth, log axes", "log")
EPOCHS = Panel("first epochs and counts")
SIGNED = Panel("other numbers, log axes about 0", "symlog")
ANGLES = Panel("angles, degrees")
PANELS: dict[Kind, Panel] = {
    "share": PER_CENT,
    "points": PER_CENT,
    "cosine": COSINES,
    "scale": SCALES,
    "spread": SCALES,
    "epoch": EPOCHS,
    "count": EPOCHS,
    "size": SIGNED,
    "degrees": ANGLES,
}
SCHEMES = ("light", "dark")


def dots(numbers: Sequence[ComparedNumber], name: str) -> list[IdentityDot]:
    """A dot for every number; flags and events that did not happen have none."""
    made = []
    for number in numbers:
        if number.pair is None or number.row.kind not in PANELS:
            continue
        factor = 100 if number.row.kind == "share" else 1
        theirs, ours = (factor * value for value in number.pair)
        text = f"{number.table.experiment}: {number.row.row}, {number.row.heading}: {number.row.agreement}"
        href = f"{name}-numbers.html#{number.anchor}"
        panel = PANELS[number.row.kind]
        made.append(IdentityDot(panel, text, theirs, ours, str(number.row.agreement), not number.as_long, href))
    order = list(dict.fromkeys(PANELS.values()))
    return sorted(made, key=lambda dot: order.index(dot.panel))


def caption(numbers: Sequence[ComparedNumber], name: str) -> str:
    """The finding in one sentence, and how to read the picture."""
    drawn = [number for number in numbers if number.pair is not None]
    long = Counter(number.row.agreement for number in drawn if number.as_long)
    short = Counter(number.row.agreement for number in drawn if not number.as_long)
    rest = len(numbers) - len(drawn)
    flags = (
        f" {counted(rest, 'comparison')} of flags or events without a number {'is' if rest == 1 else 'are'} not drawn."
    )
    shorter = (
        f"; trained for less (hollow), {short[Agreement.AGREES]} of {short.total()} agree and "
        f"{counted(short[Agreement.DIFFERS], 'differs', 'differ')}"
    )
    word = length_in_words([number for number in drawn if number.as_long])
    return (
        f"{word[0].upper()}{word[1:]} (filled), {long[Agreement.AGREES]} of {counted(long.total(), 'number')} agree "
        f"and {counted(long[Agreement.DIFFERS], 'differs', 'differ')}{shorter if short else ''}. On the dashed line "
        f"ours equals the published number. Every dot links to its row, with its runs, in the [table of these numbers]"
        f"({name}-numbers.md)." + (flags if rest else "")
    )


def picture(numbers: Sequence[ComparedNumber], name: str, folder: str) -> str:
    """The picture in the page itself, so that its dots are links, and its caption; empty without a dot."""
    if not dots(numbers, name):
        return ""
    shown = [
        f'<div class="only-{scheme} picture">\n\n```{{raw}} html\n:file: {folder}/{name}-{scheme}.svg\n```\n\n</div>'
        for scheme in SCHEMES
    ]
    return "\n\n".join((*shown, f"*{caption(numbers, name)}*"))
