"""Logs as tables: the same numbers as CSV, JSON lines, rows, W&B and TensorBoard exports give the same audit."""

from __future__ import annotations

import csv
import io
import json

import pytest

from creditscope.errors import BadFile, CreditscopeError, InvalidInput
from creditscope.partial import partial_audit, read_logs

ROWS = [
    {"epoch": 1, "h_L_norm": 20.0, "g_4_norm": 1e-3, "test_acc": 0.21},
    {"epoch": 2, "h_L_norm": 4e4, "g_4_norm": 1e-12, "test_acc": 0.29},
]
PUBLISHED = {"final_test_acc": 0.29, "log": [{k: v for k, v in row.items() if k != "test_acc"} for row in ROWS]}
KNOWN = {"baseline": 0.3, "blocks": 4, "batch_size": 128, "h0": 10.0}
FIELDS = {"accuracy": "test_acc"}


def as_csv(rows, delimiter=","):
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(k for row in rows for k in row)), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def readings(files, fields=FIELDS):
    return partial_audit(read_logs(files), **KNOWN, fields=fields).readings


@pytest.fixture(scope="module")
def expected():
    return partial_audit({"log.json": PUBLISHED}, **KNOWN).readings


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.json", json.dumps(ROWS)),
        ("rows.jsonl", "\n".join(map(json.dumps, ROWS)) + "\n"),
        ("rows.csv", as_csv(ROWS)),
        ("rows.tsv", as_csv(ROWS, "\t")),
        ("rows.csv", "\ufeff" + as_csv(ROWS, ";")),
    ],
)
def test_a_table_gives_what_the_published_form_gives(tmp_path, expected, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert readings([tmp_path / name]) == expected


def test_a_list_of_rows_needs_no_file(expected):
    assert partial_audit({"log.json": ROWS}, **KNOWN, fields=FIELDS).readings == expected


def test_an_export_of_wandb_is_read_under_the_names_of_its_metrics(tmp_path, expected):
    rows = [
        {"Step": row["epoch"]}
        | {f"dfa-1 - {k}": v for k, v in row.items() if k != "epoch"}
        | {f"dfa-1 - {k}__{b}": 9e9 for k in ("h_L_norm", "test_acc") for b in ("MIN", "MAX")}
        for row in ROWS
    ]
    (tmp_path / "wandb.csv").write_text(as_csv(rows))
    found = readings([tmp_path / "wandb.csv"], {**FIELDS, "epoch": "Step"})
    assert found == expected
    two = [row | {"dfa-2 - test_acc": 0.5} for row in rows]
    (tmp_path / "two.csv").write_text(as_csv(two))
    with pytest.raises(InvalidInput, match="holds 2 runs: dfa-1, dfa-2"):
        readings([tmp_path / "two.csv"])


def test_numbers_of_one_step_in_several_rows_are_joined(tmp_path, expected):
    calls = [{"epoch": row["epoch"], key: row[key]} for row in ROWS for key in ("h_L_norm", "g_4_norm", "test_acc")]
    (tmp_path / "calls.jsonl").write_text("\n".join(map(json.dumps, calls)))
    assert readings([tmp_path / "calls.jsonl"]) == expected


def test_scalars_of_tensorboard_are_joined_by_run(tmp_path, expected):
    files = []
    for run, factor in (("dfa1", 1.0), ("dfa2", 0.9)):
        for tag in ("h_L_norm", "g_4_norm", "test_acc"):
            path = tmp_path / f"run-{run}-tag-{tag}.csv"
            wall = 1.6e9 + len(files)
            path.write_text(as_csv([{"Wall time": wall, "Step": r["epoch"], "Value": factor * r[tag]} for r in ROWS]))
            files.append(path)
    logs = read_logs(files)
    assert list(logs) == ["run-dfa1", "run-dfa2"]
    one = partial_audit({"a": logs["run-dfa1"]}, **KNOWN, fields={**FIELDS, "epoch": "Step"})
    assert one.readings == expected
    both = partial_audit(logs, **KNOWN, fields=FIELDS)
    assert [seed.accuracy for seed in both.seeds] == pytest.approx([0.29, 0.9 * 0.29])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2,3\n", "line 2 has 3 cells under 2 headings"),
        ("a,a\n1,2\n", "the column 'a' more than once"),
        ("a,b\n", "holds no row"),
        ('{"a": 1}\n{"b"\n', "line 2 is not JSON"),
        ('{"a": 1}\n[2]\n', "line 2 holds a list, not an object"),
        ("[]", "holds no row"),
        ("[1, 2]", "not a list of objects"),
        ("hello", "is not JSON"),
        (" \n", "is empty"),
    ],
)
def test_a_damaged_table_is_refused(tmp_path, text, words):
    (tmp_path / "log.csv").write_text(text)
    with pytest.raises(BadFile, match=words):
        readings([tmp_path / "log.csv"])


def test_a_table_without_the_column_of_the_accuracy_names_its_columns(tmp_path):
    (tmp_path / "log.csv").write_text(as_csv(ROWS))
    with pytest.raises(CreditscopeError, match="the field accuracy was not found") as caught:
        readings([tmp_path / "log.csv"], {})
    assert f"Known: {', '.join(sorted(ROWS[0]))}" in str(caught.value)


def test_a_column_of_the_accuracy_without_a_number_is_refused(tmp_path):
    (tmp_path / "log.csv").write_text("epoch,test_acc\n1,fifty\n")
    with pytest.raises(CreditscopeError, match="the column 'test_acc' holds no number"):
        readings([tmp_path / "log.csv"])


def test_a_number_that_is_not_finite_is_kept(tmp_path):
    (tmp_path / "log.csv").write_text(as_csv([*ROWS, {"epoch": 3, "h_L_norm": "nan", "g_4_norm": 1, "test_acc": 0.1}]))
    assert readings([tmp_path / "log.csv"])["D0"].finding.status == "fires"
