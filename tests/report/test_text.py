from __future__ import annotations

import math
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from tests.report.made import EXPLODED, HEALTHY, finding, report, with_limit, without_gradient_check
from tests.report.real import tiny_view

from creditscope.records.report import Report
from creditscope.report.html.tables import measure_table
from creditscope.report.layers import HEADINGS
from creditscope.report.text import page
from creditscope.verdict import Measurement, Missing, Reason

NAN, INF = math.nan, math.inf
WRECKED = HEALTHY | {
    "D0": Measurement(1_803_001.0, note="513,000 in states"),
    "D1": Measurement(NAN, per_layer=(NAN, INF), axis="block"),
    "D2": Measurement(NAN, per_layer=(NAN, NAN, NAN)),
    "D3": Missing(Reason.NO_CONTROL, "no frozen-blocks control was given"),
}
REPORTS = {
    "healthy": report(),
    "exploded": report(EXPLODED),
    "wrecked": report(WRECKED, {"hidden_norm": Measurement(NAN, (8.0, INF, NAN))}),
    "open": report(
        HEALTHY | {"D3": Missing(Reason.NO_CONTROL, "no frozen-blocks control was given")}, control_accuracy=None
    ),
    "four": report(EXPLODED, protocol="four"),
    "april": report(HEALTHY | {"D1": Measurement(3.0, per_layer=(1.0, 2.0, 3.0))}, protocol="april"),
    "credit": report(
        EXPLODED,
        {name: Measurement(0.1, (0.42, 0.03, -0.01)) for name in ("gamma", "gamma_clamped")}
        | {"gain": Measurement(0.9)},
    ),
    "bare": report({"D0": Measurement(0.0)}, accuracy=None, control_accuracy=None, measures={}),
}


def whole(report: Report, width: int = 80) -> str:
    return page(report, width, full=True)


def table_of(text: str) -> list[str]:
    (table,) = [part.splitlines() for part in text.split("\n\n") if part.startswith("layer")]
    return table


def lines_of(text: str, start: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(start)]


@pytest.mark.parametrize("width", [70, 80, 100, 120, 140])
@pytest.mark.parametrize("name", REPORTS)
def test_no_line_is_wider_than_the_page(name, width):
    assert max(map(len, page(REPORTS[name], width).splitlines())) <= width


@pytest.mark.parametrize("name", REPORTS)
def test_colours_add_styles_and_nothing_else(name):
    styled = page(REPORTS[name], 100, colour=True)
    assert "\x1b[" in styled
    assert re.sub(r"\x1b\[[0-9;]*m", "", styled) == page(REPORTS[name], 100)


@pytest.mark.parametrize("name", REPORTS)
def test_no_line_ends_in_blanks(name):
    assert not [line for line in page(REPORTS[name]).splitlines() if line != line.rstrip()]


def test_the_page_is_what_str_gives():
    assert str(REPORTS["healthy"]) == page(REPORTS["healthy"], 80)


def test_the_header_says_what_was_measured_on_what():
    head = "\n".join(whole(REPORTS["healthy"]).split("\n\n")[:2])
    for fact in ("a network", "PASS", "ResidualMLP, 2 blocks, 541,962 parameters", "float32 on cpu"):
        assert fact in head
    for fact in (
        "1,000 images in 8 batches",
        "protocol three",
        "accuracy 74.0 ± 1.0 % over 3 seeds",
        "control 56.0 ± 1.0",
    ):
        assert fact in head
    assert "checked: deterministic, gradient (finite difference within 1%, in float64)" in head


def test_a_guard_that_did_not_run_has_a_line_of_its_own():
    text = page(without_gradient_check(REPORTS["healthy"]))
    assert "guard gradient: switched off" in text
    assert "was not checked against a finite difference (switched off)" in " ".join(text.split())


def test_every_layer_has_a_row_and_the_columns_are_aligned():
    table = table_of(whole(REPORTS["healthy"]))
    assert table[0].split() == ["layer", "‖h‖", "growth", "‖g‖/128", "drift", "log", "‖h‖"]
    assert [line.split()[0] for line in table[1:]] == ["0", "1", "2"]
    assert [line.split()[1] for line in table[1:]] == ["8.00", "9.00", "14.0"]
    assert len({line.index("▪") for line in table[1:]}) == 1


