"""State Bridge: credit is the gradient of the loss at a learned prediction of the last state."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save
from tests.methods.conftest import small
from torch import Tensor, nn

from creditscope.auditing.audit import audit
from creditscope.batch import Batch
from creditscope.credit import NoCredit
from creditscope.errors import InvalidInput
from creditscope.methods import methods
from creditscope.methods.bridge import BridgeNetwork, BridgeRule
from creditscope.methods.local import forward_in_pieces
from creditscope.methods.rule import EVERYTHING, Diverged, Feedback, Moment
from creditscope.methods.state_bridge import StateBridge
from creditscope.methods.wrappers import Shallow
from creditscope.networks.staged import StagedNetwork
from creditscope.records.folder import write_run
from creditscope.records.run import RunRecord
from creditscope.runs.audit import audit_checkpoint
from creditscope.runs.run import load, load_data, train
from creditscope.runs.spec import RunSpec
from creditscope.stream.find import find_stream
from creditscope.stream.trace import capture

BRIDGES = ["state_bridge", "credit_bridge"]
FLAT = ["resmlp", "student_net"]


def bridge_rule(name: str, *, scale_free: bool = False) -> BridgeRule:
    rule = methods[name](scale_free=scale_free)  # type: ignore[call-arg]
    assert isinstance(rule, BridgeRule)
    return rule


def spec_of(method: str, **others: object) -> RunSpec:
    """A run of eight steps."""
    small = {"network_options": {"d": 8, "depth": 2}, "epochs": 2, "batch_size": 1000}
    return RunSpec.model_validate({"method": method, **small, **others})


class Oracle(nn.Module):
    """G as it should be: the true rest of the network."""

    def __init__(self, network: StagedNetwork) -> None:
        super().__init__()
        self.rest = [network]  # in a list: its parameters are not the oracle's

    def forward(self, states: Tensor, position: Tensor, error: Tensor) -> Tensor:
        network = self.rest[0]
        arrived = []
        for layer, state in enumerate(states):
            for block in range(layer, network.depth):
                state = network.merge(block, state, network.branch(block, state))
            arrived.append(state)
        return torch.stack(arrived)


@pytest.mark.parametrize("name", FLAT)
def test_with_an_oracle_for_a_bridge_credit_is_the_gradient(name: str, batch: Batch) -> None:
    network = small(name)
    feedback = Feedback({}, nn.ModuleDict({"bridge": Oracle(network)}))
    credit = StateBridge().credit(network, feedback, batch)
    for signal, gradient in zip(credit.signals, capture(find_stream(network), batch).gradients, strict=True):
        torch.testing.assert_close(signal, gradient, rtol=1e-10, atol=1e-12)


def by_hand(mlp: BridgeNetwork, state: Tensor, position: float, error: Tensor) -> Tensor:
    """One sample through the MLP, layer by layer."""
    seen = state / (state**2).mean().sqrt() if mlp.scale_free else state
    signal = torch.cat([seen, torch.tensor([position], dtype=state.dtype), error])
    for index, (weight, bias) in enumerate(zip(*[iter(mlp.parameters())] * 2, strict=True)):
        signal = weight.double() @ (signal * torch.sigmoid(signal) if index else signal) + bias.double()
    return signal


@pytest.mark.parametrize("scale_free", [False, True])
@pytest.mark.parametrize("name", FLAT)
def test_credit_agrees_with_every_layer_and_sample_alone(
    name: str, scale_free: bool, batch: Batch, generator: torch.Generator
) -> None:
    network, rule = small(name), StateBridge(scale_free=scale_free)
    feedback = rule.feedback(network, batch, generator)
    credit = rule.credit(network, feedback, batch)
    logits, states = network(batch.inputs, return_hidden=True)
    errors = F.softmax(logits, 1).detach() - F.one_hot(batch.labels, 4)
    assert feedback.networks is not None
    mlp = feedback.networks["bridge"]
    for layer, state in enumerate(states):
        for i, label in enumerate(batch.labels):
            leaf = state[i].detach().requires_grad_()
            arrived = by_hand(mlp, leaf, layer / network.depth, errors[i])
            loss = F.cross_entropy(network.readout(arrived[None]), label[None])
            (expected,) = torch.autograd.grad(loss, leaf)
            torch.testing.assert_close(credit.signals[layer][i], expected, rtol=1e-9, atol=1e-12)


def test_the_auxiliary_loss_is_the_squared_miss_over_the_squared_state(
    batch: Batch, generator: torch.Generator
) -> None:
    network, rule = small("resmlp"), StateBridge()
    feedback = rule.feedback(network, batch, generator)
    seen = forward_in_pieces(network, batch, EVERYTHING)
    start = generator.get_state()
    auxiliary = rule.auxiliary_loss(network, feedback, seen, generator)
    layers = torch.randint(network.depth, (5,), generator=generator.set_state(start)).tolist()
    assert feedback.networks is not None
    mlp, last = feedback.networks["bridge"], seen.hiddens[-1]
    missed = [
        ((by_hand(mlp, seen.hiddens[layer][i], layer / network.depth, seen.error[i]) - last[i]) ** 2).sum().item()
        for i, layer in enumerate(layers)
    ]
    sizes = [(state**2).sum().item() for state in last]
    assert auxiliary.loss.item() == pytest.approx(sum(missed) / sum(sizes))
    ratios = sorted((m / s) ** 0.5 for m, s in zip(missed, sizes, strict=True))
    assert auxiliary.residual.item() == pytest.approx(ratios[2])
    again = rule.residual(network, feedback, batch, generator.set_state(start))
    assert again.item() == pytest.approx(ratios[2])


@pytest.mark.parametrize("name", BRIDGES)
def test_a_step_is_auxiliary_update_first_and_credit_from_the_updated_network(
    name: str, batch: Batch, generator: torch.Generator
) -> None:
    network, rule = small("resmlp"), bridge_rule(name)
    feedback = rule.feedback(network, batch, generator)
    before = rule.credit(network, feedback, batch)
    learnt = rule.learn(network, feedback, batch, Moment(0.9, generator))
    after = rule.credit(network, feedback, batch)
    assert all(torch.equal(a, b) for a, b in zip(learnt.signals, after.signals, strict=True))
    assert all(torch.equal(learnt.gradients[key], after.gradients[key]) for key in after.gradients)
    assert not torch.equal(before.signals[0], after.signals[0])
    assert set(learnt.auxiliary) == {"bridge_loss", "bridge_residual"}


@pytest.mark.parametrize("name", BRIDGES)
def test_a_bridge_learns_its_target_on_a_network_that_stands_still(
    name: str, batch: Batch, generator: torch.Generator
) -> None:
    network, rule = small("resmlp"), bridge_rule(name)
    feedback = rule.feedback(network, batch, generator)
    losses = [
        rule.learn(network, feedback, batch, Moment(0.9, generator)).auxiliary["bridge_loss"].item() for _ in range(40)
    ]
    assert sum(losses[-10:]) < 0.5 * sum(losses[:10])


def test_a_scale_free_bridge_sees_only_directions(generator: torch.Generator) -> None:
    mlp = BridgeNetwork([4 + 1 + 3, 16, 1], scale_free=True, generator=generator)
    state = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    position, error = torch.full((1,), 0.5, dtype=torch.float64), torch.randn(6, 3, generator=generator).double()
    torch.testing.assert_close(mlp(state, position, error), mlp(1e6 * state, position, error))


@pytest.mark.parametrize("name", BRIDGES)
@pytest.mark.parametrize("network", ["small_cnn", "small_resnet", "vit_mini"])
def test_streams_that_are_not_flat_and_of_one_width_are_refused(
    name: str, network: str, batch: Batch, generator: torch.Generator
) -> None:
    with pytest.raises(InvalidInput, match="needs flat states of one width"):
        bridge_rule(name).feedback(small(network), batch, generator)


@pytest.mark.parametrize("name", BRIDGES)
def test_without_its_auxiliary_network_a_bridge_gives_no_credit(name: str, batch: Batch) -> None:
    with pytest.raises(InvalidInput, match="There is no auxiliary network '(bridge|value)' in the feedback"):
        bridge_rule(name).credit(small("resmlp"), Feedback(), batch)


@pytest.mark.parametrize("name", BRIDGES)
def test_drawing_the_auxiliary_networks_leaves_the_global_generator_alone(name: str, batch: Batch) -> None:
    rule, network = bridge_rule(name), small("resmlp")
    torch.manual_seed(3)
    first = rule.feedback(network, batch, torch.Generator().manual_seed(1))
    drawn = torch.rand(3)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(3))
    again = rule.feedback(network, batch, torch.Generator().manual_seed(1))
    assert first.networks is not None
    assert again.networks is not None
    for key, value in first.networks.state_dict().items():
        assert torch.equal(value, again.networks.state_dict()[key])


@pytest.mark.parametrize("name", BRIDGES)
def test_an_auxiliary_network_that_diverges_stops_the_run_before_a_weight_is_touched(
    name: str, batch: Batch, generator: torch.Generator
) -> None:
    network, rule = small("resmlp"), bridge_rule(name)
    feedback = rule.feedback(network, batch, generator)
    assert feedback.networks is not None
    weight = next(feedback.networks.parameters())
    with torch.no_grad():
        weight.fill_(float("inf"))
    with pytest.raises(Diverged, match="loss of the auxiliary network was nan"):
        rule.learn(network, feedback, batch, Moment(0.9, generator))
    assert weight.isinf().all()


@pytest.mark.parametrize("name", BRIDGES)
def test_without_blocks_the_bridge_learns_from_the_only_state(
    name: str, batch: Batch, generator: torch.Generator
) -> None:
    rule = Shallow(bridge_rule(name))
    network = rule.prepare(small("resmlp"), batch)
    feedback = rule.feedback(network, batch, generator)
    credit = rule.learn(network, feedback, batch, Moment(0.9, generator))
    assert len(credit.signals) == 1
    assert credit.auxiliary["bridge_loss"].isfinite()


@pytest.mark.parametrize("name", BRIDGES)
def test_credit_from_a_checkpoint_is_the_credit_of_the_run(name: str, tmp_path: Path) -> None:
    spec = spec_of(name)
    checkpoint = train(spec)
    again = load(checkpoint.save(tmp_path))
    batch = next(iter(load_data(spec).test_batches(64)))
    here, there = checkpoint.credit(), again.credit()
    assert all(torch.equal(a, b) for a, b in zip(here.signals(batch), there.signals(batch), strict=True))
    assert set(again.record.history[-1].auxiliary) == {"bridge_loss", "bridge_residual"}


def rewrite(folder: Path, tensors: dict[str, Tensor]) -> None:
    """The run with other tensors, as somebody might publish it: the record is bound to the new file."""
    write_run(folder, save(tensors), RunRecord.from_json(folder / "record.json"))


@pytest.mark.parametrize("name", BRIDGES)
def test_a_checkpoint_without_its_auxiliary_networks_is_audited_without_credit(name: str, tmp_path: Path) -> None:
    spec = spec_of(name, epochs=1)
    folder = train(spec).save(tmp_path)
    tensors = load_file(folder / "weights.safetensors")
    rewrite(folder, {k: v for k, v in tensors.items() if not k.startswith("auxiliary.")})
    again = load(folder)
    assert set(again.missing) == {key for key in tensors if key.startswith("auxiliary.")}
    assert again.feedback.networks is None
    report = audit(again.network, load_data(spec).test_batches(128), credit=again.credit())
    assert report.findings["D1"].status == "pass"
    assert report.measures["gamma"].cause == "not available"


@pytest.mark.parametrize("name", BRIDGES)
def test_a_run_whose_auxiliary_network_diverged_is_audited_without_credit(name: str) -> None:
    spec = spec_of(name, epochs=1)
    checkpoint = train(spec)
    assert checkpoint.feedback.networks is not None
    first, *others = checkpoint.feedback.networks.state_dict()
    with torch.no_grad():
        for parameter in checkpoint.feedback.networks.parameters():
            parameter.fill_(torch.nan)
    why = f"not every number in auxiliary.{first} and {len(others)} more is finite"
    assert checkpoint.credit() == NoCredit(why)
    report = audit_checkpoint(checkpoint, load_data(spec))
    assert report.findings["D1"].status == "pass"
    assert report.findings["D6"].note == f"not available: {why}"


def test_a_checkpoint_without_its_feedback_is_loaded_without_credit(tmp_path: Path) -> None:
    folder = train(spec_of("dfa", epochs=1)).save(tmp_path)
    tensors = load_file(folder / "weights.safetensors")
    del tensors["feedback.B.1"]
    rewrite(folder, tensors)
    again = load(folder)
    assert again.missing == ("feedback.B.1",)
    assert again.credit() == NoCredit("the checkpoint does not hold feedback.B.1")
