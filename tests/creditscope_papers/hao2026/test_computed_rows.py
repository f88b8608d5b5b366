"""What experiments compute from several runs at once: the ladder, thresholds, ways of reporting, partial audits."""

from __future__ import annotations

import math

import pytest
from tests.creditscope_papers.hao2026.made import archive, planned
from tests.papers.made import EXPLODED, HEALTHY, epoch, run

from creditscope.errors import InvalidInput
from creditscope.papers.tables import comparison_table
from creditscope.records.run import RunRecord
from creditscope.runs.spec import RunSpec
from creditscope.verdict import Measurement
from creditscope_papers.hao2026.experiments import penalised
from creditscope_papers.hao2026.ladder import RUNGS
from creditscope_papers.hao2026.logs import read_as_logs
from creditscope_papers.hao2026.reporting import STRATEGIES, decisions


def rows_of(name: str, make, budget="laptop"):
    return {(row.row, row.quantity): row for row in comparison_table(archive(make, name, budget=budget), name).rows}


# --- the ladder ---


def climbing(method: str, *accuracies: float):
    """A record for every rung that has an accuracy."""
    by_rung = dict(zip(RUNGS, accuracies, strict=False))
    return lambda spec: run(spec, by_rung[spec.control]) if spec.method == method and spec.control in by_rung else None


def test_the_ladder_rises_from_frozen_to_all_blocks_and_is_best_where_it_is_highest():
    found = rows_of("ladder", climbing("bp", 0.35, 0.40, 0.58, 0.50, 0.57))
    assert found["bp", "rise"].values == pytest.approx((22.0,))
    assert found["bp", "best_k"].values == (2.0,)
    assert [found[f"bp, k = {k}", "accuracy"].values[0] for k in range(5)] == [0.35, 0.40, 0.58, 0.50, 0.57]
    assert len(found["bp", "rise"].keys) == 2
    assert len(found["bp", "best_k"].keys) == 5


def test_the_rise_needs_both_ends_only_and_the_best_every_rung():
    found = rows_of(
        "ladder", lambda spec: None if spec.control == "ladder-2" else climbing("bp", *[0.35] * 4, 0.57)(spec)
    )
    assert found["bp", "rise"].values == pytest.approx((22.0,))
    assert found["bp", "best_k"].agreement == "not run"


def test_a_ladder_without_an_end_has_neither_rise_nor_best():
    found = rows_of("ladder", climbing("bp", 0.35, 0.40, 0.45, 0.50))
    assert found["bp", "rise"].agreement == found["bp", "best_k"].agreement == "not run"
    assert found["bp, k = 3", "accuracy"].values == (0.50,)
    assert found["bp, k = 4", "accuracy"].agreement == "not run"


def test_on_several_seeds_every_seed_climbs_for_itself():
    def make(spec: RunSpec) -> RunRecord | None:
        whole = spec.seed != 456 or spec.control != "frozen"
        return run(spec, 0.3 + 0.01 * RUNGS.index(spec.control) * (1 + spec.seed % 2)) if whole else None

    found = rows_of("ladder", make, "paper")["bp", "rise"]
    assert dict(zip(found.seeds, found.values, strict=True)) == pytest.approx({42: 4.0, 123: 8.0})
    assert {planned("ladder", "paper")[key].seed for key in found.keys} == {42, 123}
    assert found.epochs == 100


# --- thresholds ---


def audited(growth: dict[str, float], reference: dict[str, float] | None = None):
    """Methods with this growth; every one gains 20 points over its control."""

    def make(spec: RunSpec) -> RunRecord | None:
        if spec.control != "none":
            return run(spec, 0.3)
        values = {**HEALTHY, "D1": growth.get(spec.method, 1.0), "D2": (reference or {}).get(spec.method, 1e-3)}
        return run(spec, 0.5, values)

    return make


GROWTH = {"bp": 1.5, "ep": 11.0, "fa": 100.0, "dfa": 1900.0, "state_bridge": 694.0}
REFERENCE = {"ep": 1e-4, "fa": 1e-6, "dfa": 4e-9, "state_bridge": 1e-10}


def test_the_gap_lies_between_the_nearest_values_on_both_sides_without_fa():
    found = rows_of("threshold_sensitivity", audited(GROWTH, REFERENCE))
    assert found["D1", "healthy"].values == (11.0,)
    assert found["D1", "degenerate"].values == (694.0,)
    assert found["D2", "healthy"].values == (1e-4,)
    assert found["D2", "degenerate"].values == (4e-9,)
    (key,) = found["D1", "degenerate"].keys
    assert planned("threshold_sensitivity")[key].method == "state_bridge"


