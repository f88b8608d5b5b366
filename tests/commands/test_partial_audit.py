"""The command reads logs under any names, says what is wrong with bad ones, and the page of the docs is its output."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from creditscope.partial import PartialAudit, partial_audit, read_logs

ROOT = Path(__file__).parents[2]
PUBLISHED = {"final_test_acc": 0.36, "log": [{"h_L_norm": 4e4, "g_2_norm": 1e-6}]}
OTHER = {"test_acc": 0.36, "epochs": [{"norms": {"last": 4e4, "first": 9.0}, "grad2": 1e-6}]}


@pytest.fixture
def logs(tmp_path, monkeypatch):
    """Write logs into the current folder; their names."""
    monkeypatch.chdir(tmp_path)

    def write(*contents: object) -> list[str]:
        for index, content in enumerate(contents):
            text = content if isinstance(content, str) else json.dumps(content)
            Path(f"{index}.json").write_text(text, encoding="utf-8")
        return [f"{index}.json" for index in range(len(contents))]

    return write


@pytest.fixture
def refused(creditscope, logs):
    """Give logs and options, expect a refusal, and return its words."""

    def call(*options: object, content: object = PUBLISHED) -> str:
        done = creditscope("partial-audit", *logs(content), *options)
        assert (done.code, done.out) == (2, "")
        assert "Traceback" not in done.err
        return done.err

    return call


@pytest.mark.parametrize(
    ("options", "code", "verdict"),
    [
        (("--baseline", "0.36"), 1, "FAIL(D3)"),
        (("--baseline", "0.2"), 3, "INCONCLUSIVE(D0+D1+D2)"),
        ((), 3, "INCONCLUSIVE(D0+D1+D2+D3)"),
    ],
)
def test_the_exit_code_is_the_verdicts(creditscope, logs, options, code, verdict):
    done = creditscope("partial-audit", *logs(PUBLISHED), *options)
    assert (done.code, done.err) == (code, "")
    assert f"Verdict: {verdict}" in done.out


@pytest.mark.parametrize(
    ("accuracy", "options", "verdict", "said"),
    [
        (0.36, ("--baseline", "0.36"), "FAIL(D3)", True),
        (0.36, ("--baseline", "0.36", "--h0", "1e-6"), "FAIL(D3)", True),  # D1 fires by a bound, and carries nothing
        (0.76, ("--baseline", "0.36", "--h0", "1e-6"), "INCONCLUSIVE(D0)", False),
        (0.36, (), "INCONCLUSIVE(D0+D3)", False),
    ],
)
def test_a_failure_is_said_in_words_where_its_numbers_are_exact(creditscope, logs, accuracy, options, verdict, said):
    files = logs({"final_test_acc": accuracy, "log": [{"h_L_norm": 4e4, "g_4_norm": 1.0}]})
    done = creditscope("partial-audit", *files, *options, "--blocks", "4", "--batch-size", "128")
    assert f"Verdict: {verdict}" in done.out
    sentence = "The accuracy is not earned by depth: 36.0 % with trained blocks, 36.0 % with frozen random ones."
    assert (sentence in " ".join(done.out.split())) is said


def test_the_command_and_the_function_say_the_same(creditscope, logs):
    files = logs(PUBLISHED, PUBLISHED | {"final_test_acc": 0.38})
    done = creditscope("partial-audit", *files, "--baseline", "0.3", "--h0", "9", "--blocks", "4", "--json")
    assert PartialAudit.model_validate_json(done.out) == partial_audit(
        read_logs(files), baseline=[0.3], h0=[9.0], blocks=4
    )


def test_other_names_are_mapped(creditscope, logs):
    fields = ("accuracy=test_acc", "log=epochs", "h_L=norms.last", "h_0=norms.first", "g_2=grad2")
    words = [word for field in fields for word in ("--field", field)]
    done = creditscope("partial-audit", *logs(OTHER), *words, "--blocks", "2", "--batch-size", "128")
    assert done.code == 3
    assert "exact" in next(line for line in done.out.splitlines() if line.startswith("D2"))
    assert "≥ 66.7" in next(line for line in done.out.splitlines() if line.startswith("D1"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ((), "no key called 'log'.\nKnown: epochs, test_acc."),
        (("log=epoch",), "Did you mean 'epochs'?"),
        (("log=epochs",), "the field accuracy was not found."),
        (("log=epochs", "accuracy=tests_acc"), "Did you mean 'test_acc'?"),
        (("log=epochs", "accuracy=test_acc"), "Known: grad2, norms, norms.first, norms.last."),
        (("log=epochs", "accuracy=test_acc", "h_L=norm.last"), "Did you mean 'norms.last'?"),
        (("log=epochs", "accuracy=test_acc", "h_L=norms"), "norms is an object of 2, not a number"),
        (("log=epochs", "accuracy=test_acc", "h=grad2"), "not the list of ‖h_0‖ to ‖h_L‖"),
        (("g2=grad2",), "There is no field called 'g2'. Did you mean 'g_2'?"),
        (("h_L",), "--field h_L is not of the form name=value"),
        (("h_L=a", "h_L=b"), "--field gives h_L twice"),
    ],
)
def test_a_field_that_is_not_there_lists_those_that_are(refused, fields, words):
    given = [word for field in fields for word in ("--field", field)]
    assert words in refused(*given, content=OTHER)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"final_test_acc": 0.36, "log": [', "is not JSON"),
        ('{"h_L_norm": 1}\n{"h_L_norm": 2}', "the field accuracy was not found"),
        ([1, 2], "is not an object with an accuracy and a log"),
        ({"final_test_acc": 0.36}, "the field log was not found"),
        (PUBLISHED | {"log": []}, "the log is empty"),
        (PUBLISHED | {"log": [1]}, "not a list of objects, but a list with other items"),
        (PUBLISHED | {"log": {"h_L_norm": [1, 2]}}, "not a list of objects, but an object of 1"),
        (PUBLISHED | {"final_test_acc": 31}, "the accuracy = 31 is not a share between 0 and 1"),
        (PUBLISHED | {"final_test_acc": 31}, "Did you mean 0.31?"),
        (PUBLISHED | {"final_test_acc": float("nan")}, "the accuracy = nan is not a share"),
        (PUBLISHED | {"final_test_acc": None}, "the accuracy is null, not a number"),
        (PUBLISHED | {"final_test_acc": True}, "the accuracy is true, not a number"),
        (PUBLISHED | {"log": [{"h_L_norm": -1}]}, "must be a norm, which is never negative"),
        (PUBLISHED | {"log": [{"h_L_norm": "high"}]}, "0.json, row 1: h_L_norm is 'high', not a number"),
        (PUBLISHED | {"log": [{"h_L_norm": "4e4"}]}, "h_L_norm is '4e4', not a number"),
        (PUBLISHED | {"log": [{"h_L_norm": "+-nan"}]}, "h_L_norm is '+-nan', not a number"),
        (PUBLISHED | {"final_test_acc": "1_0"}, "the accuracy is '1_0', not a number"),
        (PUBLISHED | {"log": [{"h_5_norm": 1.0}]}, "‖h_5‖ is logged, but with blocks = 4 the last state is h_4"),
        (PUBLISHED | {"log": [{"g_9_norm": 1.0}]}, "‖g_9‖ is logged, but with blocks = 4 the last state is h_4"),
        (PUBLISHED | {"log": [{"h_4_norm": 1.0, "h_L_norm": 2.0}]}, "‖h_L‖ is 2 and ‖h_4‖ is 1, with 4 blocks"),
        (PUBLISHED | {"log": [{"loss": 1.0}]}, "the field h_L was not found"),
    ],
)
def test_a_log_that_cannot_be_judged_is_refused(refused, content, words):
    assert words in refused("--blocks", "4", content=content)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--baseline", "29"), "Did you mean 0.29?"),
        (("--baseline", "nan"), "--baseline = nan is not a share"),
        (("--baseline", ".2", "--baseline", ".3"), "--baseline is given 2 times for 1 logs"),
        (("--h0", "0"), "--h0 must be a positive number, got 0.0"),
        (("--h0", "nan"), "--h0 must be a positive number, got nan"),
        (("--blocks", "0"), "Invalid value for '--blocks'"),
        (("--batch-size", "0"), "Invalid value for '--batch-size'"),
        (("--protocol", "five"), "There is no protocol called 'five'"),
    ],
)
def test_an_option_that_cannot_be_is_refused(refused, options, words):
    assert words in refused(*options)


def test_h0_is_refused_where_the_log_holds_it(refused):
    content = PUBLISHED | {"log": [{"h_0_norm": 9.0, "h_L_norm": 1.0}]}
    assert "holds ‖h_0‖ itself, and --h0 9 is given too" in refused("--h0", "9", content=content)


@pytest.mark.parametrize("length", [1, 2, 4])
def test_a_list_of_layers_must_hold_all_of_them(refused, length):
    content = PUBLISHED | {"log": [{"norms": [1.0] * 3}, {"norms": [1.0] * length}]}
    assert f"row 2: norms holds {length} norm" in refused("--field", "h=norms", content=content)


@pytest.mark.parametrize("second", ["0.json", "./0.json", "copy.json"])
def test_the_same_log_twice_is_refused(creditscope, logs, second):
    logs(PUBLISHED)
    Path("copy.json").write_bytes(Path("0.json").read_bytes())
    done = creditscope("partial-audit", "0.json", second)
    assert done.code == 2
    assert "one log was given twice" in done.err


def test_a_file_that_is_not_there_is_refused(creditscope, tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        done = creditscope("partial-audit", path)
        assert done.code == 2
        assert "cannot be read" in done.err


def test_no_torch_is_imported(tmp_path):
    for index in range(2):
        (tmp_path / f"{index}.json").write_text(json.dumps(PUBLISHED | {"final_test_acc": 0.3 + index / 10}))
    code = (
        "import sys; from creditscope.cli import run;"
        "code = run(['partial-audit', '0.json', '1.json', '--baseline', '.3']);"
        "sys.exit(code if 'torch' not in sys.modules else 99)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 3


def test_the_page_in_the_docs_is_what_the_command_prints(creditscope, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = Path("docs/partial-audit.md").read_text(encoding="utf-8")
    blocks = [block for _, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]
    command = next(block for block in blocks if block.startswith("creditscope partial-audit docs/"))
    shown = next(block for block in blocks if block.startswith("Partial audit"))
    done = creditscope(*shlex.split(command.replace("\\\n", " "))[1:])
    assert (done.code, done.out) == (1, shown)


def test_the_program_in_the_docs_runs(monkeypatch, tmp_path, capsys):
    text = (ROOT / "docs/partial-audit.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(ROOT)
    exec(compile(program, "partial-audit.md", "exec"), {})
    assert "FAIL(D3)" in capsys.readouterr().out
