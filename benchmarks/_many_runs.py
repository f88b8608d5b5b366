"""A study of thousands of runs and a store in which they are done; made up for benchmarks, in a temporary folder.

One run of each method and control is trained. Its record is written under the key of every other run with that run's
own settings, its accuracies moved by a little noise: valid, with true keys and checksums, but no result of anything.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from creditscope.records.run import RunRecord
from creditscope.runs.spec import RunSpec
from creditscope.study.declaration import Study
from creditscope.study.engines.job import Job, attempt
from creditscope.study.plan import Plan, plan
from creditscope.study.store import Store

METHODS = ("bp", "dfa", "fa", "fa_weights", "sign_symmetry")
EPOCHS = 10


def declare(file: Path, rates: int, seeds: int) -> Study:
    """A study of 5 methods, each with its frozen control: 10 x rates x seeds runs."""
    axes = {
        "method": list(METHODS),
        "learning_rate": [round(1e-3 * (1 + step / 100), 6) for step in range(rates)],
        "seed": list(range(seeds)),
    }
    text = 'controls = ["frozen"]\n[fixed]\n"network.d" = 16\n' + f"epochs = {EPOCHS}\n[grid]\n"
    file.write_text(text + "".join(f"{name} = {values}\n" for name, values in axes.items()).replace("'", '"'))
    return Study.read(file)


def models() -> dict[tuple[str, str], RunRecord]:
    """A real record of every method and control."""
    records = {}
    for method in METHODS:
        for control in ("none", "frozen"):
            spec = RunSpec(network_options={"d": 16}, epochs=EPOCHS, method=method, control=control)
            records[method, control] = RunRecord.parse(attempt(Job(spec.key, spec), lambda row: None).record)
    return records


def fill(store: Store, runs: Plan, keys: Sequence[str] = ()) -> None:
    """Write a record for each run, or for those of some keys."""
    store.prepare()
    known, noise = models(), random.Random(0)
    for key in keys or runs:
        spec = runs[key]
        model, moved = known[spec.method, spec.control], noise.gauss(0, 0.01)
        history = tuple(
            row.model_copy(update={"accuracy": min(1.0, max(0.0, row.accuracy + moved))}) for row in model.history
        )
        fields = {"key": key, "spec": spec.model_dump(mode="json"), "history": history}
        resolved = {**model.resolved, "learning_rate": spec.learning_rate, "seed": spec.seed}
        store.commit(key, b"", model.model_copy(update={**fields, "resolved": resolved}))


def many_runs(folder: Path, rates: int = 20, seeds: int = 50) -> tuple[Path, Store, Plan]:
    """The file of the study, its store and its plan."""
    file, store = folder / "study.toml", Store(folder / "store")
    store.prepare()
    runs = plan(declare(file, rates, seeds), store=store.folder)
    fill(store, runs)
    return file, store, runs
