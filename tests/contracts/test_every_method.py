"""What every registered method promises; new files in creditscope/methods/ are found by themselves."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.datasets.tensors import Dataset
from creditscope.errors import InvalidInput
from creditscope.methods import methods
from creditscope.methods.descent import Descent
from creditscope.methods.learnt import LearntFeedback
from creditscope.methods.rule import BoundRule, CreditRule, Feedback, Moment, Scope
from creditscope.methods.wrappers import Frozen, Ladder, Penalty, Shallow, wrapped
from creditscope.networks import networks
from creditscope.networks.build import build
from creditscope.networks.staged import StagedNetwork
from creditscope.options import Option
from creditscope.records.run import HistoryRow, RunRecord
from creditscope.stream.find import find_stream
from creditscope.stream.trace import capture
from creditscope.training.checkpoint import Checkpoint, read_tensors
from creditscope.training.fit import fit
from creditscope.training.recipe import Recipe
from creditscope.training.weights import load_weights

SHAPE, CLASSES = (2, 8, 8), 3
SMALL: dict[str, Option] = {  # where a network has them
    "d": 16,
    "depth": 2,
    "channels": 4,
    "width": 12,
    "heads": 2,
    "widths": (16,),
}


class Case(NamedTuple):
    """A rule at work on a network."""

    rule: CreditRule
    network: StagedNetwork
    feedback: Feedback
    batch: Batch

    def credit(self, rule: CreditRule | None = None) -> Credit:
        return (rule or self.rule).credit(self.network, self.feedback, self.batch)


def small(name: str) -> StagedNetwork:
    """In evaluation mode, with BatchNorm statistics that are not the trivial ones."""
    known = networks[name].__init__.__kwdefaults__ or {}
    built = build(name, SHAPE, CLASSES, 3, **{option: SMALL[option] for option in SMALL if option in known}).train()
    with torch.no_grad():
        built(drawn(8).inputs)
    return built.eval()


def drawn(seed: int, count: int = 6) -> Batch:
    return Batch(torch.randn(count, *SHAPE, generator=seeded(seed)), torch.arange(count) % CLASSES)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def case(name: str, on: str) -> Case:
    rule, network, batch = methods[name](), small(on), drawn(7)
    return Case(rule, network, rule.feedback(network, batch, seeded(1)), batch)


def supported(name: str, on: str) -> bool:
    """Whether the rule declares that it supports this network."""
    declared = methods[name].networks
    return declared is None or on in declared


def home(name: str) -> str:
    """The primary network where the rule supports it, else the first that it declares."""
    return "resmlp" if supported(name, "resmlp") else (methods[name].networks or ())[0]


PAIRS = [(name, on) for name in methods for on in networks if supported(name, on)]


@pytest.fixture(params=PAIRS, ids="-".join)
def at_work(request: pytest.FixtureRequest) -> Case:
    return case(*request.param)


@pytest.fixture(params=list(methods))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def data(train: int = 48, test: int = 12) -> Dataset:
    """Noise with labels: enough to take three steps an epoch."""
    inputs, labels = drawn(21, train + test)
    return Dataset(
        "noise", Batch(inputs[:train], labels[:train]), Batch(inputs[train:], labels[train:]), CLASSES, (0.0,), (1.0,)
    )


def trained(rule: CreditRule, on: str, epochs: int = 1, **options: object) -> Checkpoint:
    recipe = Recipe(epochs, batch_size=16, learning_rate=1e-3, weight_decay=0.1)
    return fit(small(on), rule, data(), recipe, seed=5, **options)  # type: ignore[arg-type]


@lru_cache
def finished(name: str, on: str) -> Checkpoint:
    """One run of the bare method, for all tests that only look at it."""
    return trained(methods[name](), on)


def everything(case: Case) -> dict[str, Tensor]:
    """Copies of all tensors around a rule."""
    extra = case.feedback.networks
    parts = [case.network.state_dict(), dict(case.feedback.tensors), {} if extra is None else extra.state_dict()]
    return {f"{part}.{key}": t.clone() for part, named in enumerate(parts) for key, t in named.items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def same_credit(one: Credit, other: Credit) -> bool:
    signals = all(torch.equal(a, b) for a, b in zip(one.signals, other.signals, strict=True))
    return signals and same(one.gradients, other.gradients) and torch.equal(one.loss, other.loss)


# --- what a method is -------------------------------------------------------------------------------------------------


def test_the_entry_knows_its_own_name_and_revision(name: str) -> None:
    assert methods[name].name == name
    assert methods[name].revision >= 1


def test_the_facts_of_a_rule_are_complete_and_name_it(name: str) -> None:
    facts = methods[name].facts
    assert facts is not None
    assert facts.name == name
    assert facts.summary == methods[name].summary
    assert facts.summary.endswith(".")
    assert "\n" not in facts.summary
    assert "=" in facts.formula


def test_feedback_is_drawn_exactly_where_the_facts_give_its_law(at_work: Case) -> None:
    facts = at_work.rule.facts
    assert facts is not None
    drawn = bool(at_work.feedback.tensors) or isinstance(at_work.rule, LearntFeedback)
    assert drawn == bool(facts.feedback)


def test_every_declared_network_is_registered_and_every_other_one_is_refused(name: str) -> None:
    declared = methods[name].networks
    assert declared is None or set(declared) <= set(networks)
    for on in networks:
        if supported(name, on):
            case(name, on)  # refusing a network that it declares is a failure of the rule
        else:
            with pytest.raises(InvalidInput):
                case(name, on)


def test_the_record_of_a_run_carries_the_facts_and_every_option_of_its_rule(name: str) -> None:
    record = finished(name, home(name)).record
    assert record.method == methods[name].facts
    assert record.resolved["method"] == name
    for option in dataclasses.fields(methods[name]):  # type: ignore[arg-type]
        assert record.resolved[f"method.{option.name}"] == option.default


def test_a_rule_is_a_value(name: str) -> None:
    """Two of the same options are equal and written alike; nothing in one can be changed."""
    one, other = methods[name](), methods[name]()
    assert one == other
    assert repr(one) == repr(other)
    assert " at 0x" not in repr(one)
    for option in dataclasses.fields(one):  # type: ignore[arg-type]
        assert isinstance(getattr(one, option.name), bool | int | float | str)
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, option.name, None)


def test_every_method_with_credit_works_on_the_primary_network_and_every_network_has_a_method(name: str) -> None:
    assert not methods[name].at_states or (name, "resmlp") in PAIRS
    assert {on for _, on in PAIRS} == set(networks)


# --- feedback ---------------------------------------------------------------------------------------------------------


def test_feedback_is_decided_by_its_generator(at_work: Case) -> None:
    rule, network, feedback, batch = at_work
    again, other = (rule.feedback(network, batch, seeded(seed)) for seed in (1, 2))
    first = everything(at_work)
    assert same(first, everything(at_work._replace(feedback=again)))
    if feedback.tensors or feedback.networks is not None:
        assert not same(first, everything(at_work._replace(feedback=other)))


@pytest.mark.parametrize("training", [True, False])
def test_drawing_feedback_changes_nothing_else(at_work: Case, training: bool) -> None:
    rule, network, _, batch = at_work
    network.train(training)
    before, state = everything(at_work), torch.get_rng_state()
    rule.feedback(network, batch, seeded(1))
    assert same(before, everything(at_work))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(module.training == training for module in network.modules())


def test_fixed_feedback_is_fixed(at_work: Case) -> None:
    assert not any(tensor.requires_grad for tensor in at_work.feedback.tensors.values())


# --- credit -----------------------------------------------------------------------------------------------------------


def test_credit_changes_nothing_and_is_the_same_twice(at_work: Case) -> None:
    before, state = everything(at_work), torch.get_rng_state()
    first, again = at_work.credit(), at_work.credit()
    assert same_credit(first, again)
    assert same(before, everything(at_work))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(p.grad is None and p.requires_grad for p in at_work.network.parameters())


def test_credit_does_not_depend_on_the_callers_gradient_mode(at_work: Case) -> None:
    with torch.no_grad():
        silent = at_work.credit()
    assert same_credit(silent, at_work.credit())


def test_signals_are_one_per_state_of_its_shape_and_without_a_graph(at_work: Case) -> None:
    states = at_work.network.states(at_work.batch.inputs)
    credit = at_work.credit()
    if not at_work.rule.at_states:
        assert credit.signals == ()
        return
    assert [signal.shape for signal in credit.signals] == [state.shape for state in states]
    for signal in credit.signals:
        assert signal.isfinite().all()
        assert signal.abs().max() > 0
        assert not signal.requires_grad


def test_signals_belong_to_samples_not_to_batches(at_work: Case) -> None:
    """In evaluation mode a sample's credit does not depend on its neighbours."""
    order = torch.tensor([4, 0, 5, 1])
    batch = Batch(at_work.batch.inputs[order], at_work.batch.labels[order])
    fewer = at_work.rule.credit(at_work.network, at_work.feedback, batch).signals
    for all_of_them, some in zip(at_work.credit().signals, fewer, strict=True):
        scale = all_of_them.abs().max().item()
        torch.testing.assert_close(some, all_of_them[order], rtol=1e-3, atol=1e-4 * scale)


