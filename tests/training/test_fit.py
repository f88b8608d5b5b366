"""fit: one recipe, every bit from the seed, and a record that says when and why a run ended."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from creditscope import __version__
from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.datasets.tensors import Dataset
from creditscope.errors import BadFile, DamagedFile, InvalidInput
from creditscope.methods.bp import Backprop
from creditscope.methods.dfa import DirectFeedback
from creditscope.methods.fa import BlockFeedback
from creditscope.methods.rule import EVERYTHING, CreditRule, Diverged, Feedback, Moment, Scope, run_generator
from creditscope.methods.wrappers import Frozen, Penalty
from creditscope.networks.build import build
from creditscope.networks.staged import StagedNetwork
from creditscope.records.run import HistoryRow
from creditscope.training.checkpoint import Checkpoint
from creditscope.training.fit import fit
from creditscope.training.recipe import Recipe
from creditscope.training.snapshots import Snapshot, read_snapshot, write_snapshot

RECIPE = Recipe(epochs=2, batch_size=16, learning_rate=1e-2)
CLASSES = 3


def images(train: int = 50, test: int = 40, **options: Any) -> Dataset:
    """uint8 noise images with labels that can be learnt: the class brightens a channel."""
    generator = torch.Generator().manual_seed(4)
    labels = torch.arange(train + test) % CLASSES
    inputs = torch.randint(0, 200, (train + test, 3, 8, 8), generator=generator, dtype=torch.uint8)
    inputs[torch.arange(train + test), labels] += 40
    parts = Batch(inputs[:train], labels[:train]), Batch(inputs[train:], labels[train:])
    return Dataset("images", *parts, CLASSES, (0.4,) * 3, (0.25,) * 3, **options)


def network(name: str = "resmlp", **options: int) -> StagedNetwork:
    options = options or {"resmlp": {"d": 16, "depth": 2}, "small_cnn": {"channels": 4, "width": 8}}.get(name, {})
    return build(name, (3, 8, 8), CLASSES, 42, **options)


def trained(rule: CreditRule | None = None, recipe: Recipe = RECIPE, *, seed: int = 42, **options: Any) -> Checkpoint:
    data = options.pop("data", images())
    return fit(options.pop("network", network()), rule or DirectFeedback(), data, recipe, seed=seed, **options)


def same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


# --- the recipe -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epochs", [1, 2, 7, 100])
def test_the_schedule_is_the_cosine_of_pytorch(epochs: int) -> None:
    recipe = Recipe(epochs=epochs, learning_rate=3e-3)
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=recipe.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=epochs)
    for epoch in range(epochs):
        assert recipe.rate(epoch) == pytest.approx(schedule.get_last_lr()[0], rel=1e-9)
        optimiser.step()
        schedule.step()
    assert recipe.rate(0) == recipe.learning_rate
    assert recipe.rate(epochs) == pytest.approx(0.0, abs=1e-18)


def plain_batches(data: Dataset, recipe: Recipe, generator: torch.Generator) -> list[Batch]:
    """The batches of one epoch, as the recipe says: a random order, the last partial batch dropped."""
    order = torch.randperm(len(data.train.labels), generator=generator)
    pieces = order[: len(order) // recipe.batch_size * recipe.batch_size].split(recipe.batch_size)
    return [data.training_batch(piece, generator) for piece in pieces]


@pytest.mark.parametrize("name", ["resmlp", "small_cnn", "small_resnet", "vit_mini"])
def test_backprop_is_the_loop_that_everybody_writes(name: str) -> None:
    """loss.backward(), AdamW, a cosine schedule; on convolutions too, whose gradients arrive channels-last.

    Not to the last digit: Adam magnifies the rounding of gradients that are zero in theory (the keys' biases).
    """
    data = images(crop=1, flip=True)
    slow, generator = network(name).train(), run_generator(42)
    optimiser = torch.optim.AdamW(slow.parameters(), lr=RECIPE.learning_rate, weight_decay=RECIPE.weight_decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=RECIPE.epochs)
    losses = []
    for _ in range(RECIPE.epochs):
        for batch in plain_batches(data, RECIPE, generator):
            optimiser.zero_grad()
            loss = F.cross_entropy(slow(batch.inputs), batch.labels)
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        schedule.step()
    fast = trained(Backprop(), data=data, network=network(name))
    means = [row.loss for row in fast.record.history]
    assert means == pytest.approx([sum(losses[:3]) / 3, sum(losses[3:]) / 3], rel=1e-3)
    for key, parameter in slow.named_parameters():
        moved = (parameter - network(name).get_parameter(key)).norm()
        assert (parameter - fast.network.get_parameter(key)).norm() < 0.15 * moved, key


def direct(net: StagedNetwork, states: list[Tensor], labels: Tensor, matrices: list[Tensor]) -> list[Tensor]:
    """a_l = e B_l, each sample's at rms 1."""
    error = F.softmax(net.readout(states[-1]), 1) - F.one_hot(labels, CLASSES)
    signals = [error @ matrix for matrix in matrices]
    return [signal / signal.square().mean(1, keepdim=True).sqrt() for signal in signals]


def backwards(net: StagedNetwork, states: list[Tensor], labels: Tensor, matrices: list[Tensor]) -> list[Tensor]:
    """a_L = g_L, a_l = a_{l+1} B_l, each batch's at rms 1."""
    with torch.enable_grad():
        deepest = states[-1].detach().requires_grad_()
        loss = F.cross_entropy(net.readout(deepest), labels, reduction="sum")
    signals = list(torch.autograd.grad(loss, deepest))
    for matrix in reversed(matrices):
        signals.insert(0, signals[0] @ matrix)
    return [signal / signal.square().mean().sqrt() for signal in signals]


@pytest.mark.parametrize(
    ("rule", "matrices", "credit"),
    [
        (DirectFeedback(), [(CLASSES, 24)] * 3, direct),
        (Frozen(DirectFeedback()), [(CLASSES, 24)] * 3, direct),
        (BlockFeedback(), [(24, 24)] * 2, backwards),
    ],
    ids=["dfa", "frozen dfa", "fa"],
)
def test_a_plain_loop_with_the_same_draws_gives_the_same_network(
    rule: CreditRule, matrices: list[tuple[int, int]], credit: Any
) -> None:
    """Local losses by hand, PyTorch's own AdamW and schedule, feedback and order from the run's generator."""
    data, slow, generator = images(), build("resmlp", (3, 8, 8), CLASSES, 42, d=24, depth=2), run_generator(42)
    slow.blocks.requires_grad_(not isinstance(rule, Frozen))
    feedback = [torch.randn(shape, generator=generator) / shape[0] ** 0.5 for shape in matrices]
    optimiser = torch.optim.AdamW([p for p in slow.parameters() if p.requires_grad], lr=1e-2, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=RECIPE.epochs)
    for _ in range(RECIPE.epochs):
        for inputs, labels in plain_batches(data, RECIPE, generator):
            optimiser.zero_grad()
            with torch.no_grad():
                states = slow.states(inputs)
                signals = credit(slow, states, labels, feedback)
            outputs = [slow.embedding(inputs), *(slow.branch(layer, states[layer]) for layer in range(slow.depth))]
            local = sum((output * signal).sum(1).mean() for output, signal in zip(outputs, signals, strict=True))
            (F.cross_entropy(slow.readout(states[-1]), labels) + local).backward()
            optimiser.step()
        schedule.step()
    fast = trained(rule, data=data, network=build("resmlp", (3, 8, 8), CLASSES, 42, d=24, depth=2))
    for name, parameter in slow.named_parameters():
        torch.testing.assert_close(fast.network.get_parameter(name), parameter.detach(), rtol=1e-3, atol=1e-5)


def test_one_optimiser_over_all_stages_is_one_per_block() -> None:
    """AdamW acts per element: bit for bit the same."""
    data, rule, slow = images(), BlockFeedback(), network()
    generator = run_generator(42)
    feedback = rule.feedback(slow, Batch(data.prepare(data.train.inputs[:2]), data.train.labels[:2]), generator)
    stages = [slow.embed, *slow.blocks, slow.out_ln, slow.out_head]
    optimisers = [torch.optim.AdamW(stage.parameters(), fused=True) for stage in stages]  # type: ignore[union-attr]
    for epoch in range(RECIPE.epochs):
        for optimiser in optimisers:
            optimiser.param_groups[0]["lr"] = RECIPE.rate(epoch)
        for batch in plain_batches(data, RECIPE, generator):
            for key, gradient in rule.credit(slow.train(), feedback, batch).gradients.items():
                slow.get_parameter(key).grad = gradient
            for optimiser in optimisers:
                optimiser.step()
    assert same(slow.state_dict(), trained(rule).network.state_dict())


def test_decay_pulls_what_has_no_gradient_nowhere() -> None:
    """Frozen blocks are not in the optimiser: neither steps nor weight decay reach them."""
    end = trained(Frozen(DirectFeedback()), replace(RECIPE, weight_decay=5.0)).network
    assert same(network().blocks.state_dict(), end.blocks.state_dict())
    assert not torch.equal(network().get_parameter("embed.weight"), end.get_parameter("embed.weight"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epochs": -1}, "epochs must be a whole number of at least 0, got -1"),
        ({"epochs": 1.5}, "epochs must be .* got 1.5"),
        ({"epochs": True}, "epochs must be .* got True"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, got 0"),
        ({"learning_rate": 0.0}, "learning_rate must be > 0 and weight_decay ≥ 0, both finite, got 0 and 0.01"),
        ({"learning_rate": math.nan}, "got nan and 0.01"),
        ({"learning_rate": math.inf}, "got inf and 0.01"),
        ({"weight_decay": -0.1}, "weight_decay ≥ 0, both finite, got 0.001 and -0.1"),
        ({"weight_decay": math.inf}, "got 0.001 and inf"),
    ],
)
def test_a_recipe_that_trains_nothing_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Recipe(**wrong)


def test_a_batch_larger_than_the_data_is_refused() -> None:
    with pytest.raises(InvalidInput, match="A batch size of 51 exceeds the 50 training samples of images") as found:
        trained(recipe=replace(RECIPE, batch_size=51))
    assert "Choose a smaller batch size" in str(found.value)


# --- the seed ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [Backprop(), DirectFeedback(), BlockFeedback(), Penalty(DirectFeedback(), 0.1)])
def test_the_same_seed_gives_the_same_bits(rule: CreditRule) -> None:
    state = torch.get_rng_state()
    one = trained(rule, data=images(crop=1, flip=True))
    torch.manual_seed(999)  # nothing is drawn from the global generator
    two = trained(rule, data=images(crop=1, flip=True))
    assert same(one.tensors(), two.tensors())
    assert one.record.history == two.record.history
    torch.set_rng_state(state)


def test_the_global_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    trained(data=images(crop=1, flip=True))
    assert torch.equal(torch.get_rng_state(), before)


def test_another_seed_gives_another_run() -> None:
    one, two = trained(seed=1), trained(seed=2)
    assert not torch.equal(one.feedback.tensors["B.0"], two.feedback.tensors["B.0"])
    assert not torch.equal(one.network.get_parameter("embed.weight"), two.network.get_parameter("embed.weight"))


def test_the_run_has_a_stream_of_its_own_for_every_seed() -> None:
    draws = {tuple(torch.rand(4, generator=run_generator(seed)).tolist()) for seed in range(50)}
    assert len(draws) == 50
    assert tuple(torch.rand(4, generator=torch.Generator().manual_seed(3)).tolist()) not in draws


def test_random_labels_are_drawn_once_and_the_data_stay_as_they_were() -> None:
    data, seen = images(), []

    class Watching(Backprop):
        def learn(
            self, network: StagedNetwork, feedback: Feedback, batch: Batch, moment: Moment, scope: Scope = EVERYTHING
        ) -> Credit:
            seen.append({tuple(x.flatten()[:5].tolist()): int(y) for x, y in zip(*batch, strict=True)})
            return self.credit(network, feedback, batch, scope)

    trained(Watching(), replace(RECIPE, random_labels=True), data=data)
    first, again = ({k: v for step in seen[i : i + 3] for k, v in step.items()} for i in (0, 3))
    assert all(first[image] == again[image] for image in first.keys() & again.keys())
    assert same(data.train._asdict(), images().train._asdict())
    prepared = {
        tuple(x.flatten()[:5].tolist()): int(y)
        for x, y in zip(data.prepare(data.train.inputs), data.train.labels, strict=True)
    }
    changed = sum(prepared[image] != label for image, label in first.items())
    assert 0.4 < changed / len(first) < 0.95


def test_without_augmentation_images_come_as_they_are() -> None:
    plain = trained(data=images(crop=1, flip=True), recipe=replace(RECIPE, augment=False))
    assert same(plain.tensors(), trained(data=images()).tensors())
    assert not same(plain.tensors(), trained(data=images(crop=1, flip=True)).tensors())


def test_progress_runs_from_nothing_to_almost_all() -> None:
    seen = []

    class Watching(Backprop):
        def learn(
            self, network: StagedNetwork, feedback: Feedback, batch: Batch, moment: Moment, scope: Scope = EVERYTHING
        ) -> Credit:
            seen.append((moment.progress, len(batch.labels), network.training))
            return self.credit(network, feedback, batch, scope)

    trained(Watching())
    assert [progress for progress, _, _ in seen] == pytest.approx([step / 6 for step in range(6)])
    assert {(size, training) for _, size, training in seen} == {(16, True)}  # 50 samples: the last 2 are dropped


# --- the history ------------------------------------------------------------------------------------------------------


def slow_row(checkpoint: Checkpoint, data: Dataset) -> dict[str, list[float] | float]:
    """Norms, D1, D2 and Γ in float64, one sample at a time."""
    net = checkpoint.network.double().eval()
    hidden: list[list[float]] = [[] for _ in range(net.depth + 1)]
    gradient: list[list[float]] = [[] for _ in range(net.depth + 1)]
    cosines: list[list[float]] = [[] for _ in range(net.depth + 1)]
    for image, label in zip(data.prepare(data.test.inputs)[:1024].double(), data.test.labels, strict=False):
        batch = Batch(image[None], label[None])
        states = net.states(batch.inputs)
        loss = F.cross_entropy(net.readout(states[-1]), batch.labels)
        gradients = torch.autograd.grad(loss, states)
        signals = checkpoint.rule.credit(net, checkpoint.feedback, batch).signals
        for layer, (h, g, a) in enumerate(zip([h.detach() for h in states], gradients, signals, strict=True)):
            hidden[layer].append(float((h[0] ** 2).sum() ** 0.5))
            gradient[layer].append(float((g[0] ** 2).sum() ** 0.5))
            cosines[layer].append(float((a[0] * g[0]).sum() / ((a[0] ** 2).sum() * (g[0] ** 2).sum()) ** 0.5))
    medians = [[sorted(values)[(len(values) - 1) // 2] for values in side] for side in (hidden, gradient)]
    return {
        "hidden_norms": medians[0],
        "gradient_norms": medians[1],
        "d1": max(after / before for before, after in zip(medians[0], medians[0][1:], strict=False)),
        "d2": medians[1][-1] / 128,
        "gamma": [sum(values) / len(values) for values in cosines],
    }


@pytest.mark.parametrize("rule", [Backprop(), DirectFeedback(), BlockFeedback()])
def test_the_last_row_is_what_a_slow_twin_measures(rule: CreditRule) -> None:
    data = images()
    checkpoint = trained(rule, data=data)
    row = checkpoint.record.history[-1]
    for name, expected in slow_row(checkpoint, data).items():
        assert getattr(row, name) == pytest.approx(expected, rel=1e-3, abs=1e-6), name


def test_accuracy_is_the_share_of_the_whole_test_set_that_is_right() -> None:
    data = images(test=1100)  # more than one batch of the evaluation, and more than the 1,024 of the probe
    checkpoint = trained(Backprop(), replace(RECIPE, epochs=1), data=data)
    answers = [checkpoint.network(data.prepare(image[None])).argmax().item() for image in data.test.inputs]
    right = sum(answer == label for answer, label in zip(answers, data.test.labels.tolist(), strict=True))
    assert checkpoint.record.accuracy == right / 1100
    assert checkpoint.record.test_images == 1100


def test_rows_are_complete_and_handed_out_as_they_come() -> None:
    rows: list[HistoryRow] = []
    record = trained(recipe=replace(RECIPE, epochs=3), on_epoch=rows.append).record
    assert tuple(rows) == record.history
    assert [row.epoch for row in rows] == [0, 1, 2]
    for row in rows:
        assert {len(row.hidden_norms), len(row.gradient_norms), len(row.gamma), len(row.gamma_clamped)} == {3}
        numbers = [row.loss, row.accuracy, row.d1, row.d2, *row.hidden_norms, *row.gradient_norms, *row.gamma]
        assert all(math.isfinite(number) for number in numbers)


def test_no_epoch_leaves_one_row_of_the_untrained_network() -> None:
    checkpoint = trained(recipe=replace(RECIPE, epochs=0))
    (row,) = checkpoint.record.history
    assert row.epoch == -1
    assert math.isnan(row.loss)
    assert row.hidden_norms == pytest.approx(slow_row(checkpoint, images())["hidden_norms"], rel=1e-4)
    assert same(network().state_dict(), checkpoint.network.float().state_dict())


def test_a_network_without_blocks_has_no_growth() -> None:
    (row,) = trained(recipe=replace(RECIPE, epochs=1), network=network("resmlp", depth=0, d=8)).record.history
    assert math.isnan(row.d1)
    assert row.d2 > 0


def test_the_record_says_where_the_numbers_come_from() -> None:
    data = images()
    record = trained(data=data, spec={"method": "dfa"}).record
    assert record.spec == {"method": "dfa"}
    assert record.versions["creditscope"] == __version__
    assert record.versions["torch"] == torch.__version__
    assert record.device == "cpu"
    assert record.data_checksum == data.checksum
    assert record.timings["seconds"] > 0


def test_after_training_the_network_is_in_evaluation_mode() -> None:
    assert not any(module.training for module in trained(Backprop(), network=network("small_cnn")).network.modules())


# --- a run that ends early --------------------------------------------------------------------------------------------


def test_a_diverged_run_stops_and_says_when_and_why() -> None:
    record = trained(recipe=replace(RECIPE, epochs=50, learning_rate=1e6)).record
    assert record.diverged is not None
    assert record.diverged.epoch == record.history[-1].epoch < 49
    assert record.diverged.step is not None
    assert "the training loss was nan" in record.diverged.why
    assert math.isnan(record.history[-1].loss)


@dataclass(frozen=True)
class Saboteur(Backprop):
    """Backprop, until something goes wrong at a step of the test's choice."""

    step: int = 0
    how: str = "raise"

    def learn(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, moment: Moment, scope: Scope = EVERYTHING
    ) -> Credit:
        credit = self.credit(network, feedback, batch, scope)
        if round(moment.progress * 6) == self.step:
            if self.how == "raise":
                raise Diverged("the states did not settle")
            if self.how == "loss":
                return replace(credit, loss=credit.loss * math.inf)
            broken = {**credit.gradients, "embed.bias": credit.gradients["embed.bias"] * math.nan}
            return replace(credit, gradients=broken)
        return credit

    def objection(self, auxiliary: Mapping[str, float]) -> str | None:
        return "the rule objects" if self.how == "object" else None


@pytest.mark.parametrize(
    ("step", "how", "epoch", "at", "why"),
    [
        (0, "raise", 0, 0, "the states did not settle"),
        (4, "raise", 1, 1, "the states did not settle"),
        (2, "loss", 0, 2, "the training loss was inf"),
        (1, "weights", 0, 2, "the training loss was nan"),
        (5, "weights", 1, None, "not every number in embed.bias was finite after the last step"),
        (9, "object", 0, None, "the rule objects"),
    ],
)
def test_every_way_to_end_early_is_written_down(step: int, how: str, epoch: int, at: int | None, why: str) -> None:
    record = trained(Saboteur(step=step, how=how)).record
    assert record.diverged is not None
    assert (record.diverged.epoch, record.diverged.step) == (epoch, at)
    assert why in record.diverged.why
    assert len(record.history) == epoch + 1


def test_a_rule_without_credit_stops_before_a_weight_is_touched() -> None:
    assert same(trained(Saboteur(step=0)).network.state_dict(), network().state_dict())


def test_a_sound_run_is_not_called_diverged() -> None:
    assert trained().record.diverged is None


# --- interruptions ----------------------------------------------------------------------------------------------------


def interrupted(path: Path, after: int, rule: CreditRule, **options: Any) -> None:
    """Run until the epoch after the `after`-th is measured but not yet saved."""

    def stop(row: HistoryRow) -> None:
        if row.epoch == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(rule, snapshot=path, snapshot_seconds=0.0, on_epoch=stop, **options)


@pytest.mark.parametrize("after", [1, 2, 3])
@pytest.mark.parametrize("name", ["resmlp", "small_cnn"])
def test_interrupted_and_resumed_equals_uninterrupted(name: str, after: int, tmp_path: Path) -> None:
    data, recipe, path = images(crop=1, flip=True), replace(RECIPE, epochs=4), tmp_path / "snapshot"
    rule = Penalty(DirectFeedback(), 0.1)
    whole = trained(rule, recipe, data=data, network=network(name))
    interrupted(path, after, rule, recipe=recipe, data=data, network=network(name))
    rows: list[HistoryRow] = []
    resumed = trained(rule, recipe, data=data, network=network(name), snapshot=path, on_epoch=rows.append)
    assert same(whole.tensors(), resumed.tensors())
    assert whole.record.history == resumed.record.history
    assert [row.epoch for row in rows] == list(range(after, 4))


def test_interrupted_twice_is_no_different(tmp_path: Path) -> None:
    recipe, path = replace(RECIPE, epochs=5), tmp_path / "snapshot"
    for after in (2, 4):
        interrupted(path, after, DirectFeedback(), recipe=recipe)
    assert same(trained(recipe=recipe).tensors(), trained(recipe=recipe, snapshot=path).tensors())


def test_the_snapshot_of_a_finished_run_gives_its_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    once = trained(snapshot=path, snapshot_seconds=0.0)
    again = trained(snapshot=path)
    assert same(once.tensors(), again.tensors())
    assert once.record.history == again.record.history


def test_a_diverged_run_leaves_no_snapshot_from_after_the_fact(tmp_path: Path) -> None:
    """Resumed from before, it diverges again and says the same."""
    rule, path = Saboteur(step=4), tmp_path / "snapshot"
    first = trained(rule, snapshot=path, snapshot_seconds=0.0).record
    again = trained(rule, snapshot=path).record
    assert first.diverged == again.diverged
    assert first.diverged is not None
    assert len(first.history) == len(again.history) == 2


def test_snapshots_are_written_no_more_often_than_asked(tmp_path: Path) -> None:
    trained(snapshot=tmp_path / "snapshot", snapshot_seconds=3600.0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 43},
        {"rule": DirectFeedback("batch")},
        {"recipe": replace(RECIPE, epochs=3)},
        {"data": images(train=60)},
        {"data": images(flip=True)},
        {"network": network("resmlp", d=16, depth=3)},
        {"network": build("resmlp", (3, 8, 8), CLASSES, 43, d=16, depth=2)},
    ],
    ids=["seed", "rule", "recipe", "data", "augmentation", "depth", "weights"],
)
def test_the_snapshot_of_another_run_is_refused(other: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    interrupted(path, 1, DirectFeedback())
    with pytest.raises(BadFile, match="is the snapshot of another run") as found:
        trained(**other, snapshot=path)
    assert "would mix two runs in one record. Remove it" in str(found.value)


def without_generator(found: Snapshot) -> Snapshot:
    return replace(found, tensors={name: t for name, t in found.tensors.items() if name != "generator"})


@pytest.mark.parametrize(
    "change",
    [
        without_generator,
        lambda found: replace(found, tensors={name: t.flatten()[:1] for name, t in found.tensors.items()}),
        lambda found: replace(found, tensors=found.tensors | {"optimiser.x.y": torch.ones(1)}),
        lambda found: replace(found, history=found.history * 9),
        lambda found: replace(found, history=found.history[1:]),
    ],
)
def test_a_snapshot_that_does_not_fit_its_run_is_refused(change: Any, tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    trained(snapshot=path, snapshot_seconds=0.0)
    write_snapshot(path, change(read_snapshot(path)))
    with pytest.raises(DamagedFile, match=f"The snapshot {re.escape(str(path))} does not fit its run"):
        trained(snapshot=path)
