"""What every registered diagnostic promises; new files in creditscope/diagnostics/ are found by themselves."""

from __future__ import annotations

import copy
import math
import re

import pytest
import torch

from creditscope.diagnostics import Diagnostic, diagnostics, examine, examine_all
from creditscope.evidence.records import Directions, Evidence
from creditscope.verdict import Measurement, Missing, Status


@pytest.fixture(params=list(diagnostics))
def entry(request: pytest.FixtureRequest) -> Diagnostic:
    return diagnostics[str(request.param)]


def full_evidence(fill: float = 1.0, layers: int = 4, images: int = 256) -> Evidence:
    """Everything that an audit without credit measures, made of one number."""
    norms = torch.full((layers, images), fill, dtype=torch.float64)
    sums = tuple(torch.full((3,), fill, dtype=torch.float64) for _ in range(layers))
    return Evidence(
        hidden_norms=norms,
        gradient_norms=norms.clone(),
        error_norms=norms[0].clone(),
        directions=Directions(sums, 2, (0,) * layers, 128),
        non_finite={} if math.isfinite(fill) else {"states": 1},
        images=images,
        batches=2,
        accuracy=(fill,),
        control_accuracy=(fill / 2,),
    )


def test_the_name_is_a_code_and_perhaps_a_variant(entry: Diagnostic) -> None:
    assert re.fullmatch(r"[A-Z]+\d+(:[a-z]+)?", entry.name)
    assert entry.name.startswith(entry.code)
    assert entry.code in diagnostics
    assert entry.revision >= 1


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


def test_its_limit_fires_just_past_itself_and_not_before(entry: Diagnostic) -> None:
    toward = math.inf if entry.limit.fires == "above" else -math.inf
    assert entry.limit.judge(Measurement(entry.limit.at)) is Status.PASS
    assert entry.limit.judge(Measurement(math.nextafter(entry.limit.at, toward))) is Status.FIRES
    assert entry.limit.judge(Measurement(math.nextafter(entry.limit.at, -toward))) is Status.PASS


def test_it_only_reads_the_evidence(entry: Diagnostic) -> None:
    evidence = full_evidence()
    before = copy.deepcopy(evidence)
    first, second = entry.measure(evidence), entry.measure(evidence)
    assert isinstance(first, Measurement | Missing)
    assert first == second or repr(first) == repr(second)
    assert torch.equal(evidence.hidden_norms, before.hidden_norms)
    assert torch.equal(evidence.gradient_norms, before.gradient_norms)
    assert evidence.non_finite == before.non_finite


def test_it_returns_plain_numbers(entry: Diagnostic) -> None:
    answer = entry.measure(full_evidence())
    if isinstance(answer, Measurement):
        assert type(answer.value) is float
        assert all(type(value) is float for value in answer.per_layer)


@pytest.mark.parametrize("fill", [math.nan, math.inf])
def test_numbers_that_are_not_finite_never_pass(entry: Diagnostic, fill: float) -> None:
    assert examine(entry, full_evidence(fill)).status is not Status.PASS


def test_without_its_evidence_it_gives_a_reason(entry: Diagnostic) -> None:
    norms = torch.ones(2, 3, dtype=torch.float64)
    finding = examine(entry, Evidence(norms, norms, norms[0]))
    assert finding.status is not Status.SKIPPED or finding.note


def test_a_finding_carries_what_a_reader_needs(entry: Diagnostic) -> None:
    finding = examine(entry, full_evidence())
    assert (finding.code, finding.title, finding.means) == (entry.code, entry.title, entry.means)
    assert bool(finding.remedy) == (finding.status is not Status.PASS)


def test_a_limit_of_the_user_replaces_the_calibrated_one_and_says_so(entry: Diagnostic) -> None:
    finding = examine(entry, full_evidence(), at=entry.limit.at + 1)
    assert finding.limit.at == entry.limit.at + 1
    assert finding.limit.calibrated == entry.limit.at
    assert finding.limit.origin == f"set by the user; the calibrated limit is {entry.limit.at:g}"
    assert examine(entry, full_evidence(), at=entry.limit.at).limit == entry.limit


def test_every_code_has_one_finding_and_a_variant_takes_its_place() -> None:
    plain = examine_all(full_evidence())
    assert list(plain) == [entry.code for entry in diagnostics.values() if not entry.variant]
    changed = examine_all(full_evidence(), {"D1": "april"}, {"D1": 7.0})
    assert changed["D1"].title == diagnostics["D1:april"].title
    assert changed["D1"].limit.at == 7.0
    assert changed["D2"] == plain["D2"]
