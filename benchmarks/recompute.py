"""Train committed runs again with this code: do their numbers and verdicts stay?

python benchmarks/recompute.py [RUNS [FOLDER ...]]   RUNS (8) in all, the quickest of every method first

Every record carries its settings and its key. A run is trained and audited again and compared with its record:
accuracies and losses of all epochs, the numbers of all findings, and the verdict.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from creditscope.errors import BadFile
from creditscope.records.folder import read_record
from creditscope.records.run import RunRecord
from creditscope.runs.spec import read_spec
from creditscope.study.engines.job import Job, attempt

FOLDERS = ("results/field", "results/demo")


def committed(folders: list[str]) -> list[RunRecord]:
    """The audited records below the folders, the quickest run of every method and control first."""
    records = []
    for path in (path for folder in folders for path in sorted(Path(folder).rglob("*.json"))):
        try:
            records.append(read_record(path))
        except BadFile:
            continue
    records.sort(key=lambda record: record.timings.get("seconds", math.inf))
    taken: dict[tuple[str, str], int] = {}
    order = []
    for record in records:
        kind = (record.spec["method"], record.spec["control"])
        taken[kind] = taken.get(kind, -1) + 1
        order.append((taken[kind], record))
    return [record for _, record in sorted(order, key=lambda pair: pair[0]) if record.report is not None]


def numbers(record: RunRecord) -> Iterator[tuple[str, float]]:
    """Every number that is compared, with its name."""
    for row in record.history:
        yield f"accuracy of epoch {row.epoch + 1}", row.accuracy
        yield f"loss of epoch {row.epoch + 1}", row.loss
    for code, finding in record.report.findings.items() if record.report is not None else ():
        if finding.value is not None:
            yield code, finding.value


def compared(before: RunRecord, after: RunRecord) -> str:
    """What differs, in words."""
    old, new = dict(numbers(before)), dict(numbers(after))
    moved = {
        name: abs(new[name] - old[name]) / max(abs(old[name]), 1e-12)
        for name in old.keys() & new.keys()
        if not (new[name] == old[name] or (math.isnan(new[name]) and math.isnan(old[name])))
    }
    shared = len(old.keys() & new.keys())
    if not moved:
        said = f"{shared} numbers, all the same to the last bit"
    else:
        worst = max(moved, key=lambda name: moved[name])
        answers = sum(name.startswith("accuracy") for name in moved)
        said = f"{shared} numbers, {len(moved)} differ ({answers} accuracies), {worst} most: {moved[worst]:.1e} of it"
    only = sorted(old.keys() ^ new.keys())
    return f"{said}; only on one side: {', '.join(only)}" if only else said


def recompute(most: int, folders: list[str]) -> None:
    """Train the runs again, one after another, and print a line for each."""
    same = done = 0
    for record in committed(folders)[:most]:
        spec, started = read_spec(record, record.key), time.process_time()
        result = attempt(Job(record.key, spec), lambda row: None)
        taken = time.process_time() - started
        if result.error is not None:
            print(f"{record.key}  {spec.title}: {result.error.message.splitlines()[0]}", flush=True)
            continue
        again = RunRecord.parse(result.record)
        assert record.report is not None
        assert again.report is not None
        verdicts = (str(record.report.verdict), str(again.report.verdict))
        done, same = done + 1, same + (verdicts[0] == verdicts[1])
        word = verdicts[0] if verdicts[0] == verdicts[1] else " -> ".join(verdicts)
        print(f"{record.key}  {spec.title}, {taken:.0f} s: {word}", flush=True)
        print(f"    {compared(record, again)}", flush=True)
    print(f"{done} runs recomputed: {same} verdicts the same, {done - same} changed")


if __name__ == "__main__":
    recompute(int(sys.argv[1]) if len(sys.argv) > 1 else 8, sys.argv[2:] or list(FOLDERS))
