"""D11, D12 and the companions of D1 and D2: what they measure, where they fire, and that units do not matter."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.diagnostics.evidence_by_hand import evidence, find

from creditscope.diagnostics import diagnostics
from creditscope.evidence.records import Evidence
from creditscope.modes import WITHOUT_GROWTH

IMAGES = 21


def made(layers: int = 4, seed: int = 0, **changes: object) -> Evidence:
    generator = torch.Generator().manual_seed(seed)
    tables = [torch.rand(layers, IMAGES, generator=generator, dtype=torch.float64) + 0.5 for _ in range(3)]
    return evidence(
        tables[0],
        tables[1],
        torch.rand(IMAGES, generator=generator, dtype=torch.float64) + 0.1,
        step_norms=tables[2][1:],
        same_shape=(True,) * (layers - 1),
        **changes,
    )


def tenth(values: list[float]) -> float:
    return sorted(values)[int(0.1 * (len(values) - 1))]


def test_d11_is_the_smallest_tenth_percentile_of_the_relative_sensitivity() -> None:
    found = made()
    slow = [
        tenth([h * g / e for h, g, e in zip(*rows, found.error_norms.tolist(), strict=True)])
        for rows in zip(found.hidden_norms.tolist(), found.gradient_norms.tolist(), strict=True)
    ]
    finding = find("D11", found)
    assert finding.per_layer == pytest.approx(slow)
    assert finding.value == pytest.approx(min(slow))


def test_d12_is_the_largest_median_influence_of_a_block() -> None:
    found = made()
    assert found.step_norms is not None
    slow = []
    for block, steps in enumerate(found.step_norms.tolist()):
        gradients = found.gradient_norms[block + 1].tolist()
        values = sorted(s * g / e for s, g, e in zip(steps, gradients, found.error_norms.tolist(), strict=True))
        slow.append(values[(len(values) - 1) // 2])
    finding = find("D12", found)
    assert finding.per_layer == pytest.approx(slow)
    assert finding.value == pytest.approx(max(slow))


@given(st.lists(st.floats(1e-9, 1e9), min_size=4, max_size=4))
def test_units_of_the_states_change_neither_sensitivity_nor_influence(units: list[float]) -> None:
    """A stream behind a LayerNorm may have any scale c_l: then ‖g_l‖ is divided by it, and steps grow with it."""
    plain = made()
    scale = torch.tensor(units, dtype=torch.float64)[:, None]
    assert plain.step_norms is not None
    other = evidence(
        plain.hidden_norms * scale,
        plain.gradient_norms / scale,
        plain.error_norms,
        step_norms=plain.step_norms * scale[1:],
        same_shape=plain.same_shape,
    )
    for code in ("D11", "D12"):
        assert find(code, other).value == pytest.approx(find(code, plain).value, rel=1e-9)


def test_positions_that_cancel_when_they_move_alike_keep_their_sensitivity() -> None:
    """Behind an InstanceNorm a common shift of all positions leaves the loss alone: ‖Σ g_p‖ = 0, Σ ‖h_p‖·‖g_p‖ > 0."""
    ones = torch.ones(3, 5, dtype=torch.float64)
    steps = {"step_norms": ones[1:], "same_shape": (True, True)}
    cancelled = evidence(ones, 0 * ones, ones[0], **steps)
    assert [find(code, cancelled).status for code in ("D11", "D12")] == ["fires", "fires"]
    resolved = evidence(ones, 0 * ones, ones[0], state_products=ones, step_products=ones[1:], **steps)
    assert [find(code, resolved).value for code in ("D11", "D12")] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("collapsed", "cause"), [((0,), WITHOUT_GROWTH), ((0, 1), WITHOUT_GROWTH), ((2,), ""), ((0, 3), "")]
)
def test_the_tail_of_the_reference_knows_whether_the_stream_has_grown_there(
    collapsed: tuple[int, ...], cause: str
) -> None:
    """The stream shrinks before it grows 100-fold, as in an EfficientViT at its start: h_0 is small by influence."""
    hidden = torch.tensor([1.0, 0.01, 1.0, 1.0], dtype=torch.float64)[:, None].expand(4, 5)
    gradient = torch.ones(4, 5, dtype=torch.float64)
    gradient[list(collapsed)] = 1e-9
    finding = find("D2:tail", evidence(hidden, gradient, gradient.new_ones(5)))
    assert (finding.status, finding.cause) == ("fires", cause)


@pytest.mark.parametrize("code", ["D11", "D12"])
@pytest.mark.parametrize(("factor", "status"), [(0.99, "fires"), (1.01, "pass")])
def test_they_fire_just_below_their_limit(code: str, factor: float, status: str) -> None:
    value = diagnostics[code].limit.at * factor
    ones = torch.ones(3, 5, dtype=torch.float64)
    finding = find(code, evidence(value * ones, ones, ones[0], step_norms=value * ones[1:], same_shape=(True, True)))
    assert finding.status == status


def test_one_dead_state_among_sound_ones_is_found_and_named() -> None:
    found = made()
    found.gradient_norms[2] *= 1e-9
    finding = find("D11", found)
    assert finding.status == "fires"
    assert finding.note.startswith("lowest at h_2")


def test_a_tenth_of_the_images_is_enough_and_a_twentieth_is_not() -> None:
    ones = torch.ones(2, 100, dtype=torch.float64)
    for dead, status in ((15, "fires"), (5, "pass")):
        gradient = ones.clone()
        gradient[1, :dead] = 1e-12
        assert find("D11", evidence(ones, gradient, ones[0])).status == status


def test_a_block_that_is_bypassed_is_noted_where_others_work() -> None:
    found = made()
    assert found.step_norms is not None
    found.step_norms[1] = 0
    finding = find("D12", found)
    assert finding.status == "pass"
    assert finding.note.endswith("without influence: block 1")


def test_blocks_that_change_the_shape_of_the_stream_are_left_to_d11() -> None:
    ones = torch.ones(3, 5, dtype=torch.float64)
    steps = torch.full((2, 5), math.nan, dtype=torch.float64)
    finding = find("D12", evidence(ones, ones, ones[0], step_norms=steps, same_shape=(False, False)))
    assert (finding.status, str(finding.reason)) == ("skipped", "not applicable")


def test_images_without_an_error_have_no_sensitivity() -> None:
    ones = torch.ones(2, 5, dtype=torch.float64)
    nothing = evidence(ones, ones, torch.zeros(5), step_norms=ones[1:], same_shape=(True,))
    assert {code: find(code, nothing).status for code in ("D11", "D12", "D2:tail")} == dict.fromkeys(
        ("D11", "D12", "D2:tail"), "undefined"
    )


@pytest.mark.parametrize("code", ["D1:stream", "D2:tail", "D11", "D12"])
def test_nan_never_passes(code: str) -> None:
    found = made()
    found.hidden_norms[1] = math.nan
    found.gradient_norms[2] = math.nan
    assert found.step_norms is not None
    found.step_norms[:] = math.nan
    assert find(code, found).status == "undefined"


def test_growth_is_seen_however_it_is_spread_over_the_blocks() -> None:
    """30-fold in each of four blocks: no single block passes D1's limit, the stream as a whole grows 8e5-fold."""
    hidden = [[30.0**layer] * 5 for layer in range(5)]
    found = evidence(hidden, [[1.0] * 5] * 5, [1.0] * 5)
    assert find("D1", found).status == "pass"
    finding = find("D1:stream", found)
    assert (finding.status, finding.value) == ("fires", pytest.approx(30.0**4))
    assert finding.note.startswith("from h_0 to h_4")


