"""Charts show the numbers of the records, all of them, and nothing where there is nothing."""

from __future__ import annotations

import json
import math

import altair as alt
import pytest
from tests.report.made import HEALTHY, report, with_limit
from tests.report.made_runs import CREDIT, audited, run

from creditscope.records.report import Report
from creditscope.records.run import RunRecord
from creditscope.report.charts.figures import ChartFigure, figures
from creditscope.report.charts.inputs import ChartInputs
from creditscope.report.charts.margins import Decision
from creditscope.report.charts.rows import MOST_POINTS, curves, layered
from creditscope.report.charts.theme import DARK, LIGHT, PAGE, PAPER
from creditscope.report.views import from_report, from_runs
from creditscope.verdict import Measurement, Missing, Reason

EVERY = ["stream", "growth", "gradient", "margin", "D4", "gamma", "rho", "nudge"]
EVERY += ["accuracy_curve", "d1_curve", "d2_curve"]


def drawn(*shown: Report | RunRecord, **more: object) -> dict[str, ChartFigure]:
    views = [from_report(item) if isinstance(item, Report) else from_runs([item])[0] for item in shown]
    return {figure.name: figure for figure in figures(ChartInputs(views, **more), PAGE)}


def points(figure: ChartFigure, name: str = "points") -> list[dict]:
    return figure.spec["datasets"].get(name, [])


def test_a_run_with_credit_and_history_has_every_chart_and_a_bare_report_has_what_it_measured():
    assert list(drawn(run())) == EVERY
    assert list(drawn(report())) == ["stream", "growth", "gradient", "margin", "D4"]
    bare = report({"D0": Measurement(0.0), "D3": Missing(Reason.NO_CONTROL, "no control")}, measures={})
    assert list(drawn(bare.model_copy(update={"measures": {}}))) == []


@pytest.mark.parametrize("style", [PAGE, PAPER], ids=["page", "paper"])
def test_every_chart_is_valid_vega_lite(style):
    decisions = [Decision("dfa", "accuracy", 0, 3), Decision("dfa", "all", 3, 3)]
    shown = from_runs([run("dfa"), run("bp", healthy=True)][: 1 if style is PAGE else 2])
    found = figures(ChartInputs(shown, decisions=decisions), style)
    assert [figure.name for figure in found] == [*EVERY, "decisions"]
    for figure in found:
        alt.TopLevelLayerSpec.validate(figure.spec)  # Altair's own check, which rendering leaves out


def test_the_points_of_the_stream_are_the_norms_of_the_report():
    found = drawn(audited())["stream"]
    assert [(point["layer"], point["value"]) for point in points(found)] == [(0, 8.0), (1, 9.0), (2, 14.0)]
    assert found.headings == ("layer", "‖h‖")
    assert found.table == (("0", "8.00"), ("1", "9.00"), ("2", "14.0"))


def test_each_ceiling_is_the_limit_times_the_state_before_it():
    ceilings = points(drawn(audited())["stream"], "limits")
    assert [(mark["layer"], mark["value"]) for mark in ceilings] == [(1, 50 * 8.0), (2, 50 * 9.0)]


def test_the_ceilings_of_the_earlier_protocol_are_the_limit_times_the_embedding():
    april = HEALTHY | {"D1": Measurement(1.75, per_layer=(1.0, 1.125, 1.75))}
    found = drawn(report(april, protocol="april"))["stream"]
    assert [mark["value"] for mark in points(found, "limits")] == [50 * 8.0, 50 * 8.0]


def test_the_clamp_region_reaches_from_the_limit_to_below_the_smallest_gradient():
    (region,) = points(drawn(audited())["gradient"], "limits")
    assert region["value"] == 1e-7
    assert region["floor"] < 2e-10


def test_the_null_band_is_three_standard_deviations_to_either_side():
    band = points(drawn(audited())["gamma"], "null")
    assert [bar["low"] for bar in band] == pytest.approx([-0.05, -0.06, -0.07])
    assert [bar["high"] for bar in band] == pytest.approx([0.07, 0.06, 0.05])


def test_only_clamped_alignment_is_faded_where_the_reference_has_collapsed():
    gated, sound = drawn(audited())["gamma"], drawn(audited(healthy=True))["gamma"]
    assert not any(point["grey"] for point in points(gated))
    assert all(point["grey"] for point in points(gated, "others"))
    assert "Faded circles: invalid" in gated.caption
    assert not any(point["grey"] for name in ("points", "others") for point in points(sound, name))


def test_what_an_axis_has_no_place_for_leaves_a_gap_and_keeps_its_word():
    odd = report(measures={"hidden_norm": Measurement(math.nan, (8.0, math.inf, 0.0))})
    found = drawn(odd)["stream"]
    assert [(point["value"], point["text"]) for point in points(found)] == [(8.0, "8.00"), (None, "inf"), (None, "0")]


def test_a_diverged_network_and_limits_without_end_still_have_their_charts():
    nan, inf = math.nan, math.inf
    answers = {
        "D0": Measurement(7.0),
        "D1": Measurement(inf, per_layer=(inf, nan), axis="block"),
        "D2": Measurement(nan, per_layer=(1e-3, nan, nan)),
        "D3": Measurement(nan, interval=(-inf, nan)),
    }
    measures = CREDIT | {
        "hidden_norm": Measurement(nan, (8.0, inf, nan)),
        "gamma_null_std": Measurement(nan, (nan, inf, 0.1)),
    }
    broken = with_limit(report(answers, measures), "D1", inf)
    for figure in drawn(with_limit(broken, "D2", inf)).values():
        json.dumps(figure.spec, allow_nan=False)
    assert broken.to("html")


