"""Every published figure meets a line of ours, and stands in one file only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.creditscope_papers.hao2026.made import archive

from creditscope.papers.comparison import LOGARITHMIC
from creditscope.papers.published import PublishedFigure
from creditscope.papers.tables import ComparisonRow, comparison_table
from creditscope_papers.hao2026 import FOLDER, PAPER

ROOT = Path(__file__).parents[3]
# Published, but not measured by us: the drift of w2 alone, the calibration of ρ on vectors of no method, and numbers at
# initialisation, which a history does not begin with.
NOT_MEASURED = {
    ("triangulation", "dfa, penalty 0.01", "w2_drift"),
    ("triangulation", "state_bridge, penalty 0.01", "w2_drift"),
    ("triangulation", "credit_bridge, penalty 0.01", "w2_drift"),
    ("triangulation", "calibration", "rho_random"),
}
NAMES = sorted(PAPER.published.figures)


def figures() -> Iterator[tuple[str, str, str, PublishedFigure]]:
    for experiment, rows in PAPER.published.figures.items():
        for row, quantities in rows.items():
            for quantity, figure in quantities.items():
                yield experiment, row, quantity, figure


def rows_of(experiment: str) -> dict[tuple[str, str], ComparisonRow]:
    """The lines of an experiment by row and quantity, without any run."""
    found = comparison_table(archive(), experiment).rows
    by_name = {(line.row, line.quantity): line for line in found}
    assert len(by_name) == len(found), "two lines have the same row and quantity"
    return by_name


@pytest.mark.parametrize("experiment", NAMES)
def test_every_published_figure_stands_beside_a_line_of_ours(experiment):
    mine = {(row, quantity) for one, row, quantity, _ in figures() if one == experiment}
    on_purpose = {(row, quantity) for one, row, quantity in NOT_MEASURED if one == experiment}
    assert mine - set(rows_of(experiment)) == on_purpose


@pytest.mark.parametrize("experiment", NAMES)
def test_every_line_carries_the_figure_of_its_own_row_and_quantity(experiment):
    rows = PAPER.published.figures[experiment]
    for (row, quantity), line in rows_of(experiment).items():
        assert line.published == rows.get(row, {}).get(quantity)


@pytest.mark.parametrize("experiment", PAPER.names)
def test_no_two_lines_of_a_table_have_the_same_name(experiment):
    assert rows_of(experiment)


def test_figures_and_settings_belong_to_experiments():
    assert set(PAPER.published.figures) <= set(PAPER.published.settings) <= set(PAPER.names)


@pytest.mark.parametrize("experiment", NAMES)
def test_every_figure_has_one_form_that_its_kind_allows(experiment):
    found = rows_of(experiment)
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


SOURCES = [*FOLDER.rglob("*.py"), *FOLDER.rglob("*.toml"), *ROOT.joinpath("src/creditscope/papers").glob("*.py")]


def test_the_search_would_find_an_accuracy():
    assert len(accuracies()) > 50
    assert "0.615" in accuracies()
    assert "61.5" in accuracies()


@pytest.mark.parametrize("path", sorted(SOURCES), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_published_accuracy_is_typed_in_another_file(path):
    numbers = set(re.findall(r"(?<![\d.])\d*\.\d+(?![\d.])", path.read_text(encoding="utf-8")))
    assert not {number if number[0] != "." else f"0{number}" for number in numbers} & accuracies()
