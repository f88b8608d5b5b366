"""The verdict in words: for every outcome, every mode of every protocol, and with the numbers of the page."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.report.made import EXPLODED, HEALTHY, finding, report
from tests.report.real import audits, tiny_view

from creditscope.modes import ACCURACY, CONTROL
from creditscope.protocols import PROTOCOLS, judge, protocol_named
from creditscope.records.report import Report
from creditscope.report.formats import formats
from creditscope.report.headline import headline, sentences
from creditscope.report.notebook import fragment
from creditscope.report.numbers import accuracy, value
from creditscope.report.text import brief, page
from creditscope.verdict import Measurement, Missing, Reason, Status

CASES = [(name, mode) for name, protocol in PROTOCOLS.items() for mode in protocol.modes]
NO_CONTROL = Missing(Reason.NO_CONTROL, "no frozen-block control was supplied")


def with_statuses(protocol: str, statuses: dict[str, Status]) -> Report:
    """A report whose judged diagnostics pass, but for those named."""
    made = report(protocol="three")
    causes = {code: cause for mode in PROTOCOLS[protocol].modes for code, cause in mode.requires.items()}
    findings = {
        code: replace(
            finding(code, Measurement(7.25, cause=causes[code])), status=statuses.get(code, Status.PASS), code=code
        )
        for code in PROTOCOLS[protocol].codes
    }
    verdict = judge(protocol_named(protocol), findings)
    return made.model_copy(update={"findings": findings, "verdict": verdict, "protocol": protocol})


@pytest.mark.parametrize(("protocol", "mode"), CASES, ids=[f"{name}-{mode.name}" for name, mode in CASES])
def test_every_mode_of_every_protocol_is_said_with_its_numbers(protocol, mode):
    made = with_statuses(protocol, dict.fromkeys(mode.requires, Status.FIRES))
    said = headline(made)
    assert mode.name in made.verdict.shown
    assert mode.headline.shown in said
    assert "{" not in said
    for cited in mode.headline.numbers.values():
        if cited.of in (ACCURACY, CONTROL):
            shares = made.accuracy if cited.of == ACCURACY else made.control_accuracy
            assert accuracy(shares).partition(" %")[0] in said
        elif cited.part == "value":
            assert value(made.findings[cited.of]) in said
        else:
            assert made.findings[cited.of].limit.text in said


@pytest.mark.parametrize(("protocol", "mode"), CASES, ids=[f"{name}-{mode.name}" for name, mode in CASES])
def test_an_open_mode_is_a_question(protocol, mode):
    said = headline(with_statuses(protocol, dict.fromkeys(mode.requires, Status.UNDECIDED)))
    assert said.startswith(f"It is open {mode.headline.question}")
    assert "the interval contains the limit" in said


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pass_is_said_by_what_depth_earns(protocol):
    said = "74.0 ± 1.0 % with trained blocks, 56.0 ± 1.0 % with frozen random ones."
    assert headline(with_statuses(protocol, {})).endswith(f"depth earns a part of the accuracy: {said}")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_several_failures_are_said_with_depth_first_and_none_twice(protocol):
    made = with_statuses(protocol, {code: Status.FIRES for code in PROTOCOLS[protocol].codes if code != "D0"})
    first, *others = sentences(made)
    assert first.startswith("The accuracy is not earned by depth: 74.0")
    assert len({*others, first}) == len(others) + 1
    assert sum("exploded" in sentence for sentence in others) == (protocol in ("strict", "three"))


def test_an_open_question_that_was_not_measured_says_why():
    made = report(HEALTHY | {"D3": NO_CONTROL}, control_accuracy=None)
    assert headline(made) == (
        "It is open whether the accuracy is earned by depth: no frozen-block control was supplied."
    )


def test_read_outs_in_the_place_of_a_control_are_said_as_such():
    made = with_statuses("strict", {})
    gain = replace(finding("D10", Measurement(-4.2)), status=Status.FIRES)
    findings = made.findings | {"D3": finding("D3", NO_CONTROL), "D10": gain}
    verdict = judge(PROTOCOLS["strict"], findings)
    made = made.model_copy(update={"findings": findings, "verdict": verdict, "control_accuracy": None})
    assert headline(made).startswith(
        "The trained blocks add nothing for a linear read-out: -4.20, limit 1/3; no frozen"
    )
    assert "advisory" not in page(made)


def test_a_frozen_control_that_is_the_network_itself_needs_no_number():
    note = "the blocks are at their initial values: this network is its own frozen control"
    made = report(HEALTHY | {"D3": Measurement(0.0, note=note)}, control_accuracy=None)
    assert headline(made) == f"The accuracy is not earned by depth: {note}."


@pytest.mark.parametrize("name", ["text", "full", "brief", "markdown", "html", "latex"])
@pytest.mark.parametrize("kind", ["credit", "fail", "inconclusive", "nan"])
def test_every_format_of_a_real_audit_has_the_same_sentence(name, kind):
    view = audits()[kind]
    assert view.report is not None
    text = " ".join(formats[name].render(view).replace("\\", "").split())
    assert sentences(view.report)[0] in text
    assert sentences(view.report)[0] in fragment(view.report)


def test_line_2_of_the_page_is_the_verdict_in_words():
    made = audits()["fail"].report
    assert page(made, 120).splitlines()[1] == headline(made)


@pytest.mark.parametrize("kind", ["credit", "no credit", "fail", "inconclusive", "nan"])
def test_brief_is_three_lines(kind):
    made = audits()[kind].report
    first, second, third = brief(made).splitlines()
    assert first == f"{made.subject.name}: {made.verdict}"
    assert second == sentences(made)[0]
    assert all(code in third for code, found in made.findings.items() if found.status is Status.FIRES)


def test_the_page_shows_what_fires_and_what_carries_the_verdict_and_names_the_rest():
    text = page(report(EXPLODED))
    assert [line.split()[0] for line in text.splitlines() if line.startswith("D")] == ["D1", "D2"]
    assert "Passed: D0, D3, D4." in text
    assert "D3  Depth utility  pass" in page(report())


def test_one_panel_of_columns_fits_80_and_the_rest_needs_full():
    made = tiny_view().report
    short, whole = page(made, 80), page(made, 80, full=True)
    assert sum(line.startswith("layer") for line in short.splitlines()) == 1
    heading = next(line for line in short.splitlines() if line.startswith("layer"))
    assert all(word in heading for word in ("‖h‖", "‖g‖/128", "Γ"))
    assert "Γ clamped" in whole
    assert "Γ clamped" not in short


def test_remedies_fit_the_case():
    text = page(tiny_view().report)
    assert "fitted" not in text
    assert "Train a control" not in text
    assert "creditscope power" in " ".join(text.split())
