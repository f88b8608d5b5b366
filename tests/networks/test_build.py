"""What cannot be built is refused with a reason; what can be is fixed by its seed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from creditscope.errors import InvalidInput, UnknownName
from creditscope.networks import networks
from creditscope.networks.build import build, network_options, weight_generator
from creditscope.networks.options import image_shape

IMAGE = (3, 32, 32)

REFUSED: list[tuple[str, Any, dict[str, Any], str]] = [
    ("resmlp", 12, {"depth": -1}, "depth is -1"),
    ("vit_mini", IMAGE, {"depth": -1}, "depth is -1"),
    ("small_cnn", IMAGE, {"depth": -1}, "depth is -1"),
    ("small_cnn", IMAGE, {"depth": 4}, "three stages after its embedding"),
    ("small_resnet", IMAGE, {"depth": -1}, "depth is -1"),
    ("student_net", 12, {"depth": -1}, "depth is -1"),
    ("resmlp", 12, {"d": 0}, "d is 0"),
    ("resmlp", 12, {"w2_std": -0.1}, "w2_std is -0.1"),
    ("resmlp", 12, {"w2_std": float("inf")}, "w2_std is inf"),
    ("resmlp", 12, {"w2_std": float("nan")}, "w2_std is nan"),
    ("resmlp", 0, {}, "Axis 0 of the sample shape is 0"),
    ("resmlp", (3, -2), {}, "Axis 1 of the sample shape is -2"),
    ("vit_mini", IMAGE, {"heads": 3}, "heads is 3, but the width d is 128"),
    ("vit_mini", IMAGE, {"heads": 0}, "heads is 0"),
    ("vit_mini", (3, 2, 32), {}, "patch is 4, but the images are 2 x 32"),
    ("vit_mini", (1, 28, 28), {"patch": 8}, "patch is 8, but the images are 28 x 28"),
    ("vit_mini", IMAGE, {"mlp_ratio": 0}, "mlp_ratio is 0"),
    ("vit_mini", 3072, {}, r"shape \(3072,\), but 'vit_mini' reads images"),
    ("small_cnn", (32, 32), {}, r"shape \(32, 32\), but 'small_cnn' reads images"),
    ("small_cnn", (3, 7, 32), {}, "images are 7 x 32 pixels"),
    ("small_cnn", IMAGE, {"channels": 0}, "channels is 0"),
    ("small_cnn", IMAGE, {"width": 0}, "width is 0"),
    ("small_resnet", (40,), {}, r"shape \(40,\), but 'small_resnet' reads images"),
    ("small_resnet", (3, 3, 3), {}, "images are 3 x 3 pixels"),
    ("student_net", 12, {"alpha": 1.5}, "alpha is 1.5"),
    ("student_net", 12, {"alpha": -0.5}, "alpha is -0.5"),
]


@pytest.mark.parametrize(("name", "inputs", "options", "found"), REFUSED)
def test_an_impossible_network_is_refused_in_three_sentences(
    name: str, inputs: Any, options: dict[str, Any], found: str
) -> None:
    with pytest.raises(InvalidInput, match=found) as caught:
        networks[name](inputs, 10, **options, generator=torch.Generator())
    assert len(str(caught.value).splitlines()) == 3


def test_a_patch_that_does_not_fit_is_answered_with_those_that_do() -> None:
    with pytest.raises(InvalidInput, match=r"divides both sides: 1, 2, 4, 7, 14, 28\.$"):
        build("vit_mini", (1, 28, 28), 10, 0, patch=8)


def test_an_unknown_option_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UnknownName) as caught:
        build("resmlp", 12, 3, 0, dept=2)
    assert str(caught.value) == (
        "There is no option of network 'resmlp' called 'dept'. Did you mean 'depth'?\n"
        "Known: d, depth, residual, terminal_ln, w2_std."
    )


def test_the_generator_is_no_option() -> None:
    with pytest.raises(UnknownName, match="no option of network 'resmlp' called 'generator'"):
        build("resmlp", 12, 3, 0, generator=torch.Generator())  # type: ignore[arg-type]


def test_an_unknown_network_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UnknownName, match=r"Did you mean 'resmlp'\?(.|\n)*creditscope/networks/\.$"):
        build("resmpl", 12, 3, 0)


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [("d", "256", "a whole number"), ("d", 2.5, "a whole number"), ("d", True, "a whole number"),
     ("terminal_ln", 1, "true or false"), ("w2_std", "0.1", "a number"), ("w2_std", True, "a number")],
)  # fmt: skip
def test_a_value_of_another_kind_is_refused(option: str, value: Any, wanted: str) -> None:
    with pytest.raises(InvalidInput, match=f"{option} of network 'resmlp' is {value!r}, of type (.|\n)*Give {wanted}"):
        build("resmlp", 12, 3, 0, **{option: value})


def test_a_whole_number_will_do_where_any_number_does() -> None:
    whole, fraction = (build("student_net", 12, 3, 0, alpha=alpha) for alpha in (1, 1.0))
    x = torch.ones(2, 12)
    assert torch.equal(whole(x), fraction(x))


@pytest.mark.parametrize(("classes", "seed", "found"), [(1, 0, "classes is 1"), (3, -1, "seed is -1")])
def test_classes_and_seeds_that_cannot_be_are_refused(classes: int, seed: int, found: str) -> None:
    with pytest.raises(InvalidInput, match=found):
        build("resmlp", 12, classes, seed)


def test_the_options_of_a_network_come_with_their_defaults() -> None:
    assert network_options("student_net") == {"d": 128, "depth": 4, "alpha": 1.0, "residual": True}


def test_building_is_calling_the_class_with_a_seeded_generator() -> None:
    built = build("student_net", 12, 3, 5, d=8).state_dict()
    called = networks["student_net"](12, 3, d=8, generator=weight_generator(5)).state_dict()
    assert all(torch.equal(built[key], called[key]) for key in called)


@pytest.mark.parametrize("seed", [0, 42, 123])
def test_weights_are_independent_of_whatever_else_the_seed_starts(seed: int) -> None:
    """Correlation with the draws of a bare generator of the same seed stays within 4 standard errors."""
    weights = build("resmlp", 3072, 10, seed).embed.weight.flatten()
    for draw in (torch.rand, torch.randn):
        other = draw(weights.numel(), generator=torch.Generator().manual_seed(seed))
        assert abs(torch.corrcoef(torch.stack([weights, other]))[0, 1]) < 4 / weights.numel() ** 0.5


def test_seeds_beyond_32_bits_are_seeds_of_their_own() -> None:
    low, high = (build("student_net", 12, 3, seed, d=8) for seed in (5, 5 + 2**32))
    assert not torch.equal(low.embed.weight, high.embed.weight)


def test_a_list_is_as_good_a_shape_as_a_tuple() -> None:
    assert build("small_resnet", [3, 8, 8], 10, 0)(torch.zeros(2, 3, 8, 8)).shape == (2, 10)  # type: ignore[arg-type]
    assert image_shape("small_cnn", (1, 8, 9)) == (1, 8, 9)


def test_the_table_of_networks_costs_no_import_of_torch() -> None:
    lines = "import sys, creditscope.networks; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", lines], check=False).returncode == 0
