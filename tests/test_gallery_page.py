"""The gallery: current, every row from committed records, and every link leads to a file or a card."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from docs.generate import gallery

pytestmark = pytest.mark.slow  # it reads every committed record
LINK = re.compile(r"\]\(((?!https?:)[^)#]*)(?:#([^)]*))?\)")


@pytest.fixture(scope="module")
def made() -> list[gallery.Row]:
    return gallery.rows()


def test_the_gallery_is_current(made: list[gallery.Row]) -> None:
    assert gallery.PAGE.read_text(encoding="utf-8") == gallery.page(made), "run make docs"
    assert gallery.CARDS.read_text(encoding="utf-8") == gallery.cards(made), "run make docs"


def test_every_row_has_a_card_and_every_record_of_it_exists(made: list[gallery.Row]) -> None:
    names = gallery.anchors(made)
    assert len(set(names)) == len(names) == gallery.cards(made).count("\n## ")
    for target, anchor in LINK.findall(gallery.grid(made)):
        assert (gallery.PAGE.parent / target).exists(), target
        assert not anchor or anchor in names


def test_a_card_shows_the_warnings_of_its_verdict(made: list[gallery.Row]) -> None:
    warned = replace(made[0], verdict=replace(made[0].verdict, warnings=("The run of seed 1 diverged.",)))
    assert "- Warning: The run of seed 1 diverged.\n" in gallery.cards([warned])


def test_the_accuracy_of_a_row_is_that_of_its_records(made: list[gallery.Row]) -> None:
    for row in made[:3]:
        paths = [gallery.PAGE.parent / target for link in row.records for target, _ in LINK.findall(link)]
        finals = [json.loads(path.read_text())["history"][-1]["accuracy"] for path in paths]
        assert row.accuracy.startswith(f"{100 * sum(finals) / len(finals):.1f}")


def test_a_published_number_stands_beside_the_runs_that_were_compared_with_it(made: list[gallery.Row]) -> None:
    (row,) = (row for row in made if row.title.startswith("dfa(index=input) on cifar10, resmlp, 100 epochs"))
    assert (row.claimed["accuracy"].text, row.claimed["Γ"].text) == ("30.6 % ± 0.8", "+0.1")
    assert "reproduction.md" in row.paper


def test_the_published_number_of_equal_length_is_preferred_and_another_length_is_said(made: list[gallery.Row]) -> None:
    claimed = {row.title: row.claimed["accuracy"].text if row.claimed else None for row in made}
    assert claimed["bp on cifar10, resmlp, 30 epochs, protocol three"] == "58.5 % ± 0.1"
    assert claimed["ep on cifar10, resmlp, 30 epochs, protocol three"] == "31.6 % ± 3.7 after 100 epochs"
    assert claimed["bp on cifar10, resmlp, 30 epochs, protocol strict"] is None  # trained again, not compared


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("resmlp, 30 epochs", "resmlp, 30 epochs"),
        ("net(depth=30, width=32), batch_size 64, loss squared, 1 epoch", "net(depth=30, width=32), …, 1 epoch"),
        ("rule(one=0.12345, two=0.12345, three=0.12345) + penalty 1", "rule(…) + penalty 1"),
    ],
)
def test_a_long_name_loses_its_recipe_before_its_options(name: str, shown: str) -> None:
    assert gallery._short(name) == shown
