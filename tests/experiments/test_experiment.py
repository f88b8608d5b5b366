"""experiment(): the user's own loop over seeds, with controls, a store and workers; bad input is refused early."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from types import SimpleNamespace

import numpy
import pytest
import torch
from torch import nn

import creditscope
from creditscope.errors import BadFile, CreditscopeError, FunctionFailed, InvalidInput, ModelMismatch
from creditscope.experiments.answers import check_agreement, packed, unpacked
from creditscope.experiments.running import WorkerDied
from creditscope.records.experiment import ExperimentReport
from creditscope.records.frame import NoFrameLibrary
from creditscope.statistics.margin import margin_of_answers
from creditscope.verdict import Status

INPUTS = torch.randn(192, 6, generator=torch.Generator().manual_seed(1))
LABELS = (INPUTS[:, 0] * INPUTS[:, 1] > 0).long() + 2 * (INPUTS[:, 2] > 0).long()
BATCHES = [(INPUTS[:96], LABELS[:96]), (INPUTS[96:], LABELS[96:])]
calls: list[tuple[str, int]] = []


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return h + self.inner(h)


def make(seed: int) -> nn.Module:
    """A stranger's network: its blocks sit in a plain Sequential, and it draws from the global generator."""
    return nn.Sequential(nn.Linear(6, 8), Block(8), Block(8), nn.Linear(8, 4))


def train(model: nn.Module, seed: int, steps: int = 30) -> None:
    calls.append(("trained" if all(p.requires_grad for p in model.parameters()) else "frozen", seed))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(steps):
        chosen = torch.randperm(len(INPUTS))[:64]
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(INPUTS[chosen]), LABELS[chosen]).backward()
        optimiser.step()


def evaluate(model: nn.Module) -> float:
    return (model(INPUTS).argmax(1) == LABELS).double().mean().item()


def run(**options):
    given = {"seeds": [0, 1, 2], "batches": BATCHES, **options}
    functions = [given.pop(name, own) for name, own in (("make", make), ("train", train), ("evaluate", evaluate))]
    return creditscope.experiment(*functions, **given)


@pytest.fixture(scope="module")
def result() -> ExperimentReport:
    return run(name="mine")


def right(model: nn.Module) -> numpy.ndarray:
    with torch.no_grad():
        return (model(INPUTS).argmax(1) == LABELS).numpy()


def test_the_blocks_of_a_strangers_network_are_found_and_frozen(result):
    assert result.blocks == ("1", "2")
    for seed in result.seeds:
        torch.manual_seed(seed)
        start = dict(make(seed).named_parameters())
        for name, value in result.networks["frozen"][seed].named_parameters():
            assert torch.equal(value, start[name]) == name.startswith(("1.", "2."))
        assert not torch.equal(result.networks["trained"][seed][1].inner[1].weight, start["1.inner.1.weight"])


def test_d3_is_paired_over_seeds_and_images(result):
    tables = [numpy.stack([right(result.networks[v][s]) for s in result.seeds]) for v in ("trained", "frozen")]
    expected = margin_of_answers(*tables, matched=True)
    depth = result.findings["D3"]
    assert depth.value == pytest.approx(100 * expected.value)
    assert depth.interval == pytest.approx([100 * end for end in expected.interval])
    assert depth.per_seed == pytest.approx((100 * (tables[0].mean(1) - tables[1].mean(1))).tolist())
    assert "paired over the same 192 test images" in depth.note
    assert result.margins["frozen"] == depth
    assert (result.report.accuracy, result.report.provenance.seeds) == (result.accuracy(), (0, 1, 2))


def test_every_seed_is_audited_as_audit_would(result):
    torch.manual_seed(1)
    alone = creditscope.audit(
        result.networks["trained"][1], BATCHES, control=result.networks["frozen"][1], initial=make(1), name="mine",
        seeds=[1], control_seeds=[1],
    )  # fmt: skip
    own = next(run for run in result.runs if (run.variant, run.seed) == ("trained", 1))
    assert own.report.findings == alone.findings
    assert result.findings["D1"].value == sorted(r.report.findings["D1"].value for r in result.runs if r.report)[1]


