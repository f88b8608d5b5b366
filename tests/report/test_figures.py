"""The same charts as files for a paper."""

from __future__ import annotations

import pytest
from tests.report.made import report
from tests.report.made_runs import run

from creditscope.errors import InvalidInput
from creditscope.report.charts.figures import write_figures
from creditscope.report.charts.inputs import ChartInputs
from creditscope.report.views import from_report, from_runs

BEGINS = {"pdf": b"%PDF", "svg": b"<svg", "png": b"\x89PNG"}


@pytest.mark.parametrize("form", BEGINS)
def test_every_figure_becomes_a_file_of_its_format(form, tmp_path):
    shown = from_report(report()) if form != "svg" else from_runs([run()])[0]
    paths = write_figures(ChartInputs([shown]), tmp_path / "figures", form)
    assert {path.name for path in paths} == {path.name for path in (tmp_path / "figures").iterdir()}
    assert len(paths) == (5 if form != "svg" else 11)
    for path in paths:
        assert path.read_bytes().startswith(BEGINS[form])


def test_an_svg_holds_the_words_of_its_chart_as_text_and_no_colour_of_a_page(tmp_path):
    hostile = run("<script>alert(1)</script>", healthy=True)
    paths = write_figures(ChartInputs(from_runs([hostile, run("bp", healthy=True)])), tmp_path, "svg")
    text = next(path for path in paths if path.stem == "margin").read_text()
    assert "&lt;script&gt;alert(1)" in text
    assert "<script" not in text
    assert "var(--" not in text


def test_an_unknown_format_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(InvalidInput, match="Use pdf, svg or png"):
        write_figures(ChartInputs(from_runs([run()])), tmp_path / "figures", "gif")
    assert not (tmp_path / "figures").exists()
