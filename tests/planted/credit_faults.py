"""Planted faults of credit and of answers, and sound credit beside them.

A fault is what `audit` is given: a network of ours, trained with feedback alignment, and credit or predictions that
are not what they are said to be. `seen` says which diagnostics must notice it, by firing or by a warning beside the
verdict; `shows` is what a reader sees in the numbers where nothing judges them; what nothing can know is listed with
the reason.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from creditscope import audit
from creditscope.batch import Batch
from creditscope.methods.bound_rule import BoundRule
from creditscope.methods.ep import EquilibriumPropagation
from creditscope.networks.staged import StagedNetwork
from creditscope.records.report import Report
from creditscope.runs.run import load_data, train
from creditscope.runs.spec import RunSpec
from creditscope.stream.find import find_stream
from creditscope.stream.trace import capture

CLASSES, WIDTH, DEPTH, EPOCHS, IMAGES = 10, 64, 3, 15, 256
OPTIONS = {"d": WIDTH, "depth": DEPTH}
Credit = Callable[[Batch], list[Tensor]]
Plant = Callable[["Base"], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Base:
    """A network trained with feedback alignment, its rule, test images, and direct feedback that is aligned to it."""

    network: StagedNetwork
    rule: BoundRule
    batches: tuple[Batch, ...]
    aligned: tuple[Tensor, ...]

    def audited(self, **given: Any) -> dict[str, Any]:
        """What `audit` is given."""
        return {"model": self.network, "batches": self.batches, **given}


@dataclass(frozen=True, slots=True)
class CreditFault:
    """Credit or answers that are not what they are said to be.

    seen     codes of which at least one must fire, or warn beside the verdict
    shows    what the measures show, where no diagnostic judges it
    unknown  why it cannot be known; D6 must then not pass
    """

    name: str
    plant: Plant
    seen: tuple[str, ...] = ()
    shows: Callable[[Report], bool] | None = None
    unknown: str = ""
    dose: float = field(default=float("nan"))


@dataclass(frozen=True, slots=True)
class SoundCredit:
    """Credit that is what it is said to be: whatever D5 to D9 and D13 say against it is a false alarm."""

    name: str
    plant: Plant


@cache
def base(penalty: float = 0.0, method: str = "fa", epochs: int = EPOCHS) -> Base:
    """Train once; the aligned feedback is the least-squares map from the output error to the gradient."""
    spec = RunSpec(method=method, penalty=penalty, epochs=epochs, network_options=dict(OPTIONS))
    trained, data = train(spec), load_data(spec)
    test = Batch(data.test.inputs[:IMAGES], data.test.labels[:IMAGES])
    batches = tuple(Batch(*pair) for pair in zip(test.inputs.split(128), test.labels.split(128), strict=True))
    credit = trained.credit()
    assert isinstance(credit, BoundRule)
    network = trained.network.eval()
    errors, gradients = error(network, test), capture(find_stream(network), test).gradients
    return Base(network, credit, batches, tuple(torch.linalg.lstsq(errors, g).solution for g in gradients))


def error(network: nn.Module, batch: Batch) -> Tensor:
    logits = network(batch.inputs).detach()
    return logits.softmax(1) - F.one_hot(batch.labels, CLASSES).to(logits)


def direct(network: nn.Module, matrices: tuple[Tensor, ...]) -> Credit:
    """DFA as a user writes it."""
    return lambda batch: [error(network, batch) @ matrix.to(batch.inputs) for matrix in matrices]


def fresh(found: Base) -> Callable[[torch.Generator], Credit]:
    """The same with other feedback, as large as the aligned one."""

    def redraw(generator: torch.Generator) -> Credit:
        drawn = (torch.randn(matrix.shape, generator=generator) * matrix.std() for matrix in found.aligned)
        return direct(found.network, tuple(drawn))

    return redraw


def gradient(network: nn.Module) -> Credit:
    return lambda batch: list(capture(find_stream(network), batch).gradients)


def changed(credit: Credit, change: Callable[[list[Tensor]], list[Tensor]]) -> Credit:
    return lambda batch: change(credit(batch))


def node_perturbation(network: StagedNetwork, draws: int = 64, step: float = 1e-2) -> Credit:
    """a_l = mean of (ℓ(h_l + σv) - ℓ(h_l))/σ · v over fixed draws v: forward passes through the weights above."""

    def onward(layer: int, state: Tensor, labels: Tensor) -> Tensor:
        for index in range(layer, network.depth):
            state = network.merge(index, state, network.branch(index, state))
        return F.cross_entropy(network.readout(state), labels, reduction="none")

    @torch.no_grad()
    def credit(batch: Batch) -> list[Tensor]:
        generator, signals = torch.Generator().manual_seed(0), []
        for layer, state in enumerate(network.states(batch.inputs)):
            plain, total = onward(layer, state, batch.labels), torch.zeros_like(state)
            for _ in range(draws):
                v = torch.randn(state.shape, generator=generator).to(state)
                total += ((onward(layer, state + step * v, batch.labels) - plain) / step)[:, None] * v
            signals.append(total / draws)
        return signals

    return credit


def pepita(network: StagedNetwork, strength: float = 0.05) -> Credit:
    """a_l = h_l(x) - h_l(x - F e): a second forward pass whose input the error moves."""

    @torch.no_grad()
    def credit(batch: Batch) -> list[Tensor]:
        drawn = torch.Generator().manual_seed(0)
        flat = batch.inputs.flatten(1)
        projection = strength * torch.randn(CLASSES, flat.shape[1], generator=drawn).to(flat)
        moved = flat - error(network, batch) @ projection
        pairs = zip(network.states(batch.inputs), network.states(moved.view_as(batch.inputs)), strict=True)
        return [first - second for first, second in pairs]

    return credit


def scale(logits: Tensor) -> Tensor:
    return (logits - logits.mean(1, keepdim=True)).norm(dim=1).median()


def leaky(network: nn.Module, dose: float, rows: Callable[[Batch], Tensor] | None = None) -> Callable[[Batch], Tensor]:
    """Predictions that the labels pull at by so much of the logits' scale, in all or in some of the images."""

    def predict(batch: Batch) -> Tensor:
        logits = network(batch.inputs).detach()
        pull = dose * scale(logits) * F.one_hot(batch.labels, CLASSES)
        return logits + (pull if rows is None else pull * rows(batch)[:, None])

    return predict


