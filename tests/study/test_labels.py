"""A study shows every difference between its runs wherever it names them."""

from __future__ import annotations

import io

import pytest
from tests.study.made import PretendEngine, record
from tests.study.test_tables import HEALTHY, report

from creditscope.cli import run
from creditscope.protocols import DEFAULT
from creditscope.report.study_views import judged_views
from creditscope.study.declaration import Study
from creditscope.study.display.board import Board, LiveBoard
from creditscope.study.driver import StudyOptions, run_study
from creditscope.study.plan import plan, run_labels
from creditscope.study.store import Store
from creditscope.study.tables import audit_table

AXES = {
    "learning_rate": ("[0.001, 0.01]", "learning_rate 0.01"),
    "weight_decay": ("[0.01, 0.02]", "weight_decay 0.02"),
    "batch_size": ("[64, 128]", "batch_size 64"),
    '"network.d"': ("[8, 16]", "resmlp(d=16)"),
    '"data.inputs"': ("[16, 32]", "teacher(inputs=32)"),
    "random_labels": ("[false, true]", "with random labels"),
    "seed": ("[1, 2]", "seed 2"),
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(params=AXES)
def study(request, tmp_path, monkeypatch):
    """A study over one setting, and what its second run must say."""
    monkeypatch.chdir(tmp_path)
    values, words = AXES[request.param]
    data = "teacher" if "data." in request.param else "mnist1d"
    text = f'[fixed]\nepochs = 1\nmethod = "dfa"\ndata = "{data}"\n[grid]\n{request.param} = {values}\n'
    (tmp_path / "study.toml").write_text(text)
    return plan(Study.parse(text)), words


def test_every_page_of_a_study_shows_what_differs(study, capsys, monkeypatch):
    runs, words = study
    pages = {}
    assert run(["study", "run", "study.toml", "--dry-run"]) == 0
    pages["dry run"] = capsys.readouterr().out
    lines, live, store = io.StringIO(), Terminal(), Store("runs")
    monkeypatch.setattr(Store, "unaudited", lambda self, key: False)
    run_study(runs, Store("plain"), PretendEngine(), Board(lines), StudyOptions())
    with LiveBoard(live) as board:
        run_study(runs, Store("live"), PretendEngine(), board, StudyOptions())
    pages |= {"lines": lines.getvalue(), "live board": live.getvalue()}
    for key, spec in runs.items():
        store.commit(key, b"weights", record(spec, report=report(HEALTHY)))
    assert run(["study", "status", "study.toml", "--runs"]) == 0
    pages["status"] = capsys.readouterr().out
    for key in runs:
        assert run(["study", "show", key]) == 0
    pages["show"] = capsys.readouterr().out
    assert len(set(run_labels(runs).values())) == 2
    if "seed" not in words:  # seeds are one row of a table
        assert run(["study", "report", "study.toml"]) == 0
        pages["table"] = capsys.readouterr().out
        rows = audit_table(runs, store)
        views = judged_views({key: store.record(key) for key in runs}, rows, DEFAULT)
        assert len({view.label for view in views}) == 2
    for name, page in pages.items():
        assert words in " ".join(page.split()), name
