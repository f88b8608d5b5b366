"""Every chart and every page, made from a real audit with credit: a tiny DFA run with its frozen control."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests.report.real import tiny_record, tiny_view

from creditscope.report.charts.figures import ChartFigure, figures, write_figures
from creditscope.report.charts.inputs import ChartInputs, limit_row
from creditscope.report.charts.margins import Decision
from creditscope.report.charts.theme import PAGE
from creditscope.report.claim_card import claim_card
from creditscope.report.formats import formats
from creditscope.report.html.audit import page
from creditscope.report.html.study import write_study
from creditscope.report.notebook import fragment
from creditscope.report.numbers import number
from creditscope.verdict import Measurement, Status

CHARTS = {  # name -> where its points come from: a measure, a finding, or a field of the history
    "stream": "hidden_norm",
    "growth": "D1",
    "gradient": "D2",
    "margin": "D3",
    "D4": "D4",
    "D6": "D6",
    "D10": "D10",
    "D11": "D11",
    "D12": "D12",
    "gamma": "gamma",
    "rho": "rho",
    "nudge": "nudge",
    "accuracy_curve": "accuracy",
    "d1_curve": "d1",
    "d2_curve": "d2",
    "decisions": "",
}


def drawn() -> dict[str, ChartFigure]:
    inputs = ChartInputs([tiny_view()], decisions=[Decision("dfa", "accuracy", 1, 2)])
    return {figure.name: figure for figure in figures(inputs, PAGE)}


def measured(name: str) -> Measurement:
    report = tiny_record().report
    assert report is not None
    found = report.measures[name] if name in report.measures else report.findings[name].measurement
    assert found is not None
    return found


def values(figure: ChartFigure, rows: str = "points") -> list[float]:
    return [row["value"] for row in figure.spec["datasets"][rows]]


def test_a_diagnostic_without_a_limit_in_its_protocol_has_no_line_and_no_word_about_firing():
    """Strict measures D4 and judges it nowhere; three judges it at 0.3."""
    figure, judged = drawn()["D4"], drawn()["D11"]
    assert tiny_record().report.findings["D4"].status == "measured"
    assert figure.spec["datasets"].get("limits", []) == []
    assert "fires" not in figure.caption
    assert "fires" in judged.caption
    view = tiny_view()
    four = replace(view.report.findings["D4"], status=Status.PASS)
    view = replace(view, report=view.report.model_copy(update={"findings": {**view.report.findings, "D4": four}}))
    (line,) = {f.name: f for f in figures(ChartInputs([view]), PAGE)}["D4"].spec["datasets"]["limits"]
    assert line["label"] == "D4 fires above 0.3"


def test_the_label_of_a_limit_has_all_its_digits():
    finding = tiny_record().report.findings["D2"]
    for at, label in (
        (1e-7, "D2 fires below 1e-7"),
        (7.5e-4, "D2 fires below 0.00075"),
        (5.4e-6, "D2 fires below 5.4e-6"),
    ):
        assert limit_row(replace(finding, limit=replace(finding.limit, at=at)))["label"] == label


def test_a_real_audit_has_every_chart_in_order():
    assert list(drawn()) == list(CHARTS)


@pytest.mark.parametrize(
    "name", ["stream", "growth", "gradient", "D4", "D6", "D10", "D11", "D12", "gamma", "rho", "nudge"]
)
def test_the_points_of_a_chart_are_the_numbers_per_layer_of_the_audit(name):
    numbers = measured(CHARTS[name]).per_layer
    figure = drawn()[name]
    assert values(figure) == list(numbers)
    assert [line[-1] for line in figure.table] == [number(value) for value in numbers]


@pytest.mark.parametrize("name", ["accuracy_curve", "d1_curve", "d2_curve"])
def test_the_points_of_a_curve_are_the_history_of_the_run(name):
    assert values(drawn()[name]) == [getattr(row, CHARTS[name]) for row in tiny_record().history]


def test_the_margin_is_that_of_the_audit_with_its_interval():
    margin = measured("D3")
    (row,) = drawn()["margin"].spec["datasets"]["points"]
    assert (row["value"], (row["low"], row["high"])) == (margin.value, margin.interval)


def test_the_chart_of_rho_shows_the_score_of_the_gradient_itself():
    figure = drawn()["rho"]
    reference = figure.spec["datasets"]["reference"]
    own = [row["value"] for row in reference if row["kind"] == "the backprop gradient"]
    assert own == list(measured("rho_bp").per_layer)
    assert min(own) > 0.99
    absolute = [row["value"] for row in reference if row["kind"] == "the backprop gradient, absolute step"]
    assert absolute == list(measured("rho_absolute_bp").per_layer)
    assert values(figure, "others") == list(measured("rho_absolute").per_layer)
    assert "Open diamonds: the score of the backprop gradient itself." in figure.caption


def test_the_chart_of_gamma_shows_its_null_and_the_clamped_values():
    data = drawn()["gamma"].spec["datasets"]
    centre, spread = measured("gamma_null").per_layer, measured("gamma_null_std").per_layer
    assert [row["low"] for row in data["null"]] == [mean - 3 * std for mean, std in zip(centre, spread, strict=True)]
    assert [row["value"] for row in data["others"]] == list(measured("gamma_clamped").per_layer)


def test_a_limit_in_points_is_not_drawn_across_accuracies():
    profile, dead = drawn()["D10"], drawn()["D11"]
    assert profile.spec["datasets"].get("limits", []) == []
    assert profile.caption == ("Linear read-out at every layer. D10 is a difference between such numbers, in points.")
    assert [row["value"] for row in dead.spec["datasets"]["limits"]] == [5.4e-6]


def test_a_diagnostic_that_is_new_has_a_chart_by_itself():
    view = tiny_view()
    assert view.report is not None
    new = replace(view.report.findings["D4"], code="X11", title="A new question", column="new")
    later = view.report.model_copy(update={"findings": view.report.findings | {"X11": new}})
    names = [figure.name for figure in figures(ChartInputs([replace(view, report=later)]), PAGE)]
    assert names[names.index("D12") + 1] == "X11"


def test_every_chart_of_a_real_audit_becomes_a_figure_for_a_paper(tmp_path):
    written = write_figures(ChartInputs([tiny_view()]), tmp_path, "svg")
    assert [path.stem.replace("-", "_") for path in written] == [name for name in CHARTS if name != "decisions"]


def test_every_page_says_the_verdict_and_the_accuracy_of_the_audit(tmp_path):
    view = tiny_view()
    report = view.report
    assert report is not None
    shown = f"{100 * report.accuracy[0]:.1f} %"
    study = write_study(tmp_path, [view], title="One run").read_text(encoding="utf-8")
    texts = {name: entry.render(view) for name, entry in formats.items() if name not in ("json", "csv", "model-index")}
    for text in (page(view), study, *texts.values()):
        assert view.verdict in text.replace("\\", "").replace("<wbr>", "")
        assert shown in text.replace("\\", "")
    assert view.verdict in fragment(report)
    assert view.verdict in str(claim_card(report))


def test_no_number_of_a_sound_audit_is_nan():
    report = tiny_record().report
    assert report is not None
    assert not [name for name, found in report.measures.items() if math.isnan(found.value)]
