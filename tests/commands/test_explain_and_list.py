from __future__ import annotations

import pytest

from creditscope.diagnostics import diagnostics
from creditscope.linting.rules import lint_rules


@pytest.mark.parametrize("code", sorted(diagnostics))
def test_every_diagnostic_is_explained_in_full_and_within_the_page(creditscope, code):
    done = creditscope("explain", code)
    assert (done.code, done.err) == (0, "")
    assert max(map(len, done.out.splitlines())) <= 80
    headings = ("Formula", "Raised if", "Why there", "Means", "Does not mean", "Do", "Counts in")
    positions = [done.out.index(f"\n{heading}\n") for heading in headings]
    assert positions == sorted(positions)
    entry, words = diagnostics[code], " ".join(done.out.split())
    for text in (entry.title, entry.means, entry.does_not_mean, entry.do):
        assert " ".join(text.split()) in words


def test_a_code_may_be_written_small(creditscope):
    assert creditscope("explain", "d2").out == creditscope("explain", "D2").out


def test_the_role_of_a_diagnostic_is_read_from_the_protocols(creditscope):
    words = " ".join(creditscope("explain", "D2").out.split())
    assert "protocol three: measurement degeneracy, together with D1, if its cause is `collapsed`" in words
    assert "protocol three: advisory, cannot fail a network" in creditscope("explain", "D4").out
    assert "protocol april: scale" in creditscope("explain", "D1:april").out
    assert "protocol april" not in creditscope("explain", "D1").out


def test_forms_beside_the_plain_one_and_stand_ins_say_what_they_can_fail(creditscope):
    tail = " ".join(creditscope("explain", "D2:tail").out.split())
    assert "strict: exploded stream, together with D1:stream, unless its cause is `without growth`" in tail
    assert "in place of" not in tail.partition("Counts in")[2]
    read = " ".join(creditscope("explain", "D10").out.split())
    assert "protocol strict: unused depth, where D3 lacks its control" in read
    drift = " ".join(creditscope("explain", "D4").out.split())
    assert "strict: measured without a limit, cannot fail a network" in drift


def test_an_unknown_code_suggests_the_nearest(creditscope):
    done = creditscope("explain", "D21")
    assert done.code == 2
    assert "There is no diagnostic called 'D21'. Did you mean 'D2'?" in done.err


@pytest.mark.parametrize("code", sorted(lint_rules))
def test_every_lint_rule_is_explained_with_its_lines_and_within_the_page(creditscope, code):
    done, rule = creditscope("explain", code), lint_rules[code]
    assert (done.code, done.err) == (0, "")
    assert creditscope("explain", code.lower()).out == done.out
    words = " ".join(done.out.split())
    assert all(" ".join(text.split()) in words for text in (rule.why, rule.wrong, rule.right, rule.link))
    assert f"# noqa: {code}" in done.out


def test_a_lint_rule_that_does_not_exist_suggests_the_nearest(creditscope):
    done = creditscope("explain", "CS011")
    assert done.code == 2
    assert "There is no lint rule called 'CS011'. Did you mean 'CS01" in done.err


@pytest.mark.parametrize(
    ("kind", "name", "about"),
    [
        ("diagnostics", "D2", "Reference validity: is the reference gradient large enough for a cosine with it?"),
        ("diagnostics", "D1:april", "Scale relative to layer 0 (variant of D1): how far"),
        ("networks", "resmlp", "Residual MLP: Linear | L x"),
        ("methods", "dfa", "fixed random"),
        ("datasets", "mnist1d", "4,000 training"),
        ("formats", "html", "(.html"),
        ("rules", "CS005", "`torch.load` without `weights_only`"),
    ],
)
def test_entries_are_listed_one_a_line(creditscope, kind, name, about):
    done = creditscope("list", kind)
    assert done.code == 0
    (line,) = [line for line in done.out.splitlines() if line.startswith(f"{name} ")]
    assert about in line


def test_an_unknown_kind_is_refused(creditscope):
    done = creditscope("list", "losses")
    assert done.code == 2
    assert "There is no kind of entry called 'losses'." in done.err
    assert "Known: datasets, diagnostics, formats, methods, networks, rules." in done.err
