"""The label of a run shows method, penalty and control, and whatever differs between the runs."""

from __future__ import annotations

import pytest

from creditscope.records.labels import counted, flatten, label, labels, written
from creditscope.runs.spec import RunSpec

AXES = {
    "learning_rate": (1e-3, 1.0000001e-3),
    "weight_decay": (0.01, 0.0),
    "batch_size": (64, 128),
    "epochs": (1, 2),
    "augment": (True, False),
    "random_labels": (True, False),
    "seed": (1, 2),
    "data": ("mnist1d", "teacher"),
    "network": ("resmlp", "vit_mini"),
    "network.d": (8, 16),
    "data.inputs": (8, 16),
    "method.index": ("input", "output"),
    "method.widths": ((1, 2), (1, 3)),
    "penalty": (0.0, 0.01),
    "control": ("none", "ladder-2"),
    "method": ("dfa", "fa"),
}
RUN = flatten(RunSpec(method="dfa").model_dump())


@pytest.mark.parametrize("setting", AXES)
def test_two_runs_that_differ_in_one_setting_have_two_labels(setting):
    runs = [{**RUN, setting: value} for value in AXES[setting]]
    assert len(set(labels(runs))) == 2


def test_labels_name_what_differs_and_nothing_else():
    runs = [{**RUN, "learning_rate": rate, "network.d": 8} for rate in (1e-3, 0.5)]
    assert labels(runs) == ["dfa, learning_rate 0.001", "dfa, learning_rate 0.5"]
    assert labels([{**run, "seed": seed} for seed, run in enumerate(runs)], without=("seed",)) == labels(runs)


def test_a_label_reads_as_a_phrase():
    run = {
        **RUN,
        "method.index": "input",
        "penalty": 0.01,
        "control": "ladder-1",
        "network.d": 8,
        "random_labels": True,
    }
    shown = ("data", "network", "network.d", "random_labels", "learning_rate", "epochs", "seed")
    assert label(run, shown) == (
        "dfa(index=input) + penalty 0.01, ladder-1 on mnist1d with random labels, resmlp(d=8), learning_rate 0.001, "
        "100 epochs, seed 42"
    )


def test_the_label_of_a_lone_run_shows_whatever_was_given():
    spec = RunSpec(learning_rate=0.5, network_options={"d": 8}, data_options={"inputs": 3}, epochs=1)
    assert spec.title == "bp on mnist1d(inputs=3), resmlp(d=8), learning_rate 0.5, 1 epoch, seed 42"


def test_values_and_counts_are_written_as_a_reader_expects():
    assert [written(value) for value in (True, 0.01, 1e-05, (1, 0.5), "a")] == [
        "true", "0.01", "1e-05", "[1, 0.5]", "a"
    ]  # fmt: skip
    assert written(0.1 + 0.2) == "0.30000000000000004"
    assert [counted(number, "run") for number in (0, 1, 1200)] == ["0 runs", "1 run", "1,200 runs"]
