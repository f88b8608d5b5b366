"""The demonstration says what its records say, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.report.made import EXPLODED, HEALTHY, report
from tests.study.made import record

from creditscope.diagnostics import diagnostics
from creditscope.study.display.demonstration import demonstration, demonstration_page
from creditscope.study.store import Store
from creditscope.verdict import Finding, Measurement

SOUND = {"D1:stream": 2.0, "D2:tail": 1e-3, "D10": 20.0, "D11": 5.0, "D12": 9.0}
WILD = SOUND | {"D1:stream": 1e5, "D2:tail": 2e-8, "D10": -4.0}
GAMMA = {"gamma_clamped_mean": Measurement(0.034)}


def judged(code: str, value: float) -> Finding:
    """A finding of a registered diagnostic with this value."""
    entry, measured = diagnostics[code], Measurement(value)
    return Finding(entry.code, entry.title, entry.limit.judge(measured), measured, entry.limit, "", "")


def filled(folder: Path, accuracies: dict[tuple[str, bool, str], float], exploded: bool = True) -> Store:
    """A store with every run of the demonstration, by method, whether penalised, and control."""
    store = Store(folder)
    for key, spec in demonstration().items():
        wild = exploded and spec.method == "dfa" and not spec.penalty and spec.control == "none"
        base = report(EXPLODED if wild else HEALTHY, GAMMA)
        more = {code: judged(code, value) for code, value in (WILD if wild else SOUND).items()}
        made = record(
            spec,
            accuracies[spec.method, bool(spec.penalty), spec.control],
            report=base.model_copy(update={"findings": {**base.findings, **more}}),
        )
        made.to_json(folder / key / "record.json")
    return store


PUBLISHED_FORM = {
    ("bp", False, "none"): 0.74,
    ("bp", False, "frozen"): 0.56,
    ("dfa", False, "none"): 0.25,
    ("dfa", False, "frozen"): 0.32,
    ("fa", False, "none"): 0.49,
    ("fa", False, "frozen"): 0.34,
    ("dfa", True, "none"): 0.45,
}


def test_four_methods_share_three_frozen_controls() -> None:
    specs = list(demonstration().values())
    assert [(spec.method, bool(spec.penalty)) for spec in specs if spec.control == "none"] == [
        ("bp", False),
        ("dfa", False),
        ("fa", False),
        ("dfa", True),
    ]
    assert [spec.method for spec in specs if spec.control == "frozen"] == ["bp", "dfa", "fa"]


def test_the_table_shows_claims_and_verdicts(tmp_path: Path) -> None:
    page = demonstration_page(demonstration(), filled(tmp_path, PUBLISHED_FORM), 80)
    lines = {line.split("  ")[0]: line for line in page.splitlines()}
    assert lines["bp"].endswith("PASS")
    assert lines["dfa"].endswith("FAIL(D1+D1:stream+D2:tail)")
    assert "25.0 %" in lines["dfa"]
    assert "32.0 %" in lines["dfa"]
    assert "0.03" in lines["dfa"]
    assert lines["dfa + penalty 0.01"].endswith("PASS")
    assert "the penalty λ‖f(h)‖² bounds the stream" in page
    assert max(len(line) for line in page.splitlines()) <= 80


def test_alignment_with_a_collapsed_reference_stands_in_brackets(tmp_path: Path) -> None:
    store = filled(tmp_path, PUBLISHED_FORM)
    page = demonstration_page(demonstration(), store, 80)
    lines = {line.split("  ")[0]: line for line in page.splitlines()}
    assert "(0.03)" in lines["dfa"]
    assert "(0.03)" not in lines["bp"]
    assert "Γ in brackets is invalid" in page


def test_the_reading_changes_with_the_records(tmp_path: Path) -> None:
    calm = {**PUBLISHED_FORM, ("dfa", False, "none"): 0.45}
    page = demonstration_page(demonstration(), filled(tmp_path, calm, exploded=False), 80)
    assert "FAIL" not in page
    assert "a paper would print" not in page
    assert "bounds the stream" not in page


def test_a_margin_near_the_limit_is_called_undecided(tmp_path: Path) -> None:
    near = {**PUBLISHED_FORM, ("dfa", True, "none"): 0.33}
    page = demonstration_page(demonstration(), filled(tmp_path, near), 80)
    assert "INCONCLUSIVE(D3)" in page
    assert "(D3 undecided)" in " ".join(page.split())


def test_what_strict_adds_is_said_in_sentences_that_follow_the_records(tmp_path: Path) -> None:
    page = " ".join(demonstration_page(demonstration(), filled(tmp_path, PUBLISHED_FORM), 80).split())
    assert "x1e+05 over the stream (D1:stream fires)" in page
    assert "2e-08 or less for a tenth of the images (D2:tail fires)" in page
    assert "-4.0 points for a linear read-out (D10 fires)" in page
    assert "dfa: the gradient shrank with the units of the stream, not with its influence" in page
    assert "moves the loss by 5 output errors or more for nine images in ten (D11 passes)" in page
    assert "its blocks add nothing (-4.0 points, D10 fires)" in page
    assert "bp: the gradient" not in page
    assert "sensitivity" not in page  # D11 passes everywhere


def test_read_outs_are_quoted_only_where_one_seed_does_not_decide(tmp_path: Path) -> None:
    clear = {**PUBLISHED_FORM, ("dfa", False, "none"): 0.12}
    page = " ".join(demonstration_page(demonstration(), filled(tmp_path, clear), 80).split())
    assert "one seed does not decide D3" not in page
    assert "FAIL(D1+D1:stream+D2:tail+D3)" in page


@pytest.mark.slow
def test_the_demo_runs_and_a_second_call_trains_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from creditscope.cli import run

    words = ["demo", "--epochs", "2", "--out", str(tmp_path / "demo")]
    assert run(words) == 0
    first = capsys.readouterr()
    assert "7 to run" in first.err
    assert run(words) == 0
    second = capsys.readouterr()
    assert "7 done, 0 to run" in second.err
    assert first.out == second.out
