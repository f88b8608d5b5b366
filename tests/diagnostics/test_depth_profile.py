"""D10: the gain of the deepest read-out over its best rival, and its interval over images."""

from __future__ import annotations

import math

import pytest
import torch
from tests.diagnostics.evidence_by_hand import evidence, find

import creditscope
from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.evidence.records import ReadoutProfile, Rival
from creditscope.networks.build import build
from creditscope.provenance import GuardStatus
from creditscope.statistics.intervals import discordant_interval


def profile(gained: int, lost: int, images: int = 1000, **changes: object) -> ReadoutProfile:
    rivals = (Rival("at the embedding", 0.3, gained, lost),)
    return ReadoutProfile((0.3, 0.5, 0.3 + (gained - lost) / images), rivals, images, 4000, **changes)


@pytest.mark.parametrize(
    ("gained", "lost", "status"), [(200, 20, "pass"), (60, 50, "undecided"), (5, 5, "fires"), (10, 90, "fires")]
)
def test_the_interval_over_images_decides(gained: int, lost: int, status: str) -> None:
    finding = find("D10", evidence(profile=profile(gained, lost)))
    assert finding.status == status
    assert finding.value == pytest.approx((gained - lost) / 10)


def test_the_best_rival_counts() -> None:
    rivals = (Rival("at the embedding", 0.3, 300, 10), Rival("with the blocks set back", 0.55, 40, 35))
    finding = find("D10", evidence(profile=ReadoutProfile((0.3, 0.6), rivals, 1000, 4000)))
    assert finding.value == pytest.approx(0.5)
    assert "against 55.0 % with the blocks set back" in finding.note


def test_without_training_images_it_is_skipped() -> None:
    finding = find("D10", evidence())
    assert (finding.status, str(finding.reason)) == ("skipped", "not given")


def test_a_network_without_blocks_is_not_blamed_for_them() -> None:
    nothing = ReadoutProfile((0.3,), (Rival("at the embedding", 0.3, 0, 0),), 1000, 4000)
    finding = find("D10", evidence(profile=nothing))
    assert (finding.status, str(finding.reason)) == ("skipped", "not applicable")


def test_the_interval_of_differing_answers_is_that_of_their_mean() -> None:
    gained, lost, images = 120, 45, 900
    differences = torch.cat([torch.ones(gained), -torch.ones(lost), torch.zeros(images - gained - lost)]).double()
    low, high = discordant_interval(gained, lost, images)
    error = (differences.std(correction=0) / math.sqrt(images)).item()
    assert (high - low) / 2 == pytest.approx(1.959964 * error, rel=0.01)
    assert (high + low) / 2 == pytest.approx(differences.mean().item())
    assert discordant_interval(0, 0, 100)[1] > 0.01


def subject() -> tuple[torch.nn.Module, list[Batch], list[Batch]]:
    """A network of random blocks on a task that its embedding already solves linearly."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(1200, 12, generator=generator)
    labels = (inputs @ torch.randn(12, 3, generator=generator)).argmax(1)
    batches = [Batch(x, y) for x, y in zip(inputs.split(100), labels.split(100), strict=True)]
    return build("resmlp", 12, 3, seed=0, d=16, depth=2), batches[:8], batches[8:]


def test_an_audit_with_training_images_reads_every_state() -> None:
    network, training, test = subject()
    report = creditscope.audit(network, test, training=training, initial=network)
    finding = report.findings["D10"]
    assert len(finding.per_layer) == 3
    assert finding.per_layer[0] > 0.8
    assert finding.status == "fires"
    assert "800 training images" in finding.note


def test_untrained_blocks_gain_nothing_over_themselves() -> None:
    network, training, test = subject()
    report = creditscope.audit(network, test, training=training, initial=network)
    assert report.findings["D10"].value <= 0
    assert report.findings["D3"].note.startswith("the blocks are at their initial values")
    assert report.findings["D3"].status == "fires"


def test_the_network_comes_back_as_it_was_even_with_batch_norm() -> None:
    torch.manual_seed(0)
    network = build("small_resnet", (3, 8, 8), 3, seed=0, channels=4, depth=2)
    start = build("small_resnet", (3, 8, 8), 3, seed=1, channels=4, depth=2)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    batches = [Batch(torch.randn(20, 3, 8, 8), torch.arange(20) % 3) for _ in range(3)]
    report = creditscope.audit(network, batches[:1], training=batches[1:], initial=start)
    assert report.findings["D10"].value is not None
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())


def test_no_training_batch_is_refused() -> None:
    network, _, test = subject()
    with pytest.raises(InvalidInput, match=r"There are no batches"):
        creditscope.audit(network, test, training=[])


def test_states_that_are_not_finite_cannot_be_read() -> None:
    network, training, test = subject()
    with torch.no_grad():
        network.blocks[0].w1.weight[0, 0] = math.nan
    finding = creditscope.audit(network, test, training=training, control_accuracy=0.3).findings["D10"]
    assert (finding.status, str(finding.reason)) == ("skipped", "not possible")


@pytest.mark.parametrize("share", [1.0, 0.2])
def test_test_images_among_the_training_images_are_refused_or_counted(share: float) -> None:
    """A read-out would be tested on what it was fitted on."""
    network, training, test = subject()
    count = round(share * 100)
    leaked = [*training, Batch(test[0].inputs[:count], test[0].labels[:count])]
    with pytest.raises(InvalidInput, match=f"{count} of the first 100 test samples are among the training images"):
        creditscope.audit(network, test, training=leaked)
    guard = creditscope.audit(network, test, training=leaked, disjoint=False).provenance.guards["unseen"]
    assert (guard.status, guard.text) == (GuardStatus.OFF, f"{count} of 400 test samples are among the training images")
    assert creditscope.audit(network, test, training=training).provenance.guards["unseen"].status is GuardStatus.PASSED


def test_a_stream_that_narrows_is_not_failed_by_its_wider_embedding() -> None:
    """16 numbers may be read less well than 1,280 for that reason alone; blocks set back to their start have 16 too."""
    embedding, start = Rival("at the embedding", 0.5, 30, 40), Rival("set back", 0.4, 120, 20)
    useless = Rival("set back", 0.49, 30, 30)

    def judged(*rivals: Rival, numbers: tuple[int, ...]) -> tuple[str, float | str | None]:
        profile = ReadoutProfile((0.5, 0.5, 0.49), rivals, 1000, 4000, numbers)
        finding = find("D10", evidence(profile=profile))
        return str(finding.status), finding.note if finding.value is None else finding.value

    assert judged(embedding, start, numbers=(16, 16, 16)) == ("fires", -1.0)
    fewer = "the deepest read-out has 16 numbers to read and that of the embedding 1,280: it may be less accurate for "
    assert judged(embedding, start, numbers=(1280, 64, 16)) == ("skipped", f"{fewer}that reason alone")
    assert judged(embedding, numbers=(1280, 64, 16)) == ("skipped", f"{fewer}that reason alone")
    assert judged(embedding, useless, numbers=(1280, 64, 16)) == ("fires", 0.0)
