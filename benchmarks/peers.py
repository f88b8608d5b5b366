"""Other tools beside ours, in one process and in turns; whatever is not installed is left out, and named.

epoch      BioTorch's FA and DFA beside ours, on a plain MLP that both can train, in the same loop
watching   2 steps of backprop watched by Cockpit, by monitorch and by our Monitor, over the bare steps
audit      the published `diagnose` as a loop over layers and batches, our `diagnose`, and `audit`

The tools measure different things; what is compared is what a user pays for each. Processor time, medians of ratios
within one repeat. `python benchmarks/peers.py results/peers.json` keeps the figures.
"""

from __future__ import annotations

import json
import platform
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from itertools import combinations, pairwise
from pathlib import Path
from statistics import fmean, median

import torch
import torch.nn.functional as F
from _timing import interleaved, ratio
from torch import Tensor, nn

import creditscope
from creditscope.batch import Batch
from creditscope.networks.build import build

IMAGES, SHAPE, CLASSES, STEPS, REPEATS = 128, (3, 32, 32), 10, 50, 5
WATCHED = 2  # steps of an epoch that is watched: a step of Cockpit takes six seconds
PEERS = {"biotorch": "biotorch", "cockpit": "cockpit-for-pytorch", "monitorch": "monitorch"}
Ways = dict[str, Callable[[], object]]


def installed(package: str) -> str:
    """The version of a peer; empty, with a line that says so, if it cannot be imported."""
    try:
        __import__(package)
        return version(PEERS[package])
    except (ImportError, PackageNotFoundError, AttributeError) as error:
        print(f"  {package} is left out: {error}")
        return ""


def batches(count: int) -> list[Batch]:
    """Random images."""
    generator = torch.Generator().manual_seed(0)
    return [
        Batch(torch.randn(IMAGES, *SHAPE, generator=generator), torch.randint(CLASSES, (IMAGES,), generator=generator))
        for _ in range(count)
    ]


def epoch(
    model: nn.Module, backward: Callable[[Batch], object], shown: list[Batch], steps: int = STEPS
) -> Callable[[], None]:
    """An epoch of the loop that everybody writes; `backward` fills the gradients."""
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def train() -> None:
        for step in range(steps):
            optimiser.zero_grad()
            backward(shown[step % len(shown)])
            optimiser.step()

    return train


def mlp() -> nn.Module:
    """Linear | 4 x (Linear, tanh) | Linear, 256 wide."""
    return build("student_net", SHAPE, CLASSES, 0, d=256, depth=4, residual=False)


def epochs() -> tuple[Ways, str]:
    """Backprop, our two rules, and BioTorch's."""
    shown, ways = batches(8), Ways()
    bare = mlp()
    ways["backprop"] = epoch(bare, lambda batch: F.cross_entropy(bare(batch.inputs), batch.labels).backward(), shown)
    for name, ours in (("DFA", "dfa"), ("FA", "fa_weights")):
        bound = creditscope.rule(ours, model := mlp(), example=shown[0], seed=0)
        ways[f"{name}, ours"] = epoch(model, lambda batch, bound=bound: bound.backward(*batch), shown)
        if installed("biotorch"):
            ways[f"{name}, BioTorch"] = _biotorch(name.lower(), shown)
    return ways, "backprop"


def _biotorch(mode: str, shown: list[Batch]) -> Callable[[], None]:
    from biotorch.module.biomodule import BioModule

    theirs, loss = BioModule(mlp(), mode=mode, output_dim=CLASSES).train(), nn.CrossEntropyLoss()

    def backward(batch: Batch) -> None:
        direct = {"targets": batch.labels, "loss_function": loss} if mode == "dfa" else {}
        loss(theirs(batch.inputs, **direct), batch.labels).backward()

    return epoch(theirs, backward, shown)


def sequential() -> nn.Sequential:
    """The same sizes as modules that every tool knows: Linear, tanh."""
    torch.manual_seed(0)
    widths = [3072, *[256] * 5, CLASSES]
    layers = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(nn.Flatten(), *layers[:-1])


def watching() -> tuple[Ways, str]:
    """An epoch of backprop, bare and watched; our Monitor measures once, on two held-out batches."""
    shown, ways = batches(8), Ways()
    bare, ours = sequential(), sequential()
    ways["bare"] = epoch(
        bare, lambda batch: F.cross_entropy(bare(batch.inputs), batch.labels).backward(), shown, WATCHED
    )
    monitor = creditscope.Monitor(ours, batches(2), on_firing=lambda finding, epoch: None)
    monitor.step(0)
    train = epoch(ours, lambda batch: F.cross_entropy(ours(batch.inputs), batch.labels).backward(), shown, WATCHED)
    ways["Monitor, once an epoch"] = lambda: (train(), monitor.step(1))
    if installed("cockpit"):
        ways["Cockpit economy, every step"] = _cockpit(shown, 1)
        ways["Cockpit economy, once an epoch"] = _cockpit(shown, WATCHED)
    if installed("monitorch"):
        ways["monitorch, every step"] = _monitorch(shown)
    return ways, "bare"