class WithLabels(nn.Module):
    """Takes the one-hot labels as a second input and adds a little of them to its answers."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        logits: Tensor = self.net(x)
        return logits + 0.01 * y.to(logits)


def one_hot_inputs(found: Base) -> dict[str, Any]:
    model = WithLabels(found.network)
    given = [Batch((x, F.one_hot(y, CLASSES)), y) for x, y in found.batches]
    return {"model": model, "batches": given, "blocks": "net.blocks", "predict": lambda batch: model(*batch.inputs)}


def other_labels(found: Base) -> dict[str, Any]:
    credit = gradient(found.network)
    return found.audited(credit=lambda batch: credit(Batch(batch.inputs, batch.labels.roll(1))), credit_local=False)


def through_a_copy(found: Base) -> dict[str, Any]:
    return found.audited(credit=gradient(copy.deepcopy(found.network)))


def remembered(found: Base) -> dict[str, Any]:
    """Gradients from a table that was filled before the audit."""
    known = {float(batch.inputs.sum()): gradient(found.network)(batch) for batch in found.batches}
    rows = {
        tuple(x[:3].tolist()): (key, i)
        for key, b in zip(known, found.batches, strict=True)
        for i, x in enumerate(b.inputs)
    }

    def credit(batch: Batch) -> list[Tensor]:
        places = [rows[tuple(x[:3].float().tolist())] for x in batch.inputs]
        return [torch.stack([known[key][layer][i] for key, i in places]).to(batch.inputs) for layer in range(DEPTH + 1)]

    return found.audited(credit=credit)


def with_share(share: float) -> Plant:
    """Direct feedback with so much of the gradient in it."""

    def plant(found: Base) -> dict[str, Any]:
        local, true = direct(found.network, found.aligned), gradient(found.network)

        def mixed(batch: Batch) -> list[Tensor]:
            pairs = zip(local(batch), true(batch), strict=True)
            return [a / a.norm(dim=1, keepdim=True) + share * g / g.norm(dim=1, keepdim=True) for a, g in pairs]

        return found.audited(credit=mixed)

    return plant


def only_layer_0(found: Base) -> dict[str, Any]:
    noise = [torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(layer)) for layer in range(DEPTH + 1)]
    true = gradient(found.network)

    def credit(batch: Batch) -> list[Tensor]:
        return [true(batch)[0], *(error(found.network, batch) @ matrix.to(batch.inputs) for matrix in noise[1:])]

    return found.audited(credit=credit, credit_local=False)


def leaks(dose: float, rows: Callable[[Batch], Tensor] | None = None) -> Plant:
    return lambda found: found.audited(predict=leaky(found.network, dose, rows))


def direct_fault(matrices: Callable[[Base], tuple[Tensor, ...]]) -> Plant:
    return lambda found: found.audited(credit=direct(found.network, matrices(found)), redraw=fresh(found))


def unrelated(found: Base) -> tuple[Tensor, ...]:
    drawn = torch.Generator().manual_seed(11)
    return tuple(torch.randn(matrix.shape, generator=drawn) * matrix.std() for matrix in found.aligned)


def spoilt_gradient(change: Callable[[list[Tensor]], list[Tensor]], **declared: Any) -> Plant:
    return lambda found: found.audited(credit=changed(gradient(found.network), change), **declared)


def gammas(report: Report) -> tuple[float, ...]:
    return report.measures["gamma"].per_layer


def _alignment() -> Iterator[CreditFault]:
    yield CreditFault(
        "random feedback, presented as the one that trained the network", direct_fault(unrelated), ("D6",)
    )
    yield CreditFault(
        "feedback with the wrong sign", direct_fault(lambda found: tuple(-m for m in found.aligned)), ("D6",)
    )
    yield CreditFault(
        "the gradient with the wrong sign",
        spoilt_gradient(lambda a: [-s for s in a], credit_local=False),
        shows=lambda report: max(gammas(report)) < -0.999,
    )
    yield CreditFault(
        "the gradient of the layer below, presented as the gradient",
        spoilt_gradient(lambda a: [a[0], *a[:-1]], credit_local=False),
        shows=lambda report: gammas(report)[0] > 0.999 > max(gammas(report)[1:]),
    )
    yield CreditFault(
        "the gradient for the labels of other images",
        other_labels,
        shows=lambda report: max(gammas(report)) < 0.5 and abs(report.measures["label_dependence"].value) < 0.1,
    )
    yield CreditFault("only layer 0 has credit, the others noise", only_layer_0, ("D5",))
    yield CreditFault(
        "credit that underflows in float16",
        spoilt_gradient(lambda a: [(1e-9 * s).half().float() for s in a], credit_local=False),
        ("D13",),
    )
    yield CreditFault(
        "random feedback without a redraw",
        lambda found: found.audited(credit=direct(found.network, unrelated(found))),
        unknown="without a redraw nothing says what Γ other feedback would give",
    )


def _locality() -> Iterator[CreditFault]:
    for share in (1.0, 0.1, 0.01):
        yield CreditFault(
            f"direct feedback with {share:g} of the gradient in it", with_share(share), ("D9",), dose=share
        )
    yield CreditFault(
        "the gradient times 1e-3, declared local", spoilt_gradient(lambda a: [1e-3 * s for s in a]), ("D9",)
    )
    yield CreditFault(
        "node perturbation, declared local",
        lambda found: found.audited(credit=node_perturbation(found.network)),
        ("D9",),
    )
    yield CreditFault("PEPITA, declared local", lambda found: found.audited(credit=pepita(found.network)), ("D9",))
    yield CreditFault("backprop through a copy of the weights", through_a_copy, ("D9",))
    yield CreditFault("gradients that were stored before", remembered, ("D9",))
    yield CreditFault(
        "constant credit",
        lambda found: found.audited(credit=lambda batch: [batch.inputs.new_ones(len(batch.labels), WIDTH)] * 4),
        ("D9",),
    )


def _answers() -> Iterator[CreditFault]:
    for dose in (1e-3, 1e-2, 1.0):
        yield CreditFault(f"labels pull at the answers by {dose:g} of their scale", leaks(dose), ("D8",), dose=dose)
    yield CreditFault("one-hot labels among the inputs", one_hot_inputs, ("D8",))
    yield CreditFault(
        "a leak in one image", leaks(0.01, lambda batch: torch.arange(len(batch.labels)) == 5), ("D8",), dose=1 / 128
    )
    yield CreditFault("a leak in one class", leaks(0.01, lambda batch: batch.labels == 3), ("D8",), dose=0.1)


@cache
def kolen_pollack(decay: float) -> dict[str, Any]:
    """What `audit` is given of a run with learnt feedback; decay 0 is the fault."""
    spec = RunSpec(
        method="kolen_pollack",
        method_options={"without_decay": not decay},
        learning_rate=0.01,
        weight_decay=decay,
        epochs=EPOCHS,
        network_options=dict(OPTIONS),
    )
    trained = train(spec)
    return {"model": trained.network.eval(), "batches": base().batches, "credit": trained.credit()}


def _learnt() -> Iterator[CreditFault]:
    """Without decay B - W never shrinks: an angle remains that decay removes."""

    def remains(report: Report) -> bool:
        sound = audit(**kolen_pollack(1.0)).measures["feedback_angle"]
        return report.measures["feedback_angle"].value > 2 * sound.value

    yield CreditFault("learnt feedback without weight decay", lambda _: kolen_pollack(0.0), shows=remains)


FAULTS: tuple[CreditFault, ...] = tuple(chain(_alignment(), _locality(), _answers(), _learnt()))


def equilibrium(found: Base) -> dict[str, Any]:
    rule, example = EquilibriumPropagation(), found.batches[0]
    feedback = rule.feedback(found.network, example, torch.Generator().manual_seed(0))
    return found.audited(credit=BoundRule(rule, found.network, feedback, example))


def own_rule(penalty: float, method: str = "fa", epochs: int = EPOCHS) -> Plant:
    def plant(_: Base) -> dict[str, Any]:
        found = base(penalty, method, epochs)
        return found.audited(credit=found.rule)

    return plant


SOUND: tuple[SoundCredit, ...] = (
    SoundCredit("backprop", lambda found: found.audited(credit=gradient(found.network), credit_local=False)),
    SoundCredit("direct feedback, aligned, with its redraw", direct_fault(lambda found: found.aligned)),
    SoundCredit("feedback alignment", own_rule(0.0)),
    SoundCredit("feedback alignment with a penalty", own_rule(1e-2)),
    SoundCredit("equilibrium propagation", equilibrium),
    SoundCredit(
        "node perturbation, declared to probe the weights above forward",
        lambda found: found.audited(credit=node_perturbation(found.network), credit_local="forward"),
    ),
    SoundCredit(
        "PEPITA, declared to probe the weights forward",
        lambda found: found.audited(credit=pepita(found.network), credit_local="forward"),
    ),
    SoundCredit("honest predictions", lambda found: found.audited(predict=lambda batch: found.network(batch.inputs))),
    SoundCredit("direct feedback with a penalty, trained by its recipe", own_rule(1e-2, "dfa", 100)),
)