def test_the_result_survives_a_file_and_becomes_pages(result, tmp_path):
    again = ExperimentReport.parse(result.to_json(tmp_path / "e.json"))
    assert (again.findings, again.margins, again.verdict) == (result.findings, result.margins, result.verdict)
    assert unpacked(again.runs[0].right, 192).tolist() == right(result.networks["trained"][0]).tolist()
    tex = result.to_latex(tmp_path / "e.tex")
    assert r"\label{tab:mine}" in tex
    assert r"\toprule" in tex
    assert (tmp_path / "e.tex").read_text() == tex
    assert "frozen" in str(result)
    assert "same 192 images" in str(result)


def test_a_diagnostic_without_a_limit_is_not_said_to_fire_on_no_seed(result):
    assert result.findings["D4"].status == "measured"
    assert result.findings["D4"].note == f"median of {len(result.seeds)} seeds"
    assert result.findings["D1"].note == f"fires on 0 of {len(result.seeds)} seeds"


@pytest.mark.slow
def test_the_page_over_seeds_shows_the_margin_of_every_seed(result, tmp_path):
    page = result.to_html(tmp_path / "e.html").read_text()
    assert str(result.verdict) in page
    assert all(f"seed {seed}" in page for seed in result.seeds)


def test_a_frame_has_one_row_per_run(result, monkeypatch):
    frame = SimpleNamespace(DataFrame=lambda values, columns: (columns, values))
    monkeypatch.setitem(sys.modules, "pandas", frame)
    columns, values = result.to_frame()
    assert values["variant"] == ["trained"] * 3 + ["frozen"] * 3
    assert {"D1", "D1_status", "margin", "verdict"} <= set(columns)
    assert values["margin"][:3] == pytest.approx(result.findings["D3"].per_seed)
    assert values["verdict"][3:] == [None] * 3


def test_without_pandas_polars_is_used_and_without_both_an_error_says_so(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", SimpleNamespace(DataFrame=lambda values, strict: sorted(values)))
    assert "verdict" in result.to_frame()
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(NoFrameLibrary, match="Neither pandas nor polars is installed"):
        result.to_frame()


def test_a_run_depends_on_its_seed_only(result):
    alone = run(seeds=[2])
    assert torch.equal(alone.networks["trained"][2][0].weight, result.networks["trained"][2][0].weight)
    state = torch.random.get_rng_state()
    run(seeds=[2], variants=["trained"])
    assert torch.equal(torch.random.get_rng_state(), state)


def test_finished_runs_are_not_trained_again(tmp_path, result):
    def stops(model, seed):
        if seed == 1:
            raise KeyboardInterrupt
        train(model, seed)

    with pytest.raises(KeyboardInterrupt):
        run(train=stops, seeds=[0, 1], store=tmp_path)
    assert sorted(path.parent.name for path in tmp_path.rglob("run.json")) == ["frozen-seed-0", "trained-seed-0"]
    first = run(store=tmp_path / "b")
    calls.clear()
    again = run(store=tmp_path / "b", seeds=[0, 1, 2, 3])
    assert calls == [("frozen", 3), ("trained", 3)]
    assert [run.accuracy for run in again.runs if run.seed < 3] == [run.accuracy for run in first.runs]
    assert json.loads((tmp_path / "b" / "experiment.json").read_text())["seeds"] == [0, 1, 2, 3]
    assert not list(tmp_path.rglob("*.part"))


def test_a_store_of_another_network_or_another_loop_is_refused(tmp_path):
    run(seeds=[0], variants=["trained"], store=tmp_path)
    with pytest.raises(InvalidInput, match="holds a run of another make_model or train"):
        run(seeds=[0], variants=["trained"], store=tmp_path, train=lambda model, seed: train(model, seed, 3))

    def wider(seed):
        return nn.Sequential(nn.Linear(6, 9), Block(9), Block(9), nn.Linear(9, 4))

    with pytest.raises(InvalidInput, match="another network or seed and another make_model"):
        run(seeds=[0], variants=["trained"], store=tmp_path, make=wider)
    (tmp_path / "trained-seed-0" / "run.json").write_text("{")
    with pytest.raises(
        BadFile, match=r"not a creditscope stored run: .*\nRemove its folder and run the experiment again"
    ):
        run(seeds=[0], variants=["trained"], store=tmp_path)


@pytest.mark.slow
def test_workers_give_what_one_process_gives(result, tmp_path):
    factor = 1.0

    def local(model, seed):  # a closure: forked processes need not pickle it
        train(model, seed, int(30 * factor))

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        single, several = run(train=local, workers=1), run(train=local, workers=2, store=tmp_path)
    finally:
        torch.set_num_threads(threads)
    for variant in ("trained", "frozen"):
        for seed in result.seeds:
            pair = (each.networks[variant][seed].state_dict() for each in (single, several))
            for left, right in zip(*(states.values() for states in pair), strict=True):
                assert torch.equal(left, right)
    assert len(list(tmp_path.rglob("run.json"))) == 6


@pytest.mark.slow
def test_an_error_in_a_worker_is_the_error_of_the_experiment():
    def moves(model, seed):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.9)

    with pytest.raises(InvalidInput, match="parameters that the control froze"):
        run(train=moves, workers=2)

    def dies(model, seed):
        sys.modules["os"]._exit(9)

    with pytest.raises(WorkerDied, match="A worker process ended without a result"):
        run(train=dies, workers=2)


