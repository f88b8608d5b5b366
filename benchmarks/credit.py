"""What does the audit of credit cost?  A whole null against the credit itself, and the whole against a plain audit."""

from __future__ import annotations

import time
from statistics import median

import torch
from _timing import interleaved, ratio

from creditscope.auditing.audit import audit
from creditscope.probes.credit import CreditLedger
from creditscope.probes.interventions import intervene
from creditscope.probes.nulls import DRAWS, null
from creditscope.runs.run import load_data, train
from creditscope.runs.spec import RunSpec
from creditscope.stream.find import find_stream
from creditscope.stream.trace import capture, cross_entropy


def row(method: str) -> str:
    """The times and ratios of one method."""
    spec = RunSpec(method=method, epochs=1)
    checkpoint, data = train(spec), load_data(spec)
    network, source, batches = checkpoint.network.eval(), checkpoint.credit(), list(data.test_batches(128))
    stream = find_stream(network)
    ledger = CreditLedger(stream, source)
    for batch in batches:
        ledger.add(batch, capture(stream, batch))
    fresh = torch.Generator().manual_seed(0)
    short = interleaved(
        {
            "trace": lambda: [capture(stream, batch) for batch in batches],
            "credit": lambda: [(capture(stream, batch), source.signals(batch)) for batch in batches],
            "null": lambda: null(stream, source, ledger.pieces, fresh),
            "plain": lambda: audit(network, batches),
        },
        7,
        time.process_time,
    )
    long = interleaved(
        {
            "moves": lambda: intervene(stream, ledger.pieces, cross_entropy, fresh),
            "whole": lambda: audit(network, batches, credit=source),
        },
        1,
        time.process_time,
    )
    taken = short | long
    times = "".join(f"{median(taken[name]) * 1e3:>8.0f}" for name in HEADS)
    whole = median(taken["whole"]) / median(taken["plain"])
    return f"{method:<12}{times}{ratio(short, 'null', 'credit'):>14.2f}{whole:>14.0f}"


HEADS = {
    "trace": "one forward and one backward pass over all batches",
    "credit": "the same, and the credit",
    "null": f"Γ of {DRAWS} fresh draws of the feedback",
    "moves": "ρ and nudging: 4 to 32 directions per image and layer, twice",
    "plain": "an audit without credit",
    "whole": "an audit with credit",
}


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    print("Milliseconds of processor time for the 1,000 test images of MNIST-1D, one thread")
    print(f"{'':<12}{''.join(head.rjust(8) for head in HEADS)}   null/credit   whole/plain")
    for method in ("dfa", "fa", "fa_weights"):
        print(row(method))
    for head, meaning in HEADS.items():
        print(f"{head:<8}{meaning}")


if __name__ == "__main__":
    main()
