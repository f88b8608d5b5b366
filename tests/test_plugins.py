from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from creditscope import plugins
from creditscope.cli import run
from creditscope.plugins import FaultyPlugin, load_installed_plugins, load_plugin

DIAGNOSTIC = '''
from creditscope.diagnostics import diagnostic
from creditscope.verdict import Limit, Measurement

@diagnostic("D77", title="Presence", question="is it there?", formula="1", limit=Limit(1.0, "above", "it is"),
            means="m", does_not_mean="n", do="d")
def presence(evidence):
    """Always one."""
    return Measurement(1.0)
'''


@pytest.mark.parametrize(
    "order", [("--plugin", "mine", "list", "diagnostics"), ("list", "diagnostics", "--plugin", "mine")]
)
def test_a_module_of_ones_own_adds_entries(tmp_path, order):
    (tmp_path / "mine.py").write_text(DIAGNOSTIC)
    command = [sys.executable, "-P", "-m", "creditscope", *order]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "D77  " in done.stdout
    assert "Presence: is it there?" in done.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise RuntimeError('no luck')", "RuntimeError: no luck"),
        ("import nowhere_to_be_found", "No module named 'nowhere_to_be_found'"),
        ("this is no python", "SyntaxError"),
        (DIAGNOSTIC.replace("D77", "D1"), "two diagnostics called 'D1'"),
    ],
)
def test_a_plugin_that_fails_is_a_clear_error(tmp_path, text, said):
    (tmp_path / "mine.py").write_text(text)
    command = [sys.executable, "-P", "-m", "creditscope", "--plugin", "mine", "list", "diagnostics"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_plugin_is_a_clear_error():
    with pytest.raises(
        FaultyPlugin,
        match=r"(?s)The plugin 'nowhere' cannot be imported.*Nothing was registered",
    ):
        load_plugin("nowhere")


def test_the_search_path_is_as_it_was_afterwards(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    with pytest.raises(FaultyPlugin):
        load_plugin("nowhere")
    assert sys.path == before


def test_a_file_of_the_current_folder_does_not_stand_in_for_an_installed_module(tmp_path, monkeypatch):
    (tmp_path / "colorsys.py").write_text("planted = True")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    assert not hasattr(load_plugin("colorsys"), "planted")


def test_a_current_folder_that_is_on_the_path_already_stays_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(FaultyPlugin):
        load_plugin("nowhere")
    assert sys.path[0] == str(tmp_path)


def test_a_module_that_ends_the_program_is_an_error_and_not_a_pass(tmp_path, monkeypatch, capsys):
    (tmp_path / "quits.py").write_text("import sys\nsys.exit(0)")
    (tmp_path / "quits_later.py").write_text("import sys\ndef make():\n    sys.exit(0)")
    monkeypatch.chdir(tmp_path)
    assert run(["--plugin", "quits", "list", "methods"]) == 2
    assert "cannot be imported: SystemExit: 0" in capsys.readouterr().err
    assert run(["inspect", "quits_later:make"]) == 2
    assert "quits_later" in capsys.readouterr().err


@pytest.mark.parametrize(
    "last", ["raise GeneratorExit", "raise SystemExit(0) from None", "exec('raise SystemExit(0)', {})"]
)
def test_no_way_to_end_the_program_is_a_pass_not_even_after_a_closed_pipe(tmp_path, monkeypatch, capsys, last):
    code = f"def make():\n    try:\n        raise BrokenPipeError\n    except OSError:\n        {last}"
    (tmp_path / "quits_oddly.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "quits_oddly", raising=False)
    assert run(["inspect", "quits_oddly:make"]) == 2
    assert "No verdict was reached." in capsys.readouterr().err


def test_installed_plugins_are_found_by_their_entry_points(tmp_path, monkeypatch):
    (tmp_path / "an_installed_plugin.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    entry = EntryPoint("mine", "an_installed_plugin", plugins.GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [entry])
    load_installed_plugins()
    assert "an_installed_plugin" in sys.modules


def test_an_installed_plugin_that_fails_is_named(monkeypatch):
    entry = EntryPoint("theirs", "nowhere.at_all", plugins.GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [entry])
    with pytest.raises(FaultyPlugin, match="The installed plugin 'theirs' \\(nowhere.at_all\\) cannot be imported"):
        load_installed_plugins()
