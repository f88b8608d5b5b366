"""What the fuzzing harness found, one named test per fault."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.study.made import write_study
from torch import nn

import creditscope
from creditscope.cli import run
from creditscope.control import Control
from creditscope.errors import BadFile, FunctionFailed, InvalidInput, UnknownName
from creditscope.networks.build import build
from creditscope.records.folder import previous_snapshot, recover_snapshot
from creditscope.report.numbers import per_cent
from creditscope.runs.run import train_into
from creditscope.runs.spec import RunSpec
from creditscope.study.store import open_store

INPUTS, LABELS = torch.linspace(-1, 1, 48).view(8, 6), torch.arange(8) % 3
BATCHES = [(INPUTS, LABELS)]
OWN = (lambda seed: build("resmlp", 6, 3, seed, d=8, depth=2), lambda model, seed: None, lambda model: 0.4)


def test_a_loss_that_is_a_module_does_not_become_a_part_of_the_model():
    model = build("resmlp", 6, 3, seed=0, d=8, depth=2)
    before = [name for name, _ in model.named_modules()]
    bound = creditscope.rule("dfa", model, example=BATCHES[0], loss_fn=nn.CrossEntropyLoss(reduction="none"))
    assert [name for name, _ in model.named_modules()] == before
    plain = creditscope.rule("dfa", model, example=BATCHES[0])
    losses = [float(one.backward(INPUTS, LABELS)) for one in (bound, plain)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


@pytest.mark.parametrize(
    "control", [1.5, ["frozen"], {"a": 1}, np.array("frozen"), np.ones(3), torch.ones(2), b"frozen"]
)
def test_a_control_that_is_no_text_is_unknown(control):
    with pytest.raises(UnknownName, match="Known: none, frozen"):
        Control.parse(control)


@pytest.mark.parametrize("penalty", [np.ones(3), torch.ones(2), "0", None, [0.0], -1, float("nan"), 10**400])
def test_a_penalty_that_is_no_number_is_refused(penalty):
    with pytest.raises(InvalidInput, match="penalty must be a finite number"):
        creditscope.rule("dfa", OWN[0](0), example=BATCHES[0], penalty=penalty)


@pytest.mark.parametrize("blocks", [torch.tensor(1), np.array("x"), 3, object()])
def test_blocks_that_are_no_names_are_refused(blocks):
    with pytest.raises(InvalidInput, match="blocks= holds a"):
        creditscope.audit(OWN[0](0), BATCHES, blocks=blocks)


@pytest.mark.parametrize("variants", [torch.ones(2), torch.tensor(1), 3, object(), None, {"trained": 1}])
def test_variants_that_are_no_list_are_refused(variants):
    with pytest.raises(InvalidInput, match="is not a list of variants"):
        creditscope.experiment(*OWN, seeds=[0], batches=BATCHES, variants=variants)
    with pytest.raises(InvalidInput, match="is not a list of variants"):
        creditscope.depth_utility(*OWN, seeds=[0], variants=variants)


def test_an_example_that_the_network_does_not_take_and_a_store_that_is_no_path_are_refused():
    with pytest.raises(FunctionFailed, match="The forward pass on the example failed: AttributeError"):
        creditscope.depth_utility(*OWN, seeds=[0], example="x")
    with pytest.raises(InvalidInput, match="A list is not a path"):
        creditscope.experiment(*OWN, seeds=[0], batches=BATCHES, store=["x"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"device": "D1"}, "The device 'D1' cannot be used"),
        ({"device": ()}, "The device .* cannot be used"),
        ({"device": -1}, "The device -1 cannot be used"),
        ({"trust_plugins": np.ones(3)}, "trust_plugins must be True or False"),
        ({"data_folder": {"a": 1}}, "A dict is not a path"),
    ],
)
def test_load_checks_its_arguments_before_it_reads(tmp_path, options, words):
    folder = tmp_path / "run"
    train_into(folder, RunSpec(method="dfa", epochs=0, network_options={"d": 8, "depth": 1}))
    with pytest.raises(InvalidInput, match=words):
        creditscope.load(folder, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"images": "x"}, "images must be a whole number"),
        ({"images": 0}, "images = 0"),
        ({"images": 10**400}, "images must be a whole number"),
        ({"unmatched": torch.ones(2)}, "unmatched must be True or False"),
        ({"seeds": [0, 0]}, "is not a list of whole numbers, each named once"),
        ({"seeds": 3}, "is not a list of whole numbers"),
        ({"seeds": ["a", "b"]}, "is not a list of whole numbers"),
    ],
)
def test_compare_checks_its_numbers(options, words):
    with pytest.raises(InvalidInput, match=words):
        creditscope.compare({"a": [0.5, 0.6], "b": [0.4, 0.5]}, **{"seeds": [0, 1], **options})


def test_accuracies_that_are_not_numbers_have_no_spread():
    assert per_cent([float("nan"), float("nan")]) == "nan ± nan"
    assert per_cent([0.1, 0.3]) == "20.0 ± 14.1"


def test_a_store_whose_name_no_file_system_takes_is_refused(tmp_path, capsys):
    with pytest.raises(BadFile, match="cannot be read: File name too long"):
        open_store(tmp_path / ("9" * 5000))
    study = write_study(tmp_path)
    for command in ("run", "status", "report"):
        assert run(["study", command, str(study), "--store", "9" * 5000]) == 2
    assert "Traceback" not in capsys.readouterr().err


def broken(*arguments):
    raise ZeroDivisionError("the user's own")


@pytest.mark.parametrize("name", ["make_model", "train", "evaluate"])
def test_a_function_of_an_experiment_that_fails_is_named(name):
    functions = dict(zip(("make_model", "train", "evaluate"), OWN, strict=True))
    with pytest.raises(FunctionFailed, match=f"^{name} failed: ZeroDivisionError") as caught:
        creditscope.depth_utility(*{**functions, name: broken}.values(), seeds=[0])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_loss_of_a_rule_that_fails_is_named():
    with pytest.raises(FunctionFailed, match="^loss_fn failed: TypeError"):
        creditscope.rule("dfa", OWN[0](0), example=BATCHES[0], loss_fn=nn.Sequential())


def test_seeds_batches_and_declarations_that_torch_cannot_take_are_refused():
    with pytest.raises(InvalidInput, match="none below 0 or above"):
        creditscope.experiment(*OWN, seeds=[10**30], batches=BATCHES)
    with pytest.raises(InvalidInput, match="batches is a ndarray"):
        creditscope.audit(OWN[0](0), np.array("x"))
    with pytest.raises(InvalidInput, match="reduction must be 'sum' or 'mean'"):
        creditscope.audit_arrays(hiddens=[], reduction=np.ones(3))
    with pytest.raises(InvalidInput, match="credit_local must be True, False or 'forward'"):
        creditscope.audit(OWN[0](0), BATCHES, credit=lambda batch: [], credit_local=np.ones(3))


def test_a_folder_for_tensorboard_that_cannot_be_made_is_refused():
    pytest.importorskip("tensorboard")
    with pytest.raises(BadFile, match="cannot be written: File name too long"):
        creditscope.Monitor(OWN[0](0), BATCHES, logger="x" * 999, check_gradient=False)


def test_training_images_that_the_network_does_not_take_are_refused():
    with pytest.raises(FunctionFailed, match="The forward pass on the training images failed: RuntimeError"):
        creditscope.audit(OWN[0](0), BATCHES, training=[(INPUTS[:, :5], LABELS)], check_gradient=False)
    with pytest.raises(InvalidInput, match="The labels of training go from 1 to 3, but the model has 3 logits"):
        creditscope.audit(OWN[0](0), BATCHES, training=[(INPUTS, LABELS + 1)], check_gradient=False)


def test_tied_weights_workers_and_counts_of_other_kinds_are_refused_or_taken_as_numbers():
    with pytest.raises(InvalidInput, match="tied must be 'embedding' or 'readout'"):
        creditscope.rule("dfa", OWN[0](0), example=BATCHES[0], tied=np.ones(3))
    with pytest.raises(InvalidInput, match="workers must be a whole number"):
        creditscope.experiment(*OWN, seeds=[0], batches=BATCHES, workers=10**400)
    methods = {"a": {0: 0.5, 1: 0.6}, "b": {0: 0.4, 1: 0.5}}
    assert creditscope.compare(methods, images=torch.tensor(9)) == creditscope.compare(methods, images=9)


def test_a_damaged_snapshot_that_is_its_own_predecessor_is_moved_aside(tmp_path):
    snapshot = tmp_path / "0123456789abcdef.snapshot"
    snapshot.write_bytes(b"damaged")
    previous_snapshot(snapshot).hardlink_to(snapshot)  # the process was killed between the link and the rename
    assert "starts again from its first epoch" in recover_snapshot(snapshot)
    assert not snapshot.exists()
    assert recover_snapshot(snapshot) == ""


def test_a_name_that_no_file_system_takes_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["new", "method", "my_rule", "--out", "é" * 400]) == 2
    said = capsys.readouterr().err
    assert "cannot be a path: File name too long" in said
    assert "Give another name" in said
    assert not list(tmp_path.iterdir())
