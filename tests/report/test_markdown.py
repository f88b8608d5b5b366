"""Markdown for a README or a rebuttal, the claim card, and the reporting form that both documents share."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.report.made import HEALTHY, report
from tests.report.made_runs import audited, run

from creditscope.report.claim_card import claim_card
from creditscope.report.form.reporting_form import form
from creditscope.report.markdown import document, escaped, prose
from creditscope.report.views import from_report, from_runs
from creditscope.verdict import Measurement, Missing, Reason


def test_no_sign_is_markup():
    assert escaped("<b>*x*</b> | `a` [l](u) #1 $m$") == r"\<b\>\*x\*\</b\> \| \`a\` \[l\](u) \#1 \$m\$"


def test_only_what_stands_between_two_backticks_is_code():
    assert prose("run `cs train --x a_b`, not *this*") == r"run `cs train --x a_b`, not \*this\*"
    for text in ("one ` only <b>", "two ``<b>`` of them"):
        assert prose(text) == escaped(text)


def test_commands_in_remedies_are_shown_as_code():
    made = report(HEALTHY | {"D3": Missing(Reason.NO_CONTROL, "none")})
    finding = replace(made.findings["D3"], remedy="Train one (`creditscope train --controls frozen`).")
    text = made.model_copy(update={"findings": made.findings | {"D3": finding}}).to_markdown()
    assert "- **D3** Train one (`creditscope train --controls frozen`)." in text


def test_hostile_names_and_notes_stay_in_their_cells():
    name, notes = "<script>alert(1)</script>", "a | b\n| c | `x` <img src=x onerror=alert(1)>"
    text = audited(name, notes=notes).to_markdown()
    assert not re.search(r"(?<!\\)<(script|img)", text)
    (line,) = [line for line in text.splitlines() if line.startswith("| **Notes**")]
    assert len(re.findall(r"(?<!\\)\|", line)) == 3


def test_the_card_is_one_line_that_sets_the_claim_against_the_audit():
    card = claim_card(audited())
    assert card.claimed == "accuracy 27.0 %, Γ 0.170"
    assert card.audited == (
        "FAIL(D1+D2+D3): scale stability 7,000 (D1 fires > 50); reference validity 2.0e-10 (D2 fires < 1e-07); "
        "3.00 pp below its frozen control"
    )
    assert str(card).count("\n") == 0


def test_the_card_names_only_what_the_verdict_rests_on():
    alone = report(HEALTHY | {"D1": Measurement(90.0, (90.0, 1.0), axis="block"), "D3": Measurement(-1.0)})
    assert claim_card(alone).audited == "FAIL(D3): 1.00 pp below its frozen control"
    assert claim_card(report()).audited == "PASS: 18.0 pp above its frozen control"
    assert (
        claim_card(report(HEALTHY | {"D3": Missing(Reason.NOT_GIVEN, "none")})).audited
        == "INCONCLUSIVE(D3): D3 skipped"
    )


def test_the_card_of_a_network_without_a_control_rests_on_the_read_out():
    answers = HEALTHY | {"D3": Missing(Reason.NO_CONTROL, "none"), "D10": Measurement(-0.5)}
    found = report(answers, protocol="strict")
    assert found.verdict.text == "FAIL(D10)"
    assert claim_card(found).audited == "FAIL(D10): another question -0.500 (D10 fires < 1/3)"  # the words of `made`


def test_half_precision_is_a_pitfall_that_is_not_ticked():
    made = report()
    half = made.model_copy(update={"provenance": made.provenance.model_copy(update={"dtype": "float16"})})
    assert [line.avoided for line in form(from_report(made)).pitfalls] == [True] * 7
    assert [line.avoided for line in form(from_report(half)).pitfalls].count(False) == 1
    assert "- [ ] half precision" in half.to_markdown()


def test_a_run_that_was_never_audited_has_its_setting_and_nothing_else():
    (shown,) = from_runs([run().model_copy(update={"report": None})])
    text = document(shown)
    assert "**Method**" in text
    assert "Verdict" not in text
