"""`creditscope audit --arrays`."""

from __future__ import annotations

import numpy
import pytest

from creditscope.records.report import Report


@pytest.fixture
def batches(tmp_path, monkeypatch) -> list[str]:
    """Three files of arrays in the current folder: a stream that grows threefold, with a gradient that shrinks."""
    monkeypatch.chdir(tmp_path)
    generator = numpy.random.default_rng(0)
    for index in range(3):
        h, logits = generator.standard_normal((50, 4)), generator.standard_normal((50, 3))
        arrays = {"h_0": h, "h_1": 3 * h, "g_0": h, "g_1": h / 3, "logits": logits, "labels": logits.argmax(1)}
        numpy.savez(f"batch-{index}.npz", **arrays)
    return [f"batch-{index}.npz" for index in range(3)]


def test_files_are_batches_and_the_shell_may_expand_their_names(creditscope, batches):
    done = creditscope("audit", "--arrays", *batches, "--control-accuracy", "0.4", "--out", "report.json")
    assert (done.code, done.err) == (0, "")
    report = Report.from_json("report.json")
    assert (report.provenance.images, report.provenance.batches, report.accuracy) == (150, 3, (1.0,))
    assert report.findings["D1"].value == pytest.approx(3)
    assert "arrays come without the network" in " ".join(done.out.split())
    repeated = [word for path in batches for word in ("--arrays", path)]
    assert creditscope("audit", *repeated, "--control-accuracy", "0.4", "--name", "batch-0").out == done.out


def test_the_exit_code_is_the_verdicts(creditscope, batches):
    assert creditscope("audit", "--arrays", *batches).code == 3
    assert creditscope("audit", "--arrays", *batches, "--accuracy", "0.3", "--control-accuracy", "0.9").code == 1
    assert "fires < 1e-07" in creditscope("audit", "--arrays", *batches, "--full", "--reduction", "mean").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--arrays", "batch-0.npz", "--network", "resmlp", "--limit", "3"), "so --network and --limit cannot apply"),
        (("--arrays", "batch-0.npz", "--reduction", "men"), "There is no reduction called 'men'. Did you mean 'mean'?"),
        (("--arrays", "none.npz"), "none.npz cannot be read"),
        (("batch-0.npz", "batch-1.npz"), "An audit needs one weights file or folder, 2 were given"),
        ((), "An audit needs one weights file or folder, none was given"),
    ],
)
def test_a_contradiction_is_an_error(creditscope, batches, arguments, message):
    done = creditscope("audit", *arguments)
    assert done.code == 2
    assert message in done.err
