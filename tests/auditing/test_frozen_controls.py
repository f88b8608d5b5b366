"""D3's evidence: named seeds, typed and measured accuracies, and controls given as networks."""

from __future__ import annotations

import copy

import pytest
import torch

import creditscope
from creditscope.errors import InvalidInput, ModelMismatch
from creditscope.networks.build import build
from creditscope.provenance import Source
from creditscope.records.report import Report
from creditscope.statistics.margin import margin_of_answers

INPUTS = torch.randn(96, 6, generator=torch.Generator().manual_seed(1))
LABELS = INPUTS[:, :3].argmax(1)
BATCHES = [(INPUTS[:48], LABELS[:48]), (INPUTS[48:], LABELS[48:])]


def network(seed: int = 0, **options: int):
    return build("resmlp", 6, 3, seed, **{"d": 8, "depth": 2, **options})


def trained(model, *, frozen: bool, steps: int = 40):
    """A few steps of backprop, on everything or with the blocks at their start."""
    model = copy.deepcopy(model)
    moving = [p for name, p in model.named_parameters() if not (frozen and name.startswith("blocks."))]
    optimiser = torch.optim.SGD(moving, lr=0.1)
    for _ in range(steps):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(INPUTS), LABELS).backward()
        optimiser.step()
    model.zero_grad()
    return model


@pytest.fixture(scope="module")
def start():
    return network()


@pytest.fixture(scope="module")
def method(start):
    return trained(start, frozen=False)


@pytest.fixture(scope="module")
def control(start):
    return trained(start, frozen=True)


def right(model) -> torch.Tensor:
    with torch.no_grad():
        return model(INPUTS).argmax(1) == LABELS


def test_a_control_is_compared_image_by_image(method, control, start):
    report = creditscope.audit(method, BATCHES, control=control, initial=start)
    expected = margin_of_answers(right(method)[None].numpy(), right(control)[None].numpy())
    finding = report.findings["D3"]
    assert finding.value == pytest.approx(100 * expected.value)
    assert finding.interval == pytest.approx([100 * end for end in expected.interval])
    assert "paired over the same 96 test images" in finding.note
    assert "typed in" not in finding.note
    assert report.control_accuracy == (right(control).double().mean().item(),)
    assert (report.accuracy_source, report.control_source) == (Source.MEASURED, Source.MEASURED)


def test_one_control_per_seed_is_asked_the_same_images(method, start, control):
    other = trained(start, frozen=True, steps=3)
    report = creditscope.audit(method, BATCHES, control=[control, other], initial=start, control_seeds=[0, 1])
    table = torch.stack([right(control), right(other)]).numpy()
    expected = margin_of_answers(right(method)[None].numpy(), table)
    assert report.findings["D3"].value == pytest.approx(100 * expected.value)
    assert report.provenance.control_seeds == (0, 1)


def test_the_control_is_left_as_it_was(method, control):
    control.train()
    before = copy.deepcopy(control.state_dict())
    creditscope.audit(method, BATCHES, control=control)
    assert control.training
    assert all(torch.equal(value, before[name]) for name, value in control.state_dict().items())
    control.eval()


def test_a_control_of_another_architecture_is_refused(method):
    with pytest.raises(
        ModelMismatch, match=r"not the audited network with other weights(.|\n)*measure the architecture"
    ):
        creditscope.audit(method, BATCHES, control=network(depth=3))


def test_a_control_whose_blocks_moved_is_refused(method, start):
    moved = trained(start, frozen=False, steps=2)
    with pytest.raises(ModelMismatch, match=r"not frozen: blocks\.0(.|\n)*the control was trained too"):
        creditscope.audit(method, BATCHES, control=moved, initial=start)


def test_a_control_that_was_not_trained_is_refused(method, start):
    with pytest.raises(ModelMismatch, match=r"is untrained(.|\n)*Train the control's embedding and read-out"):
        creditscope.audit(method, BATCHES, control=copy.deepcopy(start), initial=start)


