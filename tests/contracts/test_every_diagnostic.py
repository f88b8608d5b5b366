"""What every registered diagnostic promises, on full evidence; new files in creditscope/diagnostics/ are found."""

from __future__ import annotations

import copy
import math
import re
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from tests.contracts.full_evidence import FAMILIES, LAYERS, Family, full
from torch import Tensor

from creditscope.auditing.audit import audit
from creditscope.batch import Batch
from creditscope.diagnostics import Diagnostic, diagnostics, examine, examine_all
from creditscope.errors import InvalidInput
from creditscope.evidence.records import Evidence
from creditscope.glossary.explanation import of_diagnostic
from creditscope.networks.build import build
from creditscope.probes.source import CreditFunction
from creditscope.protocols import PROTOCOLS
from creditscope.records.report import Report
from creditscope.verdict import Finding, Measurement, Missing, Reason, Status

TURNING = {Status.PASS, Status.UNDECIDED, Status.FIRES}


@pytest.fixture(params=list(diagnostics))
def entry(request: pytest.FixtureRequest) -> Diagnostic:
    return diagnostics[str(request.param)]


@lru_cache
def audited(protocol: str) -> Report:
    """A real audit with credit, a control and initial weights."""
    network, drawn = build("resmlp", 12, 3, 0, d=16, depth=4), torch.Generator().manual_seed(0)
    batches = [Batch(torch.randn(128, 12, generator=drawn), torch.arange(128) % 3) for _ in range(4)]
    before = build("resmlp", 12, 3, 1, d=16, depth=4)

    def credit(batch: Batch) -> list[Tensor]:
        """The output error through the read-out's own matrix, at every state: aligned, and local to the blocks."""
        error = F.softmax(network(batch.inputs), 1).detach() - F.one_hot(batch.labels, 3)
        return [error @ network.out_head.weight.detach().to(error)] * (network.depth + 1)

    def redraw(generator: torch.Generator) -> CreditFunction:
        """The same credit through a random matrix."""
        fresh = torch.randn(3, 16, generator=generator)
        return lambda batch: (
            [(F.softmax(network(batch.inputs), 1).detach() - F.one_hot(batch.labels, 3)) @ fresh.to(batch.inputs)]
            * (network.depth + 1)
        )

    options = {"control_accuracy": 0.2, "initial": before, "training": batches[2:], "redraw": redraw}
    return audit(network, batches[:2], credit=credit, protocol=protocol, **options)


def crossing(entry: Diagnostic) -> tuple[Family, float, float]:
    """A family in which the diagnostic passes and fires, and the two neighbouring doses between which it turns.

    An interval may leave it undecided in between: then it turns where it no longer passes.
    """
    for family in FAMILIES.values():
        statuses = [examine(entry, family(step / 16)).status for step in range(17)]
        for step, pair in enumerate(pairwise(statuses)):
            if Status.PASS in pair and Status.FIRES in statuses and set(pair) <= TURNING and len(set(pair)) == 2:
                before, after = step / 16, (step + 1) / 16
                while before < (middle := (before + after) / 2) < after:
                    same = (examine(entry, family(middle)).status is Status.PASS) == (pair[0] is Status.PASS)
                    before, after = (middle, after) if same else (before, middle)
                return (family, before, after) if pair[0] is Status.PASS else (family, after, before)
    pytest.fail(f"No family of tests/contracts/full_evidence.py makes {entry.name} both pass and fire: add one.")


# --- the entry --------------------------------------------------------------------------------------------------------


def test_the_name_is_a_code_and_perhaps_a_variant(entry: Diagnostic) -> None:
    assert re.fullmatch(r"[A-Z]+\d+(:[a-z]+)?", entry.name)
    assert entry.name == (f"{entry.code}:{entry.variant}" if entry.variant else entry.code)
    assert entry.code in diagnostics