def test_the_earlier_protocol_has_no_growth_across_blocks():
    april = HEALTHY | {"D1": Measurement(1.75, per_layer=(1.0, 1.125, 1.75))}
    assert "growth" not in drawn(report(april, protocol="april"))


def test_a_first_firing_is_the_first_epoch_past_the_limit():
    d1 = points(drawn(run())["d1_curve"], "fired")
    assert [mark["epoch"] for mark in d1] == [4]  # 2·3^3 = 54 > 50 in the epoch with index 3
    d2 = points(drawn(run())["d2_curve"], "fired")
    assert [mark["epoch"] for mark in d2] == [6]  # 1e-3·0.1^5 = 1e-8 < 1e-7; 1e-7 itself does not fire
    assert [mark["code"] for mark in points(drawn(run())["accuracy_curve"], "fired")] == ["D1", "D2"]
    assert not points(drawn(run(healthy=True))["d1_curve"], "fired")


def test_margins_stand_seed_by_seed_and_then_over_all_seeds():
    seeds = report(HEALTHY | {"D3": Measurement(18.0, per_seed=(19.0, 17.0), interval=(5.0, 31.0))})
    rows = points(drawn(seeds)["margin"])
    assert [row["value"] for row in rows] == [19.0, 17.0, 18.0]
    assert [(row["low"], row["high"]) for row in rows] == [(None, None), (None, None), (5.0, 31.0)]
    assert [row["slot"] for row in rows] == [0, 1, 2]
    joined = drawn(run("dfa", 1), run("dfa", 2), margins={"dfa": Measurement(-4.0, interval=(-6.0, -2.0))})["margin"]
    assert [row["kind"] for row in points(joined)] == ["seed 1", "seed 2", "all seeds"]


def test_a_decision_says_in_words_what_its_colour_says():
    found = drawn(run(), decisions=[Decision("dfa", "accuracy", 0, 3), Decision("dfa", "all", 2, 3)])["decisions"]
    assert [row["word"] for row in points(found)] == ["· 0/3", "✗ 2/3"]


def test_every_point_carries_the_key_of_its_run():
    record = run(key="0123456789abcdef")
    for figure in drawn(record).values():
        assert {point["run"] for point in points(figure)} == {"0123456789abcdef"}


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_every_colour_can_be_seen_and_every_word_read_on_its_ground(palette):
    for name, colour in palette.variables().items():
        if name not in ("ground", "surface", "line"):
            least = 3.0 if name.startswith("series") else 4.5  # WCAG 2: graphics and text
            for ground in (palette.ground, palette.surface):
                assert contrast(colour, ground) >= least, (name, colour, ground)


def contrast(one: str, other: str) -> float:
    """(L₁ + 0.05)/(L₂ + 0.05) of the relative luminances, the lighter one above."""
    light = sorted((luminance(one), luminance(other)))
    return (light[1] + 0.05) / (light[0] + 0.05)


def luminance(colour: str) -> float:
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_very_many_epochs_are_thinned_and_the_last_one_stays():
    views = from_runs([run("dfa", seed, epochs=300, healthy=True) for seed in range(20)])
    rows = curves(views, "accuracy")
    assert len(rows) <= MOST_POINTS + 2 * len(views)
    assert {row["epoch"] for row in rows} >= {1, 300}


def test_a_measure_that_was_never_taken_gives_no_rows():
    assert layered([from_report(report())], "rho") == []
    assert set(CREDIT) - set(report().measures)


def learning(epochs: int = 4, method: str = "kolen_pollack", shift: float = 0.0) -> RunRecord:
    """A run whose feedback nears two weights, one of them faster."""
    made = run(method, epochs=epochs, healthy=True)
    rows = [
        row.model_copy(
            update={"angles": {"blocks.0.w.weight": 80.0 - row.epoch + shift, "head.weight": 70 - 2.0 * row.epoch}}
        )
        for row in made.history
    ]
    return made.model_copy(update={"history": tuple(rows)})


def test_the_angles_of_one_run_are_drawn_weight_by_weight_from_its_history():
    found = drawn(learning())["angle_curve"]
    assert found.headings == ("epoch", "weight", "angle, degrees")
    assert found.table[:2] == (("1", "blocks.0.w", "80.0"), ("1", "head", "70.0"))
    by_weight = [p["value"] for p in points(found) if p["series"] == "head"]
    assert by_weight == [70.0, 68.0, 66.0, 64.0]
    alt.TopLevelLayerSpec.validate(found.spec)
    domains = [layer["encoding"]["color"]["scale"]["domain"] for layer in found.spec["layer"]]
    assert domains == [["blocks.0.w", "head"]] * 2
    assert "angle_curve" in drawn(learning().model_copy(update={"report": None}))  # trained, not audited


def test_the_angles_of_several_runs_are_their_means_and_fixed_feedback_has_none():
    found = drawn(learning(), learning(method="weight_mirror", shift=2.0), run("dfa"))["angle_curve"]
    ends = {p["series"]: p["value"] for p in points(found) if p["epoch"] == 4}
    assert list(ends.values()) == [(77 + 64) / 2, (79 + 64) / 2]
    assert found.headings == ("method", "epoch", "angle, degrees", "run")
    alt.TopLevelLayerSpec.validate(found.spec)
    assert "angle_curve" not in drawn(run("dfa"))


def test_long_histories_of_angles_are_thinned_and_keep_their_ends():
    found = points(drawn(learning(epochs=3000))["angle_curve"])
    assert len(found) <= MOST_POINTS + 2
    assert {found[0]["epoch"], found[-1]["epoch"]} == {1, 3000}
