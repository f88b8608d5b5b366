"""A model that changes while it is measured is named in an error and comes back as it was, to the bit."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import creditscope
from creditscope.errors import CreditscopeError, ModelChanged
from creditscope.networks.build import build
from creditscope.stream import isolation
from creditscope.stream.unchanged import unchanged

INPUTS, LABELS = torch.linspace(-1, 1, 384).view(64, 6), torch.arange(64) % 3
BATCHES = [(INPUTS[:32], LABELS[:32]), (INPUTS[32:], LABELS[32:])]


class Odd(nn.Module):
    """A residual network whose forward pass does something to itself."""

    def __init__(self, act) -> None:
        super().__init__()
        self.net = build("resmlp", 6, 3, seed=0, d=8, depth=2)
        self.act = act

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.no_grad():
            self.act(self)
        return self.net(inputs)


def renormalise(model: Odd) -> None:
    model.net.blocks[0].w1.weight.div_(model.net.blocks[0].w1.weight.norm() / 2)


def step(model: Odd) -> None:
    model.net.embed.weight.sub_(1e-6)


def replace_weight(model: Odd) -> None:
    model.net.embed.weight = nn.Parameter(model.net.embed.weight.clone())


def replace_data(model: Odd) -> None:
    model.net.embed.weight.data = model.net.embed.weight.data.clone()


def clip_data(model: Odd) -> None:
    model.net.embed.weight.data.clamp_(-0.01, 0.01)


def write_by_numpy(model: Odd) -> None:
    model.net.embed.weight.detach().numpy()[0, 0] += 1


def add_hook(model: Odd) -> None:
    model.net.out_ln.register_forward_hook(lambda *_: None)


def replace_module(model: Odd) -> None:
    model.net.out_ln = nn.LayerNorm(8)


def fill_gradient(model: Odd) -> None:
    weight = model.net.embed.weight
    weight.grad = torch.ones_like(weight) if weight.grad is None else weight.grad + 1


ACTS = {
    renormalise: "the weight net.blocks.0.w1.weight",
    step: "the weight net.embed.weight",
    replace_weight: "the parameters of net.embed",
    replace_data: "the weight net.embed.weight",
    clip_data: "the weight net.embed.weight",
    write_by_numpy: "the weight net.embed.weight",
    add_hook: "the forward hooks of net.out_ln",
    replace_module: "the modules of net",
    fill_gradient: "the gradient of net.embed.weight",
}


def state(model: nn.Module) -> dict[str, tuple[int, bytes, bool, int, bytes | None]]:
    """Everything of every parameter: its identity, bits and storage, and its gradient."""
    return {
        name: (
            id(p),
            p.detach().numpy().tobytes(),
            p.requires_grad,
            p.data_ptr(),
            None if p.grad is None else p.grad.numpy().tobytes(),
        )
        for name, p in model.named_parameters()
    }


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("measure", ["audit", "monitor", "published"])
def test_a_forward_pass_that_changes_the_model_is_named_and_undone(act, measure):
    model = Odd(act)
    before, modules = state(model), [(id(module), len(module._forward_hooks)) for module in model.modules()]
    with pytest.raises(ModelChanged, match="was changed while it was measured") as caught:
        if measure == "audit":
            creditscope.audit(model, BATCHES, blocks="net.blocks")
        elif measure == "monitor":
            creditscope.Monitor(model, BATCHES, blocks="net.blocks").step(0)
        else:
            with unchanged(model):
                model(INPUTS)
                model(INPUTS)
    assert ACTS[act] in str(caught.value)
    assert "The model has been put back" in str(caught.value)
    assert state(model) == before
    assert [(id(module), len(module._forward_hooks)) for module in model.modules()] == modules


class Lazy(Odd):
    """Records states by hooks that its first call installs, as models of transformers do."""

    def __init__(self) -> None:
        super().__init__(Lazy.install)
        self.installed, self.seen = False, []

    def install(self) -> None:
        for index in (0, 1) if not self.installed else ():
            for name in ("a", "b"):
                self.net.blocks[index].register_forward_hook(self.recording(index, name))
        self.installed, self.seen = True, []

    def recording(self, index: int, name: str):
        return lambda module, inputs, output: self.seen.append((index, name))


def test_hooks_that_the_first_call_installs_stay_and_later_lost_ones_are_named():
    model = Lazy()
    creditscope.audit(model, BATCHES, blocks="net.blocks")
    model(INPUTS)
    assert model.seen == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]
    with pytest.raises(ModelChanged, match="the forward hooks of net.blocks.0"), unchanged(model):
        model.net.blocks[0]._forward_hooks.popitem()
    assert len(model.net.blocks[0]._forward_hooks) == 2


def test_a_credit_function_that_steps_the_optimiser_is_named_and_undone():
    network = build("resmlp", 6, 3, seed=0, d=8, depth=2)
    before = state(network)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1)

    def credit(batch):
        nn.functional.cross_entropy(network(batch.inputs), batch.labels).backward()
        optimiser.step()
        return [torch.ones(len(batch.labels), 8)] * 3

    with pytest.raises(ModelChanged, match="or does a function that was passed in"):
        creditscope.audit(network, BATCHES, credit=credit)
    assert state(network) == before


def test_weights_that_are_moved_and_put_back_are_no_change():
    network = build("resmlp", 6, 3, seed=0, d=8, depth=2)
    with unchanged(network), torch.no_grad():
        network.embed.weight.mul_(2.0).mul_(0.5)
        own = network.embed.weight.data
        network.embed.weight.copy_(copy.deepcopy(own))


def test_a_nan_is_no_change_and_a_changed_bit_is_one():
    network = nn.Linear(2, 2)
    with torch.no_grad():
        network.weight.fill_(float("nan"))
    with unchanged(network), torch.no_grad():
        network.weight.mul_(1.0)
    with pytest.raises(ModelChanged), unchanged(network), torch.no_grad():
        network.bias.copy_(torch.nextafter(network.bias, torch.ones(2)))


def test_an_error_of_the_block_stays_or_becomes_the_cause():
    network = nn.Linear(2, 2)
    with pytest.raises(ZeroDivisionError), unchanged(network):
        network.bias.data = torch.zeros(2)
        raise ZeroDivisionError
    with pytest.raises(ModelChanged) as caught, unchanged(network):
        network.weight.requires_grad_(False)
        raise CreditscopeError("no")
    assert isinstance(caught.value.__cause__, CreditscopeError)
    assert network.weight.requires_grad


def test_gradients_that_exist_come_back_as_the_same_tensors():
    network = nn.Linear(2, 2)
    network(torch.ones(1, 2)).sum().backward()
    gradient = network.weight.grad
    with pytest.raises(ModelChanged, match="the gradient of weight"), unchanged(network):
        network.weight.grad.mul_(2)
        network.bias.grad = None
    assert network.weight.grad is gradient
    assert torch.equal(gradient, torch.ones(2, 2))
    assert network.bias.grad is not None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex128])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_the_sign_of_a_zero_is_a_bit_too(dtype: torch.dtype, count: int) -> None:
    module = nn.Module()
    module.weight = nn.Parameter(torch.zeros(count, dtype=dtype))
    with unchanged(module):
        module.weight.data = module.weight.data
    with pytest.raises(ModelChanged, match="the weight weight"), unchanged(module):
        module.weight.detach()[-1] = -torch.zeros((), dtype=dtype)
    assert not module.weight.detach().abs().any()
    assert module.weight.detach().view(torch.uint8).sum() == 0


def test_constant_parameters_are_those_that_require_gradients_once_each() -> None:
    model = build("resmlp", 6, 3, seed=0, d=8, depth=2)
    model.blocks[1].w1.weight = model.blocks[0].w1.weight  # shared
    model.blocks[0].w2.bias.requires_grad_(False)
    found = isolation._trained([*model.blocks, model.blocks[0].w1])
    expected = {id(p) for block in model.blocks for p in block.parameters() if p.requires_grad}
    assert len(found) == len(expected)
    assert {id(parameter) for parameter in found} == expected
