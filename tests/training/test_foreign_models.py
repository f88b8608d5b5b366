"""Any model under the common recipe: fit, the run folder, the command line and a study."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.methods.test_binding import same
from torch import Tensor, nn

import creditscope
from creditscope.cli import run
from creditscope.datasets import datasets
from creditscope.errors import InvalidInput, ModelMismatch, UnknownName
from creditscope.methods import methods
from creditscope.methods.wrappers import wrapped
from creditscope.networks.build import build
from creditscope.records.run import HistoryRow
from creditscope.runs.audit import audit_folder
from creditscope.runs.run import check, load, train
from creditscope.runs.spec import RunSpec
from creditscope.study.declaration import Study
from creditscope.study.expansion import expand
from creditscope.training.fit import fit
from creditscope.training.recipe import Recipe

HERE = "tests.training.test_foreign_models"


class Layer(nn.Module):
    """h + dropout(f(h))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.f = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        self.drop = nn.Dropout(0.1)

    def forward(self, h: Tensor) -> Tensor:
        return h + self.drop(self.f(h))


class Somebodys(nn.Module):
    """A residual network of nobody we know."""

    def __init__(self, width: int = 8, layers: int = 2) -> None:
        super().__init__()
        self.inlet = nn.Linear(40, width)
        self.body = nn.ModuleList(Layer(width) for _ in range(layers))
        self.norm, self.outlet = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x.flatten(1))
        for layer in self.body:
            h = layer(h)
        out: Tensor = self.outlet(self.norm(h))
        return out


def seven() -> int:
    return 7


def needy(width: int) -> nn.Module:
    return Somebodys(width)


MODEL = f"{HERE}:Somebodys"
SPEC = RunSpec(network=MODEL, network_options={"width": 6}, method="dfa", epochs=1)


def test_fit_trains_any_module_in_place() -> None:
    torch.manual_seed(0)
    model, data = Somebodys(), datasets["mnist1d"]()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    checkpoint = fit(model, methods["dfa"](), data, Recipe(epochs=1), seed=0)
    assert checkpoint.network.own is model
    assert all(not torch.equal(before[name], p) for name, p in model.named_parameters())
    assert len(checkpoint.record.history[-1].gamma) == 3
    assert checkpoint.record.network is not None
    assert (checkpoint.record.network.name, checkpoint.record.network.terminal_layernorm) == ("Somebodys", True)
    assert len(checkpoint.credit().signals(data.example)) == 3


def test_the_frozen_control_leaves_the_blocks_as_they_were() -> None:
    torch.manual_seed(0)
    model = Somebodys()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    fit(model, wrapped(methods["fa"](), control="frozen"), datasets["mnist1d"](), Recipe(epochs=1), seed=0)
    moved = {name for name, p in model.named_parameters() if not torch.equal(before[name], p)}
    assert moved == {name for name in before if not name.startswith("body.")}


def test_the_seed_fixes_every_bit_dropout_included_and_resuming_keeps_them(tmp_path: Path) -> None:
    spec = SPEC.model_copy(update={"epochs": 2})
    whole = train(spec)
    torch.rand(7)  # what else draws from the global generator does not matter

    def interrupt(row: HistoryRow) -> None:
        if row.epoch == 1:
            raise KeyboardInterrupt

    snapshot = tmp_path / "snapshot"
    with pytest.raises(KeyboardInterrupt):
        train(spec, on_epoch=interrupt, snapshot=snapshot, snapshot_seconds=0.0)
    same(train(spec, snapshot=snapshot).tensors(), whole.tensors(), rtol=0, atol=0)


def test_a_factory_draws_from_the_seed_and_leaves_the_global_generator() -> None:
    state = torch.random.get_rng_state()
    one, two, other = (build(MODEL, (40,), 10, seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(state, torch.random.get_rng_state())
    same(one, two, rtol=0, atol=0)
    assert not torch.equal(one["inlet.weight"], other["inlet.weight"])


def test_the_command_line_trains_a_model_with_its_control_and_audits_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    options = ["--model", MODEL, "--option", "width=6", "--method", "dfa", "--epochs", "1", "--controls", "frozen"]
    assert run(["train", *options, "--out", str(out)]) == 0
    assert f"dfa on mnist1d, {MODEL}(width=6), 1 epoch, seed 42" in capsys.readouterr().out
    checkpoint = load(out)
    assert "network.inlet.weight" in checkpoint.tensors()
    audited = audit_folder(out)
    assert audited.report.subject.depth == 2
    assert audited.report.findings["D3"].value is not None
    assert len(audited.report.measures["gamma"].per_layer) == 3
    assert len(creditscope.load(out).credit().signals(checkpoint.example)) == 3


def test_a_study_names_a_model_in_place_of_a_network() -> None:
    fixed = f'[fixed]\nmodel = "{MODEL}"\n"model.width" = 6\nepochs = 1'
    text = f'controls = ["frozen"]\n{fixed}\n[grid]\nmethod = ["bp", "dfa"]'
    runs = expand(Study.parse(text))
    assert [(spec.network, spec.network_options, spec.method, spec.control) for spec in runs] == [
        (MODEL, {"width": 6}, method, control) for method in ("bp", "dfa") for control in ("none", "frozen")
    ]
    assert len({spec.key for spec in runs}) == 4
    for spec in runs:
        check(spec)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"network": f"{HERE}:seven"}, InvalidInput, "returned a int, not a torch.nn.Module"),
        ({"network": f"{HERE}:needy"}, InvalidInput, "failed when called with no options: TypeError"),
        ({"network": f"{HERE}:HERE"}, InvalidInput, "is a str, not a function"),
        ({"network": f"{HERE}:Nobodys"}, UnknownName, "Did you mean 'Somebodys'"),
        ({"network_options": {"depht": 3}}, UnknownName, "option of network"),
        ({"data": "teacher"}, ModelMismatch, "could not run on the example"),
        ({"control": "shallow"}, InvalidInput, "cannot be removed"),
        ({"control": "ladder-5"}, InvalidInput, "rungs 0 to 2"),
    ],
)
def test_bad_models_are_refused_before_training(change: dict[str, object], error: type, text: str) -> None:
    base = {"network_options": {}, **change}
    with pytest.raises(error, match=text):
        check(SPEC.model_copy(update=base))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--model", "nowhere"], "does not name a function"),
        (["--model", MODEL, "--network", "mlp"], "Both --network mlp and --model"),
    ],
)
def test_the_command_line_refuses_half_a_name(
    options: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", *options, "--out", str(tmp_path / "run")]) == 2
    assert text in capsys.readouterr().err