@pytest.mark.parametrize(
    ("row", "changed"),
    [
        ("D1 at 50", {}),
        ("D1 at 20", {}),
        ("D1 at 1000", {"fa": "", "state_bridge": "(b) reference"}),
        ("D1 at 5000", {"fa": "", "dfa": "(b) reference", "state_bridge": "(b) reference"}),
        ("D2 at 1e-08", {}),
        ("D2 at 1e-09", {"dfa": "(a) scale"}),
        ("D2 at 1e-05", {"fa": "(a) scale; (b) reference"}),
        ("D3 at 10", {}),
    ],
)
def test_verdicts_change_exactly_for_those_on_the_other_side_of_a_moved_limit(row, changed):
    found = rows_of("threshold_sensitivity", audited(GROWTH, REFERENCE))[row, "changed"]
    said = [f"{name}: {f'needs walk-back: {flags}' if flags else 'trustworthy'}" for name, flags in changed.items()]
    assert found.texts == (", ".join(said) or "none",)
    assert found.values == (float(len(changed)),)


def test_a_raised_limit_of_d2_rejects_a_healthy_method_whose_reference_is_fitted():
    """The verdicts are those of the four diagnostics: in the other protocol the cause would rule this out."""
    healthy = {**HEALTHY, "D2": 5e-4}
    for cause in ("collapsed", "fitted"):
        found = rows_of(
            "threshold_sensitivity",
            lambda spec, cause=cause: run(spec, 0.3 + 0.2 * (spec.control == "none"), healthy, cause=cause),
        )
        assert found["D2 at 0.0001", "changed"].values == (0.0,)
        assert found["D2 at 0.001", "changed"].values == (6.0,)
        assert found["D2 at 0.001", "changed"].heading == "methods with another verdict of the four diagnostics"


def test_a_margin_between_two_limits_changes_with_the_limit_of_d3():
    found = rows_of("threshold_sensitivity", lambda spec: run(spec, 0.30 + 0.07 * (spec.control == "none")))
    assert found["D3 at 5", "changed"].values == (0.0,)
    assert found["D3 at 10", "changed"].values == (6.0,)


def test_methods_without_a_run_are_named_beside_every_limit():
    found = rows_of("threshold_sensitivity", lambda spec: run(spec) if spec.method == "bp" else None)
    assert found["D1 at 5", "changed"].note == "not run: fa, dfa, ep, state_bridge, credit_bridge"
    assert found["D1", "degenerate"].agreement == "not run"
    partly = rows_of(
        "threshold_sensitivity", lambda spec: run(spec) if spec.method != "ep" or spec.seed == 42 else None
    )
    assert partly["D1 at 5", "changed"].note == "not on every seed yet: ep"
    nearest = partly["D1", "healthy"]  # one that is missing may lie nearer
    assert (nearest.values, nearest.texts, nearest.agreement) == ((), ("so far 1.5",), "not run")


# --- ways of reporting ---

FAILING = ("dfa", "state_bridge", "credit_bridge")


def judged(failing=FAILING, absent=(), controls=True):
    def make(spec: RunSpec) -> RunRecord | None:
        if spec.method in absent:
            return None
        if spec.control != "none":
            return run(spec, 0.35) if controls else None
        return run(spec, 0.3, EXPLODED) if spec.method in failing else run(spec, 0.6)

    return make


def test_methods_are_counted_by_every_way_of_reporting():
    found = {row: line for (row, _), line in rows_of("decision_utility", judged()).items()}
    assert {row: line.values for row, line in found.items()} == {
        "accuracy": (0.0,),
        "accuracy + Γ": (0.0,),
        "+ D1": (3.0,),
        "+ D2": (3.0,),
        "+ D4": (0.0,),
        "+ D3": (3.0,),
        "all": (3.0,),
    }
    assert found["+ D1"].texts == ("dfa, state_bridge, credit_bridge",)
    assert found["accuracy"].texts == ("none",)
    assert {row for row, line in found.items() if line.agreement == "differs"} == {"+ D4"}


def test_fa_is_named_but_not_counted():
    found = rows_of("decision_utility", judged((*FAILING, "fa")))["+ D1", "rejected"]
    assert (found.values, found.texts) == ((3.0,), ("fa, dfa, state_bridge, credit_bridge",))


def test_a_method_that_is_missing_leaves_the_count_open():
    found = rows_of("decision_utility", judged(absent=("ep",)))["+ D1", "rejected"]
    assert (found.values, found.agreement) == ((), "not run")
    assert found.texts == ("so far: dfa, state_bridge, credit_bridge",)
    assert "not run, or not measured: ep" in found.note
    without_fa = rows_of("decision_utility", judged(absent=("fa",)))["+ D1", "rejected"]
    assert (without_fa.values, without_fa.note) == ((3.0,), "")


