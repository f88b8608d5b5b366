"""A submission to the gallery: what is claimed of a method, and the reports of its audits, one for every seed."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, StringConstraints

from creditscope.records.record import Document, Record
from creditscope.records.report import Report

MOST_REPORTS = 32
ADDRESS = r"https://[A-Za-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9._~:/?#!$&*+,;=%@-]*)?"


def _one_line(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise ValueError("a text is one line of printable characters, without marks that turn or hide it")
    return text


def _address(text: str) -> str:
    if not re.fullmatch(ADDRESS, text):
        raise ValueError("an address begins with https:// and holds no spaces, brackets or quotation marks")
    return text


Name = Annotated[str, StringConstraints(min_length=1, max_length=60), AfterValidator(_one_line)]
Line = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_one_line)]
Address = Annotated[
    str,
    StringConstraints(max_length=300),
    AfterValidator(_address),
    Field(json_schema_extra={"pattern": f"^{ADDRESS}$"}),
]


class PublishedClaim(Record):
    """What a paper claims of the method in this setting; `paper` also says where: authors, year, table."""

    paper: Line
    accuracy: float | None = Field(default=None, ge=0, le=1)
    gamma: float | None = Field(default=None, ge=-1, le=1)


class Submission(Document):
    """What is claimed and what was audited; every report is that of one network, and all of one method and setting.

    network, data   the architecture and the dataset, by the names that others know
    source          where code, weights or records can be had
    """

    noun: ClassVar[str] = "submission"
    remedy: ClassVar[str] = "submit"
    readable: ClassVar[tuple[int, ...]] = (2,)
    method: Name
    network: Name
    data: Name
    claim: PublishedClaim | None = None
    source: Address | None = None
    reports: tuple[Report, ...] = Field(min_length=1, max_length=MOST_REPORTS)

    def judged_again(self) -> Self:
        """The submission with the verdict of every report computed again."""
        return self.model_copy(update={"reports": tuple(report.judged_again() for report in self.reports)})
