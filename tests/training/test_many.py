"""fit_many: runs that step together end as they would alone."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.datasets.tensors import Dataset
from creditscope.errors import InvalidInput
from creditscope.methods import methods
from creditscope.methods.bp import Backprop
from creditscope.methods.dfa import DirectFeedback
from creditscope.methods.rule import EVERYTHING, CreditRule, Feedback, Scope
from creditscope.methods.wrappers import wrapped
from creditscope.networks.build import build
from creditscope.networks.staged import StagedNetwork
from creditscope.training.checkpoint import Checkpoint
from creditscope.training.fit import fit
from creditscope.training.many import fit_many
from creditscope.training.recipe import Recipe
from creditscope.training.run import begin
from creditscope.training.stack import Stack, first_batch
from creditscope.training.stacked import Stacked, Unstackable

RECIPE = Recipe(epochs=2, batch_size=16, learning_rate=1e-2)
SEEDS = (0, 1, 2)
# PyTorch multiplies matrices of less than 400 products in all by another kernel where they are batched: none is here
NETWORKS: dict[str, dict[str, Any]] = {
    "resmlp": {"d": 16, "depth": 2},
    "mlp": {"widths": (16,), "depth": 2},
    "small_cnn": {"channels": 4, "width": 16},
    "small_resnet": {"channels": 8, "depth": 2},
    "vit_mini": {"d": 16, "depth": 1, "heads": 2},
}


def images() -> Dataset:
    generator = torch.Generator().manual_seed(4)
    labels = torch.arange(88) % 3
    inputs = torch.randint(0, 200, (88, 3, 8, 8), generator=generator, dtype=torch.uint8)
    inputs[torch.arange(88), labels] += 40
    parts = Batch(inputs[:48], labels[:48]), Batch(inputs[48:], labels[48:])
    return Dataset("images", *parts, 3, (0.4,) * 3, (0.25,) * 3, crop=1, flip=True)


DATA = images()


def networks(name: str = "resmlp", seeds: Sequence[int] = SEEDS) -> list[StagedNetwork]:
    return [build(name, DATA.shape, DATA.classes, seed, **NETWORKS[name]) for seed in seeds]


def alone(rules: Sequence[CreditRule], recipes: Sequence[Recipe], name: str = "resmlp") -> list[Checkpoint]:
    each = zip(networks(name), rules, recipes, SEEDS, strict=True)
    return [fit(network, rule, DATA, recipe, seed=seed) for network, rule, recipe, seed in each]


def content(checkpoint: Checkpoint) -> dict[str, Any]:
    """All of a record but the time that the run took."""
    return checkpoint.record.model_dump(mode="json", exclude={"timings"})


def the_same(many: Sequence[Checkpoint], one: Sequence[Checkpoint]) -> None:
    """Every bit of the tensors, and the records."""
    for stacked, single in zip(many, one, strict=True):
        tensors, expected = stacked.tensors(), single.tensors()
        assert tensors.keys() == expected.keys()
        for name, tensor in tensors.items():
            assert torch.equal(tensor, expected[name]), name
        assert content(stacked) == content(single)


def at_once(checkpoints: Sequence[Checkpoint]) -> list[float]:
    return [checkpoint.record.timings.get("at_once", 1) for checkpoint in checkpoints]


# --- as alone ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["bp", "dfa", "fa", "drtp", "fa_weights", "sign_symmetry"])
def test_runs_that_differ_in_seed_rate_and_penalty_end_with_the_bits_of_single_runs(method: str) -> None:
    rules = [wrapped(methods[method](), penalty=penalty) for penalty in (1e-2, 1e-3, 3e-2)]
    recipes = [replace(RECIPE, learning_rate=rate) for rate in (1e-2, 3e-3, 1e-2)]
    many = fit_many(networks(), rules, DATA, recipes, seeds=SEEDS)
    assert at_once(many) == [3, 3, 3]
    the_same(many, alone(rules, recipes))


@pytest.mark.parametrize(
    ("name", "method", "control"),
    [
        ("small_cnn", "fa", "none"),  # channels-last
        ("small_resnet", "dfa", "none"),  # BatchNorm
        ("small_resnet", "fa_weights", "none"),
        ("mlp", "pepita", "none"),
        ("resmlp", "dfa", "frozen"),
        ("resmlp", "bp", "ladder-1"),
    ],
)
def test_other_networks_and_controls_end_with_the_bits_of_single_runs(name: str, method: str, control: str) -> None:
    rules = [wrapped(methods[method](), control=control)] * 3
    many = fit_many(networks(name), rules, DATA, RECIPE, seeds=SEEDS)
    assert at_once(many) == [3, 3, 3]
    the_same(many, alone(rules, [RECIPE] * 3, name))


@pytest.mark.parametrize(
    "change", [{"random_labels": True}, {"loss": "squared_error"}, {"optimiser": "sgd"}, {"augment": False}]
)
def test_every_recipe_ends_with_the_bits_of_single_runs(change: dict[str, Any]) -> None:
    recipe = replace(RECIPE, **change)
    many = fit_many(networks(), DirectFeedback(), DATA, recipe, seeds=SEEDS)
    assert at_once(many) == [3, 3, 3]
    the_same(many, alone([DirectFeedback()] * 3, [recipe] * 3))


def test_a_step_of_a_vision_transformer_is_within_1e_5_of_the_single_one() -> None:
    """The slope of a sliced sum is laid out otherwise in a stack, and sums round otherwise."""
    runs = [
        begin(network, Backprop(), DATA, RECIPE, seed)
        for network, seed in zip(networks("vit_mini"), SEEDS, strict=True)
    ]
    stack = Stack.of(runs)  # which refuses more than 1e-5 of a tensor's largest gradient
    batches = [first_batch(run) for run in runs]
    found = stack.credit(Batch(*(Stacked.of(parts) for parts in zip(*batches, strict=True))))
    for index, (run, batch) in enumerate(zip(runs, batches, strict=True)):
        for name, gradient in run.rule.credit(run.network, run.feedback, batch).gradients.items():
            error = (found.gradients[name].together[index] - gradient).abs().max()  # type: ignore[attr-defined]
            assert error <= 1e-5 * gradient.abs().max(), name


# --- ends -------------------------------------------------------------------------------------------------------------


def test_a_run_that_diverges_leaves_the_others_as_they_are() -> None:
    recipes = [RECIPE, replace(RECIPE, learning_rate=1e30), RECIPE]
    many = fit_many(networks(), Backprop(), DATA, recipes, seeds=SEEDS)
    single = alone([Backprop()] * 3, recipes)
    assert [checkpoint.record.diverged is None for checkpoint in many] == [True, False, True]
    assert many[1].record.diverged == single[1].record.diverged
    the_same([many[0], many[2]], [single[0], single[2]])


def test_runs_with_batch_norm_are_stacked_again_after_one_of_them_has_ended() -> None:
    """The stack of two is formed from runs that have just been measured in evaluation mode."""
    recipes = [RECIPE, replace(RECIPE, learning_rate=1e30), RECIPE]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # "trained one after another"
        many = fit_many(networks("small_resnet"), DirectFeedback(), DATA, recipes, seeds=SEEDS)
    assert [len(checkpoint.record.history) for checkpoint in many] == [2, 1, 2]
    single = alone([DirectFeedback()] * 3, recipes, "small_resnet")
    the_same([many[0], many[2]], [single[0], single[2]])


def test_interrupted_runs_resume_from_unequal_snapshots_and_end_with_the_same_bits(tmp_path: Path) -> None:
    """The second run was ahead: trained alone for an epoch, before all three are trained together."""
    recipe, snapshots = replace(RECIPE, epochs=3), [tmp_path / f"{seed}.snapshot" for seed in SEEDS]
    rows: list[int] = []

    def stop(index: int, row: Any) -> None:
        rows.append(index)
        if rows.count(index) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_many(
            networks(seeds=[1]), DirectFeedback(), DATA, recipe, seeds=[1], snapshots=[snapshots[1]],
            snapshot_seconds=0.0, on_epoch=stop,
        )  # fmt: skip
    rows.clear()
    with pytest.raises(KeyboardInterrupt):
        fit_many(
            networks(), DirectFeedback(), DATA, recipe, seeds=SEEDS, snapshots=snapshots, snapshot_seconds=0.0,
            on_epoch=stop,
        )  # fmt: skip
    assert all(path.exists() for path in snapshots)
    many = fit_many(networks(), DirectFeedback(), DATA, recipe, seeds=SEEDS, snapshots=snapshots)
    assert [len(checkpoint.record.history) for checkpoint in many] == [3, 3, 3]
    the_same(many, alone([DirectFeedback()] * 3, [recipe] * 3))


# --- what is not stacked ----------------------------------------------------------------------------------------------


def test_rules_with_a_state_of_their_own_are_trained_one_after_another() -> None:
    rules = [methods["kolen_pollack"]()] * 3
    many = fit_many(networks(), rules, DATA, RECIPE, seeds=SEEDS)
    assert at_once(many) == [1, 1, 1]
    the_same(many, alone(rules, [RECIPE] * 3))


def test_runs_of_two_forms_make_two_stacks() -> None:
    rules = [DirectFeedback(), Backprop(), DirectFeedback()]
    many = fit_many(networks(), rules, DATA, RECIPE, seeds=SEEDS)
    assert at_once(many) == [2, 1, 2]
    the_same(many, alone(rules, [RECIPE] * 3))


def test_feedback_that_differs_in_its_scale_alone_is_stacked() -> None:
    rules = [methods["fa_weights"](scale=scale) for scale in (0.5, 1.0, 2.0)]
    many = fit_many(networks(), rules, DATA, RECIPE, seeds=SEEDS)
    assert at_once(many) == [3, 3, 3]
    the_same(many, alone(rules, [RECIPE] * 3))


class Dropping(nn.Module):
    """A model of a user that draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.inlet = nn.Linear(192, 8)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.5)) for _ in range(2))
        self.outlet = nn.Linear(8, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        state = self.inlet(inputs.flatten(1))
        for block in self.blocks:
            state = state + block(state)
        out: Tensor = self.outlet(state)
        return out


def test_a_network_that_draws_random_numbers_is_trained_alone_with_a_warning() -> None:
    def models() -> list[nn.Module]:
        made = []
        for seed in SEEDS:
            torch.manual_seed(seed)
            made.append(Dropping())
        return made

    with pytest.warns(UserWarning, match="3 runs are trained one after another: in a stack the gradient of"):
        many = fit_many(given := models(), Backprop(), DATA, RECIPE, seeds=SEEDS)
    for parameter in (parameter for model in given for parameter in model.parameters()):
        assert parameter.untyped_storage().nbytes() == 4 * parameter.numel()  # its own, not that of the stack
    the_same(many, [fit(m, Backprop(), DATA, RECIPE, seed=s) for m, s in zip(models(), SEEDS, strict=True)])


@dataclass(frozen=True)
class Hesitant(Backprop):
    """Backprop that looks at its own loss before it goes on."""

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        """As backprop."""
        found = super().credit(network, feedback, batch, scope)
        if not math.isfinite(found.loss.item()):
            raise ArithmeticError
        return found


def test_a_rule_that_reads_a_number_of_its_run_is_trained_alone_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="item gave .* in one run and something else in another"):
        many = fit_many(networks(), Hesitant(), DATA, RECIPE, seeds=SEEDS)
    assert at_once(many) == [1, 1, 1]


