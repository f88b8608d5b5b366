"""Writes docs/rejudged.md: the committed records judged by protocol `strict` beside `three`, the former default."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from creditscope.files import write_text
from creditscope.protocols import judge, protocol_named
from creditscope.records.run import RunRecord, after_divergence
from creditscope.runs.spec import read_spec
from creditscope.study.tables import AuditRow, SeedRow, table_of
from creditscope.verdict import Finding

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "rejudged.md"
BEFORE, NOW = "three", "strict"


@dataclass(frozen=True, slots=True)
class Rejudged:
    """The committed records, and their rows over seeds under both protocols, in the same order."""

    records: dict[str, RunRecord]
    before: list[AuditRow]
    now: list[AuditRow]

    def runs(self) -> list[tuple[AuditRow, SeedRow, SeedRow]]:
        """Every run with its row and its two verdicts."""
        return [
            (row, old, new)
            for row, other in zip(self.before, self.now, strict=True)
            for old, new in zip(row.seeds, other.seeds, strict=True)
        ]


def rejudged(folder: Path = ROOT / "results" / "records") -> Rejudged:
    """The records of a folder that `strict` has not judged, under both protocols, each with its frozen control."""
    every = map(RunRecord.from_json, sorted(folder.glob("*.json")))
    records = {record.key: record for record in every if record.report is None or record.report.protocol != NOW}
    specs = {key: read_spec(record, f"the record {key}") for key, record in records.items()}
    return Rejudged(records, table_of(specs, records, BEFORE), table_of(specs, records, NOW))


def unchanged(records: dict[str, RunRecord]) -> int:
    """How many stored verdicts the protocol that they name gives again."""
    count = 0
    for record in records.values():
        if record.report is not None:
            again = judge(protocol_named(record.report.protocol), record.report.findings)
            count += after_divergence(again, record.diverged).text == record.report.verdict.text
    return count


def absent(data: Rejudged) -> list[str]:
    """The diagnostics that strict asks for and that no record holds."""
    held = {code for record in data.records.values() if record.report is not None for code in record.report.findings}
    return [code for code in protocol_named(NOW).codes if code not in held]


def page(data: Rejudged) -> str:
    """The whole page."""
    missing = absent(data)
    holds = "None of them holds" if missing else "All of them hold what `strict` asks for, not only"
    parts = [
        "# The committed records, judged again",
        "`make docs` writes this page from the records in `results/`. Protocol `strict` is the default since version "
        f"0.2.0; `{BEFORE}` was the default before, and it is unchanged: judged again by the protocol that they name, "
        f"{unchanged(data.records)} of {len(data.records)} records give the verdict that is stored in them.",
        f"The {len(data.records)} records were made by version 0.1. {holds} {_listed(missing)}, which came with 0.2.0, "
        f"and a diagnostic that was not measured rules nothing out. So a former PASS reads INCONCLUSIVE with these "
        "codes, and a former FAIL(D1+D2) does too: D1 and D2 fire as they did, but `strict` asks the tail of the "
        "images (D2:tail). This says what the records lack, not that a verdict was wrong. Only an audit of the weights "
        "decides them: run the study again, or `creditscope audit FOLDER` where the weights were kept.",
        "## How many stay",
        _outcomes(data),
        "## Which change, and why",
        "Each line is a pair of verdicts, over single runs; controls are not judged. Runs without a frozen control "
        "among the records have D3 open under both protocols.",
        _changes(data),
        "## D3's intervals, old and new",
        "Over the seeds of a setting, in percentage points, with a limit of 2. The old interval is the paired t of "
        "equal seeds and leaves the test images out; the new one is Welch's unless named seeds correlate by more than "
        "chance, and test images add their error ([D3](diagnostics/D3.md)). For a single seed the old interval covers "
        "the test images alone, and the new one adds 3 points between the seeds that were not run.",
        _intervals(data),
        _single_seeds(data),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _listed(codes: list[str]) -> str:
    words = [f"`{code}`" for code in codes]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}" if words else "D0 to D9"


def _outcomes(data: Rejudged) -> str:
    counts = Counter((old.verdict.outcome, new.verdict.outcome) for _, old, new in data.runs())
    names = ("pass", "fail", "inconclusive")
    rows = [f"| {old} | {' | '.join(str(counts[old, new]) for new in names)} |" for old in names]
    return "\n".join((f"| `{BEFORE}` \\ `{NOW}` | {' | '.join(names)} |", "|---|---|---|---|", *rows))


def _changes(data: Rejudged) -> str:
    pairs = Counter((old.verdict.text, new.verdict.text, _reason(old, new)) for _, old, new in data.runs())
    rows = [f"| {count} | {old} | {new} | {reason} |" for (old, new, reason), count in pairs.most_common()]
    return "\n".join((f"| runs | `{BEFORE}` | `{NOW}` | why |", "|---|---|---|---|", *rows))


def _reason(old: SeedRow, new: SeedRow) -> str:
    """Why the two verdicts on one run differ."""
    if old.verdict.text == new.verdict.text:
        return "the same"
    reasons = []
    if lacking := [code for code in protocol_named(NOW).codes if code not in new.findings and code in new.verdict.text]:
        reasons.append(f"not measured: {', '.join(lacking)}")
    elif old.verdict.outcome == new.verdict.outcome == "fail":
        reasons.append("D1 and D2 fire as before; D2:tail was not measured")
    before, now = old.findings["D3"], new.findings["D3"]
    if before.status is not now.status:
        reasons.append(f"D3 {before.status} before, {now.status} with its new interval")
    return "; ".join(reasons)


def _intervals(data: Rejudged) -> str:
    rows = []
    for old, new in zip(data.before, data.now, strict=True):
        if old.verdict is None or old.findings["D3"].value is None or len(old.seeds) < 2:
            continue
        before, now = old.findings["D3"], new.findings["D3"]
        rows.append(f"| {old.label} | {len(old.seeds)} | {before.value:+.1f} | {_ends(before)} | {_ends(now)} |")
    return "\n".join((f"| setting | seeds | margin | `{BEFORE}` | `{NOW}` |", "|---|---|---|---|---|", *rows))


def _ends(finding: Finding) -> str:
    ends = "no interval" if finding.interval is None else "{:+.1f} to {:+.1f}".format(*finding.interval)
    return f"{ends}, {finding.status}"


def _single_seeds(data: Rejudged) -> str:
    """What the single runs' own D3 becomes."""
    counts = Counter(
        (old.findings["D3"].status, new.findings["D3"].status)
        for _, old, new in data.runs()
        if "D3" in old.findings and old.findings["D3"].value is not None
    )
    rows = [f"| {count} | {old} | {new} |" for (old, new), count in counts.most_common()]
    head = f"Of each run alone:\n\n| runs | D3 under `{BEFORE}` | D3 under `{NOW}` |"
    return "\n".join((head, "|---|---|---|", *rows))


if __name__ == "__main__":
    write_text(PAGE, page(rejudged()))
