"""On networks without residual additions, BioTorch computes the same gradients for the same feedback."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.methods.dfa import DirectFeedback
from creditscope.methods.fa_weights import WeightFeedback
from creditscope.methods.rule import Feedback
from creditscope.methods.sign_symmetry import SignSymmetry
from creditscope.networks.build import build
from creditscope.networks.staged import StagedNetwork

pytestmark = pytest.mark.thirdparty

CLASSES = 5


def plain(name: str, depth: int) -> StagedNetwork:
    """A network whose stages follow each other without any addition."""
    options: dict[str, Any] = {"student_net": {"residual": False, "d": 20}, "small_cnn": {"channels": 4, "width": 12}}
    return build(name, (3, 8, 8), CLASSES, 3, depth=depth, **options[name])


@pytest.fixture
def batch() -> Batch:
    generator = torch.Generator().manual_seed(7)
    return Batch(torch.randn(16, 3, 8, 8, generator=generator), torch.arange(16) % CLASSES)


def converted(network: StagedNetwork, mode: str) -> nn.Module:
    """BioTorch's version of a copy of the network, with the same weights."""
    from biotorch.module.biomodule import BioModule

    theirs: nn.Module = BioModule(copy.deepcopy(network), mode=mode, output_dim=CLASSES)
    return theirs.train()


def gradients(theirs: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    loss.backward()
    return {
        name.removeprefix("module."): parameter.grad
        for name, parameter in theirs.named_parameters()
        if parameter.grad is not None
    }


def weight_of(theirs: nn.Module, name: str) -> nn.Parameter:
    return theirs.get_parameter(f"module.{name}_backward")


@pytest.mark.parametrize(("name", "depth"), [("student_net", 1), ("student_net", 4), ("small_cnn", 3)])
def test_fa_inside_every_weight_gives_biotorchs_gradients(name: str, depth: int, batch: Batch) -> None:
    network, rule = plain(name, depth).train(), WeightFeedback()
    theirs = converted(network, "fa")
    feedback = rule.feedback(network, batch, torch.Generator().manual_seed(1))
    for key, tensor in feedback.tensors.items():
        weight_of(theirs, key).data.copy_(tensor)
    expected = gradients(theirs, F.cross_entropy(theirs(batch.inputs), batch.labels))
    found = rule.credit(network, feedback, batch).gradients
    assert found.keys() == expected.keys()
    for key, gradient in found.items():
        torch.testing.assert_close(gradient, expected[key], rtol=1e-4, atol=1e-6, msg=key)


@pytest.mark.filterwarnings("ignore:Using a non-full backward hook:FutureWarning")
@pytest.mark.parametrize("depth", [1, 4])
def test_dfa_gives_biotorchs_gradients(depth: int, batch: Batch) -> None:
    """BioTorch's feedback of a layer acts at the layer's input: block l's is our B_l, the head's is our B_L."""
    network, rule = plain("student_net", depth), DirectFeedback(normalisation="none")
    theirs = converted(network, "dfa")
    feedback = rule.feedback(network, batch, torch.Generator().manual_seed(1))
    names = [*(f"blocks.{layer}.w.weight" for layer in range(depth)), "head.weight"]
    for layer, key in enumerate(names):
        weight_of(theirs, key).data.copy_(feedback.tensors[f"B.{layer}"])
    logits = theirs(batch.inputs, targets=batch.labels, loss_function=nn.CrossEntropyLoss())
    expected = gradients(theirs, F.cross_entropy(logits, batch.labels))
    found = rule.credit(network, feedback, batch).gradients
    assert found.keys() == expected.keys()
    for key, gradient in found.items():
        torch.testing.assert_close(gradient, expected[key], rtol=1e-4, atol=1e-6, msg=key)


def test_other_feedback_gives_other_gradients(batch: Batch) -> None:
    """The comparison can fail: with another draw the embedding learns something else."""
    network, rule = plain("student_net", 2), WeightFeedback()
    theirs = converted(network, "fa")
    feedback: Feedback = rule.feedback(network, batch, torch.Generator().manual_seed(1))
    expected = gradients(theirs, F.cross_entropy(theirs(batch.inputs), batch.labels))
    found = rule.credit(network, feedback, batch).gradients
    assert not torch.allclose(found["embed.weight"], expected["embed.weight"], rtol=0.1, atol=1e-4)


@pytest.mark.parametrize(("mode", "magnitudes"), [("usf", "uniform"), ("frsf", "fixed"), ("brsf", "redrawn")])
@pytest.mark.parametrize(("name", "depth"), [("student_net", 3), ("small_cnn", 3)])
def test_sign_symmetry_gives_biotorchs_gradients(
    mode: str, magnitudes: str, name: str, depth: int, batch: Batch
) -> None:
    """For the same magnitudes: theirs are read off their backward weights, M = |B|, after their forward pass."""
    network, rule = plain(name, depth).train(), SignSymmetry(magnitudes)  # type: ignore[arg-type]
    theirs = converted(network, mode)
    expected = gradients(theirs, F.cross_entropy(theirs(batch.inputs), batch.labels))
    names = rule.feedback(network, batch, torch.Generator().manual_seed(1)).tensors
    used = {key: weight_of(theirs, key.removeprefix("M.")).detach().abs() for key in names if key.startswith("M.")}
    found = rule.credit(network, Feedback(used), batch).gradients
    assert found.keys() == expected.keys()
    for key, gradient in found.items():
        torch.testing.assert_close(gradient, expected[key], rtol=1e-4, atol=1e-6, msg=key)