def test_a_network_in_float64_gives_the_same_credit(at_work: Case) -> None:
    single = at_work.credit().signals
    at_work.network.double()
    batch = Batch(at_work.batch.inputs.double(), at_work.batch.labels)
    for one, two in zip(single, at_work.rule.credit(at_work.network, at_work.feedback, batch).signals, strict=True):
        assert two.dtype == torch.float64
        cosine = F.cosine_similarity(one.double().flatten(1), two.flatten(1))
        assert cosine.min() > 0.999


def test_the_loss_is_the_mean_cross_entropy(at_work: Case) -> None:
    loss = F.cross_entropy(at_work.network(at_work.batch.inputs), at_work.batch.labels)
    torch.testing.assert_close(at_work.credit().loss, loss.detach())


def test_exact_layers_hear_the_gradient(at_work: Case) -> None:
    credit, trace = at_work.credit(), capture(find_stream(at_work.network), at_work.batch)
    for layer in at_work.rule.exact_layers(at_work.network.depth):
        torch.testing.assert_close(credit.signals[layer], trace.gradients[layer], rtol=1e-4, atol=1e-7)


def test_the_head_learns_by_its_exact_gradient_unless_the_rule_declares_otherwise(at_work: Case) -> None:
    network, batch = at_work.network, at_work.batch
    loss = F.cross_entropy(network.readout(network.states(batch.inputs)[-1].detach()), batch.labels)
    *_, (name, head) = [(key, p) for key, p in network.named_parameters() if key.endswith("weight")]
    (expected,) = torch.autograd.grad(loss, head)
    found = at_work.credit().gradients[name]
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-6) == at_work.rule.exact_readout