@pytest.mark.parametrize("code", ["", "D", "1", "d1", "D1a", "D-1", "D1:x", "Ä1", "D²"])
def test_a_code_that_cannot_be_sorted_is_refused(code: str) -> None:
    with pytest.raises(InvalidInput, match=r"(?s)cannot have the code .* such as D10 or X3"):
        replace(diagnostics["D1"], code=code)


def test_it_asks_a_question_and_answers_with_a_formula(entry: Diagnostic) -> None:
    assert entry.question.endswith("?")
    assert not entry.question.startswith(entry.code)
    first, _, rest = entry.formula.partition("\n")
    assert first.endswith(".")
    assert rest.strip()


def test_it_says_why_its_limit_sits_there_what_it_means_and_what_to_do(entry: Diagnostic) -> None:
    texts = (entry.title, entry.limit.because, entry.means, entry.does_not_mean, entry.do)
    assert all(text.strip() == text and len(text) > 8 for text in texts)
    assert all(text.endswith(".") for text in (entry.means, entry.does_not_mean, entry.do))


def test_every_fact_is_explained(entry: Diagnostic) -> None:
    page = of_diagnostic(entry)
    text = f"{page.heading} {page.lead} {' '.join(page.sections.values())}".casefold()
    facts = (entry.name, entry.title, entry.question, entry.formula, entry.means, entry.does_not_mean, entry.do)
    assert [fact for fact in facts if fact.casefold() not in text] == []
    assert all(page.sections.values())


# --- the limit --------------------------------------------------------------------------------------------------------


def test_its_limit_fires_just_past_itself_and_not_before(entry: Diagnostic) -> None:
    toward = math.inf if entry.limit.fires == "above" else -math.inf
    assert entry.limit.judge(Measurement(entry.limit.at)) is Status.PASS
    assert entry.limit.judge(Measurement(math.nextafter(entry.limit.at, toward))) is Status.FIRES
    assert entry.limit.judge(Measurement(math.nextafter(entry.limit.at, -toward))) is Status.PASS


def test_on_full_evidence_it_fires_just_past_its_limit_and_is_silent_just_before(entry: Diagnostic) -> None:
    family, before, after = crossing(entry)
    silent, firing = (examine(entry, family(dose)) for dose in (before, after))
    if firing.status is Status.UNDECIDED:  # its interval reaches the limit before its value does
        assert silent.interval is not None
        assert firing.interval is not None
        assert not any(map(entry.limit.past, silent.interval))
        assert [entry.limit.past(end) for end in sorted(firing.interval)].count(True) == 1
        return
    assert (silent.status, firing.status) == (Status.PASS, Status.FIRES)
    assert silent.value is not None
    assert firing.value is not None
    assert not entry.limit.past(silent.value)
    assert entry.limit.past(firing.value)
    counted = isinstance(entry.measure(family(after)), Measurement) and firing.value == round(firing.value)
    if not counted:  # a measured number crosses the limit without a jump
        assert abs(firing.value - silent.value) <= 1e-6 * max(abs(entry.limit.at), 1e-7)


def test_a_nan_in_its_evidence_never_passes(entry: Diagnostic) -> None:
    family, _, _ = crossing(entry)
    assert examine(entry, family(math.nan)).status is not Status.PASS


@pytest.mark.parametrize("fill", [math.nan, math.inf])
def test_numbers_that_are_not_finite_never_pass(entry: Diagnostic, fill: float) -> None:
    norms = torch.full((LAYERS, 8), fill, dtype=torch.float64)
    bare = Evidence(norms, norms.clone(), norms[0].clone(), non_finite={"states": 1}, accuracy=(fill,))
    assert examine(entry, bare).status is not Status.PASS


# --- the measurement --------------------------------------------------------------------------------------------------


def test_full_evidence_is_measured_and_passes(entry: Diagnostic) -> None:
    finding = examine(entry, full())
    assert (finding.status, finding.reason, finding.remedy) == (Status.PASS, None, "")


def fits(finding: Finding, states: int) -> bool:
    """Whether the numbers per layer are as many as their axis says."""
    wanted = {"state": states, "block": states - 1}
    return finding.measurement is not None and len(finding.per_layer) in (0, wanted[finding.measurement.axis])


