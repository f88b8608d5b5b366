"""Bad invocations: odd values of every option, and damaged or edited files, end in a message and a documented code."""

from __future__ import annotations

import json
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save, save_file
from tests.faults import odd
from tests.study.made import record, write_study
from tests.study.test_tables import EXPLODED, HEALTHY, report
from typer.main import get_command

from creditscope.cli import application, run
from creditscope.commands.gallery import _submission
from creditscope.networks.build import build
from creditscope.runs.run import train_into
from creditscope.runs.spec import RunSpec
from creditscope.study.declaration import Study
from creditscope.study.plan import plan
from creditscope.study.store import Store
from creditscope.terminal import printable

SECONDS = 30  # within which every bad invocation has ended
LOG = {"final_test_acc": 0.36, "log": [{"epoch": e, "h_L_norm": 4e4, "g_2_norm": 1e-6} for e in range(2)]}
NAMES: dict[str, str | None] = {"method": "mine", "network": "resmlp", "data": "mnist1d"}
TABLE = "epoch,accuracy,h_0,h_1,g_0,g_1\n0,0.1,1.0,2.0,0.1,0.2\n1,0.2,1.0,3.0,0.1,0.2\n"


class Material:
    """Good files of every kind in one folder; a case damages a copy of one of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.case = folder, folder / "case"
        network = build("resmlp", 6, 3, seed=0, d=8, depth=2)
        self.study = write_study(folder, epochs=0)
        self.store = Store(folder / "store")
        self.runs = plan(Study.read(self.study), store=self.store.folder, create=True)
        for key, spec in self.runs.items():
            verdict = report(HEALTHY if spec.method == "bp" else EXPLODED)
            self.store.commit(key, b"weights", record(spec, report=verdict))
        train_into(folder / "run", RunSpec(method="dfa", epochs=0, network_options={"d": 8, "depth": 2}, seed=3))
        (folder / "report.json").write_text(report(HEALTHY).to_json())
        (folder / "submission.json").write_text(_submission([folder / "report.json"], NAMES, None, None))
        (folder / "log.json").write_text(json.dumps(LOG))
        (folder / "log.csv").write_text(TABLE)
        (folder / "code.py").write_text("import torch\nx = torch.nn.functional.cosine_similarity(a, b, eps=1e-8)\n")
        drawn = np.random.default_rng(0)
        self.arrays: dict[str, Any] = {f"{k}_{layer}": drawn.normal(size=(8, 8)) for k in "hga" for layer in range(3)}
        self.arrays |= {"logits": drawn.normal(size=(8, 3)), "labels": np.arange(8) % 3}
        np.savez(folder / "arrays.npz", **self.arrays)
        save_file(network.state_dict(), folder / "weights.safetensors")
        save_file({"inputs": torch.ones(8, 6), "labels": torch.arange(8) % 3}, folder / "batches.safetensors")

    def good(self, command: str) -> list[str]:
        """An invocation that is good but for what a case changes in it; none of them trains for long."""
        study = [str(self.study), "--store", str(self.store.folder), "--results", str(self.store.folder)]
        options = ["--option", "d=8", "--option", "depth=2"]
        named = ["--method", "mine", "--network", "resmlp", "--data", "mnist1d"]
        weights = [str(self.folder / "weights.safetensors"), "--network", "resmlp", *options]
        return {
            "audit": [*weights, "--batches", str(self.folder / "batches.safetensors"), "--no-gradient-check"],
            "check-rule": ["no_such_rule"],
            "demo": ["--seed=-1"],
            "explain": ["D1"],
            "gallery add": [str(self.folder / "report.json"), *named, "--into", "gallery"],
            "gallery check": [str(self.folder / "submission.json")],
            "inspect": ["no_such_module:make"],
            "lint": [str(self.folder / "code.py")],
            "list": ["methods"],
            "new": ["method", "my_rule"],
            "partial-audit": [str(self.folder / "log.json")],
            "power": ["--sd", "1", "--margin", "3"],
            "report": [str(self.folder / "report.json")],
            "reproduce": ["no_such_paper", "--list"],
            "study clean": study[:3],
            "study run": [*study, "--dry-run"],
            "train": ["--out", "trained", *options, "--epochs", "0"],
            "verify": [str(self.folder / "report.json")],
        }.get(command, study)

    def written(self, name: str, content: bytes) -> str:
        """The path of a file of the case."""
        path = self.case / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return str(path)


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    return Material(tmp_path_factory.mktemp("material"))


def options_of() -> dict[str, list[tuple[str, bool]]]:
    """By command, its options and whether each takes a value; help and completion print and end."""
    known: dict[str, list[tuple[str, bool]]] = {}

    def walk(command: Any, name: str) -> None:
        for child, one in getattr(command, "commands", {}).items():
            walk(one, f"{name} {child}".strip())
        if not hasattr(command, "commands"):
            params = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
            known[name] = [(p.opts[-1], not p.is_flag) for p in params]

    walk(get_command(application()), "")
    return known


OPTIONS = options_of()


@st.composite
def odd_lines(draw: Any, material: Material) -> list[str]:
    """A command line with an odd argument, odd options, or too many or too few of them."""
    command = draw(st.sampled_from(sorted(OPTIONS)))
    line = material.good(command)
    kind = draw(st.sampled_from(["option", "option", "option", "argument", "drop", "more", "unknown"]))
    if kind == "argument":
        line[0] = draw(odd.values)
    elif kind == "drop":
        line = (
            line[draw(st.integers(1, 2)) :] if command not in ("demo", "train", "study run", "reproduce") else line[:1]
        )
        line += ["--dry-run"] if command == "study run" else []
    elif kind == "more":
        line.insert(0, draw(odd.values))
    elif kind == "unknown":
        line.append(draw(st.sampled_from(["--no-such", "-z", "--seed=1=2", "---", "--d", "-", "--out=", "--\x1b[2J"])))
    for _ in range(draw(st.integers(1, 2)) if kind == "option" and OPTIONS[command] else 0):
        name, takes = draw(st.sampled_from(OPTIONS[command]))
        line += [f"{name}={draw(odd.values)}"] if takes and draw(st.booleans()) else [name]
        line += [draw(odd.values)] if takes and "=" not in line[-1] else []
    if command in ("demo", "train"):  # the last one counts, so that nothing is trained for minutes;
        line += ["--epochs=-1", "--epochs=-1"]  # an option without its value may take the first
    return [*command.split(), *line]


@st.composite
def odd_files(draw: Any, material: Material) -> list[str]:
    """A good command line on a damaged file, or on one that somebody edited."""
    shutil.rmtree(material.case, ignore_errors=True)
    kinds = ["report", "submission", "log", "table", "study", "store", "run", "arrays", "tensors", "code"]
    kind = draw(st.sampled_from(kinds))
    folder = material.folder
    if kind in ("report", "log"):
        good = (folder / f"{kind}.json").read_bytes()
        path = material.written("file.json", draw(st.one_of(odd.edited(good.decode()), odd.damaged(good))))
        many = [["report", path], ["verify", path], ["report", path, "--out", str(material.case / "page.html")]]
        many += [["report", path, "--full"], ["report", path, "--out", str(material.case / "page.tex")]]
        return draw(st.sampled_from(many if kind == "report" else [["partial-audit", path]]))
    if kind == "submission":
        good = (folder / "submission.json").read_bytes()
        path = material.written("file.json", draw(st.one_of(odd.edited(good.decode()), odd.damaged(good))))
        return ["gallery", "check", path]
    if kind == "table":
        return ["partial-audit", material.written("log.csv", draw(odd.damaged(TABLE.encode())))]
    if kind == "code":
        return ["lint", material.written("code.py", draw(odd.damaged((folder / "code.py").read_bytes())))]
    if kind == "study":
        text = material.study.read_text()
        path = material.written("study.toml", draw(st.one_of(odd.odd_toml(text), odd.damaged(text.encode()))))
        many = [["run", path, "--dry-run"], ["status", path], ["show", path], ["report", path], ["compare", path]]
        return ["study", *draw(st.sampled_from(many)), *(["--store", str(material.store.folder)])]
    if kind == "store":
        key = draw(st.sampled_from(sorted(material.runs)))
        good = (material.store.folder / key / "record.json").read_bytes()
        new = draw(st.one_of(odd.edited(good.decode()), odd.damaged(good)))
        shutil.copytree(material.store.folder, material.case / "store")
        material.written(f"store/{key}/record.json", new)
        command = draw(st.sampled_from(["status", "report", "compare", "export"]))
        out = ["--out", str(material.case / "out")] if command == "export" else []
        store = str(material.case / "store")
        return ["study", command, str(material.study), "--store", store, "--results", store, *out]
    if kind == "run":
        shutil.copytree(folder / "run", material.case / "run")
        name = draw(st.sampled_from(["record.json", "weights.safetensors"]))
        good = (folder / "run" / name).read_bytes()
        changes = [odd.damaged(good)] + ([odd.edited(good.decode())] if name == "record.json" else [])
        material.written(f"run/{name}", draw(st.one_of(changes)))
        command = draw(st.sampled_from([["report"], ["audit", "--limit=8", "--no-gradient-check"]]))
        return [command[0], str(material.case / "run"), *command[1:]]
    if kind == "arrays":
        return ["audit", "--arrays", material.written("arrays.npz", draw(odd.odd_archive(material.arrays)))]
    return _odd_tensors(draw, material)


def _odd_tensors(draw: Any, material: Material) -> list[str]:
    """An audit on batches or weights that are damaged, or of another shape or type."""
    line = material.good("audit")
    at = draw(st.sampled_from([0, line.index("--batches") + 1]))
    good = Path(line[at]).read_bytes()
    odd_ones = [{}, {"inputs": torch.ones(8, 6)}, {"inputs": torch.ones(8, 6), "labels": torch.ones(8)}]
    odd_ones += [{"inputs": torch.ones(0, 6), "labels": torch.ones(0).long()}]
    odd_ones += [{"inputs": torch.full((8, 6), torch.nan), "labels": torch.arange(8) % 3}]
    odd_ones += [{"inputs": torch.ones(8, 6), "labels": torch.arange(8) - 4}]
    odd_ones += [{"inputs": torch.ones(8, 2, 3).half(), "labels": torch.arange(8) % 3}]
    content = draw(st.one_of(odd.damaged(good), st.sampled_from([save(tensors) for tensors in odd_ones])))
    line[at] = material.written("file.safetensors", content)
    return ["audit", *line]


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Whatever takes longer is interrupted by an error, which the command line reports as a crash."""

    def too_long(*_: Any) -> None:
        raise RuntimeError(f"not done within {seconds} seconds")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def examples(count: int) -> settings:
    """So many examples, the same ones every time; the profile of `make fuzz` has many more, drawn anew."""
    many = max(count, settings.default.max_examples // 4)
    return settings(max_examples=many, derandomize=many == count, suppress_health_check=list(HealthCheck))


def invoke_all(material: Material, capsys: pytest.CaptureFixture[str], kinds: Any, count: int) -> Counter[int]:
    """Invoke so many command lines; how often each exit code came, every line counted once."""
    codes: dict[tuple[str, ...], int] = {}

    @examples(count)
    @given(st.one_of(kind(material) for kind in kinds))
    def invoke(line: list[str]) -> None:
        with at_most(SECONDS):
            code = run(line)
        said = capsys.readouterr()
        assert code in (0, 1, 2, 3), said.err
        assert "Traceback" not in said.out + said.err
        assert code != 2 or (said.out + said.err).strip()
        assert printable(said.err) == said.err
        assert len(said.err) < 60_000
        codes[(*line, str(len(codes)) if str(material.case) in " ".join(line) else "")] = code

    invoke()
    return Counter(codes.values())


@pytest.fixture
def here(material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder of the cases, two levels below anything that `..` could name."""
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [odd_lines, odd_files])
def test_some_bad_invocations_end_with_a_message(material, here, capsys, kind):
    assert sum(invoke_all(material, capsys, [kind], 20).values()) >= 15


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_thousand_bad_invocations_end_with_a_message(material, here, capsys, record_property):
    codes = invoke_all(material, capsys, [odd_lines], 600) + invoke_all(material, capsys, [odd_files], 480)
    record_property("invocations", dict(codes))
    with capsys.disabled():
        print(f"{sum(codes.values()):,} bad invocations by exit code: {dict(codes)}")  # noqa: T201
    assert sum(codes.values()) >= 1000
