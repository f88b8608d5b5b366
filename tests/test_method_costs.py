"""The measured costs of a step: every form of a rule stands beside the ceiling that the benchmark declares for it."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
STEPS = json.loads((ROOT / "results" / "method_costs.json").read_text(encoding="utf-8"))["steps"]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location("benchmark_of_methods", ROOT / "benchmarks" / "methods.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_every_form_of_a_rule_has_the_ceiling_that_is_declared_for_it(benchmark: ModuleType) -> None:
    for step in STEPS:
        assert step["ceiling"] == benchmark.ceiling(step["name"], step["options"]), (step["name"], step["options"])
    forms = {(step["name"], json.dumps(step["options"])) for step in STEPS}
    assert {(name, json.dumps(dict(o))) for name, options in benchmark.VARIANTS.items() for o in options} <= forms


def test_ceilings_grow_with_the_work_that_an_option_asks_for(benchmark: ModuleType) -> None:
    assert benchmark.ceiling("forward_gradient", {"draws": 16}) == pytest.approx(16 * 1.6)
    assert benchmark.ceiling("predictive_coding", {"steps": 10, "multipliers": True}) == pytest.approx(6)
    kinds = ("fixed", "uniform", "redrawn")
    assert {benchmark.ceiling("sign_symmetry", {"magnitudes": kind}) for kind in kinds} == {1.25}
    assert benchmark.ceiling("ep", {}) is None
