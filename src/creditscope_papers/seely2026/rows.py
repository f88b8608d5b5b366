"""The rows of both tables: accuracy, the cosine of the whole network, Γ per quarter and per layer, D1 to D13."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from creditscope.diagnostics import diagnostics
from creditscope.options import Option
from creditscope.papers.archive import RunArchive
from creditscope.papers.paper import RunGroup
from creditscope.papers.quantities import ACCURACY, Quantity, Reader, finding, measure, measured
from creditscope.papers.tables import ComparisonRow, RunKeys, aggregate_row, common_length, keys_of
from creditscope.records.run import RunRecord
from creditscope.statistics.layers import mean

Settings = dict[str, Option]
HEADLINE, GRID = "headline", "width_depth"
PC: Settings = {"method": "predictive_coding", "method.multipliers": False}
ALM: Settings = {"method": "predictive_coding", "method.multipliers": True}
METHODS: dict[str, Settings] = {"bp": {"method": "bp"}, "PC": PC, "PC-ALM": ALM}
CELLS = tuple((width, layers) for layers in (8, 32) for width in (8, 32, 128))  # N and L
QUARTERS = ("first", "second", "third", "last")
CODES = ("D1", "D2", "D4", "D5", "D7", "D8", "D9", "D10", "D11", "D12", "D13")  # D3 has a row; D6 does not apply

WHOLE = Quantity("whole", "cosine of the update with BP's, whole network", "cosine", measure("gamma_update_whole"))
PER_LAYER = Quantity("gamma_layers", "Γ per layer, mean over seeds", "cosine")
DEPTH = Quantity("D3", "D3: points above the frozen control", "points")


def quarter(name: str, number: int) -> Reader:
    """Reads the mean of a measure over one quarter of the layers h_0..h_L."""

    def read(record: RunRecord) -> float:
        measurement = measured(record, name)
        layers = () if measurement is None else measurement.per_layer
        cuts = [round(part * len(layers) / 4) for part in range(5)]
        return mean(layers[cuts[number] : cuts[number + 1]]) if layers else math.nan

    return read


GAMMAS = tuple(
    Quantity(f"gamma_{word}", f"Γ, {word} quarter of the layers", "cosine", quarter("gamma", number))
    for number, word in enumerate(QUARTERS)
)
UPDATES = tuple(
    Quantity(f"update_{word}", f"cosine of the update with BP's, {word} quarter", "cosine", quarter("gamma_update", n))
    for n, word in enumerate(QUARTERS)
)
DIAGNOSTICS = tuple(
    Quantity(code, f"{code}: {diagnostics[code].title.lower()}", "size", finding(code)) for code in CODES
)


def named_groups(experiment: str) -> Iterator[tuple[str, Settings]]:
    """Every row of an experiment with its settings: the methods, in the grid those of every cell."""
    if experiment == HEADLINE:
        yield from METHODS.items()
        return
    for width, layers in CELLS:
        cell: Settings = {"network.width": width, "network.depth": layers - 2}
        for name, method in METHODS.items():
            yield f"N = {width}, L = {layers}, {name}", {**method, **cell}


def audited(archive: RunArchive, experiment: str) -> Iterator[RunGroup | ComparisonRow]:
    """The numbers of every row; BP has no alignment of its own."""
    for name, where in named_groups(experiment):
        own = () if where["method"] == "bp" else (WHOLE, *GAMMAS, *UPDATES)
        yield RunGroup(name, where, (ACCURACY, *own, *DIAGNOSTICS))
        if own:
            yield _per_layer(archive, experiment, name, where)
        yield _depth(archive, experiment, name, where)


def headline(archive: RunArchive) -> Iterator[RunGroup | ComparisonRow]:
    """The published cell."""
    return audited(archive, HEADLINE)


def width_depth(archive: RunArchive) -> Iterator[RunGroup | ComparisonRow]:
    """Every cell of the grid."""
    return audited(archive, GRID)


def _per_layer(archive: RunArchive, experiment: str, name: str, where: Settings) -> ComparisonRow:
    """Γ of every layer in one line."""
    runs = archive.select(experiment, where)
    layers = [m.per_layer for record in runs.records.values() if (m := measured(record, "gamma")) is not None]
    texts = (" ".join(f"{mean(column):.2f}" for column in zip(*layers, strict=True)),) if layers else ()
    keys = RunKeys(tuple(runs.records), seeds=runs.seeds, epochs=common_length(runs.specs.values()))
    return aggregate_row(None, name, PER_LAYER, (), keys, texts=texts)


def _depth(archive: RunArchive, experiment: str, name: str, where: Settings) -> ComparisonRow:
    """The margin to the frozen control of every seed, and what D3 says over all of them."""
    row = archive.audit_row(experiment, where)
    seeds = () if row is None else row.seeds
    values: Sequence[float] = [
        100 * (seed.accuracy - seed.control_accuracy) for seed in seeds if seed.control_accuracy is not None
    ]
    found = None if row is None else row.findings.get("D3")
    note = f"over seeds: {found.status.value}" if found is not None and values else ""
    return aggregate_row(None, name, DEPTH, values, keys_of(seeds), note=note)
