"""Methods of a study compared over seeds: matched recipes only, unless unmatched ones are wanted."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest
from tests.study.test_tables import TEXT, filled

import creditscope
from creditscope.cli import run
from creditscope.errors import CreditscopeError, InvalidInput
from creditscope.report.charts.forest import forest, write_forest
from creditscope.statistics.comparison import compare_all
from creditscope.study.comparison import compare_rows
from creditscope.study.display.comparison import comparison_page
from creditscope.study.tables import audit_table

BP, DFA = {1: 0.71, 2: 0.73, 3: 0.72}, {1: 0.31, 2: 0.30, 3: 0.33}


def accuracy(spec):
    return {"bp": BP, "dfa": DFA}[spec.method][spec.seed] if spec.control == "none" else 0.3


def rows(folder, text=TEXT):
    return audit_table(*filled(folder, accuracy, text=text))


def test_the_methods_of_a_study_are_compared_seed_by_seed(tmp_path):
    (found,) = compare_rows(rows(tmp_path))
    assert found.pairs == compare_all({"bp": BP, "dfa": DFA})
    (row,) = found.rows()
    assert row["per_seed"] == pytest.approx([100 * (BP[s] - DFA[s]) for s in BP])
    assert "bp - dfa" in str(found)


def test_the_test_images_of_the_runs_count(tmp_path):
    table = rows(tmp_path)
    images = {seed.key: 400 if row.spec.method == "bp" else 500 for row in table for seed in row.seeds}
    (found,) = compare_rows(table, images=images)
    assert found.pairs == compare_all({"bp": BP, "dfa": DFA}, 400)


GRID = TEXT.replace('method = ["bp", "dfa"]', 'method = ["bp", "dfa"]\nlearning_rate = [0.001, 0.01]')


def test_every_recipe_has_a_table_of_its_own(tmp_path):
    found = compare_rows(rows(tmp_path, GRID))
    assert [one.setting for one in found] == ["learning_rate 0.001", "learning_rate 0.01"]
    by_rate = compare_rows(rows(tmp_path / "b", GRID), "learning_rate")
    assert [(pair.left, pair.right) for one in by_rate for pair in one.pairs] == [("0.001", "0.01")] * 2


def test_unmatched_recipes_are_refused_unless_they_are_wanted(tmp_path):
    table = [row for row in rows(tmp_path, GRID) if (row.spec.method, row.spec.learning_rate) != ("dfa", 0.01)]
    with pytest.raises(InvalidInput, match="they differ in learning_rate too, and not every method has every recipe"):
        compare_rows(table)
    (found,) = compare_rows(table, unmatched=True)
    assert len(found.pairs) == 3


def test_a_setting_that_does_not_exist_or_has_one_level_is_refused(tmp_path):
    table = rows(tmp_path)
    with pytest.raises(CreditscopeError, match="Did you mean 'method'"):
        compare_rows(table, "methd")
    with pytest.raises(InvalidInput, match="have one epochs only: 1"):
        compare_rows([row for row in table if row.spec.method == "bp"], "epochs")
    with pytest.raises(InvalidInput, match="Seeds cannot be compared"):
        compare_rows(table, "seed")


def test_the_page_fits_its_width_and_breaks_no_heading(tmp_path):
    page = comparison_page(compare_rows(rows(tmp_path)), 80)
    assert max(map(len, page.splitlines())) <= 80
    assert all(heading in page for heading in ("difference", "P(better)", "p (Holm)"))


def test_accuracies_are_compared_by_name_and_seed(monkeypatch):
    found = creditscope.compare({"bp": BP, "dfa": DFA}, images=1000)
    assert found.pairs == compare_all({"bp": BP, "dfa": DFA}, 1000)
    listed = creditscope.compare({"bp": list(BP.values()), "dfa": list(DFA.values())}, seeds=[1, 2, 3], images=1000)
    assert listed.pairs == found.pairs
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=lambda values, columns: values))
    assert found.to_frame()["left"] == ["bp"]


@pytest.mark.parametrize(
    ("methods", "options", "words"),
    [
        ({"bp": BP}, {}, "at least two methods"),
        ({"bp": [0.7], "dfa": [0.3]}, {}, "seeds= does not name their seeds"),
        ({"bp": [0.7], "dfa": [0.3]}, {"seeds": [1, 2]}, "1 accuracies of bp for 2 seeds"),
        ({"bp": {1: 0.7}, "dfa": {2: 0.3}}, {}, "bp and dfa have no seed in common"),
        ({"bp": 0.7, "dfa": 0.3}, {}, "The accuracies of bp are 0.7, neither numbers by seed nor a list"),
        ({"bp": {}, "dfa": {2: 0.3}}, {}, "bp has no accuracy"),
        ({"bp": {1: 70}, "dfa": {1: 30}}, {}, "Did you mean 0.7?"),
    ],
)
def test_what_cannot_be_compared_is_refused(methods, options, words):
    with pytest.raises(InvalidInput, match=words.replace("?", r"\?")):
        creditscope.compare(methods, **options)


def test_unmatched_lists_are_never_paired():
    (pair,) = creditscope.compare({"bp": list(BP.values()), "dfa": list(DFA.values())}, unmatched=True).pairs
    assert (pair.seeds, pair.differences) == ((), ())


@pytest.mark.slow
def test_the_forest_plot_has_a_line_per_pair(tmp_path):
    pairs = compare_all({"bp": BP, "dfa": DFA, "fa": {1: 0.5, 2: 0.52, 3: 0.51}}, 1000)
    spec = forest(pairs)
    data = next(iter(rows for rows in spec["datasets"].values() if len(rows) == 3)) if "datasets" in spec else None
    data = data or next(layer["data"]["values"] for layer in spec["layer"] if len(layer["data"]["values"]) == 3)
    assert [row["pair"] for row in data] == ["bp - dfa", "bp - fa", "dfa - fa"]
    assert data[0]["low"] == pytest.approx(100 * pairs[0].interval[0])
    assert b"bp - dfa" in write_forest(pairs, tmp_path / "forest.svg").read_bytes()
    with pytest.raises(InvalidInput, match="not an SVG, PDF or PNG"):
        write_forest(pairs, tmp_path / "forest.txt")


def test_the_command_prints_the_table_and_json(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text('name = "two"\n' + TEXT)
    rows(tmp_path / "runs")
    assert run(["study", "compare", "study.toml"]) == 0
    assert "Holm's correction" in capsys.readouterr().out
    assert run(["study", "compare", "study.toml", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["pairs"][0]["left"] == "bp"
    assert run(["study", "report", "study.toml", "--csv", "--runs"]) == 0
    assert capsys.readouterr().out.count("\n") == 7
    assert run(["study", "report", "study.toml", "--csv", "--json"]) == 2
    assert run(["study", "report", "study.toml", "--runs"]) == 2
