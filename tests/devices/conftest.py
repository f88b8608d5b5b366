"""The pretended device is collected only where a process is made for it: tests/test_devices.py starts one.

A device has to be registered before the first backward pass of a process, and stays registered in it for good.
"""

from __future__ import annotations

import os
from pathlib import Path

ASKED = "CREDITSCOPE_PRETENDED_DEVICE"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave these tests out unless they were asked for."""
    return None if ASKED in os.environ else True