def test_numbers_per_layer_are_plain_and_as_many_as_their_axis_says(entry: Diagnostic) -> None:
    finding = examine(entry, full())
    assert fits(finding, LAYERS)
    assert type(finding.value) is float
    assert all(type(value) is float for value in (*finding.per_layer, *finding.per_seed))


IN_PROTOCOLS = [
    (name, entry.name)
    for name, protocol in PROTOCOLS.items()
    for entry in diagnostics.values()
    if protocol.variants.get(entry.code, "") == entry.variant
]


@pytest.mark.parametrize(("protocol", "name"), IN_PROTOCOLS)
def test_a_real_audit_with_credit_measures_it(protocol: str, name: str) -> None:
    report, entry = audited(protocol), diagnostics[name]
    finding = report.findings[entry.code]
    assert finding.variant == entry.variant
    assert finding.status in (Status.PASS, Status.FIRES, Status.UNDECIDED, Status.MEASURED)
    assert (finding.status is Status.MEASURED) == (entry.code in PROTOCOLS[protocol].unjudged)
    assert fits(finding, report.subject.depth + 1)
    assert repr(Report.parse(report.to_json()).findings[entry.code]) == repr(finding)


def test_it_only_reads_the_evidence(entry: Diagnostic) -> None:
    evidence = full()
    before = copy.deepcopy(evidence)
    first, second = entry.measure(evidence), entry.measure(evidence)
    assert isinstance(first, Measurement)
    assert first == second or repr(first) == repr(second)
    assert torch.equal(evidence.hidden_norms, before.hidden_norms)
    assert torch.equal(evidence.gradient_norms, before.gradient_norms)
    assert (evidence.credit, evidence.non_finite) == (before.credit, before.non_finite)


def test_without_its_evidence_it_gives_a_reason(entry: Diagnostic) -> None:
    norms = torch.ones(2, 3, dtype=torch.float64)
    answer = entry.measure(Evidence(norms, norms, norms[0]))
    finding = examine(entry, Evidence(norms, norms, norms[0]))
    assert (finding.status is Status.SKIPPED) == isinstance(answer, Missing)
    assert (finding.reason in set(Reason)) == isinstance(answer, Missing)
    assert finding.note or isinstance(answer, Measurement)


# --- the finding ------------------------------------------------------------------------------------------------------


def test_a_finding_carries_what_a_reader_needs(entry: Diagnostic) -> None:
    family, _, after = crossing(entry)
    finding = examine(entry, family(after))
    assert finding.status is not Status.PASS
    facts = (finding.code, finding.variant, finding.title, finding.means, finding.does_not_mean, finding.column)
    assert facts == (entry.code, entry.variant, entry.title, entry.means, entry.does_not_mean, entry.column)
    assert finding.remedy == entry.remedy(finding.status, finding.reason, finding.cause) != ""


def test_a_limit_of_the_user_replaces_the_calibrated_one_and_says_so(entry: Diagnostic) -> None:
    finding = examine(entry, full(), at=entry.limit.at + 1)
    assert finding.limit.at == entry.limit.at + 1
    assert finding.limit.calibrated == entry.limit.at
    assert finding.limit.origin == f"set by the user; the calibrated limit is {entry.limit.text}"
    assert examine(entry, full(), at=entry.limit.at).limit == entry.limit


def test_every_code_has_one_finding_and_a_variant_takes_its_place() -> None:
    plain = examine_all(full(), PROTOCOLS["three"])
    assert list(plain) == [entry.code for entry in diagnostics.values() if not entry.variant]
    assert set(examine_all(full())) == {*plain, *PROTOCOLS["strict"].beside}
    changed = examine_all(full(), PROTOCOLS["april"], {"D1": 7.0})
    assert changed["D1"].title == diagnostics["D1:april"].title
    assert changed["D1"].limit.at == 7.0
    assert changed["D2"] == plain["D2"]