def test_the_growth_of_a_block_stands_beside_the_state_that_it_makes():
    first, second, third = table_of(whole(REPORTS["healthy"]))[1:]
    assert (second.split()[2], third.split()[2]) == ("1.10", "1.50")
    assert "1.10" not in first


def test_a_number_past_the_limit_is_marked_where_the_diagnostic_fires():
    text = page(REPORTS["exploded"])
    assert "7,000!" in text
    assert "3.0e-10!" in text
    assert "!: beyond the limit of a diagnostic that fires" in text
    assert "!" not in page(REPORTS["healthy"])


def test_every_diagnostic_has_a_flag_line_with_value_limit_and_distance():
    text = whole(REPORTS["exploded"])
    assert lines_of(text, "D1") == ["D1  Scale stability     FIRES    7,000  fires > 50     140x beyond the limit"]
    assert lines_of(text, "D2") == ["D2  Reference validity  FIRES  2.0e-10  fires < 1e-07  500x beyond the limit"]
    assert lines_of(text, "D3") == ["D3  Depth utility       pass   18.0 pp  fires < 2 pp   16.0 pp above the limit"]
    assert lines_of(text, "D4") == ["D4  Reference drift     pass     0.120  fires > 0.3    0.180 below the limit"]
    assert "95 % interval 13.7 to 22.3 pp; paired t-interval over 3 seeds" in text


def test_a_wide_page_has_the_notes_beside_the_numbers():
    (line,) = lines_of(page(REPORTS["exploded"], 120), "D2")
    assert line.endswith("gain 2e-08: collapsed")


def test_a_missing_number_is_a_dash_and_its_reason_is_given():
    text = whole(REPORTS["open"])
    assert lines_of(text, "D3")[0].split()[3:5] == ["skipped", "-"]
    assert "no frozen-blocks control was given" in text
    assert "frozen control not given" in text


def test_nan_and_infinity_are_shown_as_such_and_a_count_as_a_whole_number():
    text = whole(REPORTS["wrecked"])
    assert "1,803,001" in text
    assert lines_of(text, "D1")[0].split()[3:5] == ["undefined", "NaN"]
    assert [line.split()[1] for line in table_of(text)[1:4]] == ["8.00", "inf", "NaN"]


def test_a_limit_of_the_users_own_is_said():
    text = whole(with_limit(REPORTS["healthy"], "D1", 60.0), 140)
    assert "fires > 60" in text
    assert "limit set by the user; the calibrated limit is 50" in text


def test_a_long_title_moves_the_distance_into_the_note():
    long = replace(finding("D1", Measurement(7000.0)), title="Scale relative to layer 0, as it was")
    text = page(REPORTS["exploded"].model_copy(update={"findings": REPORTS["exploded"].findings | {"D1": long}}))
    assert max(map(len, text.splitlines())) <= 80
    assert "    140x beyond the limit" in text


def test_an_advisory_diagnostic_is_called_so():
    assert re.search(
        r"^D4.*\n    at layer 1, 8 groups of 128 images; advisory$", whole(REPORTS["healthy"]), re.MULTILINE
    )
    assert "advisory" not in whole(REPORTS["four"])


def test_the_verdict_says_why_and_what_stays_open():
    text = whole(report(EXPLODED | {"D3": Missing(Reason.NO_CONTROL, "no control")}))
    assert "Verdict: FAIL(D1+D2)\n  The stream exploded and the reference gradient collapsed" in text
    assert "Still open: unused depth." in text


def test_remedies_are_given_for_what_fires_and_for_what_the_verdict_waits_for():
    text = page(
        report(EXPLODED | {"D3": Missing(Reason.NO_CONTROL, "no control"), "D4": Missing(Reason.TOO_FEW, "one batch")})
    )
    for code in ("D1", "D2", "D3"):
        assert f"  {code} Remedy of {code}." in text
    assert "Remedy of D4" not in text


def test_what_is_undefined_because_of_a_nan_gets_no_remedy_of_its_own():
    text = page(REPORTS["wrecked"])
    assert "Remedy of D0." in text
    assert "Remedy of D3." in text
    assert "Remedy of D1." not in text


def test_a_pass_says_what_it_does_not_mean_and_nothing_else_does():
    text = page(REPORTS["healthy"])
    assert "What PASS does not mean" in text
    assert "rules out: non-finite numbers,\n    measurement degeneracy, unused depth." in text
    assert "does not mean" not in page(REPORTS["exploded"])
    assert "does not mean" not in page(REPORTS["open"])


