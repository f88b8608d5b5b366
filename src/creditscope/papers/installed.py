"""The installed papers, found by the entry-point group `creditscope.papers`, and how a command line names one."""

from __future__ import annotations

from importlib.metadata import entry_points

from creditscope.errors import InvalidInput, UnknownName
from creditscope.papers.paper import Paper
from creditscope.plugins import FaultyPlugin
from creditscope.registry import DuplicateName, unknown

GROUP = "creditscope.papers"


def installed_papers() -> dict[str, Paper]:
    """Every installed paper by its name, sorted."""
    papers: dict[str, Paper] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            paper = entry.load()
        except Exception as error:
            raise FaultyPlugin(
                f"The paper {entry.name!r} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}\n"
                "Nothing was compared with it. Repair or uninstall the package that declares it."
            ) from error
        if not isinstance(paper, Paper):
            raise FaultyPlugin(
                f"The paper {entry.name!r} ({entry.value}) is a {type(paper).__name__}, not a Paper.\n"
                "Its experiments are unknown. Let the entry point name a creditscope.papers.paper.Paper."
            )
        if paper.name in papers:
            raise DuplicateName(
                f"Two installed papers are called {paper.name!r}.\n"
                "Their tables would overwrite each other. Uninstall one of the packages."
            )
        papers[paper.name] = paper
    return papers


def choose(papers: dict[str, Paper], first: str | None, second: str | None) -> tuple[Paper, list[str]]:
    """The paper and the experiments that `reproduce [PAPER] [EXPERIMENT]` names.

    A single name is a paper, else the experiment of the one paper that has it; a name that is both means the paper.
    """
    if not papers:
        raise InvalidInput(
            f"No paper is installed.\nThere is nothing to reproduce. Install a package with the entry point {GROUP}."
        )
    if second is not None or first in papers:
        if first not in papers:
            raise UnknownName(unknown("paper", first, papers))
        return papers[first], papers[first].names if second is None else [papers[first].experiment(second).name]
    having = [paper for paper in papers.values() if first is None or first in paper.names]
    if not having:
        names = [name for paper in papers.values() for name in (paper.name, *paper.names)]
        raise UnknownName(unknown("paper or experiment", first, names))
    if len(having) > 1:
        several = "are installed" if first is None else f"have an experiment called {first!r}"
        raise InvalidInput(
            f"Several papers {several}: {', '.join(paper.name for paper in having)}.\n"
            f"Nothing was run. Name one: creditscope reproduce {having[0].name} {first or ''}".rstrip()
        )
    return having[0], having[0].names if first is None else [first]
