"""Options of any name and tuples reach the entry that they belong to, from the study file to the run."""

from __future__ import annotations

import sys

import pytest

from creditscope.cli import run
from creditscope.errors import CreditscopeError
from creditscope.runs.run import load_data
from creditscope.study.declaration import Study
from creditscope.study.plan import plan
from creditscope.study.selection import only, parse_selection

PLUGIN = '''
import torch
from creditscope.batch import Batch
from creditscope.datasets import dataset
from creditscope.datasets.tensors import Dataset

@dataset("options_by_any_name", summary="random numbers")
def data(cache, inputs=8, classes=3, folder="a", sizes=(30, 12)):
    """As many training and test images as `sizes` says."""
    train, test = (
        Batch(torch.randn(n, inputs, generator=torch.Generator().manual_seed(n)), torch.arange(n) % classes)
        for n in sizes
    )
    return Dataset(f"random {folder}", train, test, classes, (0.0,), (1.0,))
'''
GRID = """
plugins = ["options_plugin"]
[fixed]
data = "options_by_any_name"
epochs = 1
"data.classes" = 4
"data.sizes" = [20, 10]
"network.d" = 8
[grid]
"data.inputs" = [5, 6]
"data.folder" = ["b", "c"]
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    (tmp_path / "options_plugin.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield
    from creditscope.datasets import datasets

    sys.modules.pop("options_plugin", None)
    datasets._entries.pop("options_by_any_name", None)


def test_options_called_inputs_classes_and_folder_reach_their_dataset(plugin):
    runs = plan(Study.parse(GRID))
    assert len(runs) == 4
    (spec,) = only(runs, parse_selection(["data.inputs=6", "data.folder=c", "data.classes=4"])).values()
    data = load_data(spec)
    assert (data.shape, data.classes, len(data.train.labels), len(data.test.labels)) == ((6,), 4, 20, 10)
    assert data.name == "random c"


def test_an_array_is_a_tuple_in_fixed_and_a_list_of_values_in_the_grid(plugin):
    text = GRID.replace('"data.sizes" = [20, 10]\n', "") + '"data.sizes" = [[20, 10], [30, 12]]\n'
    runs = plan(Study.parse(text))
    assert {spec.setting("data.sizes") for spec in runs.values()} == {(20, 10), (30, 12)}
    assert len(runs) == 8
    chosen = only(runs, parse_selection(["data.sizes=[20, 10]", "data.inputs=5,6"]))
    assert {spec.setting("data.sizes") for spec in chosen.values()} == {(20, 10)}
    assert len(chosen) == 4
    excluded = plan(Study.parse(text + '[[exclude]]\n"data.sizes" = [[30, 12]]\n'))
    assert list(excluded) == list(chosen)


def test_a_list_for_an_option_that_is_no_tuple_is_refused_with_its_place(plugin):
    with pytest.raises(CreditscopeError, match=r"\[fixed\] network.d: expected one value, got \[8, 16\]; .*\[grid\]"):
        plan(Study.parse(GRID.replace('"network.d" = 8', '"network.d" = [8, 16]'), "a.toml"))


def test_such_a_study_runs_and_shows_its_options(plugin, tmp_path, capsys):
    (tmp_path / "study.toml").write_text(GRID)
    arguments = ["study.toml", "--only", "data.inputs=5", "--only", "data.folder=b"]
    assert run(["study", "run", *arguments, "--dry-run"]) == 0
    line = capsys.readouterr().out.splitlines()[1]
    assert "on options_by_any_name(classes=4, folder=b, inputs=5, sizes=[20, 10]), resmlp(d=8), 1 epoch" in line
