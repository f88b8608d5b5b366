"""The pages of the rules and of the field: current, computed from the records, and each identity has its test."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from docs.generate import field as field_page
from docs.generate import methods as method_pages
from torch import nn

import creditscope
from creditscope.glossary.explanation import explain
from creditscope.methods import methods
from creditscope.report.charts.field import FieldRow, field_chart
from creditscope.report.numbers import ABSENT
from creditscope.study.declaration import Study
from creditscope.study.plan import plan

ROOT = Path(__file__).parents[1]
OWN = method_pages.own()


@pytest.fixture(scope="module")
def fields():
    return [field_page.field(name) for name in field_page.STUDIES]


@pytest.fixture(scope="module")
def small():
    """A study with committed records, read as the studies of the field are."""
    return field_page.field("mnist1d", ROOT / "results" / "records")


# --- current ---


def test_the_pages_of_the_rules_and_the_tables_of_all_are_current(fields):
    for path, text in method_pages.files(fields).items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run make docs"


def test_no_page_is_left_of_a_rule_that_is_gone():
    assert {path.stem for path in method_pages.FOLDER.glob("*.md")} == set(OWN)


def test_the_page_of_the_field_is_current(fields):
    assert field_page.PAGE.read_text(encoding="utf-8") == field_page.page(fields), "run make docs"


@pytest.mark.slow
def test_the_pictures_of_the_field_are_current(fields):
    drawn = {path: content for found in fields for path, content in field_page.charts(found).items()}
    assert set(field_page.IMAGES.glob("field_*.svg")) == set(drawn)
    for path, content in drawn.items():
        assert path.read_bytes() == content, f"{path.name}: run make docs"


# --- facts of the rules ---


@pytest.mark.parametrize("name", OWN)
def test_every_identity_of_a_rule_is_proved_by_a_test_that_exists(name):
    rule = methods[name]
    assert rule.identities
    for statement, test in rule.identities.items():
        place, _, function = test.partition("::")
        source = (ROOT / place).read_text(encoding="utf-8")
        assert f"\ndef {function}(" in source, f"{statement}: {test} does not exist"


@pytest.mark.parametrize("name", OWN)
def test_a_rule_says_when_it_fails_and_has_a_measured_cost(name):
    assert methods[name].fails.endswith(".")
    (step,) = [step for step in field_page.costs() if step["name"] == name and not step["options"]]
    assert 0.5 < step["measured"] < 100
    assert step["network"] in (methods[name].networks or ("resmlp",))


def test_explain_prints_what_the_page_of_a_rule_says():
    told, page = explain("kolen_pollack"), method_pages.FOLDER.joinpath("kolen_pollack.md").read_text(encoding="utf-8")
    rule = methods["kolen_pollack"]
    for statement, test in rule.identities.items():
        assert " ".join(statement.split()) in " ".join(told.split())
        assert f"- {statement}: `{test}`" in page
    assert rule.fails in " ".join(told.split())
    assert rule.fails in page
    assert 'creditscope.rule("kolen_pollack", model' in page


@pytest.mark.parametrize("name", OWN)
def test_the_loop_on_the_page_of_a_rule_runs(name):
    page = method_pages.FOLDER.joinpath(f"{name}.md").read_text(encoding="utf-8")
    _, found, rest = page.partition("```python\n")
    if not found:
        pytest.skip("the rule is not offered for any model")
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(2)]
    model = nn.Sequential(nn.Linear(6, 8), *blocks, nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    inputs, labels = batch = (torch.randn(12, 6), torch.arange(12) % 3)
    around = {
        "creditscope": creditscope, "model": model, "optimizer": optimizer,
        "batch": batch, "inputs": inputs, "labels": labels,
    }  # fmt: skip
    exec(rest.partition("```")[0], around)
    assert around["loss"].isfinite()
    assert all(parameter.grad is not None for parameter in model.parameters())
    optimizer.step()


def test_a_rule_for_plain_networks_alone_is_not_offered_for_any_model():
    page = method_pages.FOLDER.joinpath("pepita.md").read_text(encoding="utf-8")
    assert "--network mlp" in page
    assert "creditscope.rule(" not in page


# --- computed from records ---


def test_the_outcomes_on_the_page_are_those_of_the_rows_counted_one_by_one(small):
    counts = Counter(row.verdict.outcome for row in small.rows if row.verdict is not None)
    said = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("pass", "fail", "inconclusive"))
    assert f"Of {sum(counts.values())} rows with a verdict: {said}." in field_page.page([small])


def test_every_accuracy_has_its_verdict_beside_it(small):
    lines = field_page.page([small]).splitlines()
    assert "| method | accuracy | verdict | frozen | margin |" in lines
    for row in small.judged:
        verdict = str(row.verdict).replace("+", "+<wbr>")
        (line,) = [line for line in lines if f"| {100 * row.accuracy.mean:.1f} ± " in line]
        assert line.split(" | ")[2] == verdict
        assert line.split(" | ")[3].startswith(f"{100 * row.control.mean:.1f} ± ")


def test_conclusions_follow_the_records(small):
    best = max((row for row in small.judged if row.spec.method != "bp"), key=lambda row: row.accuracy.mean)
    text = "\n".join(field_page.conclusions(small))
    assert f"not backprop by construction: `{small.name(best.spec)}`" in text
    failed = replace(best.verdict, outcome="fail", text="FAIL(D3)", shown=("unused depth",))
    rows = [row.model_copy(update={"verdict": failed}) if row is best else row for row in small.rows]
    other = "\n".join(field_page.conclusions(replace(small, rows=rows)))
    assert f"the audit rejects: `{small.name(best.spec)}`" in other
    assert other != text


def test_a_rule_that_is_backprop_by_construction_is_not_called_the_best_of_the_others(fields):
    mnist1d = fields[0]
    exact = [row for row in mnist1d.judged if field_page._is_backprop(mnist1d, row)]
    assert {row.spec.method for row in exact} == {"bp", "predictive_coding"}
    assert "prediction=fixed" not in field_page._best(mnist1d, mnist1d.judged)


def test_missing_records_are_said_to_be_missing(small):
    runs = len(small.runs)
    assert f"{runs} runs, all with a record" in field_page.page([small])
    key = next(key for key, spec in small.runs.items() if spec.control == "frozen")
    fewer = replace(small, records={name: record for name, record in small.records.items() if name != key})
    assert f"{runs - 1} of {runs} runs have a record" in field_page.page([fewer])
    nothing = [row.model_copy(update={"seeds": (), "verdict": None, "accuracy": None}) for row in small.rows]
    assert "no record yet" in field_page.page([replace(small, rows=nothing, records={})])


def test_the_card_of_a_rule_shows_every_seed_of_its_records(small):
    page = method_pages.page(methods["dfa"], [small])
    row = next(row for row in small.judged if row.spec.method == "dfa" and row.spec.penalty == 0)
    accuracies = " | ".join(f"{100 * small.records[seed.key].accuracy:.1f}" for seed in row.seeds)
    controls = " | ".join(f"{100 * seed.control_accuracy:.1f}" for seed in row.seeds)
    assert f"| accuracy | {accuracies} |" in page
    assert f"| frozen control | {controls} |" in page
    assert "No record yet" in method_pages.page(
        methods["ep"],
        [
            replace(
                small,
                rows=[row.model_copy(update={"spec": row.spec.model_copy(update={"method": "ep"}), "verdict": None})],
            )
        ],
    )


def test_the_card_of_a_rule_shows_the_warnings_of_its_verdict(small):
    row = small.judged[0]
    warned = row.model_copy(update={"verdict": replace(row.verdict, warnings=("The run of seed 1 diverged.",))})
    assert "Warning: The run of seed 1 diverged." in method_pages.card(small, warned)


def test_seeds_that_fire_for_different_causes_say_so(small):
    row = next(row for row in small.judged if row.findings["D2"].status == "fires")
    findings = [seed.findings["D2"] for seed in row.seeds]
    assert not any("(" in text for text in method_pages._values(findings))
    other = replace(findings[0], measurement=replace(findings[0].measurement, cause="fitted"))
    shown = method_pages._values([other, *findings[1:]])
    assert shown[0].endswith(" (fitted)")
    assert shown[1].endswith(f" ({findings[1].cause})")


def test_the_alignment_of_a_row_is_the_median_over_seeds_of_layers_that_are_not_exact(small):
    row = next(row for row in small.judged if row.spec.method == "fa")
    records = [small.records[seed.key] for seed in row.seeds]
    symbol, values = field_page.alignment(records)
    depth = len(records[0].report.measures["gamma"].per_layer)
    assert symbol == "Γ"
    assert len(values) == depth - 1  # the deepest state of fa is exact
    for layer, found in enumerate(values):
        assert found == sorted(record.report.measures["gamma"].per_layer[layer] for record in records)[1]


def test_a_run_without_credit_leaves_the_alignment_of_the_other_seeds(small):
    row = next(row for row in small.judged if row.spec.method == "fa")
    first, *others = (small.records[seed.key] for seed in row.seeds)
    without = replace(first.report.measures["gamma"], value=math.nan, per_layer=())
    diverged = first.report.model_copy(update={"measures": {**first.report.measures, "gamma": without}})
    records = [first.model_copy(update={"report": diverged}), *others]
    assert field_page.alignment(records) == field_page.alignment(others)
    assert field_page.alignment_text(records) == f"{field_page.alignment_text(others)} (2 of 3 seeds)"
    assert field_page.alignment_text(records[:1]) in (field_page.ABSENT, field_page.EXACT)


def test_a_rule_with_another_reference_is_compared_with_that_too(small):
    row = next(row for row in small.judged if row.spec.method == "fa")
    assert "with its own reference" not in method_pages.card(small, row)
    records = dict(small.records)
    for seed in row.seeds:
        report = records[seed.key].report
        own = replace(report.measures["gamma"], per_layer=(0.125,) * len(report.measures["gamma"].per_layer))
        measured = report.model_copy(update={"measures": {**report.measures, "gamma_own": own}})
        records[seed.key] = records[seed.key].model_copy(update={"report": measured})
    line = " | ".join([", ".join(["0.12"] * 4)] * 4)
    assert f"| with its own reference | {line} |" in method_pages.card(replace(small, records=records), row)


def test_a_lone_seed_has_no_column_over_seeds(small):
    row = next(row for row in small.judged if row.spec.method == "fa")
    head = method_pages.card(small, row.model_copy(update={"seeds": row.seeds[:1]})).splitlines()[2]
    assert head == f"|  | seed {row.seeds[0].seed} |"


def test_where_nothing_passes_the_page_does_not_speak_of_rows_that_do(small):
    failed = [
        row.model_copy(update={"verdict": replace(row.verdict, outcome="fail")}) if row.verdict is not None else row
        for row in small.rows
    ]
    assert "no row on the same network passes" in field_page.page([replace(small, rows=failed)])


def test_rows_of_one_method_on_two_networks_have_two_names(fields):
    for found in fields:
        names = [found.name(row.spec) for row in found.trained]
        assert len(set(names)) == len(names)


# --- the chart ---


def test_the_chart_has_a_point_for_every_row_in_its_order(small):
    rows = field_page.chart_rows(small)
    spec = field_chart(rows)
    values = next(iter(spec["datasets"].values())) if "datasets" in spec else spec["layer"][0]["data"]["values"]
    assert [value["label"] for value in values] == [row.label for row in rows]
    assert values[0]["accuracy"] == pytest.approx(100 * rows[0].accuracy)
    assert [value["outcome"] for value in values] == [row.outcome for row in rows]


def test_a_method_without_control_or_interval_is_drawn_without_them():
    spec = field_chart([FieldRow("x", 0.5, None, float("nan"), None, "inconclusive")])
    assert "NaN" not in str(spec)


# --- the studies ---


def test_on_cifar10_what_costs_at_most_three_steps_has_three_seeds_and_the_rest_one(fields):
    found = fields[field_page.STUDIES.index("field_cifar10")]
    for row in found.rows:
        if row.spec.control == "none":
            seeds = len(row.missing) + len(row.seeds)
            elsewhere = row.spec.model_copy(update={"network": "resmlp"})  # where rules for any network were measured
            steps = min(cost for cost in map(field_page.cost, (row.spec, elsewhere)) if cost != ABSENT)
            assert seeds == (3 if float(steps) <= 3 else 1), row.label
    assert {row.spec.method for row in found.rows} == set(OWN)
    assert {spec.epochs for spec in found.runs.values()} == {30}


def test_every_run_of_the_field_with_blocks_has_a_frozen_control(fields):
    for found in fields:
        specs = list(found.runs.values())
        for spec in specs:
            if spec.control == "none" and spec.network_options.get("depth") != 0:
                assert spec.control_spec("frozen") in specs


def test_the_study_on_mnist1d_has_every_rule_and_every_magnitude():
    specs = plan(Study.read(ROOT / "studies" / "field_mnist1d.toml")).values()
    assert {spec.method for spec in specs} == set(OWN)
    magnitudes = {spec.options("method")["magnitudes"] for spec in specs if spec.method == "sign_symmetry"}
    assert magnitudes == {"uniform", "fixed", "redrawn"}