@pytest.mark.parametrize("error", [ArithmeticError, KeyboardInterrupt])
@pytest.mark.parametrize("stored", [True, False])
def test_the_first_error_ends_the_workers_and_the_runs_that_wait(error, stored, tmp_path, monkeypatch):
    """The second run goes on while the first fails; the others have not begun."""
    begun, temporary, store = (tmp_path / name for name in ("begun", "temporary", "store"))
    begun.mkdir()
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))

    def fails(model, seed):
        (begun / f"{os.getpid()}-{seed}-{len(list(begun.iterdir()))}").touch()
        if seed == 0:
            while len(list(begun.iterdir())) < 2:
                time.sleep(0.01)
            raise error
        time.sleep(10)
        train(model, seed, 1)

    start, others = time.monotonic(), multiprocessing.active_children()
    with pytest.raises((FunctionFailed, KeyboardInterrupt)):
        run(train=fails, workers=2, seeds=range(4), variants=["trained"], store=store if stored else None)
    assert time.monotonic() - start < 10
    assert set(multiprocessing.active_children()) <= set(others)
    assert len(list(begun.iterdir())) <= 3  # the worker whose run failed may have begun another
    assert list(temporary.iterdir()) == []
    assert list(store.rglob("run.json")) == []


def test_functions_that_cannot_be_sent_are_refused_where_processes_cannot_be_forked(monkeypatch):
    monkeypatch.setattr("multiprocessing.get_all_start_methods", lambda: ["spawn"])
    calls.clear()
    with pytest.raises(InvalidInput, match="cannot be sent to worker processes"):
        run(train=lambda model, seed: train(model, seed), workers=2)
    assert calls == []


def test_controls_other_than_frozen_have_margins_too():
    found = run(seeds=[0], variants=["trained", "frozen", "shallow", "ladder-1"])
    assert list(found.margins) == ["frozen", "shallow", "ladder-1"]
    assert len(found.networks["shallow"][0]) == 2
    assert found.networks["ladder-1"][0][2].inner[1].weight.requires_grad
    assert found.margins["shallow"].value == pytest.approx(100 * (found.accuracy()[0] - found.accuracy("shallow")[0]))
    assert run(seeds=[0], variants=["trained"]).findings["D3"].status is Status.SKIPPED


def test_credit_is_made_for_every_trained_network():
    made = []

    def credit(model, seed):
        made.append(seed)

        def signals(batch):
            states = [model[0](batch.inputs)]
            for block in (model[1], model[2]):
                states.append(block(states[-1]))
            return [torch.ones_like(state).detach() for state in states]

        return signals

    found = run(seeds=[0, 1], credit=credit)
    assert made == [0, 1]
    assert len(found.report.measures["gamma"].per_layer) == 3


def moves_everything(model, seed):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.9)


def other_architecture(seed):
    return nn.Sequential(nn.Linear(6, 8 + seed), Block(8 + seed), Block(8 + seed), nn.Linear(8 + seed, 4))


def from_one_start(seed):
    torch.manual_seed(7)
    return make(seed)


def unrepeatable(seed):
    torch.seed()
    return make(seed)


