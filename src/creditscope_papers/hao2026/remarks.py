"""What the page and captions add about this paper: DFA's index, drift, runs trained twice, EP against its control."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from creditscope.diagnostics import diagnostics
from creditscope.papers.archive import RECORDS, RunArchive
from creditscope.papers.comparison import welch_of
from creditscope.papers.rendering import published
from creditscope.records.labels import counted
from creditscope.records.run import RunRecord
from creditscope.report.markdown import escaped
from creditscope.runs.spec import RunSpec
from creditscope.study.tables import SeedRow
from creditscope.verdict import Measurement, Status


def describe_dfa(specs: Sequence[RunSpec]) -> list[str]:
    """The index of DFA, if all runs share it or most do."""
    indices = Counter(spec.setting("method.index") for spec in specs if spec.method == "dfa").most_common(2)
    if not indices or (len(indices) == 2 and indices[0][1] == indices[1][1]):
        return []
    others = " unless a row says otherwise" if len(indices) == 2 else ""
    return [f"DFA with index = {indices[0][0]}{others}"]


def published_row(spec: RunSpec) -> str:
    """The row of the published main audit; DFA was published with index = input."""
    return f"dfa, index {spec.setting('method.index')}" if spec.method == "dfa" else spec.method


def remarks(archive: RunArchive) -> Iterator[str]:
    """Methods whose drift fires, which the published flags reject too, runs trained again, and the published EP."""
    rows = [row for row in archive.audit_rows("main_audit") if row.spec.control == "none"]
    seeds = {row.label: [str(seed.seed) for seed in row.seeds if _drifts(seed)] for row in rows}
    text = "; ".join(f"{escaped(name)} on {', '.join(drifting)}" for name, drifting in seeds.items() if drifting)
    if text:
        yield f"Flag (c), drift (advisory in the verdicts above): {text}."
    yield from _other_accuracies(archive, [(row.label, seed) for row in rows for seed in row.seeds])
    yield from _ep_as_published(archive)


def _other_accuracies(archive: RunArchive, seeds: Sequence[tuple[str, SeedRow]]) -> Iterator[str]:
    """Runs and controls with a second record of another accuracy, which no spread over seeds shows."""
    runs = {seed.key: f"{label}, seed {seed.seed}" for label, seed in seeds}
    runs |= {seed.control_key: f"{label}, frozen, seed {seed.seed}" for label, seed in seeds if seed.control_key}
    texts = [
        f"{escaped(name)}: {100 * again.accuracy:.2f} % in `{folder}/{key}`{_diverged(again)}, "
        f"{100 * record.accuracy:.2f} % in `{RECORDS}/{key}`"
        for key, name in runs.items()
        if (record := archive.record(key)) is not None
        for folder, again in archive.trained_again(key).items()
        if again.accuracy != record.accuracy
    ]
    if texts:
        yield (
            f"Trained again with the same settings and seed, {counted(len(texts), 'run')} ended elsewhere, which no "
            f"spread over seeds shows: {'; '.join(texts)}. The tables use `{RECORDS}`."
        )


def _diverged(record: RunRecord) -> str:
    return f" (diverged in epoch {record.diverged.epoch + 1})" if record.diverged is not None else ""


def _drifts(seed: SeedRow) -> bool:
    return "D4" in seed.findings and seed.findings["D4"].status is Status.FIRES


def _ep_as_published(archive: RunArchive) -> Iterator[str]:
    """The published EP against the published frozen control, with which it was never compared."""
    accuracy, control = (archive.figure("main_audit", row, "accuracy") for row in ("ep", "dfa, frozen"))
    if accuracy is None or control is None or accuracy.mean is None or control.mean is None:
        return
    margin, ends = 100 * (accuracy.mean - control.mean), welch_of(accuracy, control)
    limit = diagnostics["D3"].limit
    point = "fires" if limit.judge(Measurement(margin)) is Status.FIRES else "is silent"
    low, high = 100 * ends[0], 100 * ends[1]
    interval = "passes" if low > limit.at else "fires" if high < limit.at else "is undecided"
    yield (
        f"ep: the published EP was never compared with a frozen control. {published(accuracy, 'share')} against "
        f"{published(control, 'share')}, a control whose method is not stated, is {margin:+.1f} points: by the point "
        f"estimate D3 {point}, by Welch's interval ({low:+.1f} to {high:+.1f}) it {interval}."
    )
