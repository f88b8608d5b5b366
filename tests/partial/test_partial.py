"""Logs prove what they hold and nothing else: exact, bounded, open or missing, and never a pass that was not earned."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.study.made import record

from creditscope.diagnostics import diagnostics, examine
from creditscope.errors import CreditscopeError, InvalidInput
from creditscope.evidence.records import Evidence
from creditscope.partial import PartialAudit, log_of, partial_audit, read_logs
from creditscope.partial.fields import NOTHING, look_up
from creditscope.partial.page import page
from creditscope.partial.readings import reference, scale
from creditscope.records.run import HistoryRow, RunRecord
from creditscope.runs.spec import RunSpec
from creditscope.verdict import Status

NORMS = st.floats(1e-12, 1e12)


def log(*rows, accuracy=0.36, **more):
    return {"final_test_acc": accuracy, "log": list(rows) or [{"h_L_norm": 4e4, "g_2_norm": 1e-6}], **more}


def read(*rows, **options):
    """The readings of a single log."""
    return partial_audit({"a.json": log(*rows)}, **options).readings


def said(readings, code):
    return str(readings[code].state), str(readings[code].finding.status)


def full(hidden, gradient):
    """D1 and D2 by the diagnostics themselves, from one sample whose norms these are."""
    columns = [torch.tensor(norms, dtype=torch.float64)[:, None] for norms in (hidden, gradient)]
    evidence = Evidence(*columns, error_norms=torch.ones(1, dtype=torch.float64))
    return [examine(diagnostics[code], evidence) for code in ("D1", "D2")]


def logged(hidden, gradient, layers, batch=1):
    """A row that holds some of the layers, the gradients as a mean over a batch."""
    states = {f"h_{layer}_norm": hidden[layer] for layer in layers}
    return states | {f"g_{layer}_norm": gradient[layer] / batch for layer in layers}


# --- D1 ---


def test_the_published_form_bounds_d1_by_the_geometric_mean():
    readings = read(blocks=4, h0=9.0)
    assert said(readings, "D1") == ("open", "skipped")
    assert readings["D1"].finding.value == pytest.approx((4e4 / 9) ** (1 / 4))
    assert readings["D1"].at_least


@pytest.mark.parametrize(("growth", "answer"), [(49.9, ("open", "skipped")), (50.1, ("bounded", "fires"))])
def test_the_bound_fires_exactly_past_the_limit_and_is_silent_before(growth, answer):
    assert said(read({"h_L_norm": 9 * growth**4}, blocks=4, h0=9.0), "D1") == answer


@given(st.lists(NORMS, min_size=2, max_size=7), st.data())
def test_the_bound_is_never_above_the_largest_growth(hidden, data):
    blocks = len(hidden) - 1
    some = data.draw(st.sets(st.integers(0, blocks), min_size=2))
    found = scale({layer: hidden[layer] for layer in some}, blocks).finding.value
    largest = max(after / before for before, after in pairwise(hidden))
    assert found is not None
    assert found <= largest * (1 + 1e-9)
    if len(some) == blocks + 1:
        assert found == pytest.approx(largest)


@given(st.lists(NORMS, min_size=3, max_size=6), st.data(), st.sampled_from([None, 1, 128, 1000]))
def test_a_log_never_contradicts_the_full_audit(hidden, data, batch):
    blocks = len(hidden) - 1
    gradient = data.draw(st.lists(NORMS, min_size=blocks + 1, max_size=blocks + 1))
    some = data.draw(st.sets(st.integers(0, blocks), min_size=1))
    row = logged(hidden, gradient, some, batch or 64)
    readings = read(row, blocks=blocks, batch_size=batch)
    for code, whole in zip(("D1", "D2"), full(hidden, gradient), strict=True):
        claimed = readings[code].finding.status
        near = whole.value == pytest.approx(whole.limit.at, rel=1e-9)
        assert claimed in (Status.SKIPPED, whole.status) or near
        assert (claimed is Status.SKIPPED) == (readings[code].state in ("open", "missing"))


@pytest.mark.parametrize(
    ("row", "options"),
    [
        ({"h_0_norm": 3.0, "h_1_norm": 6.0, "h_2_norm": 1200.0}, {"blocks": 2}),
        ({"h_0_norm": 3.0, "h_1_norm": 6.0, "h_L_norm": 1200.0}, {"blocks": 2}),
        ({"h_1_norm": 6.0, "h_L_norm": 1200.0}, {"blocks": 2, "h0": 3.0}),
        ({"norms": [3.0, 6.0, 1200.0]}, {"fields": {"h": "norms"}}),
    ],
)
def test_d1_is_exact_where_every_state_is_known(row, options):
    readings = read(row, **options)
    assert said(readings, "D1") == ("exact", "fires")
    assert readings["D1"].finding.value == 200.0
    assert readings["D1"].finding.per_layer == (2.0, 200.0)
    assert readings["D1"].finding.note == full([3.0, 6.0, 1200.0], [1, 1, 1])[0].note


def test_two_states_in_the_middle_bound_d1_too():
    assert said(read({"h_2_norm": 1.0, "h_3_norm": 51.0}, blocks=12), "D1") == ("bounded", "fires")
    assert said(read({"h_2_norm": 1.0, "h_3_norm": 49.0}, blocks=12), "D1") == ("open", "skipped")


@pytest.mark.parametrize(
    ("options", "needed"),
    [({}, "--blocks"), ({"blocks": 4}, "--h0"), ({"h0": 9.0}, "--blocks"), ({"blocks": 4, "h0": 9.0}, "h_0 to h_4")],
)
def test_what_would_close_d1_is_said(options, needed):
    assert needed in read(**options)["D1"].needed


def test_a_state_of_norm_zero_has_no_growth():
    assert said(read({"h_0_norm": 0.0, "h_1_norm": 1.0}, blocks=1), "D1") == ("exact", "undefined")
    assert said(read({"h_0_norm": 0.0, "h_2_norm": 1.0}, blocks=2), "D1") == ("open", "skipped")


# --- D2 ---


@pytest.mark.parametrize(("size", "status"), [(0.99e-7, "fires"), (1.01e-7, "pass")])
@pytest.mark.parametrize("batch", [1, 64, 128, 1000])
def test_d2_does_not_move_with_the_batch_size(size, status, batch):
    row = {"g_L_norm": size * 128 / batch}
    readings = read(row, batch_size=batch)
    assert said(readings, "D2") == ("exact", status)
    assert readings["D2"].finding.value == pytest.approx(size)


def test_the_deepest_layer_may_go_by_its_number():
    assert said(read({"g_4_norm": 1e-3}, blocks=4, batch_size=128), "D2") == ("exact", "pass")
    assert said(read({"g_4_norm": 1e-3}, batch_size=128), "D2") == ("open", "skipped")


@pytest.mark.parametrize("size", [0.0, 1e-12, 1.0])
def test_another_layer_is_a_hint_whatever_it_says(size):
    readings = read({"g_2_norm": size}, blocks=4, batch_size=128)
    assert said(readings, "D2") == ("open", "skipped")
    assert (readings["D2"].layer, readings["D2"].finding.value) == (2, size)


@pytest.mark.parametrize(("size", "answer"), [(1.29e-5, ("bounded", "pass")), (1.27e-5, ("open", "skipped"))])
def test_without_a_batch_size_d2_passes_only_if_it_would_for_a_batch_of_one(size, answer):
    readings = read({"g_L_norm": size})
    assert said(readings, "D2") == answer
    assert (readings["D2"].finding.value, readings["D2"].at_least) == (pytest.approx(size / 128), True)


def test_a_small_reference_has_no_cause_so_that_its_failure_mode_stays_open():
    row = {"h_0_norm": 1.0, "h_1_norm": 1e6, "g_1_norm": 1e-12}
    audit = partial_audit({"a": log(row)}, blocks=1, batch_size=128, baseline=0.1)
    assert [said(audit.readings, code) for code in ("D1", "D2")] == [("exact", "fires")] * 2
    assert audit.readings["D2"].finding.cause == ""
    assert "measurement degeneracy" in audit.verdict.open
    assert "gain" in audit.readings["D2"].needed


# --- D3 ---


def test_d3_is_missing_without_a_baseline_and_exact_with_one():
    assert said(read(), "D3") == ("missing", "skipped")
    readings = read(baseline=0.35)
    assert said(readings, "D3") == ("exact", "fires")
    assert readings["D3"].finding.value == pytest.approx(1.0)


@pytest.mark.parametrize("baseline", [(0.30, 0.31, 0.29), 0.3])
def test_over_seeds_d3_is_the_diagnostics_own_interval(baseline):
    shares = (0.36, 0.35, 0.40)
    audit = partial_audit({str(i): log(accuracy=share) for i, share in enumerate(shares)}, baseline=baseline)
    controls = baseline if isinstance(baseline, tuple) else (baseline,)
    none = torch.ones(2, 1)
    own = examine(
        diagnostics["D3:published"], Evidence(none, none, none[0], accuracy=shares, control_accuracy=controls)
    )
    assert audit.readings["D3"].finding == own
    single = [seed.readings["D3"].finding.value for seed in audit.seeds]
    pairs = zip(shares, controls * (3 if len(controls) == 1 else 1), strict=True)
    assert single == [pytest.approx(100 * (a - b)) for a, b in pairs]


def test_an_undecided_margin_says_how_many_seeds_would_settle_it():
    shares = {"a": log(accuracy=0.33), "b": log(accuracy=0.35)}
    depth = partial_audit(shares, baseline=0.3).readings["D3"]
    assert (depth.state, depth.finding.status) == ("exact", "undecided")
    assert "would settle it" in depth.needed


def test_with_one_seed_the_test_images_give_an_interval():
    assert read(baseline=0.335)["D3"].finding.status == "pass"
    assert read(baseline=0.335, test_images=1000)["D3"].finding.status == "undecided"


# --- D0, D4 and the verdict ---


@pytest.mark.parametrize("bad", [math.nan, math.inf, "NaN", "Infinity", 10**400])
@pytest.mark.parametrize("key", ["h_L_norm", "g_2_norm"])
def test_a_norm_that_is_not_finite_fires_d0(bad, key):
    audit = partial_audit({"a": log({"h_L_norm": 1.0, "g_2_norm": 1.0, key: bad})}, baseline=0.1, blocks=4, h0=1.0)
    assert said(audit.readings, "D0") == ("bounded", "fires")
    assert audit.verdict.text == "FAIL(D0)"


def test_finite_norms_leave_d0_open_and_other_numbers_are_only_mentioned():
    readings = read({"h_L_norm": 1.0, "loss": math.nan, "more": {"gamma": math.inf}})
    assert said(readings, "D0") == ("open", "skipped")
    assert "loss, more.gamma" in readings["D0"].finding.note


def test_a_norm_that_was_not_finite_earlier_is_a_warning():
    audit = partial_audit({"a": log({"h_L_norm": math.nan}, {"h_L_norm": 1.0})})
    assert said(audit.readings, "D0") == ("open", "skipped")
    assert audit.readings["D0"].first == "row 1"
    assert audit.verdict.warnings == ("a: row 1 holds a norm that is not finite, although the last row does not.",)


def test_drift_is_in_no_log():
    assert said(read(), "D4") == ("missing", "skipped")


def test_the_best_of_logs_never_passes():
    row = {"h_0_norm": 1.0, "h_1_norm": 1.1, "g_0_norm": 1.0, "g_1_norm": 1.0}
    audit = partial_audit({"a": log(row, accuracy=0.9)}, blocks=1, batch_size=128, baseline=0.1)
    assert [said(audit.readings, code) for code in ("D1", "D2", "D3")] == [("exact", "pass")] * 3
    assert (audit.verdict.text, audit.verdict.exit_code) == ("INCONCLUSIVE(D0)", 3)


def test_under_four_flags_a_reference_below_the_floor_is_enough():
    audit = partial_audit({"a": log({"g_L_norm": 1e-12})}, batch_size=128, protocol="four")
    assert audit.verdict.text == "needs walk-back: (b) reference"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"protocol": "april"}, "measures D1 in another form"),
        ({"blocks": 0}, "blocks must be a positive whole number, got 0"),
        ({"batch_size": True}, "batch_size must be a positive whole number, got True"),
        ({"h0": math.inf}, "--h0 must be a positive number, got inf"),
        ({"h0": [1.0, 2.0, 3.0]}, "--h0 is given 3 times for 1 logs"),
        ({"fields": {"h_L": ""}}, "empty path"),
    ],
)
def test_options_that_cannot_be_are_refused(options, words):
    with pytest.raises(InvalidInput, match=words):
        read(**options)


def test_no_log_is_refused():
    with pytest.raises(InvalidInput, match="No log was given"):
        partial_audit({})


# --- several rows, several seeds ---


def test_the_last_row_counts_and_the_first_that_fired_is_named():
    rows = [{"h_L_norm": size, "epoch": 10 * index} for index, size in enumerate((9.0, 9e8, 9e9))]
    reading = read(*rows, blocks=4, h0=9.0)["D1"]
    assert (reading.first, reading.finding.value) == ("epoch 10", pytest.approx(1e9 ** (1 / 4)))


def test_a_number_that_the_last_row_lacks_is_missing():
    assert said(read({"h_L_norm": 1.0, "g_L_norm": 1.0}, {"h_L_norm": 1.0, "g_L_norm": None}), "D2")[0] == "missing"


def test_seeds_that_disagree_are_open_and_have_no_common_number():
    logs = {"a": log({"h_L_norm": 9e9}), "b": log({"h_L_norm": 9.0})}
    found = partial_audit(logs, blocks=4, h0=9.0).readings["D1"]
    assert (found.state, found.finding.status, found.finding.value) == ("open", "undecided", None)
    assert found.finding.note == "fires on 1 of 2 seeds"


def test_seeds_that_agree_have_the_median():
    logs = {str(size): log({"g_L_norm": size}) for size in (1e-3, 2e-3, 9e-3)}
    found = partial_audit(logs, batch_size=128).readings["D2"]
    assert (found.state, found.finding.status, found.finding.value) == ("exact", "pass", 2e-3)


def test_logs_of_networks_of_different_depth_are_refused():
    logs = {"a": log({"n": [1.0, 2.0]}), "b": log({"n": [1.0, 2.0, 3.0]})}
    with pytest.raises(InvalidInput, match="a has 1 block, b has 2 blocks"):
        partial_audit(logs, fields={"h": "n"})


def test_the_json_survives_the_round_trip():
    audit = partial_audit({"a": log({"h_L_norm": math.nan, "g_L_norm": 1.0})}, baseline=0.3, blocks=4, h0=9.0)
    assert PartialAudit.model_validate_json(audit.to_json()).to_json() == audit.to_json()
    assert str(audit).startswith("Partial audit of a ")


@pytest.mark.parametrize("width", [70, 80, 120])
@pytest.mark.parametrize(
    "name", ["a", "a-very-long-name-of-a-log-without-any-space-in-it-{}-and-some-more-letters.json"]
)
@pytest.mark.parametrize("seeds", [1, 2])
def test_no_line_of_the_page_is_wider_than_the_terminal(width, name, seeds):
    rows = [{"h_L_norm": math.nan, "g_3_norm": 1e-5}, {"h_L_norm": 9e9, "g_3_norm": 1e-12}]
    logs = {f"{name.format(seed)}{seed}": log(*rows, rows[seed], accuracy=0.3 + seed / 100) for seed in range(seeds)}
    audit = partial_audit(logs, baseline=0.29, h0=9.0, blocks=4)
    lines = page(audit, width).splitlines()
    assert max(map(len, lines)) == width
    coloured = page(audit, width, colour=True)
    assert "\x1b[1;31m" in coloured


# --- fields and files ---


@pytest.mark.parametrize(
    ("path", "value"),
    [("a", 1), ("b.c", 2), ("b.d.0", 3), ("b.d.-1", 4), ("e.f", 5), ("g.h.i", 6), ("b.d.2", NOTHING), ("a.x", NOTHING)],
)
def test_a_path_leads_inwards_and_a_key_may_hold_dots(path, value):
    assert look_up({"a": 1, "b": {"c": 2, "d": [3, 4]}, "e.f": 5, "g.h": {"i": 6}}, path) == value


def test_the_embedding_may_stand_once_at_the_top():
    found = partial_audit({"a": log({"h_L_norm": 16.0}, h_0_norm=1.0)}, blocks=2).readings["D1"]
    assert found.finding.value == pytest.approx(4.0)


def test_files_of_the_same_name_go_by_their_paths(tmp_path):
    files = []
    for index in range(2):
        path = tmp_path / str(index) / "log.json"
        path.parent.mkdir()
        path.write_text(json.dumps(log(accuracy=index / 10)))
        files.append(path)
    assert list(read_logs(files)) == [str(path) for path in files]
    assert list(read_logs(files[:1])) == ["log.json"]


@pytest.mark.parametrize("depth", [10, 100_000])
def test_json_nested_without_end_is_refused(tmp_path, depth):
    path = tmp_path / "deep.json"
    path.write_text("[" * depth)
    with pytest.raises(CreditscopeError, match="is not JSON|levels deep"):
        read_logs([path])


# --- logs of our own runs ---


def run() -> RunRecord:
    rows = tuple(
        HistoryRow(
            epoch=epoch,
            loss=1.0,
            accuracy=0.3 + epoch / 10,
            hidden_norms=(9.0, 90.0, 9.0 * 10.0 ** (2 * epoch)),
            gradient_norms=(0.3, 0.2, 0.1 / 10.0 ** (4 * epoch)),
            d1=10.0,
            d2=0.1 / 10.0 ** (4 * epoch) / 128,
        )
        for epoch in range(3)
    )
    return record(RunSpec()).model_copy(update={"history": rows})


def test_the_log_of_a_run_has_the_published_form():
    written = log_of(run(), layer=1)
    assert written["final_test_acc"] == 0.5
    assert written["log"][-1] == {"h_L_norm": 9e4, "g_1_norm": 0.2 / 128}


@pytest.mark.parametrize("batch", [1, 128, 500])
def test_the_log_of_a_run_gives_its_own_d2_back(batch):
    own = run()
    written = {"own": log_of(own, layer=2, batch_size=batch)}
    found = partial_audit(written, blocks=2, batch_size=batch, h0=own.history[-1].hidden_norms[0])
    assert found.readings["D2"].finding.value == pytest.approx(own.history[-1].d2)
    assert found.readings["D1"].finding.value == pytest.approx(100.0)
    assert found.readings["D2"].first == "row 2"


@pytest.mark.parametrize(("layer", "batch"), [(3, 128), (-1, 128), (1, 0)])
def test_a_layer_that_the_record_does_not_hold_is_refused(layer, batch):
    with pytest.raises(InvalidInput, match="layers 0 to 2"):
        log_of(run(), layer=layer, batch_size=batch)


def test_a_run_without_history_has_no_log():
    with pytest.raises(InvalidInput, match="The record has no epoch: the run diverged in its first"):
        log_of(run().model_copy(update={"history": ()}), layer=0)


def test_d2_of_a_row_without_any_gradient_is_missing():
    assert reference({}, 4, 128).state == "missing"


def test_null_is_no_number_and_is_said_to_be_none():
    """Many loggers write null for NaN."""
    readings = read({"h_L_norm": None, "g_2_norm": 1e-3})
    assert said(readings, "D0") == ("open", "skipped")
    assert "Null, which may stand for a number that is not finite: h_L_norm" in readings["D0"].finding.note


def test_a_last_row_without_norms_is_told_as_that():
    found = read({"h_L_norm": 9.0, "g_2_norm": 1e-3}, {"loss": 1.0}, h0=9.0, blocks=4)
    assert "only ‖h_0‖ is known in the last row" in found["D1"].finding.note
    assert found["D2"].finding.note == "the last row holds no norm of a gradient"


def test_without_the_number_of_blocks_nobody_knows_whether_a_layer_is_the_deepest():
    assert "nothing says whether it is at the deepest" in read({"g_4_norm": 1.0})["D2"].finding.note
    assert "not at the deepest state" in read({"g_2_norm": 1.0}, blocks=4)["D2"].finding.note


def test_growth_of_a_norm_that_is_none_is_undefined_and_no_bound():
    found = read({"h_0_norm": 1.0, "h_L_norm": math.nan}, blocks=4)["D1"].finding
    assert found.note == "undefined across blocks 0 to 3: ‖h_0‖ = 1, ‖h_4‖ = nan"
