"""D13: the share of images whose credit at a state is not exactly zero, among those with a gradient there."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from tests.diagnostics.credit_by_hand import aligned, credit
from tests.probes.subjects import backprop, batches, network

from creditscope import audit
from creditscope.diagnostics.reach import reach
from creditscope.evidence.alignment import Alignment, AlignmentLedger
from creditscope.verdict import Measurement


def alignment(undefined: tuple[int, ...], due: tuple[int, ...]) -> Alignment:
    return replace(aligned((0.5,) * len(due)), undefined=undefined, due=due)


def test_it_is_the_share_that_a_loop_over_images_counts() -> None:
    draw = torch.Generator().manual_seed(0)
    a, g = (torch.randn(3, 40, 6, generator=draw) for _ in range(2))
    a[1, :25] = 0  # 25 of 40 images without credit
    g[2, :10] = 0  # 10 images without a gradient, of which 4 have no credit either, and 5 others without credit
    a[2, 6:15] = 0
    ledger = AlignmentLedger()
    for part in (slice(0, 16), slice(16, 40)):
        ledger.add(list(a[:, part]), list(g[:, part]))
    counted = []
    for layer in range(3):
        images = [i for i in range(40) if any(g[layer, i] != 0)]
        counted.append(sum(any(a[layer, i] != 0) for i in images) / len(images))
    assert counted == [1.0, 15 / 40, 25 / 30]
    assert ledger.alignment().reach == tuple(counted)


def test_the_lowest_state_decides() -> None:
    found = reach(credit((0.5,) * 3, alignment=alignment((0, 97, 20), (100, 100, 90))))
    assert isinstance(found, Measurement)
    assert (found.value, found.per_layer) == (0.03, (1.0, 0.03, 80 / 90))
    assert found.note == "lowest at h_1: credit for 3 of 100 with a gradient"


def test_a_state_without_any_gradient_is_left_to_d11() -> None:
    found = reach(credit((0.5,) * 2, alignment=alignment((100, 0), (0, 100))))
    assert isinstance(found, Measurement)
    assert found == Measurement(1.0, note="every image with a gradient has credit at every state")
    part = reach(credit((0.5,) * 2, alignment=alignment((100, 1), (0, 100))))
    assert isinstance(part, Measurement)
    assert math.isnan(part.per_layer[0])
    assert part.value == 0.99
    nowhere = reach(credit((0.5,) * 2, alignment=alignment((100, 100), (0, 0))))
    assert isinstance(nowhere, Measurement)
    assert math.isnan(nowhere.value)


@pytest.mark.parametrize(("without", "status"), [(0.4, "pass"), (0.6, "fires")])
def test_an_audit_tells_a_state_that_most_images_do_not_reach(without: float, status: str) -> None:
    net, given = network(), batches(200)
    exact = backprop(net)

    def cut(batch):
        signals = exact(batch)
        signals[0] = signals[0].clone()
        signals[0][: round(without * len(batch.labels))] = 0
        return signals

    report = audit(net, given, credit=cut, credit_local=False)
    found = report.findings["D13"]
    assert (found.status, found.value) == (status, pytest.approx(1 - without, abs=0.01))
    assert any("no credit at all" in warning for warning in report.verdict.warnings) == (status == "fires")
