"""The monitor sees what an audit sees, says it once, and leaves the training bit for bit as it was."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import numpy
import pytest
import torch
import torch.nn.functional as F
from tests.foreign_models import CLASSES, FEATURES, WIDTH, Branches, batches, draw, images, stages, unchanged
from tests.report.made import report as made_report
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import creditscope
from creditscope import Monitor, audit
from creditscope.errors import InvalidInput, NotTheGradient, UnknownName
from creditscope.monitoring.row import Row
from creditscope.networks.build import build
from creditscope.report.numbers import value
from creditscope.stream.trace import capture
from creditscope.verdict import Finding, Reason


def network(**options: Any) -> nn.Module:
    return build("resmlp", FEATURES, CLASSES, 0, **{"d": WIDTH, "depth": 2, **options})


class Noisy(nn.Module):
    """Batch norm, dropout and a random state of its own: everything that a careless look would change."""

    def __init__(self) -> None:
        super().__init__()
        self.inlet = nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.BatchNorm1d(WIDTH))
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Dropout(0.3)) for _ in range(2)
        )
        self.outlet = nn.Linear(WIDTH, CLASSES)
        draw(self, 0)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        for layer in self.layers:
            h = h + layer(h)
        out: Tensor = self.outlet(h)
        return out


class Random(Dataset[tuple[Tensor, Tensor]]):
    """Images that are augmented by three random generators."""

    def __init__(self) -> None:
        self.inputs, self.labels = images(32)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        noise = random.random() + float(numpy.random.rand()) + float(torch.rand(()))  # noqa: NPY002
        return self.inputs[index] + 0.1 * noise, self.labels[index]


def one_by_one(loader: Any) -> Iterator[Any]:
    yield from loader


def trained(watch: Callable[[nn.Module], Monitor | None], epochs: int = 3) -> tuple[dict[str, Tensor], list[float]]:
    """Weights and losses of a run that draws from every global generator."""
    torch.manual_seed(0)
    random.seed(0)
    numpy.random.seed(0)  # noqa: NPY002
    model, losses = Noisy(), []
    monitor = watch(model)
    optimiser = torch.optim.AdamW(model.parameters(), 1e-2)
    for epoch in range(epochs):
        for x, y in DataLoader(Random(), batch_size=8, shuffle=True):
            optimiser.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        if monitor is not None:
            monitor.step(epoch)
    if monitor is not None:
        monitor.report()
    return model.state_dict(), losses


@pytest.mark.parametrize(
    "given",
    [
        lambda: batches(2, 16),
        lambda: DataLoader(Random(), batch_size=16, shuffle=True),
        lambda: one_by_one(DataLoader(Random(), batch_size=16, shuffle=True)),
    ],
)
def test_with_and_without_a_monitor_the_training_is_bit_identical(given: Callable[[], Any]) -> None:
    alone = trained(lambda model: None)
    watched = trained(lambda model: Monitor(model, given(), credit=lambda batch: credit_of(model, batch)))
    assert watched[1] == alone[1]
    assert watched[0].keys() == alone[0].keys()
    assert all(torch.equal(watched[0][name], value) for name, value in alone[0].items())


def credit_of(model: nn.Module, batch: Any) -> list[Tensor]:
    """Credit by backward(), which fills the gradients of the parameters."""
    h = model.inlet(batch.inputs)  # type: ignore[operator]
    hiddens = [h]
    for layer in model.layers:  # type: ignore[union-attr]
        hiddens.append(hiddens[-1] + layer(hiddens[-1]))
    for state in hiddens:
        state.retain_grad()
    F.cross_entropy(model.outlet(hiddens[-1]), batch.labels).backward()  # type: ignore[operator]
    return [state.grad for state in hiddens if state.grad is not None]


def test_between_forward_and_backward_nothing_is_disturbed() -> None:
    model, (x, y) = Noisy().eval(), batches(1, 16)[0]
    monitor, weight = Monitor(model, batches(2, 16)), model.inlet[0].weight
    (expected,) = torch.autograd.grad(F.cross_entropy(model(x), y), weight)
    loss = F.cross_entropy(model(x), y)
    accumulator = weight.expand_as(weight).grad_fn.next_functions[0][0]  # what wrappers for many devices wait for
    with unchanged(model):
        monitor.step(0)
    assert weight.expand_as(weight).grad_fn.next_functions[0][0] is accumulator
    torch.testing.assert_close(torch.autograd.grad(loss, weight)[0], expected)


def test_a_step_measures_what_an_audit_measures() -> None:
    model, given = stages(), batches(3, 128)
    row = Monitor(model, given).step(0)
    report = audit(model, given)
    assert row is not None
    for code in ("D0", "D1", "D2", "D4"):
        assert row.findings[code] == report.findings[code]
    assert (row.accuracy,) == report.accuracy
    assert row.hidden_norms == report.measures["hidden_norm"].per_layer
    assert row.gradient_norms == report.measures["gradient_norm"].per_layer
    assert row.scalars()["creditscope/gradient_norm/3"] == row.gradient_norms[3]


def test_with_credit_a_step_judges_what_an_audit_judges() -> None:
    model, given = network(depth=4), batches(2, 32)
    monitor = Monitor(model, given, credit=creditscope.rule("dfa", model, example=given[0], seed=0))
    row, report = monitor.step(0), monitor.report()
    assert row is not None
    for code in ("D5", "D6", "D7", "D8", "D9"):
        assert row.findings[code] == report.findings[code]
        assert row.findings[code].reason not in (Reason.NOT_GIVEN, Reason.NOT_AVAILABLE)
    assert [row.findings[code].status for code in ("D6", "D7", "D8", "D9")] == ["fires", "pass", "pass", "pass"]
    assert row.gamma == report.measures["gamma"].per_layer
    assert "rho" in report.measures


def test_a_function_as_credit_can_be_declared_and_redrawn() -> None:
    model, given = network(), batches(2, 64)

    def drawn(generator: torch.Generator) -> Any:
        feedback = torch.randn(3, CLASSES, WIDTH, generator=generator)

        def credit(batch: Any) -> list[Tensor]:
            error = model(batch.inputs).softmax(1) - F.one_hot(batch.labels, CLASSES)
            return [error.detach() @ matrix for matrix in feedback]

        return credit

    own = drawn(torch.Generator().manual_seed(0))
    row = Monitor(model, given, credit=own, redraw=drawn, credit_local=False).step(0)
    assert row is not None
    assert (row.findings["D6"].status, row.findings["D9"].status) == ("fires", "skipped")
    assert row.findings["D9"].reason is Reason.NOT_APPLICABLE
    alone = Monitor(model, given, credit=own).step(0)
    assert alone is not None
    assert (alone.findings["D6"].status, alone.findings["D9"].status) == ("skipped", "pass")


def test_a_credit_that_is_the_gradient_has_gamma_one() -> None:
    model = network()
    row = Monitor(model, batches(2, 64), credit=lambda batch: gradients(model, batch)).step(0)
    assert row is not None
    assert row.gamma == pytest.approx((1.0, 1.0, 1.0))
    assert row.findings["D9"].status == "fires"


def gradients(model: nn.Module, batch: Any) -> list[Tensor]:
    from creditscope.stream.find import find_stream

    return list(capture(find_stream(model), batch).gradients)


def explode(model: nn.Module, epoch: int) -> None:
    """Each epoch the blocks write a thousand times more into the stream."""
    with torch.no_grad():
        for block in model.blocks:  # type: ignore[union-attr]
            block.w2.weight.mul_(1e3)  # type: ignore[union-attr]


def test_the_first_firing_is_said_once_and_two_of_them_stop_the_run() -> None:
    model, heard, stopped = network(w2_std=0.1), [], []
    monitor = Monitor(model, batches(2, 128), on_firing=lambda finding, epoch: heard.append((finding.code, epoch)))
    for epoch in range(7):
        monitor.step(epoch)
        stopped.append(monitor.should_stop)
        explode(model, epoch)
    codes = [code for code, _ in heard]
    assert len(codes) == len(set(codes))
    assert dict(heard) == monitor.first
    assert monitor.first["D1"] < monitor.first["D2:tail"]
    assert stopped == [epoch >= monitor.first["D2:tail"] for epoch in range(7)]
    notes = monitor.report(notes="mine").subject.notes
    assert notes.startswith("mine; monitored over 7 epochs; first fired: ")
    assert f"D1 at epoch {monitor.first['D1']}" in notes


def test_without_a_callback_the_first_firing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    model = network()
    monitor = Monitor(model, batches(2, 16), thresholds={"D1": 0.5})
    monitor.step(3)
    monitor.step(4)
    said = [line for line in capsys.readouterr().out.splitlines() if " D1 " in line]
    assert len(said) == 1
    assert said[0].startswith("creditscope, epoch 3: D1 Scale stability fires, 1.0")
    assert "(limit > 0.5)" in said[0]


def test_a_drift_that_is_only_measured_is_no_alarm(capsys: pytest.CaptureFixture[str]) -> None:
    """All images of one class push the gradient in one direction: D4 is near 1 on a network that has nothing wrong."""
    one_class = [(x, torch.zeros_like(y)) for x, y in batches(3, 128)]
    monitor = Monitor(network(), one_class)
    row = monitor.step(0)
    assert row is not None
    assert row.findings["D4"].value > 0.3  # type: ignore[operator]
    assert row.findings["D4"].status == "measured"
    assert (capsys.readouterr().out, monitor.first, monitor.should_stop) == ("", {}, False)


def test_a_reference_that_is_small_because_the_network_fits_is_no_alarm(capsys: pytest.CaptureFixture[str]) -> None:
    model = network()
    with torch.no_grad():
        model.out_head.weight.mul_(300.0)  # type: ignore[union-attr]
        given = [(x, model(x).argmax(1)) for x, _ in batches(2, 128)]
    monitor = Monitor(model, given)
    row = monitor.step(0)
    assert row is not None
    assert (row.findings["D2"].status, row.findings["D2"].cause) == ("fires", "fitted")
    assert "D2" not in monitor.first
    assert " D2 " not in capsys.readouterr().out


def test_numbers_that_are_not_finite_stop_the_run() -> None:
    model = network()
    with torch.no_grad():
        model.blocks[0].w1.weight[0, 0] = math.nan  # type: ignore[index,union-attr]
    monitor = Monitor(model, batches(2, 16), on_firing=lambda finding, epoch: None)
    monitor.step(0)
    assert monitor.should_stop
    assert monitor.first["D0"] == 0


def test_only_every_so_many_epochs_are_measured() -> None:
    monitor = Monitor(network(), batches(2, 16), every=3)
    assert [monitor.step(epoch) is not None for epoch in range(7)] == [True, False, False, True, False, False, True]
    assert [row.epoch for row in monitor.history] == [0, 3, 6]


def test_the_gradient_is_checked_once() -> None:
    class Counting(Branches):
        runs = 0

        def forward(self, x: Tensor) -> Tensor:
            Counting.runs += 1
            return super().forward(x)

    monitor, runs = Monitor(Counting(), batches(2, 16)), []
    for epoch in range(3):
        monitor.step(epoch)
        runs.append(Counting.runs)
    assert runs[0] > runs[1] - runs[0] == runs[2] - runs[1]


def test_the_control_is_given_to_the_report() -> None:
    monitor = Monitor(network(), batches(2, 64))
    assert monitor.report(accuracy=0.9, control_accuracy=0.3).findings["D3"].status == "pass"
    assert monitor.report().findings["D3"].status == "skipped"


def test_a_model_with_its_own_backward_is_watched_beside_its_twin() -> None:
    from tests.stream.test_reference_model import aligned

    from creditscope import plain_twin

    model, given = aligned(), batches(2, 32)
    with pytest.raises(NotTheGradient):
        Monitor(model, given).step(0)
    row = Monitor(model, given, reference=plain_twin(model)).step(0)
    assert isinstance(row, Row)
    assert len(row.gamma) == 4


def test_a_one_shot_iterator_of_batches_is_kept() -> None:
    def once() -> Iterator[Any]:
        yield from batches(2, 16)

    monitor = Monitor(network(), once())
    first, second = monitor.step(0), monitor.step(1)
    assert first is not None
    assert second is not None
    assert first.hidden_norms == second.hidden_norms
    loader = DataLoader(TensorDataset(*images(32)), batch_size=16)
    assert Monitor(network(), loader).step(0) is not None


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"every": 0}, InvalidInput, "every must be a whole number of at least 1, got 0"),
        ({"every": 1.5}, InvalidInput, "every must be a whole number of at least 1, got 1.5"),
        ({"thresholds": {"D14": 1}}, UnknownName, "no diagnostic called 'D14'"),
        ({"logger": 3}, InvalidInput, r"logger is a int, which has no log\(scalars, step\)"),
        ({"logger": math}, InvalidInput, "logger is the module math"),
        ({"credit": 3}, InvalidInput, "credit is a int, neither a credit source nor a function"),
        ({"blocks": "layer"}, UnknownName, "no module in Branches called 'layer'"),
    ],
)
def test_mistakes_are_refused_before_the_training_begins(options: dict[str, Any], kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        Monitor(Branches(), batches(1, 8), **options)


class Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def shown(html: str) -> list[str]:
    parser = Text()
    parser.feed(html)
    assert not parser.open
    return parser.words


def test_a_monitor_and_a_report_show_themselves_in_a_notebook() -> None:
    monitor = Monitor(network(), batches(2, 64), thresholds={"D1": 0.5}, on_firing=lambda finding, epoch: None)
    assert "0 epochs" in shown(monitor._repr_html_())
    monitor.step(0)
    words = shown(monitor._repr_html_())
    assert {"Monitor of ResidualMLP", "1 epoch", "D1", "D2"} <= set(words)
    assert "#b42318" in monitor._repr_html_()
    report = audit(network(), batches(2, 64), name="<b>mine</b>")
    words = shown(report._repr_html_())
    assert "<b>mine</b>" in words
    assert "<b>mine</b>" not in report._repr_html_()
    assert str(report.verdict) in words
    assert "Scale stability" in words
    assert shown(made_report()._repr_html_())


def test_a_monitor_prints_as_a_table() -> None:
    model, given = network(), batches(2, 64)
    rule = creditscope.rule("dfa", model, example=given[0], seed=0)
    monitor = Monitor(model, given, credit=rule, thresholds={"D1": 0.5}, on_firing=lambda finding, epoch: None)
    assert str(monitor) == "Monitor of ResidualMLP: 0 epochs"
    for epoch in (0, 1, 10):
        row = monitor.step(epoch)
    assert row is not None
    lines = str(monitor).splitlines()
    assert lines[0] == "Monitor of ResidualMLP: 3 epochs"
    assert max(map(len, lines)) <= 80
    headings = [word for line in lines for word in line.split() if word.startswith("D") and "epoch" in line]
    assert [code for code in row.findings if row.findings[code].value is not None] == headings[: len(set(headings))]
    assert [line.split()[0] for line in lines[3:6]] == ["0", "1", "10"]
    assert f"{value(row.findings['D1'])}*" in lines[3]
    assert lines[-1].startswith("* beyond its limit. First alarms: D1 at epoch 0")
    healthy = Monitor(model, given)
    healthy.step(0)
    assert str(healthy).endswith("\n\nFirst alarms: none.")


def test_a_finding_is_what_the_callback_gets() -> None:
    heard: list[Any] = []
    Monitor(network(), batches(2, 16), thresholds={"D1": 0.5}, on_firing=lambda *said: heard.append(said)).step(5)
    finding, epoch = next(said for said in heard if said[0].code == "D1")
    assert isinstance(finding, Finding)
    assert epoch == 5
