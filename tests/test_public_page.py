"""Every public name has an example in its docstring, and the example runs."""

from __future__ import annotations

import doctest
import subprocess
import sys
from typing import Any

import pytest

import creditscope
from creditscope import errors

ERRORS = [name for name, value in vars(errors).items() if isinstance(value, type)]
NAMES = [name for name in creditscope.__all__ if name not in ("__version__", *ERRORS)] + ["CreditscopeError"]
ELSEWHERE = {"CreditscopeCallback"}  # run with Lightning itself, in tests/thirdparty


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ELSEWHERE])
def test_the_example_of_a_public_name_runs(name: str) -> None:
    runs_its_example(name)


def runs_its_example(name: str) -> None:
    examples_run(getattr(creditscope, name), name)


def examples_run(subject: Any, name: str) -> None:
    found = [test for test in doctest.DocTestFinder().find(subject, name) if test.examples]
    assert found, f"{name} has no example"
    for test in found:
        outcome = doctest.DocTestRunner(optionflags=doctest.FAIL_FAST).run(test)
        assert not outcome.failed, test.name


def test_the_names_of_a_newcomers_page_are_public() -> None:
    expected = {
        "audit",
        "experiment",
        "depth_utility",
        "fit",
        "load",
        "Monitor",
        "Report",
        "Batch",
        "plain_twin",
        "explain",
    }
    assert expected <= set(creditscope.__all__)


def test_every_error_is_public_and_caught_by_their_common_class() -> None:
    assert len(ERRORS) > 1
    for name in ERRORS:
        assert name in creditscope.__all__
        assert issubclass(getattr(creditscope, name), creditscope.CreditscopeError)


def test_explaining_needs_no_torch() -> None:
    code = "import creditscope, sys; creditscope.explain('D1'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