def test_a_bound_rule_gives_the_signals_of_its_rule(at_work: Case) -> None:
    bound = BoundRule(at_work.rule, at_work.network, at_work.feedback, at_work.batch)
    credit = at_work.credit()
    assert all(torch.equal(a, b) for a, b in zip(bound.signals(at_work.batch), credit.signals, strict=True))
    assert bound.local is not at_work.rule.uses_weights_above
    assert bound.at_states is at_work.rule.at_states
    assert same(bound.updates(at_work.batch), credit.gradients)
    assert bound.exact_layers == at_work.rule.innermost.exact_layers(at_work.network.depth)
    redrawn = bound.redrawn(seeded(9))
    if at_work.feedback.networks is not None or not at_work.feedback.tensors or not at_work.rule.redraws:
        assert redrawn is None
    else:
        assert redrawn is not None
        assert redrawn.feedback.tensors.keys() == at_work.feedback.tensors.keys()
        assert not same(dict(redrawn.feedback.tensors), dict(at_work.feedback.tensors))
        again = at_work.rule.feedback(at_work.network, at_work.batch, seeded(9))
        assert same(dict(redrawn.feedback.tensors), dict(again.tensors))


def test_several_feedbacks_at_once_are_each_feedback_by_itself(at_work: Case) -> None:
    draws = [at_work.rule.feedback(at_work.network, at_work.batch, seeded(seed)) for seed in (3, 4)]
    flags = [p.requires_grad for p in at_work.network.parameters()]
    if draws[0].networks is not None:
        pytest.skip("learns its feedback")
    found = list(at_work.rule.signals_under(at_work.network, draws, at_work.batch))
    for feedback, signals in zip(draws, found, strict=True):
        alone = at_work.rule.credit(at_work.network, feedback, at_work.batch).signals
        assert all(torch.equal(a, b) for a, b in zip(signals, alone, strict=True))
    assert [p.requires_grad for p in at_work.network.parameters()] == flags


