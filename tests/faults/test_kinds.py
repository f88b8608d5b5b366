"""Every kind of fault that README.md lists has the tests that it names."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent
LISTED = re.findall(r"`([\w/]+\.py)::(\w+)`", (FOLDER / "README.md").read_text())


def test_every_test_that_is_listed_exists():
    assert len(LISTED) > 40
    for path, name in LISTED:
        assert f"def {name}(" in (FOLDER.parent / path).read_text(), (path, name)
