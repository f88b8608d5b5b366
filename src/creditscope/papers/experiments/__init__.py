"""Which experiments are there?  One file and one decorator adds one; its study has the same name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from creditscope.papers.book import PAPER, Book
from creditscope.papers.published import published
from creditscope.papers.sheet import Line, Sheet
from creditscope.registry import Registry
from creditscope.runs.spec import RunSpec
from creditscope.study.expansion import setting

Lines = Callable[[Book], Iterable[Line]]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A published experiment: its number, what it asks, and how its table is read from records."""

    name: str
    number: int
    question: str
    lines: Lines


experiments: Registry[Experiment] = Registry("experiment", __name__)


def experiment(name: str, *, number: int, question: str) -> Callable[[Lines], Lines]:
    """Register the lines of an experiment's table."""

    def enter(function: Lines) -> Lines:
        experiments.add(name, Experiment(name, number, question, function))
        return function

    return enter


def in_order() -> list[Experiment]:
    """All experiments by number."""
    return sorted(experiments.values(), key=lambda one: one.number)


def sheets(book: Book) -> Iterator[Sheet]:
    """The table of every experiment; a second one where runs of another length, as published, are there too."""
    paper = Book(book.store, PAPER)
    for one in in_order():
        yield sheet(one.name, book)
        longer = set(paper.plan(one.name)) - set(book.plan(one.name))
        if any(paper.record(key) is not None for key in longer):
            yield sheet(one.name, paper)


def sheet(name: str, book: Book) -> Sheet:
    """The table of an experiment from the records that are there."""
    found = experiments[name]
    return Sheet(
        experiment=name,
        number=found.number,
        title=found.question,
        budget=book.budget,
        ours=trained_with(book, name),
        theirs=published().settings.get(name, ""),
        lines=tuple(found.lines(book)),
    )


def trained_with(book: Book, name: str) -> str:
    """Epochs and seeds of most of a study's runs in words, then of the rows that were trained otherwise.

    Such rows are named by their network alone where all of it was trained alike, else in full.
    """
    seeds: dict[str, list[int]] = {}
    firsts: dict[str, RunSpec] = {}
    for spec in book.plan(name).values():
        row = spec.model_copy(update={"seed": 0}).model_dump_json()
        firsts.setdefault(row, spec)
        seeds.setdefault(row, []).append(spec.seed)
    words = {row: _trained(spec.epochs, seeds[row]) for row, spec in firsts.items()}
    usual = Counter(word for row, word in words.items() for _ in seeds[row]).most_common(1)[0][0]
    by_network: dict[str, set[str]] = {}
    for row, spec in firsts.items():
        by_network.setdefault(_network(spec), set()).add(words[row])
    others = {
        f"{_network(spec) if len(by_network[_network(spec)]) == 1 else _in_full(spec)}: {words[row]}": None
        for row, spec in firsts.items()
        if words[row] != usual
    }
    return "; ".join((usual, *others, *_instead(book, name), *_heard(firsts.values())))


def _instead(book: Book, name: str) -> list[str]:
    """Options of the networks that another budget than the published one changes."""
    mine, theirs = book.plan(name).values(), Book(book.store, PAPER).plan(name).values()
    options = sorted({option for spec in mine for option in spec.network_options})
    found = {option: [_values(specs, option) for specs in (mine, theirs)] for option in options}
    return [
        f"{option} = {', '.join(sorted(ours - published))} instead of {', '.join(sorted(published - ours))}"
        for option, (ours, published) in found.items()
        if ours - published and published - ours
    ]


def _values(specs: Iterable[RunSpec], option: str) -> set[str]:
    """The values of a network's option, its default where none was given."""
    given = (setting(spec, f"network.{option}") for spec in specs)
    return {str(value) for value in given if value is not None}


def _heard(specs: Iterable[RunSpec]) -> list[str]:
    """Which state the blocks of DFA hear, where all hear the same, or most do."""
    found = Counter(setting(spec, "method.index") for spec in specs if spec.method == "dfa").most_common(2)
    if not found or (len(found) == 2 and found[0][1] == found[1][1]):
        return []
    others = " unless a row says otherwise" if len(found) == 2 else ""
    return [f"DFA with index = {found[0][0]}{others}"]


def _trained(epochs: int, seeds: Sequence[int]) -> str:
    return f"{epochs} epochs, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def _in_full(spec: RunSpec) -> str:
    return spec.title.rpartition(f", {spec.epochs} epochs")[0]


def _network(spec: RunSpec) -> str:
    """A network with the options that were given."""
    given = ", ".join(f"{option}={value}" for option, value in sorted(spec.network_options.items()))
    return f"{spec.network}({given})" if given else spec.network
