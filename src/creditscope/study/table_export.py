"""The audit table of a study for others: rows as LaTeX, CSV, Markdown, JSON and data frames."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from creditscope.diagnostics import diagnostics
from creditscope.records.frame import data_frame
from creditscope.registry import natural_key
from creditscope.report.csv_text import csv_text
from creditscope.report.latex.document import floating, tabular
from creditscope.report.latex.escaping import escaped
from creditscope.report.markdown import escaped as markdown_escaped
from creditscope.report.numbers import ABSENT, number, per_cent
from creditscope.statistics.seeds import Spread
from creditscope.study.tables import AuditRow, SeedRow
from creditscope.verdict import Finding, Status

Cells = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StudyTable:
    """The judged methods of a study, and the runs behind them.

    rows     as `audit_table` gives them; controls have no row of their own
    by_run   whether a row is a run instead of a method
    """

    title: str
    rows: Sequence[AuditRow]
    by_run: bool = False

    def cells(self) -> list[Cells]:
        """One row per method, or per run: accuracy, control, margin and interval, every diagnostic, the verdict."""
        trained = [row for row in self.rows if row.spec.control == "none"]
        if self.by_run:
            return [_run(row, seed) for row in trained for seed in row.seeds]
        return [_method(row) for row in trained]

    def to_frame(self) -> Any:
        """A data frame of pandas or polars."""
        return data_frame(self.cells())

    def to_csv(self) -> str:
        """CSV with a heading; what was not measured is empty."""
        cells = self.cells()
        return csv_text(list(cells[0]) if cells else ["method"], cells)

    def to_json(self) -> str:
        """A JSON list of objects; NaN and infinity are texts, as in all our files."""
        plain = [{name: _json(value) for name, value in row.items()} for row in self.cells()]
        return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"

    def to_markdown(self) -> str:
        """A table in Markdown."""
        heads, body = self._printed(markdown_escaped, "**{}**")
        lines = [heads, ["---"] * len(heads), *body]
        return (
            f"{markdown_escaped(self.title)}\n\n"
            + "\n".join(f"| {' | '.join(line)} |" for line in lines)
            + f"\n\n{self._note}\n"
        )

    def to_latex(self) -> str:
        """A booktabs table with a caption and a label, scaled to the width of the text."""
        heads, body = self._printed(escaped, "\\textbf{{{}}}")
        inside = tabular("l" + "r" * (len(heads) - 2) + "l", heads, body)
        words = "".join(c if c.isalnum() else " " for c in self.title.lower()).split()
        label = "tab:" + "-".join([*words, "runs"] if self.by_run else words)
        title = self.title if self.title.endswith((".", "?", "!")) else f"{self.title}."
        scaled = f"\\resizebox{{\\linewidth}}{{!}}{{%\n{inside}}}"
        needs = "% Needs \\usepackage{booktabs,graphicx} and, with older LaTeX, \\usepackage[utf8]{inputenc}."
        return f"{needs}\n{floating(escaped(f'{title} {self._note}'), scaled, label)}\n"

    @property
    def _note(self) -> str:
        return NOTE_BY_RUN if self.by_run else NOTE

    def _printed(self, clean: Callable[[str], str], bold: str) -> tuple[list[str], list[list[str]]]:
        """Headings and cells as text; a number whose diagnostic fires is bold."""
        codes = _codes()
        lead = ["method", "seed"] if self.by_run else ["method", "seeds"]
        heads = [*lead, "accuracy", "control", "D3 interval", *codes, "verdict"]
        lines = []
        for cells in self.cells():
            numbers = []
            for code in codes:
                text = clean(number(cells[code]))
                numbers.append(bold.format(text) if cells[f"{code}_status"] == Status.FIRES.value else text)
            ends = (cells["margin_low"], cells["margin_high"])
            interval = ABSENT if ends[0] is None else f"{number(ends[0])} to {number(ends[1])}"
            shares = [_shares(cells, name) for name in ("accuracy", "control")]
            plain = [str(cells[name]) for name in lead]
            lines.append([*map(clean, [*plain, *shares, interval]), *numbers, clean(str(cells["verdict"]))])
        return [clean(head) for head in heads], lines


NOTE = (
    "Accuracies in per cent, mean ± standard deviation over seeds; D3 and D10 in percentage points, D3 with its 95 % "
    "interval; diagnostics other than D3 as medians over seeds; bold: fires."
)
NOTE_BY_RUN = (
    "One row per run. Accuracies in per cent; D3 and D10 in percentage points, D3 with its 95 % interval; bold: fires."
)


def _codes() -> list[str]:
    """Every registered code, in natural order."""
    return sorted({entry.code for entry in diagnostics.values()}, key=natural_key)


def _method(row: AuditRow) -> Cells:
    return {
        "method": row.label,
        "seeds": len(row.seeds),
        **_spread("accuracy", row.accuracy),
        **_spread("control", row.control),
        **_findings(row.findings),
        "verdict": "not run" if row.verdict is None else str(row.verdict),
    }


def _run(row: AuditRow, seed: SeedRow) -> Cells:
    own = {"method": row.label, "seed": seed.seed, "key": seed.key, "accuracy": seed.accuracy}
    return {**own, "control": seed.control_accuracy, **_findings(seed.findings), "verdict": str(seed.verdict)}


def _spread(name: str, spread: Spread | None) -> Cells:
    low, high = (None, None) if spread is None or spread.interval is None else spread.interval
    mean, std = (None, None) if spread is None else (spread.mean, spread.std)
    return {name: mean, f"{name}_std": std, f"{name}_low": low, f"{name}_high": high}


def _findings(findings: Mapping[str, Finding]) -> Cells:
    """The margin with its interval, then the value and the status of every code."""
    depth = findings.get("D3")
    low, high = (None, None) if depth is None or depth.interval is None else depth.interval
    cells: Cells = {"margin": None if depth is None else depth.value, "margin_low": low, "margin_high": high}
    for code in _codes():
        finding = findings.get(code)
        cells[code] = None if finding is None else finding.value
        cells[f"{code}_status"] = None if finding is None else finding.status.value
    return cells


def _shares(cells: Cells, name: str) -> str:
    mean, std = cells[name], cells.get(f"{name}_std")
    if mean is None:
        return ABSENT
    return per_cent((mean,)) if std is None else f"{100 * mean:.1f} ± {100 * std:.1f}"


def _json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
