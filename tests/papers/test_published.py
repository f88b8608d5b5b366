"""Every published figure meets a line of ours, and stands in one file only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from tests.papers.made import book

import creditscope.papers
from creditscope.papers.comparison import LOGARITHMIC
from creditscope.papers.experiments import experiments, sheet
from creditscope.papers.published import Figure, published
from creditscope.papers.sheet import Line

ROOT = Path(__file__).parents[2]
DATA = files("creditscope.papers").joinpath("published.json")
# Published, but not measured by us: the drift of w2 alone, the calibration of ρ on vectors of no method, and numbers at
# initialisation, which a history does not begin with.
NOT_MEASURED = {
    ("triangulation", "dfa, penalty 0.01", "w2_drift"),
    ("triangulation", "state_bridge, penalty 0.01", "w2_drift"),
    ("triangulation", "credit_bridge, penalty 0.01", "w2_drift"),
    ("triangulation", "calibration", "rho_random"),
}
NAMES = sorted(published().figures)


def figures() -> Iterator[tuple[str, str, str, Figure]]:
    for experiment, rows in published().figures.items():
        for row, quantities in rows.items():
            for quantity, figure in quantities.items():
                yield experiment, row, quantity, figure


def lines(experiment: str) -> dict[tuple[str, str], Line]:
    """The lines of an experiment by row and quantity, without any run."""
    found = sheet(experiment, book()).lines
    by_name = {(line.row, line.quantity): line for line in found}
    assert len(by_name) == len(found), "two lines have the same row and quantity"
    return by_name


@pytest.mark.parametrize("experiment", NAMES)
def test_every_published_figure_stands_beside_a_line_of_ours(experiment):
    mine = {(row, quantity) for one, row, quantity, _ in figures() if one == experiment}
    on_purpose = {(row, quantity) for one, row, quantity in NOT_MEASURED if one == experiment}
    assert mine - set(lines(experiment)) == on_purpose


@pytest.mark.parametrize("experiment", NAMES)
def test_every_line_carries_the_figure_of_its_own_row_and_quantity(experiment):
    rows = published().figures[experiment]
    for (row, quantity), line in lines(experiment).items():
        assert line.published == rows.get(row, {}).get(quantity)


@pytest.mark.parametrize("experiment", sorted(experiments))
def test_no_two_lines_of_a_table_have_the_same_name(experiment):
    assert lines(experiment)


def test_figures_and_settings_belong_to_experiments():
    assert set(published().figures) <= set(published().settings) <= set(experiments)


@pytest.mark.parametrize("experiment", NAMES)
def test_every_figure_has_one_form_that_its_kind_allows(experiment):
    found = lines(experiment)
    for one, row, quantity, shown in figures():
        if one != experiment:
            continue
        forms = [
            shown.mean is not None,
            bool(shown.values),
            shown.high is not None,
            shown.never,
            shown.flags is not None,
        ]
        assert sum(forms) == 1, (row, quantity)
        assert shown.low is None or (shown.high is not None and shown.low < shown.high)
        assert shown.std is None or (shown.mean is not None and shown.std > 0 and shown.seeds > 1)
        line = found.get((row, quantity))
        if line is not None:
            assert (shown.flags is not None) == (line.kind == "flags")
            assert not shown.never or line.kind == "epoch"
            numbers = [number for number in (shown.mean, shown.low, shown.high, *shown.values) if number is not None]
            assert line.kind != "share" or all(0 < number < 1 for number in numbers)
            assert line.kind not in LOGARITHMIC or all(number > 0 for number in numbers)
            assert shown.images == 128 or line.kind == "scale"


def test_an_unknown_field_of_the_data_file_is_refused():
    with pytest.raises(ValueError, match="Extra inputs"):
        Figure.model_validate({"men": 0.3})


# --- one file only ---


def accuracies() -> set[str]:
    """Every published accuracy of three digits, as a share and in per cent."""
    shares = {
        f"{number:g}"
        for _, _, quantity, shown in figures()
        if quantity == "accuracy"
        for number in (shown.mean, *shown.values)
        if number is not None and len(f"{number:g}") >= 5
    }
    return shares | {f"{100 * float(share):.1f}" for share in shares}


PACKAGE = Path(creditscope.papers.__file__).parent
SOURCES = [
    *PACKAGE.rglob("*.py"),
    *ROOT.joinpath("docs", "generate").glob("*.py"),
    *ROOT.joinpath("studies").glob("*.toml"),
]
SOURCES.append(PACKAGE.parent / "commands" / "reproduce.py")


def test_the_search_would_find_an_accuracy():
    assert len(accuracies()) > 50
    assert "0.615" in accuracies()
    assert "61.5" in accuracies()


@pytest.mark.parametrize("path", sorted(SOURCES), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_published_accuracy_is_typed_in_another_file(path):
    numbers = set(re.findall(r"(?<![\d.])\d*\.\d+(?![\d.])", path.read_text(encoding="utf-8")))
    assert not {number if number[0] != "." else f"0{number}" for number in numbers} & accuracies()


def test_the_data_file_is_in_the_package_and_is_plain_json():
    found = json.loads(DATA.read_text(encoding="utf-8"))
    assert set(found) == {"about", "source", "settings", "figures"}
