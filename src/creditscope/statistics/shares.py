"""Checks of shares between 0 and 1, such as accuracies that a user passes in."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from creditscope.errors import InvalidInput


def checked_shares(values: Iterable[Any], what: str, *, nan: bool = False) -> tuple[float, ...]:
    """Each value as a float from 0 to 1; `what` names them in errors.

    nan  whether NaN may pass: the measured accuracy of a diverged run is NaN, one that somebody typed is a mistake
    """
    return tuple(_checked(value, what, nan) for value in values)


def _checked(value: Any, what: str, nan: bool) -> float:
    try:
        if isinstance(value, bool | str):
            raise TypeError  # True is not 100 %, and text is not a number
        share = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(
            f"{what} = {value!r} is not a number.\nD3 needs shares of correct answers. Pass one, or one per seed."
        ) from error
    if 0 <= share <= 1 or (nan and math.isnan(share)):
        return share
    hint = f"Did you mean {share / 100:g}?" if 1 < share <= 100 else "Pass the share of correct answers."
    raise InvalidInput(
        f"{what} = {share:g} is not a share between 0 and 1.\n"
        f"D3 is measured in percentage points and would be wrong. {hint}"
    )
