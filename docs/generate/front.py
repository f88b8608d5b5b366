"""Writes what the reproduction found on the front page, docs/index.md: sentences that the records give."""

from __future__ import annotations

from collections import Counter
from functools import cache

from docs.generate.field import ROOT, filled
from docs.generate.reproduction import archives

from creditscope.files import write_text
from creditscope.papers.abstract import abstract
from creditscope.papers.archive import RunArchive
from creditscope.papers.claims import ClaimStatus
from creditscope.papers.rendering import Places
from creditscope.papers.tables import comparison_tables
from creditscope.records.labels import counted

PAGE, README = ROOT / "docs" / "index.md", ROOT / "README.md"
MARKS = ("<!-- reproduction: make docs writes these lines -->\n", "<!-- end of the reproduction -->")
WORDS = {  # of one claim and of several
    ClaimStatus.HOLDS: ("holds", "hold"),
    ClaimStatus.FAILS: ("fails", "fail"),
    ClaimStatus.UNDECIDED: ("is undecided", "are undecided"),
}
SENTENCES = 3  # of the abstract: claims, numbers, methods


@cache
def sentences() -> list[str]:
    """The first sentences of the abstract of the reproduced audit."""
    archive = archives()["reproduction"]
    return abstract(archive, list(comparison_tables(archive)), Places().tables).splitlines()[:SENTENCES]


def found() -> str:
    """These sentences, and a line for every paper."""
    every, lines = archives(), sentences()
    archive = every["reproduction"]
    lead = f"We ran the published audit ({archive.paper.title}) again, from its text:"
    others = [f"[{one.paper.title}]({page}.md): {_claims(one)}." for page, one in every.items() if one is not archive]
    papers = "".join(f"\n- {line}" for line in others)
    more = (
        "[The reproduction in a minute](reproduction.md) with every number and its record; [claimed against audited "
        "for every method](gallery.md); [two experiments of ours](findings.md). Names of methods are explained under "
        "[methods](methods.md)."
    )
    return f"{lead}\n\n" + "\n".join(lines) + papers + f"\n\n{more}"


def _claims(archive: RunArchive) -> str:
    counts = Counter(claim.ask(archive).status for claim in archive.paper.claims)
    if not any(archive.record(key) for name in archive.paper.names for key in archive.plan(name)):
        return f"{counted(counts.total(), 'published claim')}, not run yet"
    known = [(counts[status], words) for status, words in WORDS.items() if counts[status]]
    said = ", ".join(f"{count} {words[count > 1]}" for count, words in known)
    return f"of {counted(counts.total(), 'published claim')}, {said}"


def page() -> str:
    """The front page with these lines written again."""
    return filled(PAGE.read_text(encoding="utf-8"), MARKS, found())


def readme() -> str:
    """The README with these sentences written again."""
    return filled(README.read_text(encoding="utf-8"), MARKS, "\n".join(sentences()))


if __name__ == "__main__":
    print(write_text(README, readme()).relative_to(ROOT))
    print(write_text(PAGE, page()).relative_to(ROOT))