def test_growth_is_seen_in_tokens_that_nobody_reads() -> None:
    """The norms of the read token stay; those over all tokens explode."""
    ones = torch.ones(3, 20, dtype=torch.float64)
    everywhere = ones.clone()
    everywhere[2] = 1e9
    found = evidence(ones, ones, ones[0], position_norms=everywhere)
    finding = find("D1:stream", found)
    assert (finding.status, finding.value) == ("fires", 1e9)
    assert finding.note.endswith("over all tokens")
    assert find("D1:stream", evidence(ones, ones, ones[0], position_norms=ones)).status == "pass"


def test_growth_is_seen_in_a_part_of_the_images() -> None:
    hidden = torch.ones(3, 100, dtype=torch.float64)
    hidden[2, :45] = 1e9
    found = evidence(hidden, torch.ones(3, 100), torch.ones(100))
    assert find("D1", found).status == "pass"
    assert find("D1:stream", found).status == "fires"


def test_the_tail_of_the_reference_is_free_of_the_fit() -> None:
    """Errors that are all a million times smaller make D2 fire as fitted; the tail looks at the gain and is silent."""
    ones = torch.ones(2, 50, dtype=torch.float64)
    found = evidence(ones, 1e-9 * ones, 1e-9 * ones[0])
    assert (find("D2", found).status, find("D2", found).cause) == ("fires", "fitted")
    assert find("D2:tail", found).status == "pass"


def test_the_tail_of_the_reference_sees_a_part_of_the_images_and_any_state() -> None:
    for layer in (0, 1, 2):
        gradient = torch.ones(3, 100, dtype=torch.float64)
        gradient[layer, :20] = 1e-9
        found = evidence(torch.ones(3, 100), gradient, torch.ones(100))
        assert find("D2", found).status == "pass"
        assert find("D2:tail", found).status == "fires"
