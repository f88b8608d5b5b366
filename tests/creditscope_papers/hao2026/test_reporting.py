"""A way of reporting rejects a run by what it looks at, and by nothing else."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests.papers.made import EXPLODED, HEALTHY, finding, report, run

from creditscope.protocols import judge, protocol_named
from creditscope.runs.spec import RunSpec
from creditscope.study.tables import SeedRow
from creditscope.verdict import Measurement, Status
from creditscope_papers.hao2026.reporting import STRATEGIES, counts

WAYS = list(STRATEGIES)


def asked(values=HEALTHY, depth: float | None = 10.0, accuracy=0.3, gamma: float | None = 0.1):
    """What every way says of one run; `depth` is D3's margin in points."""
    measures = {} if gamma is None else {"gamma_clamped_mean": Measurement(gamma)}
    record = run(RunSpec(), accuracy, values, measures)
    findings = dict(report(values, {}).findings) | ({} if depth is None else {"D3": finding("D3", depth)})
    verdict = judge(protocol_named("three"), findings)
    seed = SeedRow(seed=42, key=record.key, accuracy=accuracy, findings=findings, verdict=verdict)
    return {name: way(seed, record) for name, way in STRATEGIES.items()}


def back(**fields):
    return [name for name, answer in asked(**fields).items() if answer]


def test_there_are_seven_ways():
    assert WAYS == ["accuracy", "accuracy + Γ", "+ D1", "+ D2", "+ D4", "+ D3", "all"]


def test_a_healthy_run_is_rejected_by_none():
    assert back() == []


@pytest.mark.parametrize(
    ("fields", "ways"),
    [
        ({"values": EXPLODED}, ["+ D1", "+ D2", "all"]),
        ({"values": {**HEALTHY, "D4": 0.5}}, ["+ D4", "all"]),
        ({"values": {**HEALTHY, "D0": 3.0}}, ["all"]),
        ({"depth": -5.0}, ["+ D3", "all"]),
        ({"gamma": 0.0}, WAYS[1:]),
        ({"gamma": math.nan}, WAYS[1:]),
        ({"accuracy": 0.1}, WAYS),
        ({"accuracy": 0.104}, WAYS),  # on 10,000 images that is still chance
        ({"accuracy": 0.107}, []),
        ({"accuracy": math.nan}, WAYS),
    ],
)
def test_each_way_sees_what_it_looks_at(fields, ways):
    assert back(**fields) == ways


def test_what_was_not_measured_is_no_answer():
    without_control = asked(depth=None)
    assert {name for name, answer in without_control.items() if answer is None} == {"+ D3", "all"}
    assert asked(depth=None, values=EXPLODED)["all"] is True  # what is known is enough
    without_credit = asked(gamma=None)
    assert {name for name, answer in without_credit.items() if answer is None} == set(WAYS[1:])
    assert without_credit["accuracy"] is False
    assert asked(gamma=None, values=EXPLODED)["+ D1"] is True


@pytest.mark.parametrize("code", ["D1", "D2", "D4"])
def test_a_diagnostic_that_is_undefined_is_no_answer(code):
    found = asked(values={**HEALTHY, code: math.nan})
    assert {name for name, answer in found.items() if answer is None} == {f"+ {code}", "all"}
    assert asked(values={**HEALTHY, code: math.nan}, depth=-5.0)["all"] is True  # what is known is enough


@pytest.mark.parametrize(("cause", "answer"), [("collapsed", True), ("fitted", False), ("", None)])
def test_a_small_reference_rejects_a_run_only_if_it_collapsed(cause, answer):
    assert counts(finding("D2", 1e-9, cause)) is answer


@pytest.mark.parametrize(
    ("status", "answer"),
    [("fires", True), ("pass", False), ("undecided", None), ("undefined", None), ("skipped", None)],
)
def test_only_a_pass_says_no(status, answer):
    assert counts(replace(finding("D1", 1.0), status=Status(status))) is answer
    assert counts(None) is None


def test_an_undecided_diagnostic_is_no_answer():
    record = run(RunSpec(), 0.3)
    straddling = {"D3": finding("D3", 1.0)}
    undecided = Measurement(1.0, interval=(0.0, 3.0))
    entry = straddling["D3"]
    findings = {
        **record.report.findings,
        "D3": type(entry)(entry.code, "", "undecided", undecided, entry.limit, "", ""),
    }
    seed = SeedRow(seed=42, key="", accuracy=0.3, findings=findings, verdict=record.report.verdict)
    assert STRATEGIES["+ D3"](seed, record) is None
