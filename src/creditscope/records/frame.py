"""Rows as a data frame, with whichever library for data frames is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from creditscope.errors import CreditscopeError


class NoFrameLibrary(CreditscopeError):
    """Neither pandas nor polars is installed."""


def data_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A pandas data frame, else a polars one; every row has every column, in the order of their first appearance."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    values = {name: [row.get(name) for row in rows] for name in columns}
    try:
        import pandas
    except ImportError:
        pass
    else:
        return pandas.DataFrame(values, columns=columns)
    try:
        import polars
    except ImportError as error:
        raise NoFrameLibrary(
            "Neither pandas nor polars is installed.\n"
            "There is no data frame to return. Install one of them, or write CSV or JSON instead."
        ) from error
    return polars.DataFrame(values, strict=False)
