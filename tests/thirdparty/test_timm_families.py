"""The smallest model of each family of timm is audited without a hint: random weights, nothing downloaded.

results/timm_families.json holds the outcomes of all, from `make timm-families`. Here the small ones are audited again.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from tests.thirdparty.timm_families import Row, outcome, size, smallest

pytestmark = [pytest.mark.thirdparty, pytest.mark.filterwarnings("ignore")]

STORED: dict[str, Row] = json.loads(Path("results/timm_families.json").read_text(encoding="utf-8"))
SMALL = sorted(family for family, row in STORED.items() if size(row) <= 13e6)

audited = cache(lambda family: outcome(STORED[family]))


def test_every_family_has_a_row() -> None:
    import timm

    assert sorted(STORED) == sorted(timm.list_modules())


@pytest.mark.parametrize("family", ["csatv2", "efficientvim", "starnet", "visformer"])
def test_the_model_of_a_family_is_the_one_with_the_fewest_parameters(family: str) -> None:
    assert smallest(family) == {key: STORED[family][key] for key in ("model", "parameters")}


@pytest.mark.parametrize("family", SMALL)
def test_a_small_model_has_the_outcome_and_the_stream_that_are_stored(family: str) -> None:
    row = audited(family)
    assert (row["outcome"], row.get("stream")) == (STORED[family]["outcome"], STORED[family].get("stream")), row


def test_nine_in_ten_small_models_are_audited_without_a_hint_and_without_a_false_alarm() -> None:
    others = {family: audited(family) for family in SMALL if audited(family)["outcome"] != "audited"}
    assert len(SMALL) >= 48
    assert len(others) <= 0.1 * len(SMALL), others
