"""Predictive coding with multipliers: the recipe of the paper in every cell, and claims as the records say."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from tests.papers import made
from tests.papers.made import run

from creditscope.papers.archive import RunArchive
from creditscope.papers.document import documents
from creditscope.papers.rendering import Places
from creditscope.papers.tables import comparison_table
from creditscope.records.run import RunRecord
from creditscope.runs.spec import RunSpec
from creditscope.study.declaration import Study
from creditscope.verdict import Measurement
from creditscope_papers.seely2026 import PAPER, claims
from creditscope_papers.seely2026.rows import CELLS, GRID, HEADLINE, quarter

EVEN = (0.9,) * 31


def archive(make: made.Make | None = None) -> RunArchive:
    return made.archive(PAPER, make, HEADLINE, GRID)


def trained(
    accuracies: dict[str, float], cosines: dict[str, float], layers: tuple[float, ...] = EVEN, frozen: float = 0.5
) -> Callable[[RunSpec], RunRecord]:
    """Every method with an accuracy and a whole-network cosine of its own."""

    def make(spec: RunSpec) -> RunRecord:
        name = "bp" if spec.method == "bp" else "PC-ALM" if spec.setting("method.multipliers") else "PC"
        accuracy = frozen if spec.control == "frozen" else accuracies[name]
        measures = {"gamma_update_whole": Measurement(cosines.get(name, 1.0)), "gamma": Measurement(0.9, layers)}
        return run(spec, accuracy, measures=measures)

    return make


ACCURACIES, COSINES = {"bp": 0.79, "PC": 0.68, "PC-ALM": 0.78}, {"PC": 0.6, "PC-ALM": 0.91}
UNEVEN = (0.95,) * 24 + (0.5,) * 7


def test_every_study_is_an_experiment_and_every_cell_has_the_recipe_of_the_paper():
    assert {path.stem for path in PAPER.studies.iterdir()} == set(PAPER.names)
    cells = set()
    for name in PAPER.names:
        assert Study.read(PAPER.studies / f"{name}.toml").name == name
        for spec in made.planned(PAPER, name).values():
            width, layers = spec.setting("network.width"), spec.setting("network.depth") + 2
            cells.add((width, layers))
            assert spec.learning_rate == pytest.approx(1e-3 * math.sqrt(width / layers))
            assert (spec.batch_size, spec.epochs, spec.weight_decay, spec.setting("optimiser")) == (64, 1, 0, "adam")
            if spec.method == "predictive_coding":
                assert spec.setting("method.steps") == 2 * layers
                assert 4 < 1 / spec.setting("method.step_size") < 5  # λ_max of a residual chain lies near 4
    assert cells == set(CELLS)


@pytest.mark.parametrize("name", PAPER.names)
def test_a_table_shows_every_run_and_says_not_run_without_any(name):
    empty = comparison_table(archive(), name)
    assert {row.agreement for row in empty.rows} == {"not run"}
    full = comparison_table(archive(trained(ACCURACIES, COSINES)), name)
    shown = {key for row in full.rows for key in row.keys}
    assert shown >= {key for key, spec in made.planned(PAPER, name).items() if spec.control == "none"}
    assert all(row.values or row.texts for row in full.rows if row.quantity in ("accuracy", "D3", "gamma_layers"))


def test_verdicts_of_budgets_with_the_same_runs_stand_once_on_the_page():
    page = documents(archive(trained(ACCURACIES, COSINES)), "seely2026", Places())["seely2026.md"]
    assert page.count("Trained for 1 epoch, as long as published:") == page.count("Trained for 1 epoch") == 1
    assert "No run yet." in documents(archive(), "seely2026", Places())["seely2026.md"]


def test_quarters_are_quarters_of_the_layers():
    make = trained(ACCURACIES, COSINES, layers=tuple(float(layer) for layer in range(8)))
    record = make(next(iter(made.planned(PAPER, HEADLINE).values())))
    assert [quarter("gamma", number)(record) for number in range(4)] == [0.5, 2.5, 4.5, 6.5]
    assert math.isnan(quarter("gamma_update", 0)(record))


@pytest.mark.parametrize(
    ("claim", "make", "status"),
    [
        (claims.matches_bp, trained(ACCURACIES, COSINES), "holds"),
        (claims.matches_bp, trained({**ACCURACIES, "PC-ALM": 0.765}, COSINES), "fails"),
        (claims.matches_bp, None, "undecided"),
        (claims.cosine_as_published, trained(ACCURACIES, COSINES), "holds"),
        (claims.cosine_as_published, trained(ACCURACIES, {"PC": 0.6, "PC-ALM": 0.85}), "fails"),
        (claims.cosine_as_published, trained(ACCURACIES, {"PC-ALM": math.nan}), "undecided"),
        (claims.better_than_pc, trained(ACCURACIES, COSINES), "holds"),
        (claims.better_than_pc, trained({**ACCURACIES, "PC": 0.785}, COSINES), "undecided"),  # half a point, one seed
        (claims.better_than_pc, trained({**ACCURACIES, "PC": 0.761}, COSINES), "undecided"),
        (claims.better_than_pc, trained({**ACCURACIES, "PC": 0.801}, COSINES), "fails"),
        (claims.better_than_pc, trained(ACCURACIES, {"PC": 0.87, "PC-ALM": 0.91}), "undecided"),
        (claims.better_than_pc, trained(ACCURACIES, {"PC": 0.97, "PC-ALM": 0.91}), "fails"),
        (claims.better_than_pc, trained(ACCURACIES, {"PC": math.nan, "PC-ALM": 0.91}), "undecided"),
        (claims.even_over_depth, trained(ACCURACIES, COSINES), "holds"),
        (claims.even_over_depth, trained(ACCURACIES, COSINES, UNEVEN), "fails"),
        (claims.depth_is_used, trained(ACCURACIES, COSINES), "holds"),
        (claims.depth_is_used, trained(ACCURACIES, COSINES, frozen=0.80), "fails"),
        (claims.depth_is_used, None, "undecided"),
    ],
)
def test_claims_hold_fail_or_stay_open_as_the_records_say(claim, make, status):
    assert claim.ask(archive(make)).status == status