# --- gradients and wrappers -------------------------------------------------------------------------------------------


def wrappers(rule: CreditRule) -> list[CreditRule]:
    return [rule, Penalty(rule, 0.1), Frozen(rule), Ladder(rule, 1), Frozen(Penalty(rule, 0.1))]


def test_wrappers_change_what_learns_and_nothing_else(at_work: Case) -> None:
    """Gradients are those of exactly the parameters in scope; feedback and signals stay."""
    plain, before = at_work.credit(), everything(at_work)
    for rule in wrappers(at_work.rule):
        learning = rule.scope(at_work.network).parameters(at_work.network)
        credit = at_work.credit(rule)
        assert credit.gradients.keys() == learning.keys(), rule
        for key, gradient in credit.gradients.items():
            assert gradient.shape == learning[key].shape
            assert gradient.isfinite().all()
            assert not gradient.requires_grad
        for one, two in zip(plain.signals, credit.signals, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
        feedback = rule.feedback(at_work.network, at_work.batch, seeded(1))
        assert same(before, everything(at_work._replace(feedback=feedback)))
        assert rule.innermost is at_work.rule


def test_a_penalty_adds_its_gradient_to_the_last_weight_of_a_block(at_work: Case) -> None:
    """λ times that of the batch mean of ‖f_l(h_l)‖², beside whatever the rule says."""
    network = at_work.network
    state = network.states(at_work.batch.inputs)[-2].detach()
    size = network.branch(network.depth - 1, state).square().sum() / len(at_work.batch.labels)
    named = dict(network.blocks[-1].named_parameters(prefix=f"blocks.{network.depth - 1}"))
    last = [key for key in named if key.endswith("weight")][-1]
    (expected,) = torch.autograd.grad(size, named[last])
    plain = at_work.credit().gradients[last]
    for strength in (0.5, 1.0):
        penalised = at_work.credit(Penalty(at_work.rule, strength)).gradients[last]
        torch.testing.assert_close(penalised - plain, strength * expected, rtol=1e-2, atol=1e-4)


def test_without_blocks_it_works_or_is_refused(at_work: Case) -> None:
    rule = Shallow(at_work.rule)
    try:
        shallow = rule.prepare(at_work.network, at_work.batch)
    except InvalidInput:
        assert at_work.network.depth > 0
        return
    feedback = rule.feedback(shallow, at_work.batch, seeded(1))
    credit = rule.credit(shallow, feedback, at_work.batch)
    assert len(credit.signals) == int(at_work.rule.at_states)
    assert credit.gradients.keys() == dict(shallow.named_parameters()).keys()


# --- learning ---------------------------------------------------------------------------------------------------------


def test_learning_leaves_the_network_to_the_optimiser(at_work: Case) -> None:
    rule, network, feedback, batch = at_work
    before = {key: p.detach().clone() for key, p in network.named_parameters()}
    descent = Descent.of(torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.1))
    moment = Moment(0.5, seeded(3), descent=descent)
    credit = rule.learn(network, rule.equip(feedback, descent), batch, moment, Scope())
    assert same(before, {key: p.detach() for key, p in network.named_parameters()})
    assert credit.gradients.keys() <= before.keys()
    assert all(value.dim() == 0 for value in credit.auxiliary.values())


