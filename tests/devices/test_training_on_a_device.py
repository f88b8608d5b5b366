"""Training on another device mixes no devices, hardly ever waits for it, and has the numbers of the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.devices.pretended import DEVICE, synchronisations
from torch import Tensor, nn

import creditscope
from creditscope.batch import Batch
from creditscope.datasets.tensors import Dataset
from creditscope.methods import methods
from creditscope.methods.dfa import DirectFeedback
from creditscope.methods.rule import CreditRule
from creditscope.methods.wrappers import wrapped
from creditscope.networks.build import build
from creditscope.networks.staged import StagedNetwork
from creditscope.records.experiment import ExperimentReport
from creditscope.records.run import HistoryRow
from creditscope.training.checkpoint import Checkpoint
from creditscope.training.fit import fit
from creditscope.training.many import fit_many
from creditscope.training.recipe import Recipe
from creditscope.training.run import Run, begin
from creditscope.training.stack import Stack

SIZE, CLASSES = 16, 3
RECIPE = Recipe(epochs=2, batch_size=SIZE)
PLAIN = replace(RECIPE, optimiser="sgd", learning_rate=0.1)  # Adam magnifies the rounding of slopes that are nearly 0
Device = str | torch.device


def images(train: int = 2 * SIZE) -> Dataset:
    generator = torch.Generator().manual_seed(4)
    labels = torch.arange(train + 256) % CLASSES
    inputs = torch.randint(0, 200, (train + 256, 3, 4, 4), generator=generator, dtype=torch.uint8)
    inputs[torch.arange(train + 256), labels] += 40
    parts = Batch(inputs[:train], labels[:train]), Batch(inputs[train:], labels[train:])
    return Dataset("images", *parts, CLASSES, (0.4,) * 3, (0.25,) * 3, crop=1, flip=True)


DATA = images()


def network(rule: CreditRule, seed: int = 0) -> StagedNetwork:
    supported = rule.innermost.networks
    if supported is None or "resmlp" in supported:
        return build("resmlp", DATA.shape, CLASSES, seed, d=16, depth=2)
    return build("mlp", DATA.shape, CLASSES, seed, widths=(16,), depth=2)


def begun(rule: CreditRule, device: Device, seed: int = 0) -> Run:
    run = begin(network(rule, seed).to(device), rule, DATA.to(device), PLAIN, seed)
    run.open()
    return run


def state(run: Run) -> dict[str, Tensor]:
    """Weights, feedback and auxiliary networks, on the CPU."""
    return Checkpoint(run.network, run.rule, run.feedback, None, run.example).tensors()  # type: ignore[arg-type]


def the_same(there: dict[str, Tensor], here: dict[str, Tensor], tolerance: float = 1e-5) -> None:
    assert there.keys() == here.keys()
    for name, tensor in here.items():
        assert torch.allclose(there[name], tensor, rtol=tolerance, atol=tolerance), name


RULES: dict[str, CreditRule] = {
    **{name: methods[name]() for name in methods},
    "redrawn signs": methods["sign_symmetry"](magnitudes="redrawn"),
    "BP with a penalty": wrapped(methods["bp"](), penalty=1e-2),
    "DFA with a penalty, frozen": wrapped(methods["dfa"](), penalty=1e-2, control="frozen"),
    "FA with the last block": wrapped(methods["fa"](), control="ladder-1"),
    "DFA without blocks": wrapped(methods["dfa"](), control="shallow"),
}


@pytest.mark.parametrize("name", RULES)
def test_every_method_steps_as_on_the_cpu_and_waits_at_most_once_a_batch(name: str) -> None:
    there, here = begun(RULES[name], DEVICE), begun(RULES[name], "cpu")
    with synchronisations() as waits:
        steps = len(list(there._steps(0)))
    assert waits.total() <= steps == 2
    list(here._steps(0))
    the_same(state(there), state(here))


def rows(checkpoint: Checkpoint) -> Iterator[dict[str, Any]]:
    return (row.model_dump() for row in checkpoint.record.history)


def test_fit_has_the_history_of_the_cpu() -> None:
    there, here = (fit(network(RULES["dfa"]).to(d), RULES["dfa"], DATA, RECIPE, seed=0) for d in (DEVICE, "cpu"))
    assert there.record.device == "pretended:0"
    for one, other in zip(rows(there), rows(here), strict=True):
        for name in ("loss", "accuracy", "hidden_norms", "gradient_norms", "d1", "d2", "gamma"):
            assert one[name] == pytest.approx(other[name], rel=1e-5, abs=1e-6), name


def test_an_epoch_waits_no_more_often_when_it_has_more_batches() -> None:
    """The losses are read once, with the measurements at its end."""
    counts = []
    for batches in (2, 6):
        data = images(batches * SIZE).to(DEVICE)
        run = begin(network(RULES["dfa"]).to(DEVICE), RULES["dfa"], data, RECIPE, 0)
        with synchronisations() as waits:
            run.epoch()
        counts.append(waits.total())
    assert counts[0] == counts[1]


@pytest.mark.parametrize("name", ["dfa", "kolen_pollack", "state_bridge"])
def test_a_run_resumes_from_its_snapshot_with_the_same_bits(name: str, tmp_path: Path) -> None:
    rule, done = RULES[name], []

    def stop(row: HistoryRow) -> None:
        done.append(row)
        if len(done) == 2:
            raise KeyboardInterrupt

    def trained(**options: Any) -> dict[str, Tensor]:
        recipe = replace(RECIPE, epochs=3)
        return fit(network(rule).to(DEVICE), rule, DATA, recipe, seed=0, **options).tensors()

    with pytest.raises(KeyboardInterrupt):
        trained(snapshot=tmp_path / "snapshot", snapshot_seconds=0.0, on_epoch=stop)
    assert (tmp_path / "snapshot").exists()
    the_same(trained(snapshot=tmp_path / "snapshot"), trained(), tolerance=0.0)


@pytest.mark.parametrize("name", ["bp", "dfa", "fa", "drtp", "fa_weights", "sign_symmetry", "BP with a penalty"])
def test_a_stack_steps_as_single_runs_do_and_never_waits(name: str) -> None:
    rule, data = RULES[name], DATA.to(DEVICE)
    runs = [begin(network(rule, seed).to(DEVICE), rule, data, PLAIN, seed) for seed in range(3)]
    stack = Stack.of(runs)
    with synchronisations() as waits:
        losses = stack.steps()
    assert waits.total() == 0
    assert len(losses) == 2
    for seed, run in enumerate(runs):
        alone = begun(rule, "cpu", seed)
        list(alone._steps(0))
        the_same(state(run), state(alone))


def test_fit_many_has_the_history_of_single_runs() -> None:
    rule = DirectFeedback()
    many = fit_many([network(rule, seed).to(DEVICE) for seed in range(2)], rule, DATA, RECIPE, seeds=range(2))
    for seed, checkpoint in enumerate(many):
        assert checkpoint.record.timings["at_once"] == 2
        single = fit(network(rule, seed), rule, DATA, RECIPE, seed=seed)
        for one, other in zip(rows(checkpoint), rows(single), strict=True):
            assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)
            assert one["hidden_norms"] == pytest.approx(other["hidden_norms"], rel=1e-3)


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)
    )


INPUTS, LABELS = torch.linspace(-1, 1, 384).view(64, 6), torch.arange(64) % CLASSES


def bound_gradients(name: str, device: Device, **options: Any) -> list[Tensor]:
    there, inputs, labels = model().to(device), INPUTS.to(device), LABELS.to(device)
    optimiser = torch.optim.SGD(there.parameters(), lr=0.1, weight_decay=0.01)
    rule = creditscope.rule(name, there, example=(inputs, labels), optimizer=optimiser, **options)
    with synchronisations() as waits:
        rule.backward(inputs, labels)
    assert waits.total() <= 1
    return [parameter.grad.cpu() for parameter in there.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("name", ["bp", "dfa", "fa", "fa_weights", "kolen_pollack", "local_loss", "weight_mirror"])
def test_a_rule_in_a_users_loop_has_the_gradients_of_the_cpu(name: str) -> None:
    there, here = bound_gradients(name, DEVICE), bound_gradients(name, "cpu")
    assert len(there) == len(here) > 0
    assert all(torch.allclose(one, other, rtol=1e-6, atol=1e-8) for one, other in zip(there, here, strict=True))


def result(device: Device) -> ExperimentReport:
    inputs, labels = INPUTS.to(device), LABELS.to(device)

    def make(seed: int) -> nn.Module:
        return build("resmlp", 6, CLASSES, seed, d=8, depth=2).to(device)

    def train(network: nn.Module, seed: int) -> None:
        optimiser = torch.optim.SGD([p for p in network.parameters() if p.requires_grad], lr=0.1)
        for _ in range(3):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(inputs), labels).backward()
            optimiser.step()

    def evaluate(network: nn.Module) -> float:
        return float((network(inputs).argmax(1) == labels).float().mean())

    return creditscope.experiment(make, train, evaluate, seeds=[0, 1], batches=[(inputs, labels)])


def test_an_experiment_has_the_verdict_of_the_cpu() -> None:
    there, here = result(DEVICE), result("cpu")
    assert there.verdict == here.verdict
    for code, finding in here.findings.items():
        assert there.findings[code].status == finding.status, code


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: the pretended one stands in for it")
@pytest.mark.parametrize("name", RULES)
def test_every_method_steps_on_cuda_as_on_the_cpu(name: str) -> None:
    there, here = begun(RULES[name], "cuda"), begun(RULES[name], "cpu")
    list(there._steps(0))
    list(here._steps(0))
    the_same(state(there), state(here), tolerance=1e-3)  # TF32 and other orders of sums
