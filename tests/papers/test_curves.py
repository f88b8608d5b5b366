"""Curves over epochs: means over seeds beside the published logs."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

from creditscope.papers.archive import RunArchive
from creditscope.papers.curves import curve_chart, curve_section, our_points
from creditscope.report.charts.theme import PAPER as STYLE
from creditscope.study.store import Store
from creditscope_papers.akrout2019 import PAPER
from creditscope_papers.akrout2019.curves import CURVES, LOGS

RECORDS = Path(__file__).parents[2] / "results" / "records"


def test_the_logs_hold_the_figures_that_the_tables_compare() -> None:
    for row, figures in PAPER.published.figures[CURVES.experiment].items():
        for name, figure in figures.items():
            quantity, _, epoch = name.rpartition("_")
            factor = 100 if quantity == "accuracy" else 1
            assert figure.mean is not None
            assert LOGS[quantity][row][int(epoch) - 1] == pytest.approx(factor * figure.mean, abs=0.051)


def test_a_curve_is_the_mean_over_seeds_and_has_the_published_points_beside_it(tmp_path: Path) -> None:
    archive = RunArchive(PAPER, Store(tmp_path, [RECORDS]), PAPER.budgets[0])
    panel = CURVES.panels[0]
    points = our_points(archive, CURVES, panel)
    runs = archive.select(CURVES.experiment, CURVES.rows["bp"]).records.values()
    assert len(runs) == 3
    assert points["bp"][-1] == (30, pytest.approx(100 * fmean(record.accuracy for record in runs)))
    chart = curve_chart(archive, CURVES, panel, STYLE)
    assert chart is not None
    shown = [layer["data"]["values"] for layer in chart["hconcat"][0]["layer"]]
    assert {row["series"] for row in shown[0]} == set(panel.published)
    text = "\n".join(curve_section(archive, CURVES, "akrout2019", "images"))
    assert "bp 97.0 (published 97.1)" in text
    assert "With decay B reaches W to within a degree" in text


def test_without_records_there_is_neither_picture_nor_section(tmp_path: Path) -> None:
    empty = RunArchive(PAPER, Store(tmp_path), PAPER.budgets[0])
    assert curve_chart(empty, CURVES, CURVES.panels[0], STYLE) is None
    assert curve_section(empty, CURVES, "akrout2019", "images") == []


def test_a_row_has_the_same_colour_in_every_panel(tmp_path: Path) -> None:
    archive = RunArchive(PAPER, Store(tmp_path, [RECORDS]), PAPER.budgets[0])
    colours: dict[str, set[str]] = {}
    for panel in CURVES.panels:
        chart = curve_chart(archive, CURVES, panel, STYLE)
        assert chart is not None
        scale = chart["hconcat"][0]["layer"][0]["encoding"]["color"]["scale"]
        for name, colour in zip(scale["domain"], scale["range"], strict=True):
            colours.setdefault(name, set()).add(colour)
    assert list(map(len, colours.values())) == [1] * len(CURVES.rows)