def _cockpit(shown: list[Batch], interval: int) -> Callable[[], None]:
    from backpack import extend
    from cockpit import Cockpit
    from cockpit.utils import schedules
    from cockpit.utils.configuration import configuration

    model, loss = extend(sequential()), extend(nn.CrossEntropyLoss(reduction="mean"))
    alone = extend(nn.CrossEntropyLoss(reduction="none"))
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    watch = Cockpit(model.parameters(), quantities=configuration("economy", schedules.linear(interval)))
    count = iter(range(10**9))

    def train() -> None:
        for _ in range(WATCHED):
            step = next(count)
            batch = shown[step % len(shown)]
            optimiser.zero_grad()
            logits = model(batch.inputs)
            value, each = loss(logits, batch.labels), alone(logits, batch.labels)
            known = {"batch_size": IMAGES, "individual_losses": each, "loss": value, "optimizer": optimiser}
            with watch(step, info=known):
                value.backward(create_graph=watch.create_graph(step))
            optimiser.step()

    return train


def _monitorch(shown: list[Batch]) -> Callable[[], None]:
    from monitorch.inspector import PyTorchInspector
    from monitorch.lens import OutputGradientGeometry, OutputNorm, ParameterGradientGeometry
    from monitorch.visualizer import DummyVisualizer

    model = sequential()
    lenses = [OutputNorm(), OutputGradientGeometry(), ParameterGradientGeometry()]
    inspector = PyTorchInspector(lenses=lenses, module=model, visualizer=DummyVisualizer())
    train = epoch(model, lambda batch: F.cross_entropy(model(batch.inputs), batch.labels).backward(), shown, WATCHED)
    return lambda: (train(), inspector.tick_epoch())  # type: ignore[return-value]


def audits() -> tuple[Ways, str]:
    """One network and 8 batches; `audit` without and with its check that the backward pass gives the gradient."""
    model, given = build("resmlp", SHAPE, CLASSES, seed=0), batches(8)
    return {
        "diagnose, the published loop": lambda: published(model, given),
        "diagnose, ours": lambda: creditscope.diagnose(model, given, headline_acc=0.5, frozen_baseline_acc=0.4),
        "audit, no gradient check": lambda: creditscope.audit(model, given, control_accuracy=0.4, check_gradient=False),
        "audit": lambda: creditscope.audit(model, given, control_accuracy=0.4),
    }, "diagnose, the published loop"


def published(model: nn.Module, given: list[Batch]) -> tuple[list[float], list[float], float]:
    """The four-flag protocol as its authors describe it: norms on the first batch, drift over all of them."""
    first = given[0]
    with torch.no_grad():
        norms = [state.norm(dim=-1).median().item() for state in _states(model, first.inputs)]
    gradients = [gradient.norm(dim=-1).median().item() for gradient in _gradients(model, first)]
    layer = max(1, len(norms) // 2)
    means = [_gradients(model, batch)[layer].mean(0) for batch in given]
    directions = [mean / mean.norm() for mean in means]
    return norms, gradients, fmean(float(a @ b) for a, b in combinations(directions, 2))


def _states(model: nn.Module, inputs: Tensor) -> list[Tensor]:
    hiddens = [model.embedding(inputs)]
    for block in model.blocks:
        hiddens.append(hiddens[-1] + block(hiddens[-1]))
    return hiddens


def _gradients(model: nn.Module, batch: Batch) -> tuple[Tensor, ...]:
    hiddens = _states(model, batch.inputs)
    return torch.autograd.grad(F.cross_entropy(model.readout(hiddens[-1]), batch.labels), hiddens)


PARTS = {"epoch": epochs, "watching": watching, "audit": audits}


def compared(name: str) -> dict[str, dict[str, float]]:
    """One part: seconds of the processor, and the ratio to the part's own standard."""
    print(name)
    ways, standard = PARTS[name]()
    taken = interleaved(ways, REPEATS, time.process_time)
    figures = {
        way: {"seconds": round(median(taken[way]), 4), "ratio": round(ratio(taken, way, standard), 3)} for way in ways
    }
    for way, found in figures.items():
        print(f"  {way:32} {1e3 * found['seconds']:8.1f} ms   {found['ratio']:6.2f} x {standard}", flush=True)
    return figures


def benchmark(file: Path | None, names: list[str]) -> None:
    """The parts of these names, or all; a file keeps the figures of parts that are not measured again."""
    kept = json.loads(file.read_text()) if file is not None and file.exists() else {"parts": {}}
    kept["versions"] = {"python": platform.python_version(), "torch": torch.__version__}
    kept["versions"] |= {package: known for package in PEERS if (known := installed(package))}
    kept["setting"] = (
        f"{STEPS} steps of {IMAGES} images of 3 x 32 x 32, {WATCHED} where they are watched; "
        f"medians of {REPEATS} repeats, processor time"
    )
    for name in names or PARTS:
        kept["parts"][name] = compared(name)
        if file is not None:
            file.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    benchmark(Path(sys.argv[1]) if len(sys.argv) > 1 else None, sys.argv[2:])
