"""Entries are found by themselves; a wrong name is answered with the nearest right one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from creditscope.commands.entries import Kind, package
from creditscope.commands.entries import registry as registry_of
from creditscope.errors import CreditscopeError, UnknownName
from creditscope.registry import DuplicateName, Registry, unknown


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry[str]]:
    """A folder with two entries, each in its own file."""
    folder = tmp_path / "zoo_of_tests" / "animals"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(
        "from creditscope.registry import Registry\nanimals = Registry('animal', __name__)\n"
    )
    for animal in ("zebra", "otter"):
        (folder / f"{animal}.py").write_text(f"from . import animals\nanimals.add({animal!r}, {animal!r}.upper())\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    from zoo_of_tests.animals import animals

    yield animals
    for module in [name for name in sys.modules if name.startswith("zoo_of_tests")]:
        del sys.modules[module]


def test_every_file_of_the_folder_is_found_without_a_list(registry: Registry[str]) -> None:
    assert list(registry) == ["otter", "zebra"]
    assert len(registry) == 2
    assert registry["zebra"] == "ZEBRA"
    assert "otter" in registry
    assert "emu" not in registry


def test_an_entry_from_outside_joins_the_others(registry: Registry[str]) -> None:
    registry.add("emu", "EMU")
    assert list(registry) == ["emu", "otter", "zebra"]


def test_numbers_in_names_are_sorted_as_numbers(registry: Registry[str]) -> None:
    for name in ("otter10", "otter2", "otter2:small", "X3"):
        registry.add(name, name)
    assert list(registry) == ["X3", "otter", "otter2", "otter2:small", "otter10", "zebra"]


def test_the_same_name_twice_is_an_error(registry: Registry[str]) -> None:
    len(registry)
    with pytest.raises(DuplicateName) as caught:
        registry.add("zebra", "another")
    message = str(caught.value)
    assert "two animals called 'zebra': 'ZEBRA' and 'another'" in message
    assert "could not be traced" in message
    assert "Rename" in message
    assert registry["zebra"] == "ZEBRA"


def test_a_miss_suggests_the_nearest_name_and_says_where_a_new_file_goes(registry: Registry[str]) -> None:
    with pytest.raises(UnknownName) as caught:
        registry["oter"]
    assert str(caught.value) == (
        "There is no animal called 'oter'. Did you mean 'otter'?\n"
        "Known: otter, zebra. A new one is a file in zoo_of_tests/animals/."
    )


def test_a_name_that_is_near_to_none_gets_no_suggestion(registry: Registry[str]) -> None:
    with pytest.raises(CreditscopeError) as caught:
        registry["xxxxxxxx"]
    assert "Did you mean" not in str(caught.value)


def test_a_miss_in_an_empty_table_says_that_there_is_none() -> None:
    assert unknown("wheel", "round", {}) == "There is no wheel called 'round'.\nKnown: none."


@pytest.mark.parametrize("kind", ["methods", "networks", "datasets"])
def test_summaries_read_from_the_decorators_are_those_of_the_entries(kind: str) -> None:
    """The list is made without importing the entries, so that it needs no torch."""
    full = registry_of(Kind(kind))
    read = type(full)(full.kind, package(Kind(kind))).summaries()
    own = {name: entry.summary for name, entry in full.items() if entry.__module__.startswith(package(Kind(kind)))}
    assert list(read.items()) == list(own.items())
    assert {name: full.summaries()[name] for name in own} == own
