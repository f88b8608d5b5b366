"""Writes docs/explore.md, the page with the scale to drag, from results/scale_of_a_block.json."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from creditscope.files import write_text
from creditscope.report.markdown import table

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "docs" / "explore.md"
RESULT = ROOT / "results" / "scale_of_a_block.json"
WIDTH, HEIGHT = 200, 60
HEADINGS = {
    "state": "‖h₄‖, the size of the deepest state",
    "gradient": "‖g₄‖/128, the size of its gradient in a batch of 128 (D2 fires below 10⁻⁷)",
    "clamped": "Γ as usually computed, with a clamp of 10⁻⁸",
    "exact": "Γ without a clamp",
    "sensitivity": "relative sensitivity ‖h₄‖·‖g₄‖/‖e‖",
    "accuracy": "test accuracy",
}
LOGARITHMIC = ("state", "gradient")
PAGE = """# Drag the scale of a block

A residual MLP of four blocks, trained by backprop on MNIST-1D. The last block is changed so that the state behind it is
c times as large. A LayerNorm comes between this state and the read-out, so the network answers as before: every answer,
every loss and the direction of every gradient stay the same. Drag c, or move it with the arrow keys.

```{{raw}} html
<section id="explore" aria-label="The scale of the last block">
<label for="explore-scale">c, the scale of the last block: <output id="explore-factor">1</output></label>
<input id="explore-scale" type="range" min="0" max="{last}" value="0" step="1" disabled>
<div class="quantities">
{figures}
</div>
<p id="explore-said" role="status"></p>
</section>
<script type="application/json" id="explore-grid">{grid}</script>
<link rel="stylesheet" href="../_static/explore.css">
<script src="../_static/explore.js"></script>
```

Here the gradient is compared with itself, so Γ is {exact:.3f} by definition, and exact Γ says so at every scale. The
cosine as scripts compute it divides by at least 10⁻⁸. It reads {clamped_middle:.2f} at c = 10⁶
and {clamped_last:.0e} at c = 10¹⁰: a perfect method would be reported as unaligned. Accuracy stays at {accuracy:.1f} %
throughout, and so does relative sensitivity, {sensitivity:.2f}: how far the loss moves when the state moves by its own
size. The collapse of ‖g₄‖ is one of units. That is why D2 invalidates the clamped cosine and not the gradient
([D2](diagnostics/D2.md), [the eps clamp](pitfalls/2-the-eps-clamp.md), [D11](diagnostics/D11.md)).

## The numbers

Computed beforehand from the real network, {images} test images; every fourth of {count} scales:

{table}

`make explore` trains the network and measures the grid again: commit `{commit}`, torch {torch}.
"""


def points(values: Sequence[float], *, logarithmic: bool) -> list[list[float]]:
    """Places in the small chart, from 0 or the least value at the bottom to the largest at the top."""
    heights = [math.log10(value) for value in values] if logarithmic else list(values)
    low, high = (min(heights), max(heights)) if logarithmic else (0.0, max(1.0, *heights))
    across = WIDTH / (len(values) - 1)
    return [[round(i * across, 1), round(HEIGHT * (1 - (y - low) / (high - low)), 1)] for i, y in enumerate(heights)]


def figure(name: str, places: list[list[float]]) -> str:
    """One quantity: its name, its number and its course over all scales."""
    line = " ".join(f"{x},{y}" for x, y in places)
    return (
        f'<figure><figcaption>{HEADINGS[name]}: <output id="explore-{name}"></output></figcaption>\n'
        f'<svg viewBox="-4 -4 {WIDTH + 8} {HEIGHT + 8}" aria-hidden="true">'
        f'<polyline points="{line}"/><circle id="explore-mark-{name}" r="4"/></svg></figure>'
    )


def page(result: dict[str, Any]) -> str:
    """The page of a measured grid."""
    rows, exponents = result["rows"], result["exponents"]
    places = {name: points([row[name] for row in rows], logarithmic=name in LOGARITHMIC) for name in HEADINGS}
    grid = {"exponents": exponents, "rows": rows, "points": places}
    lines = [
        [f"10^{e:g}", *(f"{row[name]:.3g}" for name in HEADINGS)]
        for e, row in list(zip(exponents, rows, strict=True))[::4]
    ]
    return PAGE.format(
        last=len(rows) - 1,
        figures="\n".join(figure(name, places[name]) for name in HEADINGS),
        grid=json.dumps(grid, separators=(",", ":")).replace("<", "\\u003c"),
        exact=rows[0]["exact"],
        clamped_middle=rows[exponents.index(6.0)]["clamped"],
        clamped_last=rows[-1]["clamped"],
        accuracy=100 * rows[0]["accuracy"],
        sensitivity=rows[0]["sensitivity"],
        images=f"{result['images']:,}",
        count=len(rows),
        table=table(["c", *(name for name in HEADINGS)], lines),
        commit=result["commit"][:7],
        torch=result["versions"]["torch"],
    )


if __name__ == "__main__":
    write_text(PATH, page(json.loads(RESULT.read_text(encoding="utf-8"))))