def test_a_pass_claims_only_what_the_report_supports():
    text = page(REPORTS["healthy"], 140)
    assert "other seeds" not in text
    assert "No credit signal was examined" in text
    one = report(
        HEALTHY | {"D4": Missing(Reason.TOO_FEW, "one batch")},
        {"gamma": Measurement(0.9, (0.9, 0.9, 0.9))},
        accuracy=(0.75,),
    )
    text = page(one, 140)
    assert "other seeds may differ" in text
    assert "Not measured: D4 reference drift." in text
    assert "No credit signal" not in text


def test_a_number_that_must_not_be_judged_is_called_so():
    shown = replace(finding("D4", Missing(Reason.TOO_FEW, "too few groups")), measurement=Measurement(0.9))
    made = report()
    text = whole(made.model_copy(update={"findings": made.findings | {"D4": shown}}), 140)
    assert "Shown but not judged: D4 reference drift." in text
    assert "Not measured" not in text


def test_a_diagnostic_that_fires_beside_a_pass_is_explained():
    text = whole(report(HEALTHY | {"D1": Measurement(120.0, per_layer=(1.0, 120.0), axis="block")}), 140)
    assert "Verdict: PASS" in text
    assert "D1 fires nevertheless. No more than D1." in text


def test_warnings_stand_beside_the_verdict():
    text = page(report(HEALTHY | {"D8": Measurement(0.0, note="the predictions changed with the labels")}))
    assert text.splitlines()[0].endswith(" PASS")
    assert "\nWarning: D8 Another question: the predictions changed with the labels" in text


def test_clamped_cosines_with_a_collapsed_reference_are_shown_as_invalid():
    text = " ".join(whole(REPORTS["credit"]).split())
    assert "(Γ clamped)" in text
    assert "(Γ)" not in text
    assert "in brackets: invalid, because the reference gradient lies below the clamp" in text
    healthy = page(report(HEALTHY, {"gamma": Measurement(0.1, (0.42, 0.03, -0.01))}))
    assert "invalid" not in healthy


def test_every_measure_of_an_audit_has_a_title_of_its_own():
    audited = tiny_view().report
    assert audited is not None
    assert {*audited.measures, "gamma_clamped_mean", "bridge_residual"} <= set(HEADINGS)
    text = whole(report(EXPLODED, {"gamma_clamped_mean": Measurement(0.1)}), width=100)
    assert "Also measured\n  Γ as usually reported 0.100" in text
    assert "Γ as usually reported" in {row[0].text for row in measure_table(audited).rows}


def test_new_diagnostics_and_measures_appear_by_themselves():
    new = {"D5": Measurement(0.2), "D7": Measurement(0.9, per_layer=(0.7, 0.8, 0.9))}
    text = whole(report(HEALTHY | new, {"odd_thing": Measurement(1.0, (0.1, 0.2, 0.3)), "lone": Measurement(4.0)}), 120)
    assert lines_of(text, "D5  Another question")
    assert "odd thing" in text
    assert "Also measured\n  lone 4.00" in text


def test_a_table_too_wide_for_the_page_goes_on_in_a_second_panel():
    many = {f"measure_{index}": Measurement(1.0, (0.1, 0.2, 0.3)) for index in range(9)}
    text = whole(report(HEALTHY, many), 80)
    assert len(lines_of(text, "layer")) >= 2
    assert all(f"measure {index}" in text for index in range(9))


def test_seeds_are_not_taken_for_layers():
    seeds = replace(finding("D3", Measurement(18.0, per_seed=(17.0, 18.0, 19.0))))
    text = whole(REPORTS["healthy"].model_copy(update={"findings": REPORTS["healthy"].findings | {"D3": seeds}}))
    assert table_of(text)[0].split()[:5] == ["layer", "‖h‖", "growth", "‖g‖/128", "drift"]


def test_rendering_needs_no_torch():
    program = (
        "import sys; from tests.report.made import report; from creditscope.report.text import page; page(report());"
        "print(*{'torch', 'scipy', 'altair'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_long_title_is_wrapped_and_never_cut():
    title = ", ".join(f"setting_{number} {number}" for number in range(12)) + ", seed 7"
    made = report().model_copy(update={"subject": report().subject.model_copy(update={"name": title})})
    text = page(made, 80)
    assert max(map(len, text.splitlines())) <= 80
    head = text[: text.index(" ─")]
    assert " ".join(head.split()) == title
