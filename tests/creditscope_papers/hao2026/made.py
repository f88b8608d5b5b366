"""Archives of the paper's studies with records that nobody trained."""

from __future__ import annotations

from tests.papers import made

from creditscope.papers.archive import RunArchive
from creditscope.study.plan import Plan
from creditscope_papers.hao2026 import PAPER


def planned(study: str, budget: str = "laptop") -> Plan:
    return made.planned(PAPER, study, budget)


def archive(make: made.Make | None = None, *studies: str, budget: str = "laptop") -> RunArchive:
    return made.archive(PAPER, make, *studies, budget=budget)
