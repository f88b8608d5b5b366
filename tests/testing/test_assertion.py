"""assert_audit fails with a message that can be read, and the pytest plugin keeps the page of the failure."""

from __future__ import annotations

import doctest
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.foreign_models import CLASSES, FEATURES, batches
from torch import nn

import creditscope
from creditscope.errors import InvalidInput, UnknownName
from creditscope.networks.build import build
from creditscope.records.report import Report
from creditscope.testing import AuditFailed, assert_audit

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]


def network() -> nn.Module:
    return build("resmlp", FEATURES, CLASSES, 0, d=8, depth=2)


def exploded() -> nn.Module:
    model = network()
    with torch.no_grad():
        model.get_parameter("blocks.0.w2.weight").mul_(1e5)
    return model


def test_a_sound_network_passes_and_the_report_is_returned() -> None:
    report = assert_audit(network(), batches(2, 16), name="sound")
    assert isinstance(report, Report)
    assert report.subject.name == "sound"


def test_its_example_runs_and_it_is_reached_from_the_package() -> None:
    (example,) = doctest.DocTestFinder().find(creditscope.testing.assert_audit, "assert_audit")
    assert not doctest.DocTestRunner().run(example).failed


def test_a_failure_names_the_diagnostic_its_number_and_what_to_do() -> None:
    with pytest.raises(AuditFailed) as failed:
        assert_audit(exploded(), batches(2, 16), passes=("D0", "D1"), name="exploded")
    message = str(failed.value)
    assert message.startswith("exploded does not pass D1.\n")
    assert "D1 Scale stability: fires" in message
    assert "(> 50)" in message
    assert "Passed: D0" in message
    assert "Verdict " in message
    assert failed.value.report.findings["D1"].status == "fires"
    assert isinstance(failed.value, AssertionError)


def test_a_diagnostic_that_was_skipped_has_not_passed() -> None:
    with pytest.raises(AuditFailed, match=r"D3 Depth utility: skipped\n    no frozen-block control"):
        assert_audit(network(), batches(1, 16), passes=("D3",))
    assert assert_audit(network(), batches(1, 16), passes="D3", accuracy=0.9, control_accuracy=0.1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"passes": ()}, InvalidInput, "passes is empty"),
        ({"passes": ("D99",)}, UnknownName, "There is no diagnostic called 'D99'"),
        ({"passes": ("D4",)}, InvalidInput, "D4 is measured without a limit under protocol strict"),
        ({"passes": ("D1:april",)}, UnknownName, "There is no diagnostic called 'D1:april'"),
        ({"protocol": "trhee"}, UnknownName, "There is no protocol called 'trhee'"),
    ],
)
def test_a_test_that_cannot_fail_or_pass_is_refused(options: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        assert_audit(network(), [], **options)
    assert assert_audit(network(), batches(2, 16), passes=("D4",), protocol="four", thresholds={"D4": 1})


SUITE = """
from tests.testing.test_assertion import exploded, network
from tests.foreign_models import batches
from creditscope.testing import assert_audit


def test_sound():
    assert_audit(network(), batches(2, 16))


def test_broken():
    assert_audit(exploded(), batches(2, 16), name="the broken one")


def test_other():
    assert 1 == 2
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    """Three tests, run by a pytest of their own with the plugin."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the plugin may be installed too
    pytester.makepyfile(test_suite=SUITE)
    plugins = ("-p", "creditscope.testing.plugin", "-p", "no:cacheprovider")
    return lambda *options: pytester.runpytest_inprocess("-q", "-W", "error", *plugins, *options)


def test_a_failure_shows_the_audit_and_writes_nothing_unless_asked(
    suite: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    done = suite()
    done.assert_outcomes(passed=1, failed=2)
    done.stdout.fnmatch_lines(["*AuditFailed: the broken one does not pass D1.", "*creditscope audit*", "*layer*"])
    assert str(done.stdout).count("- creditscope audit -") == 1
    assert {path.name for path in pytester.path.iterdir()} <= {"test_suite.py", "__pycache__"}


@pytest.mark.slow
def test_the_page_of_a_failure_is_kept_where_it_was_asked_for(
    suite: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    assert_audit(network(), batches(1, 16)).to("html")  # imports what it needs: pytester forgets imports made inside
    done = suite("--creditscope-pages", "pages", "--junit-xml", "junit.xml")
    names = sorted(path.name for path in (pytester.path / "pages").iterdir())
    assert names == ["test_suite.py-test_broken.html", "test_suite.py-test_broken.json"]
    done.stdout.fnmatch_lines(["page: pages/test_suite.py-test_broken.html"])
    assert Report.from_json(pytester.path / "pages" / names[1]).subject.name == "the broken one"
    written = (pytester.path / "junit.xml").read_text(encoding="utf-8")
    assert 'name="creditscope_page" value="pages/test_suite.py-test_broken.html"' in written
    suite("--creditscope-pages", "all", "--creditscope-all-pages")
    pages = sorted(path.name for path in (pytester.path / "all").glob("*.html"))
    assert pages == ["test_suite.py-test_broken.html", "test_suite.py-test_sound.html"]


def test_the_plugin_is_declared_and_imports_nothing_heavy() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    assert declared["pytest11"] == {"creditscope": "creditscope.testing.plugin"}
    heavy = "{'torch', 'scipy', 'numpy', 'pydantic', 'altair', 'rich'}"
    code = f"import sys, creditscope.testing.plugin; print(sorted({heavy} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
