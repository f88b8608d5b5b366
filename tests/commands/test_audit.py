from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

import creditscope as package
from creditscope.networks.build import build
from creditscope.records.report import Report

PASSING = ("--accuracy", "0.9", "--control-accuracy", "0.5")


@pytest.mark.parametrize(
    ("claim", "code", "verdict"),
    [
        (PASSING, 0, "PASS"),
        (("--accuracy", "0.5", "--control-accuracy", "0.7"), 1, "FAIL(D3)"),
        (("--accuracy", "0.5", "--control-accuracy", "0.5"), 3, "INCONCLUSIVE(D3)"),
        (("--protocol", "three", "--accuracy", "0.5", "--control-accuracy", "0.5"), 1, "FAIL(D3)"),
        ((), 3, "INCONCLUSIVE(D3)"),
        (("--protocol", "four", "--threshold", "D4=1", *PASSING), 0, "trustworthy"),
        (("--protocol", "four", "--threshold", "D4=-1", *PASSING), 1, "needs walk-back: (c) drift"),
    ],
)
def test_the_exit_code_is_the_verdicts(audited, claim, code, verdict):
    done = audited(*claim)
    assert (done.code, done.err) == (code, "")
    assert done.out.splitlines()[0].endswith(f" {verdict}")


def test_a_diverged_network_never_passes(audited, folder):
    weights = load_file("weights.safetensors")
    weights["blocks.1.w1.weight"][0, 0] = float("nan")
    save_file(weights, "nan.safetensors")
    done = audited(*PASSING, weights="nan.safetensors")
    assert done.code == 1
    assert "FAIL(D0)" in done.out


def test_the_command_and_the_function_measure_the_same(audited, folder):
    assert audited("--out", "report.json", "--batch-size", "100").code == 3
    network = build("resmlp", 6, 3, 1, d=8, depth=2)
    network.load_state_dict(load_file("weights.safetensors"))
    stored = load_file("batches.safetensors")
    pairs = list(zip(stored["inputs"].split(100), stored["labels"].split(100), strict=True))
    ours = Report.from_json("report.json")
    assert ours.findings == package.audit(network, pairs).findings
    assert (ours.subject.name, ours.provenance.images, ours.provenance.batches) == ("weights", 300, 3)


def test_json_on_standard_output_is_the_report_and_nothing_else(audited):
    done = audited("--format", "json", "--name", "mine", "--notes", "a remark")
    assert Report.parse(done.out).subject.name == "mine"
    assert json.loads(done.out)["subject"]["notes"] == "a remark"


def test_accuracies_are_given_once_per_seed(audited):
    seeds = [word for share in ("0.9", "0.91", "0.89") for word in ("--accuracy", share)]
    controls = [word for share in ("0.5", "0.51", "0.52") for word in ("--control-accuracy", share)]
    done = audited(*seeds, *controls)
    assert done.code == 0
    assert "Welch's t-interval over 3 and 3 seeds" in " ".join(done.out.split())
    published = audited(*seeds, *controls, "--protocol", "three")
    assert "paired t-interval over 3 seeds" in " ".join(published.out.split())


@pytest.mark.parametrize(("limit", "images", "batches"), [(100, 100, 1), (128, 128, 1), (200, 200, 2), (9999, 300, 3)])
def test_the_limit_counts_images(audited, folder, limit, images, batches):
    audited("--limit", limit, "--out", "report.json")
    origin = Report.from_json("report.json").provenance
    assert (origin.images, origin.batches) == (images, batches)


