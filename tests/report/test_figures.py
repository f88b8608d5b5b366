"""The same charts as files for a paper."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.report.made import report
from tests.report.made_runs import run

from creditscope.errors import InvalidInput
from creditscope.report.charts.figures import figures, rendered, write_figures
from creditscope.report.charts.inputs import ChartInputs
from creditscope.report.charts.theme import PAPER
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


@pytest.mark.parametrize(
    "name", ["line\n" * 3000, "x" * 100_000, "a\x1b[2J\x00\ud800\u202eb"], ids=["lines", "long", "odd"]
)
def test_a_hostile_name_neither_aborts_nor_stalls_the_converter(name, tmp_path):
    views = [replace(view, label=name, title=name) for view in from_runs([run("dfa", healthy=True)])]
    views += [replace(view, label=name + "!") for view in from_runs([run("bp", healthy=True)])]
    inputs = ChartInputs(views)
    assert len(set(inputs.names)) == 2  # names that differ at their end stay apart
    assert max(map(len, inputs.names)) <= 60
    assert all("\n" not in text and "\x1b" not in text for text in inputs.names)
    rendered(figures(inputs, PAPER)[-1].spec, "png")


def test_an_unknown_format_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(InvalidInput, match="Use pdf, svg or png"):
        write_figures(ChartInputs(from_runs([run()])), tmp_path / "figures", "gif")
    assert not (tmp_path / "figures").exists()
