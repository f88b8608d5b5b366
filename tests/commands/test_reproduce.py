"""`creditscope reproduce` runs what is missing, writes the table, and says what it could not do."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.papers.made import EXPLODED, run
from tests.study.made import PretendEngine, failing

from creditscope.errors import NoRoom, OutOfResources
from creditscope.papers import installed
from creditscope.papers.paper import Experiment, Paper, RunGroup
from creditscope.papers.published import PublishedFigures
from creditscope.papers.quantities import ACCURACY, GROWTH
from creditscope.study.declaration import Study
from creditscope.study.engines import local as engine
from creditscope.study.engines.job import Job, RunResult
from creditscope.study.plan import plan

TINY = """
name = "{name}"
[fixed]
"network.d" = 16
data = "{data}"
[grid]
method = ["bp", "dfa"]
seed = [1, 2, 3]
[budget.laptop]
epochs = 1
[budget.paper]
epochs = 2
"""
WRITTEN = ("results/tables/tiny.md", "results/tables/tiny.json")


def trained(job: Job) -> RunResult:
    """A run whose accuracy is a function of its method and seed."""
    made = run(job.spec, 0.3 + 0.01 * job.spec.seed, EXPLODED if job.spec.method == "dfa" else {"D1": 1.5})
    return RunResult(b"weights", made.model_copy(update={"key": job.key}).to_json())


class Workers:
    """The engines that were asked for; `answer` is what the next one gives."""

    def __init__(self) -> None:
        self.answer = trained
        self.made: list[PretendEngine] = []

    def __call__(self, workers: int | None) -> PretendEngine:
        self.made.append(PretendEngine(self.answer, workers or 2))
        return self.made[-1]

    @property
    def jobs(self) -> list[Job]:
        return [job for one in self.made for job in one.jobs]


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A paper of two experiments: one on data of the package, one on data that cannot be fetched."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CREDITSCOPE_OFFLINE", "1")
    declared = {"far": "cifar100", "tiny": "mnist1d"}
    for name, data in declared.items():
        Path(f"{name}.toml").write_text(TINY.replace("{name}", name).replace("{data}", data))
    rows = tuple(RunGroup(method, {"method": method}, (ACCURACY, GROWTH)) for method in ("bp", "dfa"))
    experiments = tuple(Experiment(name, "Is it so?", rows) for name in declared)
    nothing = PublishedFigures(about="", settings={})
    paper = Paper("little", "A Little Paper", "Nobody (2020)", tmp_path, nothing, experiments)
    monkeypatch.setattr(installed, "installed_papers", lambda: {"little": paper})
    workers = Workers()
    monkeypatch.setattr(engine, "LocalEngine", workers)
    return workers


def runs() -> dict[str, object]:
    return plan(Study.read("tiny.toml"), "laptop")


def test_an_experiment_is_run_and_its_table_printed_and_written(tiny, creditscope):
    done = creditscope("reproduce", "tiny")
    assert done.code == 0
    assert len(tiny.jobs) == 6
    assert "Is it so?" in done.out
    assert "6 to run" in done.err
    assert "wrote results/tables/tiny.md" in done.out
    assert all(Path(name).exists() for name in WRITTEN)
    assert "32.0 % ± 1.0 (3 seeds)" in Path(WRITTEN[0]).read_text(encoding="utf-8")


@pytest.mark.parametrize("option", ["--out", "--records"])
def test_a_place_where_no_folder_can_be_is_refused_before_anything_is_run(tiny, creditscope, option):
    Path("file.md").write_text("mine")
    before = sorted(Path().rglob("*"))
    done = creditscope("reproduce", "tiny", option, "file.md")
    assert done.code == 2
    assert "file.md cannot be written: file.md is not a folder" in done.err
    assert (tiny.made, sorted(Path().rglob("*"))) == ([], before)


def test_a_table_without_any_run_says_where_records_are_looked_for(tiny, creditscope):
    assert "No run of it has a record here." in creditscope("reproduce", "tiny", "--tables-only").out
    assert creditscope("reproduce", "tiny").code == 0
    assert "No run" not in creditscope("reproduce", "tiny", "--tables-only").out


def test_the_paper_may_be_named_before_the_experiment(tiny, creditscope):
    assert creditscope("reproduce", "little", "tiny").code == 0
    named = {name: Path(name).read_bytes() for name in WRITTEN}
    assert creditscope("reproduce", "tiny").code == 0
    assert {name: Path(name).read_bytes() for name in WRITTEN} == named
    assert len(tiny.jobs) == 6


def test_one_experiment_can_be_listed(tiny, creditscope):
    done = creditscope("reproduce", "tiny", "--list")
    assert (done.code, "0/6" in done.out, "far" in done.out) == (0, True, False)


def test_every_link_of_the_table_leads_to_a_record(tiny, creditscope):
    for options in ((), ("--records", "elsewhere/kept"), ("--out", "a/b/tables", "--records", "kept")):
        assert creditscope("reproduce", "tiny", *options).code == 0
        table = Path("a/b/tables/tiny.md") if "--out" in options else Path(WRITTEN[0])
        targets = re.findall(r"\]\(([^)]+)\)", table.read_text(encoding="utf-8"))
        assert len(targets) == 12
        assert all(json.loads((table.parent / target).read_text())["key"] in target for target in targets)


def test_what_is_done_is_not_done_again_and_what_is_missing_is(tiny, creditscope):
    assert creditscope("reproduce", "tiny").code == 0
    tiny.made.clear()
    assert creditscope("reproduce", "tiny").code == 0
    assert tiny.jobs == []
    for path in (
        Path("runs", next(iter(runs())), "record.json"),
        Path("results/records", f"{next(iter(runs()))}.json"),
    ):
        path.unlink()
    assert creditscope("reproduce", "tiny").code == 0
    assert [job.key for job in tiny.jobs] == [next(iter(runs()))]


def deleted(key: str) -> None:
    """Remove every trace of a run but the table."""
    Path("results/records", f"{key}.json").unlink()
    for path in Path("runs", key).iterdir():
        path.unlink()


def test_a_deleted_record_that_is_run_again_gives_the_same_bits(tiny, creditscope):
    creditscope("reproduce", "tiny")
    before = {name: Path(name).read_bytes() for name in WRITTEN}
    deleted(next(iter(runs())))
    done = creditscope("reproduce", "tiny")
    assert "All 12 numbers are identical to the previous table, to the last bit." in done.out
    assert {name: Path(name).read_bytes() for name in WRITTEN} == before


@pytest.mark.parametrize(("moved", "words"), [(0.001, "(inside the"), (0.5, "(OUTSIDE the")])
def test_a_run_that_comes_out_otherwise_is_held_against_the_seeds(tiny, creditscope, moved, words):
    creditscope("reproduce", "tiny")
    key = next(iter(runs()))
    deleted(key)
    tiny.answer = lambda job: RunResult(b"", run(job.spec, 0.31 + moved, {"D1": 1.5}).to_json())
    done = creditscope("reproduce", "tiny")
    assert done.code == 0
    assert f"bp, accuracy, run {key}: 0.31 before, {0.31 + moved:g} now {words} seeds' 95 % interval)" in done.out


def test_the_paper_budget_has_runs_and_tables_of_its_own(tiny, creditscope):
    assert creditscope("reproduce", "tiny").code == creditscope("reproduce", "tiny", "--budget", "paper").code == 0
    assert len(tiny.jobs) == 12
    assert "2 epochs" in Path("results/tables/tiny-paper.md").read_text(encoding="utf-8")
    assert "1 epoch," in Path("results/tables/tiny.md").read_text(encoding="utf-8")


def test_tables_only_runs_nothing(tiny, creditscope):
    done = creditscope("reproduce", "tiny", "--tables-only")
    assert (done.code, tiny.made) == (0, [])
    assert "not run: 4." in done.out
    assert not Path("runs").exists()
    message = " ".join(creditscope("reproduce", "--help").out.split())
    assert "0 if the tables were written, whatever runs are missing" in message


def test_pages_are_written_on_request(tiny, creditscope):
    done = creditscope("reproduce", "tiny", "--html", "pages")
    assert done.code == 0
    assert Path("pages/tiny/index.html").exists()


def test_the_list_shows_every_experiment_with_its_state(tiny, creditscope):
    creditscope("reproduce", "tiny")
    tiny.made.clear()
    done = creditscope("reproduce", "--list")
    assert (done.code, tiny.made) == (0, [])
    assert re.search(r"tiny .* 6/6 +done", done.out)
    assert re.search(r"far .* 0/6 +not run", done.out)
    assert "6 of 12 runs done" in done.out


def test_without_a_name_nothing_is_run_and_the_experiments_are_listed(tiny, creditscope):
    done = creditscope("reproduce")
    assert (done.code, tiny.made) == (0, [])
    assert done.out.startswith(creditscope("reproduce", "--list").out.rstrip("\n"))
    assert "Nothing was run. To run everything: creditscope reproduce little; one experiment:" in done.out
    assert not Path("results").exists()


def test_without_a_name_the_experiments_of_every_paper_are_listed(tiny, creditscope, monkeypatch):
    papers = installed.installed_papers()
    other = replace(papers["little"], name="other", citation="Somebody (2021)")
    monkeypatch.setattr(installed, "installed_papers", lambda: {**papers, "other": other})
    done = creditscope("reproduce")
    assert done.code == 0
    assert "Nobody (2020)" in done.out
    assert "Somebody (2021)" in done.out
    assert "To run everything: creditscope reproduce PAPER; one experiment:" in done.out


def test_data_that_cannot_be_had_is_named(tiny, creditscope, tmp_path):
    done = creditscope("reproduce", "far", "--data-dir", "data")
    assert done.code == 2
    assert "The dataset 'cifar100' is not in data" in done.err
    assert tiny.jobs == []


def test_when_everything_is_run_the_others_go_on(tiny, creditscope):
    done = creditscope("reproduce", "little", "--data-dir", "data")
    assert done.code == 1
    assert "far was not run: The dataset 'cifar100' is not in data" in done.err
    assert len(tiny.jobs) == 6
    assert Path(WRITTEN[0]).exists()
    assert "not run" in Path("results/tables/far.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("error", "code"), [(NoRoom, 74), (OutOfResources, 75)])
def test_a_machine_that_is_out_of_disk_or_memory_stops_every_experiment(tiny, creditscope, error, code):
    def starved(job: Job) -> RunResult:
        raise error("There is no more of it.")

    tiny.answer = starved
    done = creditscope("reproduce", "little", "--data-dir", "data")
    assert done.code == code
    assert "There is no more of it." in done.err
    assert not Path(WRITTEN[0]).exists()


def test_runs_that_fail_are_named_and_done_again_on_request(tiny, creditscope):
    tiny.answer = failing()
    done = creditscope("reproduce", "tiny")
    assert done.code == 1
    assert done.out.count("  failed  ") == 6
    assert "To see why: creditscope study show" in done.out
    assert "--retry-failed" in done.out
    tiny.answer = trained
    assert creditscope("reproduce", "tiny").code == 1
    assert creditscope("reproduce", "tiny", "--retry-failed").code == 0


def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on(tiny, creditscope):
    ended = []

    def stopped(job: Job) -> RunResult:
        if len(ended) == 2:
            raise KeyboardInterrupt
        ended.append(job)
        return trained(job)

    tiny.answer = stopped
    done = creditscope("reproduce", "tiny", "--workers", "1")
    assert (done.code, len(list(Path("runs").glob("*/record.json")))) == (130, 2)
    assert "run the same command again" in done.err
    assert tiny.made[0].stopped
    tiny.answer, tiny.made[:] = trained, []
    assert creditscope("reproduce", "tiny").code == 0
    assert len(tiny.jobs) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tinny",), "There is no paper or experiment called 'tinny'. Did you mean 'tiny'?"),
        (("tinny", "--list"), "There is no paper or experiment called 'tinny'"),
        (("little", "tinny"), "There is no experiment called 'tinny'. Did you mean 'tiny'?"),
        (("litle", "tiny"), "There is no paper called 'litle'. Did you mean 'little'?"),
        (("tiny", "--budget", "laptopp"), "There is no budget called 'laptopp'. Did you mean 'laptop'?"),
        (("tiny", "--results", "nowhere"), "--results nowhere is not a folder"),
        (("tiny", "--store", "tiny.toml/x"), "cannot be made: Not a directory"),
        (("tiny", "--workers", "0"), "--workers"),
    ],
)
def test_an_invalid_name_or_path_exits_with_2(tiny, creditscope, arguments, message):
    done = creditscope("reproduce", *arguments)
    assert done.code == 2
    assert message in done.err
    assert not Path("results").exists()


@pytest.mark.parametrize("options", [("little", "--data-dir", "data"), ("--tables-only",)])
def test_when_everything_is_run_a_table_that_cannot_be_compared_is_named_and_the_others_go_on(
    tiny, creditscope, options
):
    path = Path("results/tables/far.json")
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    done = creditscope("reproduce", *options)
    assert (done.code, path.read_text()) == (1, "mine")
    assert "far was skipped: results/tables/far.json is not a creditscope comparison table" in done.err
    assert all(Path(name).exists() for name in WRITTEN)


def test_a_file_that_is_no_table_is_not_written_over(tiny, creditscope):
    path = Path(WRITTEN[1])
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    done = creditscope("reproduce", "tiny")
    assert (done.code, path.read_text()) == (2, "mine")
    assert "is not a creditscope comparison table" in done.err


def test_a_table_of_schema_version_1_is_noticed_before_anything_is_run(tiny, creditscope):
    path = Path(WRITTEN[1])
    path.parent.mkdir(parents=True)
    path.write_text('{"schema_version": 1}')
    done = creditscope("reproduce", "tiny")
    assert done.code == 2
    assert f"{path} has schema version 1, this creditscope reads 2." in done.err
    assert "remove it and reproduce the experiment again" in done.err
    assert not Path("runs").exists()
