"""A method has one colour and one mark, whatever stands beside it and wherever it is drawn."""

from __future__ import annotations

import itertools
import re

import pytest
from tests.report.made_runs import row, run

from creditscope.methods import methods
from creditscope.records.run import RunRecord
from creditscope.report.charts.figures import figures
from creditscope.report.charts.inputs import ChartInputs
from creditscope.report.charts.series import COLOURS, FIRST, Look, looks
from creditscope.report.charts.theme import LIGHT, PAGE, PAPER, SCREEN, SHAPES
from creditscope.report.html.study import write_study
from creditscope.report.study_views import judged_views
from creditscope.report.views import from_runs


def changed(record: RunRecord, **settings: object) -> RunRecord:
    return record.model_copy(update={"spec": record.spec | settings})


def scale(spec: dict, channel: str) -> dict[str, str]:
    """Series -> colour, fill or shape of its points."""
    encoding = next(layer["encoding"] for layer in spec["layer"] if "shape" in layer["encoding"])
    domain, values = (encoding[channel]["scale"][part] for part in ("domain", "range"))
    return dict(zip(domain, values, strict=True))


@pytest.mark.parametrize("order", list(itertools.permutations(["dfa", "bp", "my_own_rule"])))
def test_a_method_looks_the_same_alone_and_beside_others_in_any_order(order):
    together = looks(from_runs([run(method) for method in order]))
    for method in order:
        assert looks(from_runs([run(method)])) == {method: together[method]}


@pytest.mark.parametrize("style", [PAGE, PAPER], ids=["page", "paper"])
@pytest.mark.parametrize("chart", ["stream", "margin", "gamma", "accuracy_curve"])
def test_every_chart_of_page_and_paper_draws_that_look(style, chart):
    views = from_runs([run("bp"), run("dfa"), changed(run("dfa"), control="frozen")])
    inputs = ChartInputs(views)
    spec = next(figure.spec for figure in figures(inputs, style) if figure.name == chart)
    palette = style.palette
    for series in inputs.series:
        colour = palette.series[series.look.colour]
        assert scale(spec, "color")[series.name] == colour
        assert scale(spec, "shape")[series.name] == SHAPES[series.look.shape]
        assert scale(spec, "fill")[series.name] == (palette.surface if series.look.hollow else colour)
    assert len(SCREEN.series) == len(LIGHT.series)  # the page's variable and the paper's colour have the same number


def test_a_control_is_the_hollow_form_of_its_method():
    found = looks(from_runs([changed(run("dfa"), control="frozen"), run("dfa"), run("bp")]))
    dfa = found["dfa"]
    assert not dfa.hollow
    assert found["dfa, frozen"] == Look(dfa.colour, dfa.shape, hollow=True)


def test_a_variant_has_the_colour_of_its_method_and_another_mark():
    found = looks(from_runs([changed(run("dfa"), penalty=0.01), run("dfa"), changed(run("dfa"), penalty=0.1)]))
    assert found["dfa"] == looks(from_runs([run("dfa")]))["dfa"]
    assert {look.colour for look in found.values()} == {found["dfa"].colour}
    assert len({look.shape for look in found.values()}) == 3
    assert [label for label, look in found.items() if not look.dashed] == ["dfa"]


def test_registered_methods_all_look_different():
    ours = [name for name in methods if name in FIRST]
    found = looks(from_runs([run(name) for name in ours]))
    assert len(set(found.values())) == len(ours) == len(FIRST)


def test_up_to_seven_series_of_one_colour_are_told_apart_by_shape():
    names = [f"rule {index}" for index in range(40)]
    found = looks(from_runs([run(name) for name in names]))
    for colour in range(COLOURS):
        same = [look for look in found.values() if look.colour == colour]
        assert len(set(same)) == min(len(same), len(SHAPES))


def test_the_page_of_a_run_has_the_look_that_its_study_gives_it(tmp_path):
    records = [
        run("dfa", 1, key="a1"),
        changed(run("dfa", 1, key="a2"), data="digits"),
    ]  # the same mark would be wanted
    rows = [row("dfa on mnist1d", records[:1]), row("dfa on digits", records[1:])]
    views = judged_views({one.key: one for one in records}, rows, "three")
    write_study(tmp_path, views, title="A study", rows=rows)
    given = looks(views)
    assert len(set(given.values())) == 2
    for key, label in (("a1", "dfa on mnist1d"), ("a2", "dfa on digits")):
        text = (tmp_path / "runs" / f"{key}.html").read_text(encoding="utf-8")
        assert set(re.findall(r'"domain":\["dfa on [^]]*\],"range":\["([a-z-]+)"\]', text)) == {
            SHAPES[given[label].shape]
        }
