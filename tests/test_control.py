"""A control has one name, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from creditscope.control import Control
from creditscope.errors import InvalidInput, UnknownName


@pytest.mark.parametrize("name", ["none", "frozen", "shallow", "ladder-0", "ladder-1", "ladder-12"])
def test_a_control_is_written_as_it_is_read(name: str) -> None:
    assert str(Control.parse(name)) == name


@pytest.mark.parametrize(
    "name",
    ["", "thawed", "Frozen", "frozen ", "frozen-1", "ladder", "ladder-", "ladder--1", "ladder-007", "ladder-²",
     "ladder-1.0", "ladder-+1", "ladder-1_0", "ladder-٣", "ladder-1\n"],
)  # fmt: skip
def test_anything_else_is_refused_with_the_controls_that_exist(name: str) -> None:
    with pytest.raises(UnknownName, match="no control called(.|\n)*Known: none, frozen, shallow, ladder-0"):
        Control.parse(name)


def test_a_rung_above_the_network_is_refused() -> None:
    for name in ("none", "frozen", "shallow", "ladder-0", "ladder-3"):
        Control.parse(name).check(3)
    with pytest.raises(InvalidInput, match="The ladder has rungs 0 to 3 on this network, got 4.\nThe rung is"):
        Control.parse("ladder-4").check(3)


def test_the_ladder_leads_from_no_block_to_all_but_the_first() -> None:
    assert [str(rung) for rung in Control.ladder(3)] == ["ladder-0", "ladder-1", "ladder-2"]
    assert Control.parse("ladder-2").rung == 2


def test_a_control_knows_whether_any_block_learns() -> None:
    silent = [
        name for name in ("none", "frozen", "shallow", "ladder-0", "ladder-1") if Control.parse(name).trains_no_block
    ]
    assert silent == ["frozen", "shallow", "ladder-0"]