def test_a_registered_dataset_gives_shape_and_classes(creditscope, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_file(build("resmlp", 40, 10, 0, d=16).state_dict(), "w.safetensors")
    done = creditscope("audit", "w.safetensors", "--network", "resmlp", "--option", "d=16", "--data", "mnist1d")
    assert done.code == 3
    assert "1,000 images in 8 batches" in done.out


def test_a_torch_file_of_tensors_gives_the_same_report(audited, folder):
    tensors = load_file("weights.safetensors")
    torch.save(tensors, "plain.pt")
    torch.save({"epoch": 3, "model": tensors, "optimizer": {"state": {}, "lr": 0.1}}, "checkpoint.pt")
    torch.save({f"module.{name}": tensor for name, tensor in tensors.items()}, "parallel.pt")
    pages = {
        audited("--name", "x", weights=name).out
        for name in ("weights.safetensors", "plain.pt", "checkpoint.pt", "parallel.pt")
    }
    assert len(pages) == 1


def test_a_function_of_ones_own_makes_the_network(folder, creditscope):
    (folder / "mine.py").write_text(
        "from creditscope.networks.build import build\n"
        "def make(width=4):\n    return build('resmlp', 6, 3, 0, d=width, depth=2)\n"
    )
    own = ("--model", "mine:make", "--option", "width=8", "--batches", "batches.safetensors")
    assert creditscope("audit", "weights.safetensors", *own).code == 3
    assert creditscope("audit", "weights.safetensors", *own, "--blocks", "blocks").code == 3
    assert creditscope("audit", "weights.safetensors", *own, "--blocks", "blocks.0, blocks.1").code == 3


def test_small_whole_labels_are_classes(audited, folder):
    stored = load_file("batches.safetensors")
    save_file({"inputs": stored["inputs"], "labels": stored["labels"].to(torch.uint8)}, "batches.safetensors")
    assert audited().code == 3


def test_the_gradient_check_can_be_switched_off(audited):
    assert "guard gradient: switched off" in audited("--no-gradient-check").out


def test_threads_are_what_was_asked_for(audited):
    before = torch.get_num_threads()
    try:
        audited("--threads", "2")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.fixture
def controls(folder):
    """initial.safetensors, and controls that learned outside the blocks, inside them too, or not at all."""
    start = load_file("weights.safetensors")
    noise = torch.Generator().manual_seed(3)

    def changed(wanted):
        return {name: value + torch.randn(value.shape, generator=noise) * wanted(name) for name, value in start.items()}

    save_file(start, "initial.safetensors")
    save_file(changed(lambda name: 0.3), "trained.safetensors")
    save_file(changed(lambda name: 0.0 if name.startswith("blocks.") else 0.3), "frozen.safetensors")
    save_file(changed(lambda name: 0.3), "moved.safetensors")
    return folder


def test_a_control_given_as_weights_is_asked_the_same_images(audited, controls):
    done = audited(
        "--control", "frozen.safetensors", "--initial", "initial.safetensors", "--out", "r.json",
        weights="trained.safetensors",
    )  # fmt: skip
    assert (done.code in (0, 1, 3), done.err) == (True, "")
    ours = Report.from_json("r.json")
    start, trained, frozen = (build("resmlp", 6, 3, 1, d=8, depth=2) for _ in range(3))
    for network, name in ((start, "initial"), (trained, "trained"), (frozen, "frozen")):
        network.load_state_dict(load_file(f"{name}.safetensors"))
    stored = load_file("batches.safetensors")
    pairs = list(zip(stored["inputs"].split(128), stored["labels"].split(128), strict=True))
    theirs = package.audit(trained, pairs, control=frozen, initial=start)
    assert ours.findings == theirs.findings
    assert "paired over the same 300 test images" in ours.findings["D3"].note
    assert ours.control_source == "measured"


def test_a_control_whose_blocks_moved_is_refused(audited, controls):
    done = audited("--control", "moved.safetensors", "--initial", "initial.safetensors", weights="trained.safetensors")
    assert done.code == 2
    assert "is not frozen" in done.err


def test_a_typed_control_accuracy_says_so(audited):
    done = audited("--control-accuracy", "0.5")
    assert "control accuracy typed in" in " ".join(done.out.split())


def test_a_function_of_ones_own_gives_the_credit(audited, folder):
    (folder / "rule.py").write_text(
        "import torch\n"
        "def credit(network):\n"
        "    def signals(batch):\n"
        "        _, states = [], []\n"
        "        h = network.embedding(batch.inputs)\n"
        "        for index in range(len(network.blocks)):\n"
        "            states.append(h)\n"
        "            h = network.merge(index, h, network.branch(index, h))\n"
        "        return [torch.ones_like(s.detach()) for s in (*states, h)]\n"
        "    return signals\n"
        "def nothing(network):\n    return 3\n"
        "def broken(network):\n    return network.nowhere\n"
        "number = 4\n"
    )
    audited("--credit", "rule:credit", "--out", "r.json")
    assert len(Report.from_json("r.json").measures["gamma"].per_layer) == 3
    for name, words in (
        ("nothing", "rule:nothing returned a int"),
        ("broken", "rule:broken failed when called with the network: AttributeError"),
        ("number", "rule:number is a int, not a function"),
    ):
        done = audited("--credit", f"rule:{name}")
        assert done.code == 2
        assert words in done.err
