"""The guides' programs run as they stand."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import creditscope
from creditscope.conformance.check import CLAUSES
from creditscope.diagnostics import diagnostics
from creditscope.errors import InvalidInput
from creditscope.methods import methods
from creditscope.registry import Registry
from creditscope.verdict import Status

GUIDES = Path(__file__).parents[1] / "docs" / "guides"


def programs(name: str) -> list[str]:
    """The Python blocks of a guide, each at its own line numbers."""
    text = (GUIDES / name).read_text(encoding="utf-8")
    return [
        "\n" * text[: found.start(1)].count("\n") + found[1]
        for found in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def ran(name: str, monkeypatch: pytest.MonkeyPatch, first: int | None = None) -> dict[str, Any]:
    """All programs of a guide, or the first few, one after the other in one module."""
    module = ModuleType(f"guide_{name.removesuffix('.md').replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    state = torch.random.get_rng_state()
    try:
        for program in programs(name)[:first]:
            exec(compile(program, name, "exec"), module.__dict__)
            module.__dict__["__doc__"] = module.__doc__ or program.strip().splitlines()[0].strip('"')
    finally:
        torch.random.set_rng_state(state)
    return module.__dict__


def test_the_guides_are_these_and_the_index_leads_to_them() -> None:
    names = sorted(path.name for path in GUIDES.glob("*.md"))
    assert names == [
        "add-your-own-diagnostic.md",
        "audit-a-jax-network.md",
        "audit-in-ci.md",
        "audit-your-method.md",
        "audit-your-model.md",
        "check-your-rule.md",
        "log-a-run.md",
        "monitor-a-lightning-run.md",
        "monitor-a-transformers-run.md",
        "train-by-dfa.md",
        "write-a-rule.md",
    ]
    index = (GUIDES.parent / "index.md").read_text(encoding="utf-8")
    assert all(f"guides/{name}" in index for name in names)


def test_the_guide_to_auditing_a_model_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = ran("audit-your-model.md", monkeypatch)
    assert "mine" in capsys.readouterr().out
    assert found["result"].findings["D3"].status is not Status.SKIPPED
    assert [len(found["result"].networks[variant]) for variant in ("trained", "frozen")] == [2, 2]
    assert found["report"].subject.depth == 2
    assert len(found["report"].measures["gamma"].per_layer) == 3


def test_the_guide_to_audits_as_tests_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    ran("audit-in-ci.md", monkeypatch)["test_the_network_is_sound"]()


def test_the_guide_to_auditing_a_method_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    report = ran("audit-your-method.md", monkeypatch)["report"]
    assert len(report.measures["gamma"].per_layer) == 4
    assert report.findings["D9"].status == "pass"


@pytest.mark.slow
def test_the_guide_to_training_by_dfa_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = ran("train-by-dfa.md", monkeypatch)
    assert "Transformer" in capsys.readouterr().out
    assert len(found["report"].measures["gamma"].per_layer) == 4
    assert found["report"].findings["D3"].value is not None
    assert found["report"].findings["D9"].status == "pass"


@contextmanager
def without_new_entries(registry: Registry[Any]) -> Iterator[None]:
    """Forget what was registered inside."""
    before = set(registry)
    try:
        yield
    finally:
        for name in set(registry) - before:
            del registry._entries[name]


def test_the_guide_to_checking_a_rule_runs_and_shows_the_real_table(monkeypatch: pytest.MonkeyPatch) -> None:
    with without_new_entries(methods):
        checked = ran("check-your-rule.md", monkeypatch)["checked"]
    assert checked.failing == ("networks", "identity")
    text = (GUIDES / "check-your-rule.md").read_text(encoding="utf-8")
    shown = re.findall(r"^(\w+) +(holds|fails|not checked) ", text, re.MULTILINE)
    assert shown == [(result.clause, result.outcome.value) for result in checked.results]
    for clause in CLAUSES:
        assert f"| `{clause.name}` | {clause.states} | {clause.blind} |" in text


def test_the_guide_to_a_diagnostic_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    with without_new_entries(diagnostics):
        found = ran("add-your-own-diagnostic.md", monkeypatch)["found"]
        assert (found.code, found.title, found.status) == ("S1", "Shrinking stream", "pass")
        assert diagnostics["S1"].question == "does the residual stream shrink from block to block?"


@pytest.mark.slow
def test_the_guide_to_a_rule_runs_and_its_feedback_approaches_the_readout(monkeypatch: pytest.MonkeyPatch) -> None:
    with without_new_entries(methods):
        found = ran("write-a-rule.md", monkeypatch)
    assert found["checked"].failing == ()
    assert "identity" in [one.clause for one in found["checked"].results if one.outcome == "holds"]
    left = (found["last"] - found["readout"]).norm().item() / found["distance"]
    assert left == pytest.approx(found["shrunk"], rel=1e-3)
    assert left < 0.1
    gamma = found["report"].measures["gamma"].per_layer
    assert max(gamma) == gamma[-1]
    assert (found["report"].findings["D9"].status, found["report"].findings["D6"].status) == ("pass", "skipped")


def test_the_rule_of_the_guide_must_be_told_how_the_network_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    with without_new_entries(methods):
        ran("write-a-rule.md", monkeypatch, first=1)
        model = torch.nn.Sequential(*(torch.nn.Linear(6, 6) for _ in range(4)))
        inputs, labels = torch.randn(8, 6), torch.arange(8) % 6
        rule = creditscope.rule("direct_kolen_pollack", model, example=(inputs, labels))
        with pytest.raises(InvalidInput, match="Pass optimizer= to creditscope.rule"):
            rule.backward(inputs, labels)
