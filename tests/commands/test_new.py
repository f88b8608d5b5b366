"""`creditscope new` writes entries that hold every contract, as plugins and inside a clone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import creditscope as package
from creditscope.cli import run
from creditscope.commands.new import Entry

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(package.__file__).parent
NAMES = {"method": "my_rule", "diagnostic": "X3", "dataset": "my_data", "network": "my_net", "format": "my_form"}


def called(*arguments: str, folder: Path, path: Path = SOURCE.parent) -> subprocess.CompletedProcess[str]:
    """Run a Python module in a folder that is on the search path."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(path), str(folder))), "COLUMNS": "80"}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one new entry of every kind."""
    folder = tmp_path_factory.mktemp("plugins")
    for kind, name in NAMES.items():
        assert run(["new", kind, name, "--out", str(folder)]) == 0
    return folder


def test_there_is_a_template_for_every_kind() -> None:
    assert set(NAMES) == set(Entry)


@pytest.mark.slow
def test_the_written_tests_pass(plugins: Path) -> None:
    done = called("pytest", "-q", "-p", "no:cacheprovider", ".", folder=plugins)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_every_new_entry_holds_its_contract(plugins: Path) -> None:
    loaded = [part for name in NAMES.values() for part in ("-p", name.lower())]
    chosen = " or ".join(NAMES.values())
    contracts = str(ROOT / "tests" / "contracts")
    done = called("pytest", "-q", "-p", "no:cacheprovider", *loaded, "--rootdir", str(ROOT), "-c",
                  str(ROOT / "pyproject.toml"), contracts, "-k", chosen, folder=plugins)  # fmt: skip
    assert done.returncode == 0, done.stdout
    (passed,) = re.findall(r"(\d+) passed", done.stdout)
    assert int(passed) > 100


@pytest.mark.parametrize("kind", ["diagnostic", "method"])
def test_a_plugin_is_listed_by_the_command_that_new_prints(plugins: Path, kind: str) -> None:
    done = called("creditscope", "list", f"{kind}s", "--plugin", NAMES[kind].lower(), folder=plugins)
    assert done.returncode == 0, done.stderr
    assert re.search(rf"^{NAMES[kind]} ", done.stdout, re.MULTILINE)


def test_a_new_file_is_formatted_and_passes_the_linter(plugins: Path) -> None:
    entries = [str(plugins / f"{name.lower()}.py") for name in NAMES.values()]
    rules = ("check", "--ignore", "I001")  # creditscope is third-party to them
    for command in (("format", "--check"), rules):
        done = called(
            "ruff", *command, "--config", str(ROOT / "pyproject.toml"), "--no-cache", *entries, folder=plugins
        )
        assert done.returncode == 0, done.stdout


def test_inside_a_clone_the_entry_needs_no_plugin_and_its_test_goes_to_the_tests(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "src" / "creditscope", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests").mkdir()
    home = tmp_path / "src" / "creditscope" / "diagnostics"
    new = ("creditscope", "new", "diagnostic", "D100", "--out", str(home))
    done = called(*new, folder=tmp_path, path=tmp_path / "src")
    assert done.returncode == 0, done.stderr
    assert "--plugin" not in done.stdout
    assert "import d100" not in (tmp_path / "tests" / "diagnostics" / "test_d100.py").read_text(encoding="utf-8")
    listed = called("creditscope", "list", "diagnostics", folder=tmp_path, path=tmp_path / "src").stdout.splitlines()
    codes = [line.split()[0] for line in listed]
    assert codes.index("D100") == len(codes) - 1


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("method", "My Rule", "A method cannot be called 'My Rule'"),
        ("method", "class", "A method cannot be called 'class'"),
        ("network", "../mine", "A network cannot be called '../mine'"),
        ("diagnostic", "x3", "capital letters and a number, such as X1"),
        ("method", "dfa", "There is a method called 'dfa' already"),
        ("diagnostic", "D1", "There is a diagnostic called 'D1' already"),
        ("dataset", "json", "A module called 'json' can be imported already"),
        ("loss", "mine", "There is no kind of entry called 'loss'"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_and_nothing_is_written(creditscope, tmp_path, kind, name, said) -> None:
    done = creditscope("new", kind, name, "--out", tmp_path)
    assert done.code == 2
    assert said in " ".join(done.err.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("existing", ["mine.py", "test_mine.py"])
def test_a_file_is_never_overwritten(creditscope, tmp_path, existing) -> None:
    (tmp_path / existing).write_text("precious")
    done = creditscope("new", "network", "mine", "--out", tmp_path)
    assert done.code == 2
    assert f"{existing} exists." in done.err
    assert [path.name for path in tmp_path.iterdir()] == [existing]
    assert (tmp_path / existing).read_text() == "precious"