def test_the_network_is_not_its_own_control(method):
    with pytest.raises(ModelMismatch, match="has the weights of the audited network"):
        creditscope.audit(method, BATCHES, control=copy.deepcopy(method))


@pytest.mark.parametrize("control", ["frozen", [], [0.3], 0.3])
def test_what_is_no_network_is_refused_as_a_control(method, control):
    with pytest.raises(InvalidInput, match="not a network or a list of networks"):
        creditscope.audit(method, BATCHES, control=control)


@pytest.mark.parametrize("given", [{"accuracy": 0.5}, {"control_accuracy": 0.5}])
def test_a_typed_accuracy_beside_a_measured_control_is_refused(method, control, given):
    with pytest.raises(InvalidInput, match="control= were both given"):
        creditscope.audit(method, BATCHES, control=control, **given)


def test_a_control_needs_labels_that_are_classes(control):
    targets = torch.nn.functional.one_hot(LABELS, 3).float()

    def loss(logits, labels):
        return (logits - labels).square().sum(1)

    with pytest.raises(InvalidInput, match="not one class per image"):
        creditscope.audit(network(), [(INPUTS, targets)], loss_fn=loss, control=control)


def test_typed_numbers_are_marked_and_measured_ones_are_not(method):
    report = creditscope.audit(method, BATCHES, control_accuracy=0.3)
    assert report.findings["D3"].note.endswith("; control accuracy typed in")
    assert (report.accuracy_source, report.control_source) == (Source.MEASURED, Source.TYPED)
    both = creditscope.audit(method, BATCHES, accuracy=[0.6, 0.62], control_accuracy=[0.3, 0.33])
    assert both.findings["D3"].note.endswith("; accuracy and control accuracy typed in")
    assert Report.model_validate_json(both.to_json()).control_source is Source.TYPED


def test_seeds_pair_accuracies_only_where_both_sides_name_the_same_ones(method):
    accuracy, control = [0.60, 0.64, 0.68, 0.72], [0.30, 0.34, 0.381, 0.42]

    def note(**seeds):
        report = creditscope.audit(method, BATCHES, accuracy=accuracy, control_accuracy=control, **seeds)
        return report.findings["D3"].note

    assert note().startswith("Welch's t-interval")
    assert note(seeds=[1, 2, 3, 4]).startswith("Welch's t-interval")
    assert note(seeds=[1, 2, 3, 4], control_seeds=[1, 2, 3, 4]).startswith("paired t-interval over 4 seeds")
    assert note(seeds=[1, 2, 3, 4], control_seeds=[1, 2, 3, 5]).startswith("Welch's t-interval")


def test_the_order_in_which_seeds_are_named_does_not_matter(method):
    def finding(control, order):
        return creditscope.audit(
            method, BATCHES, accuracy=[0.60, 0.64, 0.68], control_accuracy=control, seeds=[1, 2, 3], control_seeds=order
        ).findings["D3"]

    one, other = finding([0.30, 0.34, 0.381], [1, 2, 3]), finding([0.381, 0.30, 0.34], [3, 1, 2])
    assert one.interval == other.interval
    assert one.per_seed == other.per_seed


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ([1, 2], "2 seeds are named for 3 accuracies"),
        ([1, 1, 2], "names a seed twice"),
        (["a", "b", "c"], "are not whole numbers"),
    ],
)
def test_seeds_that_cannot_be_assigned_are_refused(method, seeds, message):
    with pytest.raises(InvalidInput, match=message):
        creditscope.audit(method, BATCHES, accuracy=[0.60, 0.64, 0.68], control_accuracy=0.3, seeds=seeds)


def test_seeds_of_a_control_that_was_not_given_are_refused(method):
    with pytest.raises(InvalidInput, match=r"1 seeds are named for no accuracies \(control_accuracy\)"):
        creditscope.audit(method, BATCHES, control_seeds=[1])