@pytest.mark.parametrize(("name", "on"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_frozen_blocks_stay_bit_identical_while_the_rest_learns(name: str, on: str) -> None:
    """Weight decay included. BatchNorm's statistics are not weights: they follow the stream."""
    start, end = small(on), trained(Frozen(methods[name]()), on).network
    for (key, before), after in zip(start.named_parameters(), end.parameters(), strict=True):
        assert torch.equal(before, after) == key.startswith("blocks."), key


def test_rungs_of_the_ladder_leave_the_lower_blocks_alone(name: str) -> None:
    on = home(name)
    start, end = small(on), trained(Ladder(methods[name](), 1), on).network
    moved = {key for key, before in start.named_parameters() if not torch.equal(before, end.get_parameter(key))}
    assert not any(key.startswith("blocks.0.") for key in moved)
    assert any(key.startswith(f"blocks.{end.depth - 1}.") for key in moved)
    assert all(
        any(key.startswith(part) for key in moved) for part in ("embed.", "out_head." if on == "resmlp" else "head.")
    )


@pytest.mark.parametrize(("name", "on"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_a_run_moves_every_weight_and_ends_twice_with_the_same_bits(name: str, on: str) -> None:
    start, one, two = small(on), finished(name, on), trained(methods[name](), on)
    assert same(one.tensors(), two.tensors())
    assert one.record.history == two.record.history
    assert one.record.diverged is None
    for key, before in start.named_parameters():
        assert not torch.equal(before, one.network.get_parameter(key)), key


@pytest.mark.parametrize(("name", "on"), [pair for pair in PAIRS if pair[1] in (home(pair[0]), "small_cnn")])
def test_interrupted_and_resumed_equals_uninterrupted(name: str, on: str, tmp_path: Path) -> None:
    rule, snapshot = wrapped(methods[name](), penalty=0.1, control="ladder-1"), tmp_path / "snapshot"
    whole = trained(rule, on, epochs=2)

    def interrupt(row: HistoryRow) -> None:
        if row.epoch == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(rule, on, epochs=2, on_epoch=interrupt, snapshot=snapshot, snapshot_seconds=0.0)
    resumed = trained(rule, on, epochs=2, snapshot=snapshot)
    assert same(whole.tensors(), resumed.tensors())
    assert whole.record.history == resumed.record.history


@pytest.mark.parametrize(("name", "on"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_credit_survives_the_checkpoint(name: str, on: str, tmp_path: Path) -> None:
    before = finished(name, on)
    parts = read_tensors(before.save(tmp_path / "run"))
    network = build_like(on)
    load_weights(network, parts["network"], "the file")
    drawn_again = before.rule.feedback(network, before.example, seeded(77))
    if drawn_again.networks is not None:
        load_weights(drawn_again.networks, parts["auxiliary"], "the file")
    after = Checkpoint(
        network, before.rule, Feedback(parts["feedback"], drawn_again.networks), before.record, before.example
    )
    batch = drawn(7)
    credits = [c.rule.credit(c.network, c.feedback, batch) for c in (before, after)]
    assert same_credit(*credits)
    assert RunRecord.from_json(tmp_path / "run" / "record.json") == before.record


def build_like(on: str) -> nn.Module:
    """Another network of the same kind, in evaluation mode."""
    network = small(on)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(1.0)
    return network
