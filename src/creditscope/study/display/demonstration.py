"""The demonstration: four methods with their frozen controls, what a paper would report, and what the audit finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import fill

from creditscope.records.run import RunRecord
from creditscope.runs.spec import RunSpec
from creditscope.study.plan import Plan
from creditscope.study.store import Store
from creditscope.study.tables import AuditRow, audit_table
from creditscope.verdict import Finding, Status, reference_collapsed

PENALTY = 1e-2


def demonstration(data: str = "mnist1d", epochs: int = 100, seed: int = 42) -> Plan:
    """BP, DFA, FA and penalised DFA with their frozen controls, by key; the two DFA runs share theirs."""
    shared = {"data": data, "epochs": epochs, "seed": seed}
    trained = [
        RunSpec.model_validate({**shared, "method": method, "penalty": penalty})
        for method, penalty in (("bp", 0.0), ("dfa", 0.0), ("fa", 0.0), ("dfa", PENALTY))
    ]
    return {spec.key: spec for run in trained for spec in (run, run.control_spec("frozen"))}


def demonstration_page(runs: Plan, store: Store, width: int) -> str:
    """The audit table of the demonstration, and how to read it; every sentence is computed from the records."""
    rows = [row for row in audit_table(runs, store) if row.spec.control == "none" and row.verdict is not None]
    records = {row.label: store.record(row.seeds[0].key) for row in rows}
    reading = "\n".join(_item(line, width) for line in _reading(rows, records))
    return f"{_table(rows, records, width)}\n\nHow to read it\n{reading}"


def _table(rows: Sequence[AuditRow], records: dict[str, RunRecord], width: int) -> str:
    """A line of claims and verdict for each method, with the reasons below it."""
    name = max(len(row.label) for row in rows)
    verdict = max(len(row.seeds[0].verdict.text) for row in rows)
    lines = [f"{'method':{name}}  accuracy  usual Γ  control  verdict", "─" * (name + 28 + max(verdict, 7))]
    for row in rows:
        seed = row.seeds[0]
        control = "-" if seed.control_accuracy is None else f"{100 * seed.control_accuracy:.1f} %"
        gamma = _usual_gamma(records[row.label])
        gamma = f"({gamma})" if _gated(records[row.label]) else gamma
        lines.append(f"{row.label:{name}}  {100 * seed.accuracy:6.1f} %  {gamma:>7}  {control:>7}  {seed.verdict.text}")
        lines.append(fill(", ".join(_why(seed.findings)), width, initial_indent="    ", subsequent_indent="    "))
    return "\n".join(lines)


def _item(sentence: str, width: int) -> str:
    return fill(sentence, width, initial_indent="- ", subsequent_indent="  ")


def _usual_gamma(record: RunRecord) -> str:
    """The clamped cosine, mean over samples, then over layers, as papers report it."""
    report = record.report
    if report is None or "gamma_clamped_mean" not in report.measures:
        return "-"
    return f"{report.measures['gamma_clamped_mean'].value:.2f}"


def _gated(record: RunRecord) -> bool:
    """Whether the clamped Γ is invalid, because the reference has collapsed."""
    report = record.report
    return report is not None and "gamma_clamped_mean" in report.measures and reference_collapsed(report.findings)


WHY = {
    "D1": "stream x{:.3g} in a block",
    "D1:stream": "x{:.3g} over the stream",
    "D2": "reference {:.0e}",
    "D2:tail": "{:.0e} or less for a tenth of the images",
    "D3": "{:+.1f} points to the frozen control",
    "D10": "{:+.1f} points for a linear read-out",
    "D11": "sensitivity {:.2g}",
    "D12": "block influence {:.2g}",
    "D13": "credit for {:.2g} of the images",
}
ALWAYS = ("D1", "D2", "D3", "D10")  # the others only where they do not pass


def _why(findings: dict[str, Finding]) -> Iterator[str]:
    """Growth, reference and what the blocks add, each with a mark if it fires; the others where they fire."""
    for code, words in WHY.items():
        finding = findings.get(code)
        if finding is None or finding.value is None or (code not in ALWAYS and finding.status is Status.PASS):
            continue
        yield words.format(finding.value) + _mark(code, finding)


def _mark(code: str, finding: Finding) -> str:
    return {Status.FIRES: f" ({code} fires)", Status.UNDECIDED: f" ({code} undecided)"}.get(finding.status, "")


def _reading(rows: Sequence[AuditRow], records: dict[str, RunRecord]) -> Iterator[str]:
    """Sentences that hold for these records."""
    for row in rows:
        seed, verdict = row.seeds[0], row.seeds[0].verdict
        if verdict.outcome == "fail":
            claimed = f"accuracy {100 * seed.accuracy:.1f} %, Γ {_usual_gamma(records[row.label])}"
            yield f"{row.label}: a paper would print {claimed}. Neither number shows it: {verdict.why}"
        elif verdict.outcome == "inconclusive":
            yield f"{row.label}: {verdict.why}"
        elif seed.findings["D1"].status is Status.FIRES:
            yield (
                f"{row.label}: D1 fires, but the reference is valid and the blocks beat frozen ones. "
                "Growth alone is not a failure."
            )
        yield from _units(row.label, seed.findings)
        yield from _depth(row.label, seed.findings)
    penalised = [row for row in rows if row.spec.penalty]
    for row in penalised:
        plain = next((o for o in rows if o.spec.method == row.spec.method and not o.spec.penalty), None)
        if plain is not None and _fires(plain, "D1", "D2") and not _fires(row, "D1") and not _fires(row, "D2"):
            yield f"{row.label}: the penalty λ‖f(h)‖² bounds the stream, and the reference stays valid."
    if any(_gated(records[row.label]) for row in rows):
        yield "Γ in brackets is invalid: the gradient lies below the clamp of the usual cosine."
    if any(row.seeds[0].verdict.outcome == "pass" for row in rows):
        yield "PASS does not certify that a method works. It rules out these silent failures, on one seed."


def _units(label: str, findings: dict[str, Finding]) -> Iterator[str]:
    """A small gradient is a change of units where the loss still depends on every state."""
    states = findings.get("D11")
    if states is not None and states.status is Status.PASS and reference_collapsed(findings):
        yield (
            f"{label}: the gradient shrank with the units of the stream, not with its influence: moving any state by "
            f"its own size moves the loss by {states.value:.2g} output errors or more for nine images in ten (D11 "
            "passes). So exact Γ, without a clamp, still says something."
        )


def _depth(label: str, findings: dict[str, Finding]) -> Iterator[str]:
    """What linear read-outs add where a single seed does not decide D3."""
    trained, read = findings.get("D3"), findings.get("D10")
    if trained is None or read is None or trained.status is not Status.UNDECIDED or trained.interval is None:
        return
    if read.status.fired is None:
        return
    low, high = trained.interval
    answer = "add nothing" if read.status.fired else "add something"
    yield (
        f"{label}: one seed does not decide D3 ({low:+.1f} to {high:+.1f} points). Linear read-outs of this very "
        f"network do: its blocks {answer} ({read.value:+.1f} points, D10 {'fires' if read.status.fired else 'passes'})."
    )


def _fires(row: AuditRow, *codes: str) -> bool:
    return all(row.seeds[0].findings[code].status is Status.FIRES for code in codes)
