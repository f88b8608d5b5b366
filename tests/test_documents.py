"""The generated pages and schemas are those that the code gives now."""

from __future__ import annotations

import json
import math
import re
import shlex
from importlib.resources import files
from pathlib import Path

import pytest
from docs.generate import diagnostics as diagnostic_pages
from docs.generate import schema as schema_files
from jsonschema import Draft202012Validator
from safetensors.torch import save_file
from tests.report.made import HEALTHY, report

from creditscope.cli import run
from creditscope.datasets import datasets
from creditscope.diagnostics import diagnostics
from creditscope.networks.build import build
from creditscope.records.report import Report
from creditscope.records.run import RunRecord
from creditscope.verdict import Measurement, Missing, Reason

README = (schema_files.ROOT / "README.md").read_text(encoding="utf-8")
TOUR = (schema_files.ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
PAGES = diagnostic_pages.pages()
ODD = HEALTHY | {
    "D1": Measurement(math.nan, per_layer=(math.inf, math.nan)),
    "D2": Measurement(-math.inf, interval=(-math.inf, 1.0)),
    "D3": Missing(Reason.NO_CONTROL, "no control"),
}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_of_a_diagnostic_is_current(name):
    path = diagnostic_pages.FOLDER / name
    assert path.read_text(encoding="utf-8") == PAGES[name], "run make docs"


def test_the_readmes_table_of_diagnostics_is_current():
    assert diagnostic_pages.readme() == README, "run make docs"
    assert all(f"docs/diagnostics/{entry.code}.md" in README for entry in diagnostics.values())


def test_no_page_is_left_of_a_diagnostic_that_is_gone():
    assert {path.name for path in diagnostic_pages.FOLDER.glob("*.md")} == set(PAGES)


def test_every_diagnostic_has_a_page_with_the_four_headings():
    for entry in diagnostics.values():
        page = PAGES[f"{entry.code}.md"]
        assert all(f"# {heading}\n" in page for heading in ("Raised if", "Means", "Does not mean", "Do"))
        assert entry.means in page


@pytest.mark.parametrize("path", schema_files.files(), ids=lambda path: path.name)
def test_schema_files_are_current(path):
    assert path.read_text(encoding="utf-8") == schema_files.files()[path], "run make docs"


def shipped_schema(name="report"):
    return json.loads((files("creditscope.records") / f"{name}.schema.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", schema_files.DOCUMENTS)
def test_the_schema_in_the_package_is_a_schema(name):
    Draft202012Validator.check_schema(shipped_schema(name))


def test_a_run_record_obeys_the_schema():
    paths = sorted((schema_files.ROOT / "results" / "records").glob("*.json"))
    validator = Draft202012Validator(shipped_schema("run"))
    for path in (paths[0], paths[-1]):
        written = json.loads(RunRecord.from_json(path).to_json())
        validator.validate(written)
        assert not validator.is_valid({**written, "test_images": "many"})


@pytest.mark.parametrize("answers", [HEALTHY, ODD])
def test_a_report_file_obeys_the_schema_nan_and_infinity_included(answers):
    written = json.loads(report(answers).to_json(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    Draft202012Validator(shipped_schema()).validate(written)


def test_a_report_of_odd_numbers_survives_the_round_trip(tmp_path):
    made = report(ODD)
    made.to_json(tmp_path / "report.json")
    assert Report.from_json(tmp_path / "report.json").to_json() == made.to_json()


def test_the_schema_refuses_what_is_no_report():
    written = json.loads(report().to_json())
    written["verdict"]["outcome"] = "excellent"
    assert not Draft202012Validator(shipped_schema()).is_valid(written)


def blocks_of(text: str, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for kind, block in found if kind == language]


@pytest.fixture
def untrained(tmp_path, monkeypatch):
    """A folder with weights of the names that the tour uses."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("bp", "dfa"):
        save_file(build("resmlp", 40, 10, 0).state_dict(), f"{name}.safetensors")
    return tmp_path


def skeleton(page: str) -> list[str]:
    """The parts of a page that do not depend on the weights, in their order."""
    return re.findall(r"^(layer|accuracy|Passed:|\w+ ─)", page, re.MULTILINE)


def test_the_readme_is_short_and_its_program_runs(untrained, capsys):
    assert len(README.splitlines()) <= 150
    (program,) = blocks_of(README, "python")
    data = datasets["mnist1d"]()
    names = {"model": build("resmlp", 40, 10, 0, d=8, depth=1), "batches": data.test_batches(500)}
    exec(compile(program, "README.md", "exec"), names)
    assert "accuracy" in capsys.readouterr().out
    assert Path("report.html").exists()


def test_the_tours_program_runs_and_prints_such_a_page(untrained, capsys):
    (program,) = blocks_of(TOUR, "python")
    exec(compile(program, "tour.md", "exec"), {})
    shown = next(block for block in blocks_of(TOUR, "") if block.startswith("DFA "))
    assert skeleton(capsys.readouterr().out) == skeleton(shown)


def test_the_tours_command_runs_and_prints_such_a_page(untrained, capsys):
    (command,) = [block for block in blocks_of(TOUR, "") if block.startswith("creditscope audit")]
    assert run(shlex.split(command)[1:]) in (0, 1)
    shown = next(block for block in blocks_of(TOUR, "") if block.startswith("BP "))
    assert skeleton(capsys.readouterr().out) == skeleton(shown)
    assert Report.from_json("bp.json").subject.name == "BP"


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/tour.md"])
def test_links_between_pages_lead_somewhere(page):
    path = schema_files.ROOT / page
    targets = re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8"))
    assert targets
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_the_workflows_call_targets_that_exist():
    targets = set(
        re.findall(r"^([a-z-]+):", (schema_files.ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    workflows = sorted((schema_files.ROOT / ".github" / "workflows").glob("*.yml"))
    assert [path.stem for path in workflows] == ["release", "site", "tests"]
    called = [re.findall(r"run: make (.+)", path.read_text(encoding="utf-8")) for path in workflows]
    assert {word for lines in called for line in lines for word in line.split()} <= targets
