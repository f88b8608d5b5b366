"""The abstract of a paper's page: at most five sentences, computed from the records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from creditscope.papers.archive import RunArchive
from creditscope.papers.claims import ClaimStatus
from creditscope.papers.comparison import Agreement
from creditscope.papers.glance import ComparedNumber, compared_numbers, largest_differences, length_in_words
from creditscope.papers.paper import VerdictSection
from creditscope.papers.reasons import likeliest_reason
from creditscope.papers.rendering import difference, ours, theirs
from creditscope.papers.tables import ComparisonTable
from creditscope.records.labels import counted
from creditscope.report.markdown import escaped

ORDER = ("The largest disagreement", "The second largest")


def abstract(archive: RunArchive, tables: Sequence[ComparisonTable], folder: str) -> str:
    """Claims, numbers and methods counted, then the two largest disagreements and their likeliest reasons.

    folder   the tables, as a path from the page
    """
    numbers = compared_numbers(archive.paper, tables)
    sentences = [_claims(archive), _numbers(numbers)]
    if archive.paper.verdicts is not None:
        sentences.append(_methods(archive, archive.paper.verdicts))
    largest = islice(largest_differences(numbers), len(ORDER))
    sentences += [_difference(archive, word, number, folder) for word, number in zip(ORDER, largest, strict=False)]
    return "\n".join(f"- {sentence}" for sentence in sentences)


def _claims(archive: RunArchive) -> str:
    answers = [(claim, claim.ask(archive).status) for claim in archive.paper.claims]
    counts = Counter(status for _, status in answers)
    failing = [claim.statement for claim, status in answers if status is ClaimStatus.FAILS]
    named = f" (“{escaped('”; “'.join(failing))}”)" if failing else ""
    return (
        f"Of {counted(len(answers), 'published claim')}, "
        f"**{counted(counts[ClaimStatus.HOLDS], 'holds', 'hold')} on our records, "
        f"{counted(len(failing), 'fails', 'fail')}{named} and "
        f"{_undecided(counts[ClaimStatus.UNDECIDED])}**."
    )


def _undecided(count: int) -> str:
    return counted(count, "is undecided", "are undecided")


def _numbers(numbers: Sequence[ComparedNumber]) -> str:
    if not numbers:
        return "No published number has a run of ours beside it yet."
    counts = Counter(number.row.agreement for number in numbers)
    long = [number for number in numbers if number.as_long]
    agreeing = sum(number.row.agreement is Agreement.AGREES for number in long)
    length = f"of the {len(long)} for which ours was {length_in_words(long)}, {_agreeing(agreeing)}"
    if len(long) == len(numbers):
        length = f"for all of them ours was {length_in_words(long)}"
    return (
        f"Of {counted(len(numbers), 'published number')} that we have run, {_agreeing(counts[Agreement.AGREES])}, "
        f"{counted(counts[Agreement.DIFFERS], 'differs', 'differ')} and {_undecided(counts[Agreement.UNDECIDED])}; "
        f"{length}."
    )


def _agreeing(count: int) -> str:
    return counted(count, "agrees", "agree")


def _methods(archive: RunArchive, section: VerdictSection) -> str:
    """The methods that the paper rejects by a flag, and our verdicts on the same ones; without flags ours alone."""
    audited = dict(_audited(archive, section))
    judged = {name: (flags, outcome) for name, (flags, outcome) in audited.items() if flags is not None}
    if not audited:
        return "No method has been run yet."
    outcomes: dict[str, list[str]] = {"fail": [], "inconclusive": [], "pass": []}
    for name, (_, outcome) in (judged or audited).items():
        outcomes.setdefault(outcome, []).append(name)
    ours = (
        f"our audit (protocol `{archive.paper.protocol}`) rejects {_named(outcomes['fail'])}, "
        f"passes {_named(outcomes['pass'])} and leaves {_named(outcomes['inconclusive'])} undecided."
    )
    if not judged:
        return f"The paper publishes no flags. Of {counted(len(audited), 'method')} {ours}"
    rejected = [name for name, (flags, _) in judged.items() if flags]
    return f"Of the {counted(len(judged), 'method')} with published flags, the paper rejects {_named(rejected)}; {ours}"


def _audited(archive: RunArchive, section: VerdictSection) -> Iterator[tuple[str, tuple[tuple[str, ...] | None, str]]]:
    """Published flags, if there are any, and outcome of every method, from the longest training with a verdict."""
    for source in (archive, archive.as_published):
        for row in source.audit_rows(section.experiment):
            name = section.published_row(row.spec)
            figure = archive.figure(section.experiment, name, "flags")
            if row.spec.control == "none" and row.verdict is not None:
                yield name, (None if figure is None else figure.flags, row.verdict.outcome)


def _named(names: Sequence[str]) -> str:
    return f"{len(names)} ({escaped('; '.join(names))})" if names else "none"


def _difference(archive: RunArchive, word: str, number: ComparedNumber, folder: str) -> str:
    """One disagreement with its likeliest reason; a reason of several sentences is one clause here."""
    row = number.row
    parts = likeliest_reason(archive.paper, number.table, row).rstrip(".").split(". ")
    reason = "; ".join(part[0].lower() + part[1:] for part in parts)
    return (
        f"{word}: {escaped(row.heading)} of {escaped(row.row)} in [{escaped(number.table.stem)}]({folder}/"
        f"{number.table.stem}.md), ours {escaped(ours(row))} against {escaped(theirs(row))} "
        f"({escaped(difference(row))}), probably because: {escaped(reason)}."
    )
