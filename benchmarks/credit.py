"""What does the audit of credit cost?  A whole null against the credit itself, and the whole against a plain audit."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from creditscope.adapters import find_stream
from creditscope.auditing import audit
from creditscope.probes.credit import CreditLedger
from creditscope.probes.moves import moved
from creditscope.probes.nulls import DRAWS, null
from creditscope.study.running import load_data, train
from creditscope.study.spec import RunSpec
from creditscope.trace import capture, cross_entropy


def fastest(work: Callable[[], object], times: int = 7) -> float:
    """Seconds of the fastest of several runs, after one that warms up."""
    work()
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return min(taken)


def row(method: str) -> str:
    """The times and ratios of one method."""
    spec = RunSpec(method=method, epochs=1)
    checkpoint, data = train(spec), load_data(spec)
    network, source, batches = checkpoint.network.eval(), checkpoint.credit(), list(data.test_batches(128))
    stream = find_stream(network)
    ledger = CreditLedger(stream, source)
    for batch in batches:
        ledger.add(batch, capture(stream, batch))
    trace = fastest(lambda: [capture(stream, batch) for batch in batches])
    credit = fastest(lambda: [source.signals(batch) for batch in batches])
    nulls = fastest(lambda: null(stream, source, ledger.pieces, torch.Generator().manual_seed(0)))
    moves = fastest(lambda: moved(stream, ledger.pieces, cross_entropy, torch.Generator().manual_seed(0)), 1)
    plain = fastest(lambda: audit(network, batches), 3)
    whole = fastest(lambda: audit(network, batches, credit=source), 1)
    times = "".join(f"{value * 1e3:>8.0f}" for value in (trace, credit, nulls, moves, plain, whole))
    return f"{method:<12}{times}{nulls / (trace + credit):>14.2f}{whole / plain:>14.0f}"


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    print(f"Milliseconds for the 1,000 test images of MNIST-1D, {DRAWS} draws in a null, one thread")
    heads = ("trace", "credit", "null", "moves", "plain", "whole")
    print(f"{'':<12}{''.join(head.rjust(8) for head in heads)}  null/(t + c)   whole/plain")
    for method in ("dfa", "fa", "fa_weights"):
        print(row(method))
    print(
        "moves: ρ and nudging, 32 directions per image and layer, twice. plain, whole: an audit without, with credit."
    )


if __name__ == "__main__":
    main()
