"""What WeightWatcher says of the same networks: `python -m tests.planted.watcher FILE`, in its own environment.

It fits a power law to the eigenvalues of every weight matrix and gives no verdict of its own. Its documentation calls
layers with an exponent between 2 and 6 well trained; a network is rejected here if the mean exponent over its layers,
its own summary, lies outside. This rule was fixed before the exponents were seen.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from importlib.metadata import version
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from tests.planted.faults import BASES, FAULTS, base
from tests.planted.healthy import HEALTHY
from tests.planted.suite import WORKERS
from torch import nn

from creditscope.files import write_text

WELL_TRAINED = (2.0, 6.0)
JOBS = (*BASES, *(sound.name for sound in HEALTHY))
Row = dict[str, Any]


def outcome(model: nn.Module) -> Row:
    """The mean exponent over the layers, and what follows from it; refused where no layer has one."""
    import weightwatcher

    logging.getLogger("weightwatcher").setLevel(logging.CRITICAL)
    with warnings.catch_warnings(), redirect_stdout(StringIO()):  # it prints a line per small matrix
        warnings.simplefilter("ignore")
        try:
            watcher = weightwatcher.WeightWatcher(model=model)
            alpha = float(watcher.get_summary(watcher.analyze()).get("alpha", math.nan))
        except Exception as error:  # noqa: BLE001  (whatever it raises, it gives no exponent)
            return {"alpha": None, "outcome": "refused", "why": f"{type(error).__name__}: {error}".splitlines()[0]}
    if not math.isfinite(alpha):
        return {"alpha": None, "outcome": "refused", "why": "no layer has an exponent"}
    low, high = WELL_TRAINED
    return {"alpha": float(f"{alpha:.6g}"), "outcome": "pass" if low <= alpha <= high else "fail"}


def job(name: str) -> dict[str, list[Row]]:
    """The faults of one base and the base itself, or one sound network."""
    torch.set_num_threads(1)
    if name not in BASES:
        found = [sound for sound in HEALTHY if sound.name == name]
        return {"faults": [], "healthy": [{"name": name, **outcome(sound.audited()["model"])} for sound in found]}
    own = base(name)
    return {
        "faults": [
            {"name": fault.name, "base": name, **outcome(fault.plant(own)["model"])}
            for fault in FAULTS
            if fault.base == name
        ],
        "healthy": [{"name": f"{name}, trained, with its control", **outcome(own.model)}],
    }


def main() -> None:
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        answers = list(pool.map(job, JOBS))
    run = {
        "version": version("weightwatcher"),
        **{part: [row for answer in answers for row in answer[part]] for part in ("faults", "healthy")},
    }
    write_text(Path(sys.argv[1]), json.dumps(run, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