@pytest.mark.parametrize(
    ("options", "kind", "words", "trained"),
    [
        ({"seeds": []}, InvalidInput, "at least one seed", 0),
        ({"seeds": [-1]}, InvalidInput, "none below 0", 0),
        ({"seeds": [1, 1]}, InvalidInput, "names a seed twice", 0),
        ({"seeds": ["a"]}, InvalidInput, "not whole numbers", 0),
        ({"workers": 0}, InvalidInput, "workers must be a whole number of at least 1, got 0", 0),
        ({"variants": ["frozen"]}, InvalidInput, "leaves out 'trained'", 0),
        ({"variants": "trained"}, InvalidInput, "is not a list of variants", 0),
        ({"variants": ["trained", "forzen"]}, CreditscopeError, "Did you mean 'frozen'", 0),
        ({"batches": []}, InvalidInput, "There are no batches", 0),
        ({"batches": [(INPUTS, LABELS.float())]}, InvalidInput, "not class numbers", 0),
        ({"make": 3}, InvalidInput, "make_model is a int, not a function", 0),
        ({"make": lambda seed: 3}, InvalidInput, r"make_model\(0\) returned a int", 0),
        ({"make": from_one_start}, InvalidInput, "the seed is ignored", 0),
        ({"make": unrepeatable}, InvalidInput, "different weights when called twice", 0),
        ({"make": other_architecture}, ModelMismatch, "another architecture than make_model", 0),
        ({"train": lambda model: None}, InvalidInput, "cannot be called as train", 0),
        ({"train": lambda model, seed: None}, InvalidInput, "returned nothing and changed no parameter", 0),
        ({"train": lambda model, seed: 0.3}, InvalidInput, "returned a float and changed no parameter", 0),
        ({"train": moves_everything}, InvalidInput, "Training changed 1.inner.0.weight and 9 more", 0),
        ({"train": lambda model, seed: nn.Linear(6, 4)}, ModelMismatch, "train returned another architecture", 0),
        ({"evaluate": lambda model: 31}, InvalidInput, "Did you mean 0.31?", 0),
        ({"evaluate": lambda model: None}, InvalidInput, "is not a number", 0),
        ({"evaluate": lambda model: 0.99}, InvalidInput, "before training", 0),
        ({"credit": "dfa"}, InvalidInput, "credit is a str, not a function", 0),
        ({"credit": lambda model: None}, InvalidInput, "cannot be called as credit", 0),
        ({"protocol": "thre"}, CreditscopeError, "Did you mean 'three'", 0),
    ],
)
def test_bad_input_is_refused_at_the_first_moment(options, kind, words, trained):
    calls.clear()
    with pytest.raises(kind, match=words.replace("?", r"\?")):
        run(**options)
    assert len(calls) == trained


def test_an_accuracy_of_other_images_is_refused_after_the_first_run():
    calls.clear()

    def memorised(model):
        return 1.0 if calls else evaluate(model)

    with pytest.raises(InvalidInput, match="One of the two is not the test accuracy"):
        run(evaluate=memorised)
    assert len(calls) == 1


def test_agreement_is_five_standard_errors():
    answers = numpy.arange(1000) < 500
    adjusted = 501 / 1002
    error = (2 * adjusted * (1 - adjusted) / 1002) ** 0.5
    check_agreement(0.5 + 4.9 * error, answers, "here")
    with pytest.raises(InvalidInput, match=r"here"):
        check_agreement(0.5 + 5.1 * error, answers, "here")


@pytest.mark.parametrize("images", [1, 7, 8, 9, 100])
def test_answers_survive_packing(images):
    answers = numpy.random.default_rng(images).random(images) < 0.5
    assert (unpacked(packed(answers), images) == answers).all()


def test_blocks_that_are_attributes_cannot_be_removed():
    class Attributes(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.one, self.two, self.head = nn.Linear(6, 8), Block(8), Block(8), nn.Linear(8, 4)

        def forward(self, x):
            return self.head(self.two(self.one(self.embed(x))))

    calls.clear()
    with pytest.raises(ModelMismatch, match="not entries of a ModuleList or Sequential"):
        run(make=lambda seed: Attributes(), variants=["trained", "shallow"])
    assert calls == []