def test_lists_of_another_length_are_refused() -> None:
    with pytest.raises(InvalidInput, match="seeds has 2 entries for 3 networks"):
        fit_many(networks(), Backprop(), DATA, RECIPE, seeds=[0, 1])
    assert fit_many([], Backprop(), DATA, RECIPE, seeds=[]) == []


# --- a stack of tensors -----------------------------------------------------------------------------------------------


def test_a_stack_looks_like_the_tensor_of_one_run() -> None:
    stack = Stacked.of([torch.ones(4, 2), torch.zeros(4, 2)], learns=True)
    assert (stack.shape, stack.dim(), len(stack), stack.numel()) == ((4, 2), 2, 4, 8)
    assert stack.requires_grad
    assert stack.is_floating_point()
    assert [part.shape for part in stack.each] == [(4, 2)] * 2
    with pytest.raises(Unstackable, match="item"):
        stack.sum().item()
    assert (stack.sum() * 0).item() == 0  # the same in every run


def test_a_stack_meets_numbers_and_plain_tensors_as_one_run_does() -> None:
    parts = [torch.randn(3, 2, generator=torch.Generator().manual_seed(seed)) for seed in range(2)]
    plain, stack = torch.arange(6.0).view(3, 2), Stacked.of(parts)
    computed = {
        "mean over all": (stack - stack.mean(), [part - part.mean() for part in parts]),
        "over rows": (stack / stack.square().mean(1)[:, None], [p / p.square().mean(1)[:, None] for p in parts]),
        "plain": (2 * stack + plain, [2 * part + plain for part in parts]),
        "product": (stack @ plain.T, [part @ plain.T for part in parts]),
        "list": (torch.cat([stack, stack], 1), [torch.cat([part, part], 1) for part in parts]),
        "in place": (stack.clone().mul_(2), [part * 2 for part in parts]),
    }
    for name, (found, expected) in computed.items():
        assert torch.equal(found.together, torch.stack(expected)), name


class Kernels(TorchDispatchMode):
    """Counts the operators that compute something: views start no kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        views = any(value.alias_info is not None and not value.alias_info.is_write for value in func._schema.returns)
        self.count[str(func)] += not views
        return func(*args, **(kwargs or {}))


def test_a_stacked_step_has_the_products_of_one_run() -> None:
    """Eight runs, and no more matrix products than one of them has."""
    seeds = range(8)
    runs = [begin(networks(seeds=[seed])[0], DirectFeedback(), DATA, RECIPE, seed) for seed in seeds]
    stack = Stack.of(runs)
    batches = [first_batch(run) for run in runs]
    together = Batch(*(Stacked.of(parts) for parts in zip(*batches, strict=True)))
    with Kernels() as one:
        runs[0].rule.credit(runs[0].network, runs[0].feedback, batches[0])
    with Kernels() as many:
        stack.credit(together)
    products = {"aten.mm.default", "aten.addmm.default", "aten.bmm.default", "aten.baddbmm.default"}
    assert sum(many.count[name] for name in products) == sum(one.count[name] for name in products) > 0
