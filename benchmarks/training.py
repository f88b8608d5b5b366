"""How fast is a training step, where does its time go, and what is the limit?  Ratios, on one thread."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.synchronize import Barrier
from statistics import median

import torch
from _timing import interleaved, ratio
from _usual_script import MEAN, STD, usual_steps
from torch import Tensor
from torch.autograd.profiler import profile

from creditscope.batch import Batch
from creditscope.datasets.tensors import Dataset
from creditscope.methods import methods
from creditscope.methods.rule import Moment
from creditscope.networks.build import build
from creditscope.training.recipe import Recipe
from creditscope.training.run import Run, begin

BATCH, WIDTH, DEPTH, SHAPE, CLASSES = 128, 256, 4, (3, 32, 32), 10
STEPS = 8  # in one measurement
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm")


@dataclass(frozen=True)
class Result:
    """One ratio with its floor or ceiling."""

    name: str
    measured: float
    bound: float
    floor: bool = True

    def __str__(self) -> str:
        kept = self.measured >= self.bound if self.floor else self.measured <= self.bound
        word = "at least" if self.floor else "at most"
        return f"{self.name:<78}{word} {self.bound:.2f}{self.measured:>9.2f}   {'kept' if kept else 'MISSED'}"


def noise(count: int = 50_000) -> Dataset:
    """As large as CIFAR-10, of random pixels."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count + 16, *SHAPE), dtype=torch.uint8, generator=generator)
    labels = torch.randint(CLASSES, (count + 16,), generator=generator)
    parts = Batch(pixels[:count], labels[:count]), Batch(pixels[count:], labels[count:])
    return Dataset("noise", *parts, CLASSES, MEAN, STD, crop=4, flip=True)


def begun(method: str, data: Dataset) -> Run:
    """A run that is ready for its first step."""
    network = build("resmlp", SHAPE, CLASSES, 0, d=WIDTH, depth=DEPTH)
    return begin(network, methods[method](), data, Recipe(), 0)


def endless(run: Run) -> Iterator[object]:
    """Steps as `fit` takes them, epoch after epoch."""
    run.network.train()
    while True:
        yield from run._steps(0)


def stepper(steps: Iterator[object]) -> Callable[[], None]:
    """A function that takes the next few steps."""

    def take() -> None:
        for _ in range(STEPS):
            next(steps)

    return take


# --- matrix products --------------------------------------------------------------------------------------------------


def shapes() -> list[tuple[int, int, int]]:
    """(rows, inner, columns) of the products of a step: forward, into the inputs, into the weights."""
    inputs = SHAPE[0] * SHAPE[1] * SHAPE[2]
    forward = [(BATCH, inputs, WIDTH), *[(BATCH, WIDTH, WIDTH)] * (2 * DEPTH), (BATCH, WIDTH, CLASSES)]
    into_inputs = [(rows, columns, inner) for rows, inner, columns in forward[1:]]
    into_weights = [(columns, rows, inner) for rows, inner, columns in forward]
    return forward + into_inputs + into_weights


def operations() -> int:
    """Floating-point operations in the products of one step."""
    return sum(2 * rows * inner * columns for rows, inner, columns in shapes())


def products() -> Callable[[], None]:
    """The products of a few steps at their own shapes, and nothing else."""
    pairs = [(torch.randn(rows, inner), torch.randn(inner, columns)) for rows, inner, columns in shapes()]
    outs = [left @ right for left, right in pairs]

    def multiply() -> None:
        for _ in range(STEPS):
            for (left, right), out in zip(pairs, outs, strict=True):
                torch.mm(left, right, out=out)

    return multiply


def peak_product(size: int = 768) -> tuple[Callable[[], Tensor], int]:
    """A square product that is large enough to run at the peak and small enough for the cache; its operations."""
    left, right, out = (torch.randn(size, size) for _ in range(3))
    return partial(torch.mm, left, right, out=out), 2 * size**3


# --- where the time goes ----------------------------------------------------------------------------------------------