def test_without_frozen_controls_only_what_needs_them_is_open():
    found = rows_of("decision_utility", judged(controls=False))
    assert {row for (row, _), line in found.items() if line.agreement == "not run"} == {"+ D3", "all"}


def test_what_accuracy_alone_rejects_is_noted_beside_the_diagnostics():
    def make(spec: RunSpec) -> RunRecord | None:
        chance = spec.method == "credit_bridge" and spec.seed != 42
        drifts = {**HEALTHY, "D4": 0.7 if spec.method == "credit_bridge" and not chance else 0.1}
        return run(spec, 0.1 if chance else 0.5, drifts)

    found = rows_of("decision_utility", make)
    assert found["+ D4", "rejected"].texts == ("credit_bridge",)
    assert found["+ D4", "rejected"].note.endswith("; credit_bridge on 2 of 3 seeds by accuracy or Γ alone")
    assert found["accuracy + Γ", "rejected"].note == ""


def test_a_method_is_rejected_only_on_all_of_its_seeds():
    def make(spec: RunSpec) -> RunRecord | None:
        return run(spec, 0.3, EXPLODED if spec.method == "dfa" and spec.seed != 42 else HEALTHY)

    assert rows_of("decision_utility", make)["+ D1", "rejected"].values == (0.0,)


def test_seeds_that_are_missing_are_named_by_their_method():
    found = rows_of(
        "decision_utility", lambda spec: judged()(spec) if spec.seed == 42 or spec.method != "dfa" else None
    )
    assert "not on every seed yet: dfa" in found["+ D1", "rejected"].note


def test_a_count_is_final_only_with_every_seed_of_every_counted_method():
    found = rows_of("decision_utility", lambda spec: judged()(spec) if spec.seed == 42 else None)
    assert {(line.values, line.agreement) for line in found.values()} == {((), "not run")}
    assert found["+ D1", "rejected"].texts == ("so far: dfa, state_bridge, credit_bridge",)
    assert found["accuracy", "rejected"].texts == ("so far: none",)
    without = rows_of(
        "decision_utility", lambda spec: judged()(spec) if spec.seed == 42 or spec.method != "fa" else None
    )
    assert without["+ D1", "rejected"].values == (3.0,)  # FA is not counted


def test_a_diagnostic_that_is_undefined_leaves_the_count_open():
    def make(spec: RunSpec) -> RunRecord | None:
        return run(spec, 0.6, {**HEALTHY, "D1": math.nan}) if spec.method == "ep" else judged()(spec)

    found = rows_of("decision_utility", make)
    assert found["+ D1", "rejected"].agreement == "not run"
    assert found["+ D2", "rejected"].values == (3.0,)


def test_the_chart_counts_seeds_and_leaves_out_those_without_an_answer():
    found = {
        (one.label, one.strategy): (one.rejected, one.runs) for one in decisions(archive(judged(), "decision_utility"))
    }
    assert found["dfa", "+ D1"] == (3, 3)
    assert found["bp", "all"] == (0, 3)
    assert len(found) == 6 * len(STRATEGIES)
    without = {(one.label, one.strategy) for one in decisions(archive(judged(controls=False), "decision_utility"))}
    assert ("bp", "+ D3") not in without
    assert ("bp", "+ D1") in without
    assert decisions(archive()) == []


# --- partial audits of our own runs ---


def logged(spec: RunSpec) -> RunRecord | None:
    if spec.control != "none":
        return run(spec, 0.35)
    if spec.method != "dfa":
        return run(spec, 0.6)
    last = epoch(
        1, hidden_norms=(9.0, 9e3, 9e4, 9e5, 9e8), gradient_norms=(1e-1, 1e-6, 1e-6, 1e-6, 1e-7), d1=1e3, d2=1e-9
    )
    return run(spec, 0.3, EXPLODED, history=[last])


def test_logs_of_the_deepest_layer_are_exact_and_of_another_only_a_hint():
    found = rows_of("partial_audit", logged)
    assert "D2 exact" in found["dfa, ‖g_4‖ logged", "states"].texts[0]
    assert "D2 open" in found["dfa, ‖g_2‖ logged", "states"].texts[0]
    assert "D3 exact" in found["bp, ‖g_2‖ logged", "states"].texts[0]
    assert all(line.values == (0.0,) for (_, quantity), line in found.items() if quantity == "contradictions")


def test_a_full_audit_that_says_the_opposite_is_counted():
    def make(spec: RunSpec) -> RunRecord | None:
        made = logged(spec)
        return made if spec.method != "dfa" or spec.control != "none" else run(spec, 0.3, HEALTHY, history=made.history)

    found = rows_of("partial_audit", make)
    assert found["dfa, ‖g_4‖ logged", "contradictions"].values == (6.0,)  # D1 and D2, on three seeds
    assert found["dfa, ‖g_2‖ logged", "contradictions"].values == (3.0,)  # D1 alone
    assert found["bp, ‖g_4‖ logged", "contradictions"].values == (0.0,)


