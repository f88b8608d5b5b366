"""`creditscope gallery add` and `creditscope gallery check`: submissions to the gallery of audited methods."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from creditscope.commands import command, group, say, width
from creditscope.errors import InvalidInput

if TYPE_CHECKING:
    from creditscope.records.submission import Submission

group("gallery", "Submissions to the gallery of audited methods.")
FOLDER = Path("results/gallery")
Reports = Annotated[
    list[Path],
    typer.Argument(
        metavar="REPORT", help="Reports as JSON or HTML, or records or folders of runs: one for every seed."
    ),
]
Text = str | None


@command("gallery add")
def add(
    reports: Reports,
    method: Annotated[Text, typer.Option(metavar="NAME", help="The method; a run's record names it.")] = None,
    network: Annotated[Text, typer.Option(metavar="NAME", help="The architecture; a run's record names it.")] = None,
    data: Annotated[Text, typer.Option(metavar="NAME", help="The dataset; a run's record names it.")] = None,
    paper: Annotated[Text, typer.Option(metavar="TEXT", help="Who claims it: authors, year, table.")] = None,
    claimed_accuracy: Annotated[float | None, typer.Option(metavar="SHARE", help="Published, from 0 to 1.")] = None,
    claimed_gamma: Annotated[float | None, typer.Option(metavar="COSINE", help="Published alignment.")] = None,
    source: Annotated[Text, typer.Option(metavar="URL", help="Code, weights or records, as https://...")] = None,
    into: Annotated[Path, typer.Option(metavar="FOLDER", help="The gallery's folder of submissions.")] = FOLDER,
) -> int:
    """Check reports as they are checked on receipt and add them to the gallery as one submission.

    Nothing is written if a check fails. `make docs` then writes the gallery's pages.

    Example: `creditscope gallery add seed-*.json --method mine --network resnet18 --data cifar10`
    """
    from creditscope.auditing.receipt import checked, file_name
    from creditscope.files import write_text

    claim: dict[str, object] = {"paper": paper, "accuracy": claimed_accuracy, "gamma": claimed_gamma}
    if paper is None and (claimed_accuracy, claimed_gamma) != (None, None):
        raise InvalidInput(
            "A claimed number was given without --paper.\n"
            "Nobody could look it up. Say where it was published: authors, year, table."
        )
    given = {"method": method, "network": network, "data": data}
    text = _submission(reports, given, None if paper is None else claim, source)
    submission = checked(text, "The submission")
    path = into / file_name(submission)
    if path.exists():
        raise InvalidInput(f"{path} is there already: these reports are in the gallery.\nNothing was written.")
    write_text(path, text)
    say(f"wrote {path}")
    _show(submission)
    return 0


@command("gallery check")
def check(
    submissions: Annotated[list[Path], typer.Argument(metavar="FILE", help="Submissions, as `gallery add` writes.")],
) -> int:
    """Check submissions as they are checked on receipt: schema, hashes, findings, verdicts, provenance, texts.

    Exit code 0 if all are accepted, 2 with the reasons if one is refused.

    Example: `creditscope gallery check results/gallery/*.json`
    """
    from creditscope.auditing.receipt import received

    for path in submissions:
        submission = received(path)
        say(f"{path}: accepted")
        _show(submission)
    return 0


def _submission(paths: list[Path], given: dict[str, Text], claim: dict[str, object] | None, source: Text) -> str:
    """The submission as JSON; names that were not given are those of the runs, if all runs have the same."""
    from pydantic import ValidationError

    from creditscope.auditing.receipt import run_names, verified_report
    from creditscope.records.submission import Submission

    known = [run_names(path) for path in paths]
    names = {}
    for part, name in given.items():
        own = {run.get(part) for run in known}
        names[part] = name if name is not None else own.pop() if len(own) == 1 else None
        if names[part] is None:
            raise InvalidInput(
                f"The reports do not name one {part}.\nReaders could not tell rows apart. Give --{part}."
            )
    try:
        made = Submission.model_validate(
            {**names, "claim": claim, "source": source, "reports": [verified_report(path) for path in paths]}
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidInput(
            f"The submission is refused: {where}: {first['msg']}.\nThe gallery would show it. Correct the option."
        ) from error
    return made.to_json()


def _show(submission: Submission) -> None:
    from creditscope.auditing.receipt import judged_together
    from creditscope.records.labels import counted
    from creditscope.report.layout import wrapped

    _, verdict = judged_together(submission.reports)
    seeds = counted(len(submission.reports), "report")
    text = f"{submission.method} on {submission.network}, {submission.data}, {seeds}: {verdict}. {verdict.why}"
    say("\n".join(wrapped(text, width())))