def spent(work: Callable[[], object], chosen: Callable[[str], bool], repeats: int = 40) -> float:
    """Seconds in the operations that are chosen by name, themselves only; the least disturbed of many repeats."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # or it reports every start and stop
    found = []
    for _ in range(repeats):
        with profile(use_kineto=False) as profiler:
            work()
        found.append(sum(row.self_cpu_time_total for row in profiler.key_averages() if chosen(row.key)) / 1e6)
    return min(found)


def shares(run: Run, whole: float) -> dict[str, float]:
    """Of one step: matrix products, optimiser, data, other operations; the rest is Python, memory and cold caches."""
    order = torch.randperm(len(run.data.train.labels), generator=run.generator).split(BATCH)
    batch = run.data.training_batch(order[0], run.generator)
    moment = Moment(0.5, run.generator)
    next(run._steps(0))

    def learn() -> None:
        run.rule.learn(run.network, run.feedback, batch, moment)

    def update() -> None:
        for _ in range(STEPS):
            run.optimiser.step()

    def fetch() -> None:
        for piece in order[:STEPS]:
            run.data.training_batch(piece, run.generator)

    ways = {"fetch": fetch, "update": update, "products": products()}
    taken = interleaved(ways, 15, time.process_time)
    found = {
        "matrix products": median(taken["products"]) / STEPS,
        "optimiser": median(taken["update"]) / STEPS,
        "data": median(taken["fetch"]) / STEPS,
        "other operations": spent(learn, _elementwise),
    }
    return {**{name: seconds / whole for name, seconds in found.items()}, "rest": 1 - sum(found.values()) / whole}


def _elementwise(name: str) -> bool:
    return name.startswith("aten::") and name not in PRODUCTS


# --- processes --------------------------------------------------------------------------------------------------------


def _work(threads: int, steps: int, start: Barrier) -> None:
    torch.set_num_threads(threads)
    take = stepper(endless(begun("dfa", noise(4_000))))
    take()
    start.wait()
    for _ in range(steps):
        take()
    start.wait()


def wall(processes: int, threads: int, steps: int = 10) -> float:
    """Seconds until every process has taken its steps."""
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(processes + 1)
    workers = [context.Process(target=_work, args=(threads, steps, start)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    start.wait()
    began = time.perf_counter()
    start.wait()
    taken = time.perf_counter() - began
    for worker in workers:
        worker.join()
    return taken


def side_by_side(repeats: int = 3) -> float:
    """How much more two one-thread runs get done at the same time than one two-thread run."""
    return median(2 * wall(1, 2) / wall(2, 1) for _ in range(repeats))


# --- the table --------------------------------------------------------------------------------------------------------


def measure(repeats: int = 25) -> tuple[list[Result], dict[str, dict[str, float]], list[str]]:
    """Every ratio, the shares of a step, and sentences about the limit."""
    torch.set_num_threads(1)
    data = noise()
    runs = {method: begun(method, data) for method in ("bp", "dfa")}
    peak, work = peak_product()
    usual = usual_steps(build("resmlp", SHAPE, CLASSES, 0), *noise(2_000).train, BATCH)
    ways: dict[str, Callable[[], object]] = {
        **{method: stepper(endless(run)) for method, run in runs.items()},
        "products": products(),
        "peak": peak,
        "usual script": stepper(usual),
    }
    taken = interleaved(ways, repeats, time.process_time)
    speed = work / median(taken["peak"])
    results, sentences = [], [f"sgemm peak {speed / 1e9:.0f} GFLOP/s on one thread"]
    ideal = [STEPS * operations() / work * seconds for seconds in taken["peak"]]
    for method in runs:
        share = ratio({**taken, "ideal": ideal}, "ideal", method)
        results.append(Result(f"{method}: matrix products at the sgemm peak / whole step", share, 0.45))
        own = ratio(taken, "products", method)
        step = median(taken[method]) / STEPS
        sentences.append(
            f"{method}: {step * 1e3:.2f} ms a step, {operations() / 1e6:.0f} MFLOP in its products; these "
            f"at their own shapes, and nothing else, take {own:.2f} of it"
        )
    results.append(Result("dfa / bp, a step", ratio(taken, "dfa", "bp"), 1.10, floor=False))
    results.append(Result("usual script / dfa, a step", ratio(taken, "usual script", "dfa"), 1.50))
    parts = {method: shares(run, median(taken[method]) / STEPS) for method, run in runs.items()}
    return results, parts, sentences


def main() -> None:
    """Print the tables."""
    results, parts, sentences = measure()
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load < cores + 0.5:  # on a crowded machine the threads of one run wait for each other, and the ratio flatters us
        results.append(Result("two one-thread runs side by side / one two-thread run, work done", side_by_side(), 1.30))
    else:
        sentences.append(f"two runs side by side: not measured, the load is {load:.1f} on {cores} cores")
    print(f"batch {BATCH}, d = {WIDTH}, L = {DEPTH}, inputs {SHAPE} with crop and flip, fused AdamW, float32")
    print(f"torch {torch.__version__}, {cores} cores, load {load:.1f} during the measurement")
    print("seconds of the process itself; side by side: seconds of the clock\n")
    for result in results:
        print(result)
    print("\nwhere the time goes")
    for method, found in parts.items():
        print(f"  {method:<5}" + "   ".join(f"{name} {share:.2f}" for name, share in found.items()))
    print("\nthe limit")
    for sentence in sentences:
        print(f"  {sentence}")


if __name__ == "__main__":
    main()