def test_without_a_control_or_a_history_there_is_no_partial_audit():
    for make in (
        lambda spec: logged(spec) if spec.control == "none" else None,
        lambda spec: logged(spec).model_copy(update={"history": ()}) if spec.control == "none" else logged(spec),
    ):
        assert {line.agreement for line in rows_of("partial_audit", make).values()} == {"not run"}


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"history": ()}, "seed 123 has no epoch to be read as a log"),
        ({"history": (epoch(accuracy=math.nan),)}, "seed 123 has no accuracy"),
    ],
)
def test_a_run_that_cannot_be_read_as_a_log_is_named(changes, note):
    def make(spec: RunSpec) -> RunRecord | None:
        made = logged(spec)
        return (
            made.model_copy(update=changes) if (spec.method, spec.seed, spec.control) == ("bp", 123, "none") else made
        )

    found = rows_of("partial_audit", make)
    assert found["bp, ‖g_2‖ logged", "contradictions"].note == note
    assert found["dfa, ‖g_2‖ logged", "contradictions"].values == (0.0,)


def test_a_run_without_an_epoch_is_refused_as_a_log():
    made = archive(lambda spec: logged(spec).model_copy(update={"history": ()}), "partial_audit")
    row = made.audit_row("partial_audit", {"method": "bp"})
    with pytest.raises(InvalidInput, match="The record has no epoch"):
        read_as_logs(made, row, 2)


def test_a_stream_that_is_not_finite_is_read_all_the_same():
    rows = [epoch(1, hidden_norms=(math.nan,) * 5, gradient_norms=(math.nan,) * 5)]
    found = rows_of("partial_audit", lambda spec: run(spec, 0.1, {**HEALTHY, "D0": 5.0}, history=rows))
    assert "D0 bounded" in found["dfa, ‖g_4‖ logged", "states"].texts[0]


# --- names of rows ---


@pytest.mark.parametrize(
    ("strength", "name"),
    [(0.0, "dfa"), (1e-4, "dfa, penalty 0.0001"), (1e-3, "dfa, penalty 0.001"), (1e-1, "dfa, penalty 0.1")],
)
def test_a_penalty_is_written_out(strength, name):
    assert penalised("dfa", strength, ()).row == name


def test_dfa_stands_in_the_main_audit_with_both_indices():
    measures = {"gamma": Measurement(0.1, per_layer=(0.4, 0.3, 0.2, 0.1, 0.0))}
    found = rows_of("main_audit", lambda spec: run(spec, measures=measures))
    keys = {index: set(found[f"dfa, index {index}", "gamma_1"].keys) for index in ("input", "output")}
    assert len(keys["input"]) == len(keys["output"]) == 3
    assert not keys["input"] & keys["output"]
    assert found["dfa, index input", "gamma_4"].values == (0.0,) * 3


# --- when, and how fast ---


def test_d2_at_the_larger_batch_is_held_against_what_was_logged_there():
    """At N = 1,024 the batch-mean gradient is 8 times smaller, so D2 fires earlier than at N = 128."""
    falling = [epoch(number, d2=d2) for number, d2 in enumerate((1e-5, 2e-6, 9e-7, 7e-7, 2e-7, 9e-8), 1)]
    found = rows_of("temporal", lambda spec: run(spec, history=falling))
    row = "resmlp, dfa, index input"
    assert (found[row, "first_D2"].values, found[row, "first_D2"].agreement) == ((6.0,) * 3, "not published")
    assert (found[row, "first_D2_1024"].values, found[row, "first_D2_1024"].agreement) == ((4.0,) * 3, "agrees")
    assert ("resmlp, bp", "first_D2_1024") not in found


def test_every_learning_rate_stands_beside_what_other_experiments_published():
    found = rows_of("learning_rate", lambda spec: run(spec, history=[epoch(1, d2=1.12e-5)]))
    assert {row for row, _ in found} == {
        f"index input, rate {rate}{labels}"
        for rate in ("0.001", "0.0005", "0.00025")
        for labels in ("", ", random labels")
    }
    assert all(line.published is not None for line in found.values())
    assert found["index input, rate 0.0005", "g_L_1"].agreement == "agrees"
    assert len(found["index input, rate 0.0005", "g_L_1"].keys) == 3
    (key,) = found["index input, rate 0.0005, random labels", "h_L_1"].keys
    spec = planned("learning_rate")[key]
    assert (spec.random_labels, spec.learning_rate, spec.method_options) == (True, 5e-4, {"index": "input"})
