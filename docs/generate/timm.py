"""Writes the page on the families of timm, from results/timm_families.json (made by `make timm-families`)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from creditscope.files import write_text

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results" / "timm_families.json"
PAGE = ROOT / "docs" / "timm.md"

Row = dict[str, Any]
HEAD = """# Other people's networks: one model of each family of timm

Is the stream of a network that nobody prepared for an audit found, and is nothing alarmed about that is sound? Of each
module of timm 1.0.30 the model with the fewest parameters was audited with random weights, on four images of noise of
224 pixels or of the size that the model prescribes, without a hint. An alarm is false if an intervention contradicts
it: at its start a network may have blocks that do nothing or states that hardly matter, and D11 then says so rightly.

gcvit is refused for a fault of its own: its windows lie image by image, its global queries are repeated batch by batch,
so that with two images and more a window attends with the query of another image. pnasnet is refused because every cell
reads the states of the two cells before it: no single state separates what comes before from what comes after, and of
the runs of layers inside its cells none is clearly the one that the loss depends on most.

"""
FOOT = """
`make timm-families` audits every family without an outcome, small models first; the largest take minutes each. Delete
`results/timm_families.json` to start afresh, or name families after the file to audit them again:
`python -m tests.thirdparty.timm_families results/timm_families.json vgg`. The third-party tests audit every model with
at most 13 million parameters again.
"""


def results() -> dict[str, Row]:
    """The stored outcomes, by family."""
    rows: dict[str, Row] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return rows


def page(rows: dict[str, Row]) -> str:
    """The page in Markdown."""
    counts = Counter(row.get("outcome", "not run") for row in rows.values())
    summary = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
    commits = {row.get("commit", "") for row in rows.values() if "outcome" in row}
    same = len(commits) == 1 and all(commits)
    source = f" All rows come from commit {commits.pop()[:10]} of the code." if same else ""
    lines = [_line(family, row) for family, row in sorted(rows.items())]
    head = "| family | model | parameters | pixels | outcome | stream, or why not |\n|---|---|---|---|---|---|\n"
    return f"{HEAD}Of {len(rows)} families: {summary}.{source}\n\n{head}" + "\n".join(lines) + "\n" + FOOT


def _line(family: str, row: Row) -> str:
    outcome = row.get("outcome", "not run")
    verdict = f", {row['verdict']}" if outcome == "audited" else ""
    stream = row.get("stream", "").split(" found by structure")[0]
    why = row.get("why", "").split("\n")[0]
    pixels = row.get("pixels", "")
    return (
        f"| {family} | {row['model']} | {row['parameters'] / 1e6:.1f} M | {pixels} | {outcome}{verdict} | "
        f"{'; '.join(filter(None, (stream, why)))} |"
    )


if __name__ == "__main__":
    write_text(PAGE, page(results()))
