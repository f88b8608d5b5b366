"""How the runs of a study were trained, in one line for the caption of its table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from creditscope.papers.archive import RunArchive
from creditscope.records.labels import counted, named
from creditscope.runs.spec import RunSpec


def describe_training(archive: RunArchive, study: str) -> str:
    """Epochs and seeds of most runs, then of the rows that were trained otherwise, then what the paper adds.

    Such rows are named by their network alone if all of it was trained alike, else in full.
    """
    seeds: dict[str, list[int]] = {}
    first: dict[str, RunSpec] = {}
    for spec in archive.plan(study).values():
        row = spec.model_copy(update={"seed": 0}).model_dump_json()
        first.setdefault(row, spec)
        seeds.setdefault(row, []).append(spec.seed)
    texts = {row: _length_and_seeds(spec.epochs, seeds[row]) for row, spec in first.items()}
    usual = Counter(text for row, text in texts.items() for _ in seeds[row]).most_common(1)[0][0]
    networks = {row: named(spec.settings(), "network") for row, spec in first.items()}
    by_network: dict[str, set[str]] = {}
    for row, network in networks.items():
        by_network.setdefault(network, set()).add(texts[row])
    others = dict.fromkeys(
        f"{network if len(by_network[network]) == 1 else first[row].title_without('epochs', 'seed')}: {texts[row]}"
        for row, network in networks.items()
        if texts[row] != usual
    )
    added = archive.paper.describe_runs(list(first.values()))
    return "; ".join((usual, *others, *_changed_options(archive, study), *added))


def _changed_options(archive: RunArchive, study: str) -> list[str]:
    """Network options that differ from those of the budget as published."""
    mine, theirs = archive.plan(study).values(), archive.as_published.plan(study).values()
    options = sorted({option for spec in mine for option in spec.network_options})
    values = {option: [_values(specs, option) for specs in (mine, theirs)] for option in options}
    return [
        f"{option} = {', '.join(sorted(ours - published))} instead of {', '.join(sorted(published - ours))}"
        for option, (ours, published) in values.items()
        if ours - published and published - ours
    ]


def _values(specs: Iterable[RunSpec], option: str) -> set[str]:
    """The values of a network option, its default where none was given."""
    given = (spec.setting(f"network.{option}") for spec in specs)
    return {str(value) for value in given if value is not None}


def _length_and_seeds(epochs: int, seeds: Sequence[int]) -> str:
    return f"{counted(epochs, 'epoch')}, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
