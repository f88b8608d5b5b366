"""D0 counts every number that is not finite, and one is enough."""

from __future__ import annotations

import pytest
from tests.diagnostics.evidence_by_hand import evidence, find


@pytest.mark.parametrize(("count", "status"), [(0, "pass"), (1, "fires")])
@pytest.mark.parametrize("where", ["states", "gradients", "logits", "weights"])
def test_d0_fires_at_the_first_number(where: str, count: int, status: str) -> None:
    found = find("D0", evidence(non_finite={where: count}))
    assert (found.status, found.value) == (status, count)
    assert found.note == (f"1 in {where}" if count else "")


def test_the_note_says_where_they_are() -> None:
    found = find("D0", evidence(non_finite={"states": 1234, "gradients": 0, "weights": 2}))
    assert (found.value, found.note) == (1236.0, "1,234 in states, 2 in weights")
