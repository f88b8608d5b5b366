"""BioTorch's models: the guard refuses them, their reference model gives the gradient, their backward the credit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.explicit_states import agrees, by_hand, pooled
from tests.foreign_models import unchanged
from torch import Tensor, nn

from creditscope import Monitor, audit, plain_twin
from creditscope.errors import NotTheGradient

pytestmark = [pytest.mark.thirdparty, pytest.mark.filterwarnings("ignore")]

CLASSES, CONTROL = 10, 0.1


def mlp() -> nn.Sequential:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(),
        nn.Linear(32, CLASSES),
    )  # fmt: skip


def made(kind: str, mode: str) -> Any:
    from biotorch.models.le_net import LeNetMNIST
    from biotorch.module.biomodule import BioModule

    torch.manual_seed(0)
    plain = LeNetMNIST() if kind == "LeNet" else mlp()
    return BioModule(plain, mode=mode, output_dim=CLASSES, copy_weights=False)


def digits(kind: str, count: int = 2, size: int = 48) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    shape = (1, 32, 32) if kind == "LeNet" else (8, 8)
    return [
        (torch.randn(size, *shape, generator=generator), torch.randint(CLASSES, (size,), generator=generator))
        for _ in range(count)
    ]


def lenet_walk(net: Any, x: Tensor) -> tuple[list[Tensor], Tensor]:
    h0 = net.pool1(net.conv1(x).relu())
    h1 = net.pool2(net.conv2(h0).relu())
    h2 = net.conv3(h1).relu().flatten(1)
    h3 = net.fc1(h2).relu()
    return [h0, h1, h2, h3], net.fc2(h3)


def mlp_walk(net: Any, x: Tensor) -> tuple[list[Tensor], Tensor]:
    h0 = net[1](x.flatten(1)).relu()
    h1 = net[3](h0).relu()
    h2 = net[5](h1).relu()
    return [h0, h1, h2], net[7](h2)


CASES = [(kind, mode) for kind in ("LeNet", "MLP") for mode in ("fa", "dfa")]


@pytest.mark.parametrize(("kind", "mode"), CASES)
def test_the_gradient_guard_notices(kind: str, mode: str) -> None:
    with pytest.raises(NotTheGradient, match=r"Pass reference=creditscope.plain_twin\(model\)"):
        audit(made(kind, mode), digits(kind))


@pytest.mark.parametrize(("kind", "mode"), CASES)
def test_the_diagnostics_are_those_of_the_plain_network_written_out(kind: str, mode: str) -> None:
    model, given = made(kind, mode), digits(kind)
    twin = plain_twin(model)
    with unchanged(model):
        report = audit(model, given, reference=twin, control_accuracy=CONTROL)
    walk = lenet_walk if kind == "LeNet" else mlp_walk
    agrees(report, by_hand(lambda x: walk(twin.module, x), given, pooled), CONTROL)
    assert report.subject.model == "BioModule"
    assert report.verdict.outcome in ("pass", "fail", "inconclusive")
    layers = report.subject.depth + 1
    for measure in ("gamma", "rho"):
        values = report.measures[measure].per_layer
        assert len(values) == layers
        assert all(-1 <= value <= 1 for value in values)
    assert report.findings["D9"].status == "pass"  # feedback carries nothing through the weights above


def cosines(a: Tensor, b: Tensor) -> float:
    return torch.nn.functional.cosine_similarity(a.double(), b.double(), dim=1, eps=0).nanmean().item()


@pytest.mark.parametrize("mode", ["fa", "dfa"])
def test_gamma_is_that_of_the_feedback_written_out(mode: str) -> None:
    model, (x, y) = made("MLP", mode), digits("MLP", 1)[0]
    net, error = model.module, None
    states, logits = mlp_walk(plain_twin(model).module, x)
    error = torch.softmax(logits, 1) - nn.functional.one_hot(y, CLASSES)
    gradients, credit, g, a = [], [], error, error
    for layer, state in ((7, states[2]), (5, states[1]), (3, states[0])):
        g = g @ net[layer].weight
        a = a @ net[layer].weight_backward if mode == "fa" else error @ net[layer].weight_backward
        gradients.append(g)
        credit.append(a)
        g, a = g * (state > 0), a * (state > 0)
    expected = [cosines(*pair) for pair in zip(reversed(credit), reversed(gradients), strict=True)]
    report = audit(model, [(x, y)], reference=plain_twin(model))
    assert report.measures["gamma"].per_layer == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_backprop_in_biotorchs_own_form_is_fully_aligned() -> None:
    model = made("MLP", "backpropagation")
    assert audit(model, digits("MLP"), control_accuracy=CONTROL).provenance.guards["gradient"].passed


@pytest.mark.parametrize("mode", ["fa", "dfa"])
def test_a_training_run_is_watched_and_left_alone(mode: str) -> None:
    def weights(watched: bool) -> tuple[dict[str, Tensor], Monitor]:
        model, given = made("MLP", mode), digits("MLP")
        monitor = Monitor(model, digits("MLP"), reference=plain_twin(model), on_firing=lambda finding, epoch: None)
        optimiser = torch.optim.SGD(model.parameters(), 0.1)
        for epoch in range(3):
            for x, y in given:
                optimiser.zero_grad()
                nn.functional.cross_entropy(model(x, targets=y, loss_function=nn.CrossEntropyLoss()), y).backward()
                optimiser.step()
            if watched:
                monitor.step(epoch)
        return model.state_dict(), monitor

    alone, (after, monitor) = weights(False)[0], weights(True)
    assert all(torch.equal(after[name], value) for name, value in alone.items())
    assert [len(row.gamma) for row in monitor.history] == [3, 3, 3]
    assert monitor.history[0].gamma != monitor.history[2].gamma  # the twin follows the training
