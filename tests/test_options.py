"""Options are read from signatures, by position and not by name, and have the kind of their default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from creditscope.errors import InvalidInput, UnknownName
from creditscope.options import filled, options_of


class Network:
    def __init__(self, inputs: int = 4, classes: int = 2, *, folder: str = "", depth: int = 3, generator: Any) -> None:
        raise NotImplementedError


@dataclass
class Rule:
    inputs: float = 1.0
    index: str = "output"


def loader(folder: str | None = None, *, inputs: int = 8, widths: tuple[int, ...] = (4, 4)) -> None:
    raise NotImplementedError


def test_what_the_builder_passes_is_no_option_and_the_same_name_elsewhere_is_one() -> None:
    assert options_of("network", Network) == {"folder": "", "depth": 3}
    assert options_of("method", Rule) == {"inputs": 1.0, "index": "output"}
    assert options_of("data", loader) == {"inputs": 8, "widths": (4, 4)}


def test_defaults_fill_what_was_not_given() -> None:
    assert filled("data", "made", options_of("data", loader), {"inputs": 3}) == {"inputs": 3, "widths": (4, 4)}


def test_a_whole_number_becomes_a_number_and_a_list_a_tuple() -> None:
    assert filled("data", "made", {"alpha": 0.5, "widths": (4.0,)}, {"alpha": 1, "widths": [1, 2]}) == {
        "alpha": 1.0,
        "widths": (1.0, 2.0),
    }


def test_an_unknown_option_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UnknownName, match="no option of data 'made' called 'width'. Did you mean 'widths'"):
        filled("data", "made", options_of("data", loader), {"width": 3})


@pytest.mark.parametrize(
    ("known", "value", "wanted"),
    [
        (3, True, "a whole number, such as the default 3"),
        (3, 2.5, "a whole number, such as the default 3"),
        (True, 1, "true or false, such as the default True"),
        ("none", 1, "a word, such as the default 'none'"),
        ((4, 4), 64, r"a list, such as the default \[4, 4\]"),
        ((4, 4), ("x", 4), "a whole number, such as the default 4"),
    ],
)
def test_a_value_of_another_kind_is_refused(known: Any, value: Any, wanted: str) -> None:
    with pytest.raises(InvalidInput, match=f"x of method 'made' is (.|\n)*Give {wanted}"):
        filled("method", "made", {"x": known}, {"x": value})


def test_steps_without_end_and_numbers_beyond_float_are_refused() -> None:
    assert filled("method", "ep", {"steps": 20}, {"steps": 10**6}) == {"steps": 10**6}
    with pytest.raises(InvalidInput, match=r"steps of method 'ep' is 1,000,001\.\n.* no run would end"):
        filled("method", "ep", {"steps": 20}, {"steps": 10**6 + 1})
    assert filled("network", "mlp", {"d": 20}, {"d": 10**7}) == {"d": 10**7}  # whose memory is checked
    with pytest.raises(InvalidInput, match="kappa of method 'ep' is 1000"):
        filled("method", "ep", {"kappa": 0.01}, {"kappa": 10**400})
