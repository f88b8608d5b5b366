"""The page of pictures: current, drawn from the committed records, and its captions follow the numbers."""

from __future__ import annotations

import pytest
from docs.generate import pictures

from creditscope.report.charts.theme import PAPER


@pytest.fixture(scope="module")
def made():
    return {picture.name: picture for picture in pictures.pictures()}


def test_the_page_of_pictures_is_current(made):
    assert pictures.PAGE.read_text(encoding="utf-8") == pictures.page(list(made.values())), "run make docs"


@pytest.mark.slow
def test_the_pictures_are_current(made):
    drawn = pictures.charts(list(made.values()))
    assert set(pictures.IMAGES.glob("see-*.svg")) == set(drawn)
    assert {path.name for path, svg in drawn.items() if path.read_text(encoding="utf-8") != svg} == set()


def test_every_number_of_a_chart_stands_in_its_table(made):
    for name in ("stream", "gamma", "profile", "sensitivity"):
        picture = made[name]
        points = [
            row
            for chart in picture.draw(PAPER)["hconcat"]
            for layer in chart["layer"]
            if layer["mark"]["type"] == "point" and layer.get("encoding", {}).get("fill")
            for row in layer["data"]["values"]
        ]
        cells = {cell for row in picture.rows for cell in row}
        assert points
        assert {row["text"] for row in points} <= cells


def test_the_titles_say_what_the_records_say(made):
    profile = pictures._means(pictures._named(pictures._demo(), "D10"), lambda values: sum(values) / len(values))
    rise = {name: values[-1] - values[1] for name, values in profile.items()}
    assert rise["backprop"] > 0.1 > 0.02 > rise["DFA"]
    assert f"{100 * rise['backprop']:+.1f} points" in made["profile"].caption
    assert "DFA, penalty 0.01: exact" in made["gamma"].caption
    (clamped, exact) = (
        {row[column] for row in made["gamma"].rows if row[0] == "DFA, penalty 0.01"} for column in (3, 2)
    )
    assert clamped == exact
