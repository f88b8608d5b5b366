"""Runs are paired with their frozen controls by seed; each seed has a verdict, and all seeds together have one."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest
from tests.study.made import record

from creditscope.diagnostics import diagnostics
from creditscope.diagnostics.depth import from_accuracies
from creditscope.diagnostics.seeds import over_seeds
from creditscope.protocols import judge, protocol_named
from creditscope.records.report import Provenance, Report, Subject
from creditscope.report.html.study_tables import method_table
from creditscope.runs.audit import audit_checkpoint
from creditscope.runs.run import load_data, train
from creditscope.runs.spec import RunSpec
from creditscope.statistics.power import seeds_to_settle
from creditscope.statistics.seeds import spread
from creditscope.study.declaration import Study
from creditscope.study.display.table import table_page
from creditscope.study.plan import plan
from creditscope.study.store import Store
from creditscope.study.tables import audit_table
from creditscope.verdict import Finding, Measurement, Reason, Status

HEALTHY = {"D0": 0.0, "D1": 1.5, "D2": 1e-3}
EXPLODED = {"D0": 0.0, "D1": 7e3, "D2": 1e-9}
TEXT = """
controls = ["frozen"]
[fixed]
epochs = 1
[grid]
method = ["bp", "dfa"]
seed = [1, 2, 3]
"""


def finding(code: str, value: float, cause: str = "") -> Finding:
    entry = diagnostics[code]
    measured = Measurement(value, cause=cause)
    return Finding(code, entry.title, entry.limit.judge(measured), measured, entry.limit, "", "")


def report(values: dict[str, float], cause: str = "collapsed") -> Report:
    findings = {code: finding(code, value, cause if code == "D2" else "") for code, value in values.items()}
    where = Provenance(
        creditscope="0", torch="0", python="0", device="cpu", dtype="float32", images=1000, batches=8, read="auto"
    )
    subject = Subject(name="a run", model="ResidualMLP", depth=4)
    verdict = judge(protocol_named("three"), findings)
    return Report(subject=subject, protocol="three", findings=findings, verdict=verdict, provenance=where)


def filled(folder, accuracies, reports=None, text=TEXT):
    """A store in which every run of a study has the accuracy that `accuracies` gives for (method, control, seed)."""
    runs, store = plan(Study.parse(text)), Store(folder)
    for key, spec in runs.items():
        accuracy = accuracies(spec)
        if accuracy is not None:
            found = (reports or (lambda spec: report(HEALTHY)))(spec)
            store.commit(key, b"", record(spec, accuracy, report=found))
    return runs, store


def rows(runs, store, **options):
    return {row.label: row for row in audit_table(runs, store, **{"protocol": "three", **options})}


def deep(spec):
    """Backprop gains 20 points by depth, DFA loses 5."""
    gain = {"bp": 0.20, "dfa": -0.05}[spec.method] if spec.control == "none" else 0.0
    return 0.5 + gain + 0.001 * spec.seed * (1 if spec.control == "none" else 2)


def test_margins_are_paired_by_seed(tmp_path):
    found = rows(*filled(tmp_path, deep))
    depth = found["bp"].findings["D3"]
    assert depth.per_seed == pytest.approx((19.9, 19.8, 19.7))
    assert depth.value == pytest.approx(fmean((19.9, 19.8, 19.7)))
    assert "paired t-interval over 3 seeds" in depth.note
    assert [seed.control_accuracy for seed in found["bp"].seeds] == pytest.approx([0.502, 0.504, 0.506])
    assert all(len(seed.key) == len(seed.control_key) == 16 for seed in found["bp"].seeds)


def test_verdicts_per_seed_and_for_the_method_as_a_whole(tmp_path):
    found = rows(*filled(tmp_path, deep, lambda spec: report(EXPLODED if spec.method == "dfa" else HEALTHY)))
    assert found["bp"].verdict.text == "PASS"
    assert found["dfa"].verdict.text == "FAIL(D1+D2+D3)"
    assert [seed.verdict.text for seed in found["dfa"].seeds] == ["FAIL(D1+D2+D3)"] * 3
    assert found["dfa, frozen"].verdict is None


def test_seeds_that_disagree_leave_the_mode_open(tmp_path):
    text = TEXT.replace('"bp", ', "")
    runs, store = filled(tmp_path, deep, lambda spec: report(EXPLODED if spec.seed < 3 else HEALTHY), text)
    row = rows(runs, store, limits={"D3": -50.0})["dfa"]
    assert row.findings["D1"].status is Status.UNDECIDED
    assert row.findings["D1"].note == "fires on 2 of 3 seeds"
    assert row.verdict.text == "INCONCLUSIVE(D1+D2)"
    assert [seed.verdict.text for seed in row.seeds] == ["FAIL(D1+D2)", "FAIL(D1+D2)", "PASS"]


def test_a_margin_that_straddles_the_limit_says_how_many_seeds_would_settle_it(tmp_path):
    margins = {1: 0.04, 2: 0.10, 3: 0.16}
    runs, store = filled(tmp_path, lambda spec: 0.5 + (margins[spec.seed] if spec.control == "none" else 0))
    row = rows(runs, store)["bp"]
    assert row.findings["D3"].status is Status.UNDECIDED
    assert row.verdict.text == "INCONCLUSIVE(D3)"
    images = store.record(row.seeds[0].key).test_images
    assert row.settle == seeds_to_settle([0.5 + margin for margin in margins.values()], [0.5] * 3, 2.0, images)
    assert f"about {row.settle} seeds per arm would settle it" in table_page("a study", [row], 160)


def test_without_a_control_in_the_plan_the_saved_margin_and_its_control_stay(tmp_path):
    def beside_control(spec):
        own = report(HEALTHY)
        depth = from_accuracies((deep(spec),), (0.5,), 1000, variant="published")
        return own.model_copy(update={"findings": {**own.findings, "D3": depth}, "control_accuracy": (0.5,)})

    text = TEXT.replace('controls = ["frozen"]', "")
    runs, store = filled(tmp_path, deep, beside_control, text)
    row = rows(runs, store)["dfa"]
    for seed in row.seeds:
        assert (seed.control_accuracy, seed.control_key) == (0.5, "")
        assert seed.findings["D3"] == store.record(seed.key).report.findings["D3"]
        assert seed.verdict.text == "FAIL(D3)"
    assert row.control.values == (0.5, 0.5, 0.5)
    assert row.findings["D3"].per_seed == pytest.approx((-4.9, -4.8, -4.7))
    assert row.verdict.text == "FAIL(D3)"


def test_a_control_that_gives_an_option_at_its_default_is_still_the_control(tmp_path):
    spec, store = RunSpec(method="dfa", epochs=1), Store(tmp_path)
    frozen = RunSpec(method="dfa", epochs=1, control="frozen", network_options={"d": 256})
    assert frozen.key == spec.control_spec("frozen").key
    for own, accuracy in ((spec, 0.7), (frozen, 0.5)):
        made = record(own, accuracy, report=report(HEALTHY), resolved=own.settings(defaults=True))
        store.commit(own.key, b"", made)
    row = rows({spec.key: spec, frozen.key: frozen}, store)["dfa"]
    assert [(seed.control_key, seed.control_accuracy) for seed in row.seeds] == [(frozen.key, 0.5)]


def test_without_a_control_depth_stays_open_and_without_a_report_everything_does(tmp_path):
    runs, store = filled(tmp_path / "a", lambda spec: None if spec.control == "frozen" else deep(spec))
    assert rows(runs, store)["bp"].verdict.text == "INCONCLUSIVE(D3)"
    runs, store = filled(tmp_path / "b", deep, lambda spec: None)
    found = rows(runs, store)["bp"]
    assert found.verdict.outcome == "inconclusive"
    assert found.findings["D3"].status is Status.PASS


def test_without_blocks_no_control_is_asked_for(tmp_path):
    whole = report(HEALTHY)
    missing = replace(finding("D3", 0.0), status=Status.SKIPPED, measurement=None, reason=Reason.NO_CONTROL)
    shallow = whole.subject.model_copy(update={"depth": 0})
    bare = whole.model_copy(update={"findings": {**whole.findings, "D3": missing}, "subject": shallow})
    alone = TEXT.replace('controls = ["frozen"]', "")
    found = rows(*filled(tmp_path, lambda spec: 0.5, lambda spec: bare, alone))["bp"]
    assert [seed.findings["D3"].reason for seed in found.seeds] == [Reason.NOT_APPLICABLE] * 3
    assert found.findings["D3"].reason is Reason.NOT_APPLICABLE
    assert found.verdict.text == "INCONCLUSIVE(D3)"


def test_missing_seeds_are_named_and_the_rest_is_judged(tmp_path):
    runs, store = filled(tmp_path, lambda spec: None if spec.seed == 2 and spec.control == "none" else deep(spec))
    row = rows(runs, store)["bp"]
    assert row.missing == (2,)
    assert "over 2 seeds" in row.findings["D3"].note
    assert "bp: seeds not run: 2." in table_page("a study", [row], 160)
    nothing = rows(*filled(tmp_path / "empty", lambda spec: None))["bp"]
    assert nothing.missing == (1, 2, 3)
    assert "not run" in table_page("a study", [nothing], 160)


@pytest.mark.parametrize("protocol", ["three", "strict"])
def test_a_seed_without_a_control_counts_too(tmp_path, protocol):
    """Seed 3 is the worst one; leaving it out with its missing control would flatter the method."""
    accuracies = {1: 0.60, 2: 0.61, 3: 0.45}

    def accuracy(spec):
        return (None if spec.seed == 3 else 0.5) if spec.control == "frozen" else accuracies[spec.seed]

    row = rows(*filled(tmp_path, accuracy), protocol=protocol)["bp"]
    depth = row.findings["D3"]
    assert depth.value == pytest.approx(100 * (fmean(accuracies.values()) - 0.5))
    assert "Welch's t-interval over 3 and 2 seeds" in depth.note
    assert depth.status is Status.UNDECIDED


def test_one_seed_is_judged_by_its_images(tmp_path):
    row = rows(*filled(tmp_path, deep, text=TEXT.replace("[1, 2, 3]", "[1]")))["bp"]
    assert "the interval reflects the 1,000 test images only" in row.findings["D3"].note
    assert row.accuracy.std is None
    assert "Wilson" in row.accuracy.note


def test_the_margin_to_the_best_frozen_control_is_a_number_without_a_limit(tmp_path):
    def accuracy(spec):
        return {("bp", "frozen"): 0.6, ("dfa", "frozen"): 0.3}.get((spec.method, spec.control), 0.5)

    found = rows(*filled(tmp_path, accuracy))
    assert found["dfa"].findings["D3"].value == pytest.approx(20)
    assert found["dfa"].best_frozen == pytest.approx(-10)


def test_penalised_runs_share_the_control_of_the_plain_run(tmp_path):
    text = 'controls = ["frozen"]\n[fixed]\nepochs = 1\nmethod = "dfa"\n[grid]\npenalty = [0.0, 0.01]\nseed = [1, 2]'
    found = rows(*filled(tmp_path, deep, text=text))
    assert found["dfa + penalty 0.01"].seeds[0].control_key == found["dfa"].seeds[0].control_key != ""


def test_other_limits_move_statuses_and_verdicts(tmp_path):
    runs, store = filled(tmp_path, deep)
    found = rows(runs, store, limits={"D1": 1.2, "D3": 25.0})["bp"]
    assert found.findings["D1"].status is Status.FIRES
    assert found.findings["D3"].status is Status.FIRES
    assert found.verdict.text == "FAIL(D3)"


def test_labels_name_what_differs(tmp_path):
    text = '[fixed]\nepochs = 1\nmethod = "dfa"\n"method.index" = "input"\n[grid]\n"network.depth" = [2, 4]'
    assert list(rows(*filled(tmp_path, deep, text=text))) == [
        "dfa(index=input), resmlp(depth=2)",
        "dfa(index=input), resmlp(depth=4)",
    ]


def test_seeds_together_are_what_every_seed_says_else_undecided():
    small, large, odd = finding("D1", 1.0), finding("D1", 100.0), finding("D1", float("nan"))
    assert over_seeds([small, small]).status is Status.PASS
    assert over_seeds([large, large]).status is Status.FIRES
    for mixed in ([small, large], [small, odd], [small, None]):
        assert over_seeds(mixed).status is Status.UNDECIDED
    fitted, collapsed = finding("D2", 1e-9, "fitted"), finding("D2", 1e-9, "collapsed")
    assert over_seeds([fitted, collapsed]).status is Status.UNDECIDED
    assert over_seeds([collapsed, collapsed]).cause == "collapsed"
    skipped = replace(small, status=Status.SKIPPED, measurement=None, note="why")
    assert over_seeds([skipped, skipped]).note == "why"


def test_the_page_shows_methods_controls_and_verdicts(tmp_path):
    shown = table_page("a study", audit_table(*filled(tmp_path, deep), protocol="three"), 160)
    for words in ("bp", "dfa, frozen", "PASS", "FAIL(D3)", "3: FAIL(D3)", "70.2 ± 0.1", "95 % paired t-interval"):
        assert words in shown


def test_the_page_writes_numbers_as_the_html_does(tmp_path):
    (row,) = [row for row in audit_table(*filled(tmp_path, deep), protocol="three") if row.label == "bp"]
    row = row.model_copy(update={"accuracy": spread([0.087, 0.09])})
    html = method_table([row], {}, ())
    texts = dict(zip(html.headings, (cell.text for cell in html.rows[0]), strict=True))
    shown = " ".join(table_page("a study", [row], 200).split())
    assert f" {texts['accuracy'].partition(' %')[0]} " in shown
    for code in ("D1", "D2"):
        assert f" {texts[code]} " in shown


def test_a_narrow_page_breaks_no_verdict(tmp_path):
    rows = audit_table(*filled(tmp_path, deep), protocol="three")
    wide, narrow = table_page("a study", rows, 160), table_page("a study", rows, 80)
    assert max(map(len, narrow.splitlines())) <= 80
    for words in ("to best frozen", "FAIL(D3)", "3: FAIL(D3)", "70.2 ± 0.1"):
        assert words in " ".join(narrow.split())
        assert words in wide
    assert wide.count(" method ") == 1
    assert narrow.count(" method ") == 3


def test_depth_agrees_with_a_stored_report_that_was_made_with_its_control(tmp_path):
    spec = RunSpec(method="dfa", epochs=1, network_options={"d": 16, "depth": 2})
    trained, frozen = train(spec), train(spec.control_spec("frozen"))
    stored = audit_checkpoint(trained, load_data(spec), [frozen.record], credit=None)
    store = Store(tmp_path)
    store.commit(spec.key, b"", trained.record.model_copy(update={"report": stored}))
    store.commit(frozen.record.key, b"", frozen.record)
    runs = {spec.key: spec, frozen.record.key: spec.control_spec("frozen")}
    (seed,) = audit_table(runs, store)[0].seeds
    assert seed.findings["D3"] == stored.findings["D3"]
    assert seed.findings == stored.findings
    assert seed.verdict == stored.verdict


def test_a_label_with_many_options_is_folded_and_its_numbers_are_not(tmp_path):
    row = audit_table(*filled(tmp_path, deep), protocol="three")[0]
    row = row.model_copy(update={"label": "weight_mirror(rate=1.28) " * 8})
    page = table_page("a study", [row], 80)
    assert max(map(len, page.splitlines())) <= 80
    assert "70.2 ± 0.1" in page
