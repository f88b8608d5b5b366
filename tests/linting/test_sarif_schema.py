"""SARIF output is valid by the published schema of SARIF 2.1.0, which `make install-all` fetches."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from creditscope.linting.formats import LINT_FORMATS
from creditscope.linting.lint import LintFinding, LintReport, NotLinted, lint

SCHEMA = Path(__file__).parents[2] / ".venv" / "node" / "sarif-2.1.0.json"
PLANTED = Path(__file__).with_name("planted.py")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not SCHEMA.exists() and os.environ.get("CREDITSCOPE_REQUIRE_ALL") != "1",
        reason="the schema is not there: make install-all",
    ),
]


@pytest.fixture(scope="module")
def validator() -> Any:
    return jsonschema.Draft4Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def written(report: LintReport) -> Any:
    return json.loads(LINT_FORMATS["sarif"](report, 80))


REPORTS = {
    "planted": lint([PLANTED]),
    "clean": LintReport((), (), 1, 1),
    "notebook": LintReport((LintFinding("CS001", Path("a b/ä.ipynb"), 1, 1, 1, cell=3),), (), 1, 1),
    "not linted": LintReport((), (NotLinted(Path("/a b/c.py"), "invalid syntax, line 1"),), 0, 0),
}


@pytest.mark.parametrize("name", REPORTS)
def test_what_is_written_is_valid(name: str, validator: Any) -> None:
    assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(written(REPORTS[name]))] == []


def test_the_schema_refuses_what_is_not_sarif(validator: Any) -> None:
    right = written(REPORTS["planted"])
    for path, value in (
        (("version",), "2.0.0"),
        (("runs", 0, "results", 0, "level"), "warn"),
        (("runs", 0, "results", 0, "locations", 0, "physicalLocation", "region", "startLine"), 0),
        (("runs", 0, "tool", "driver", "rules", 0, "id"), 7),
    ):
        wrong = copy.deepcopy(right)
        place = wrong
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        assert list(validator.iter_errors(wrong)), path
