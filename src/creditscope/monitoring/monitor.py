"""Monitor: the diagnostics of an audit after every epoch of any training loop."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from creditscope.auditing.audit import audit
from creditscope.auditing.input_checks import checked_limits
from creditscope.auditing.measures import bad_weights
from creditscope.auditing.traces import traces
from creditscope.batch import Batch
from creditscope.credit import CreditSource
from creditscope.diagnostics import examine_all
from creditscope.errors import InvalidInput
from creditscope.evidence.alignment import AlignmentLedger, paired_vectors
from creditscope.evidence.ledger import Ledger
from creditscope.evidence.records import Evidence
from creditscope.probes.source import CreditFunction, check_model, checked_signals, credit_source
from creditscope.protocols import DEFAULT, PROTOCOLS, alarms, judge
from creditscope.records.labels import counted
from creditscope.records.report import Report
from creditscope.stream.isolation import own_gradients, preserved_rng, undisturbed
from creditscope.stream.reading import Read
from creditscope.stream.reference_model import own_credit, referenced
from creditscope.stream.trace import LossFunction, Trace, cross_entropy
from creditscope.terminal import printable
from creditscope.verdict import Finding, Status

Alarm = Callable[[Finding, int], object]


@dataclass(frozen=True, slots=True)
class Row:
    """The numbers of one epoch; norms are medians over all images of the batches, one per layer."""

    epoch: int
    accuracy: float | None
    hidden_norms: tuple[float, ...]
    gradient_norms: tuple[float, ...]
    findings: Mapping[str, Finding]
    gamma: tuple[float, ...] = ()

    @property
    def fires(self) -> tuple[str, ...]:
        """Codes of the diagnostics that fire."""
        return tuple(code for code, finding in self.findings.items() if finding.status is Status.FIRES)

    def scalars(self) -> dict[str, float]:
        """Every number of the row, by the name under which it is logged."""
        scalars = {code: finding.value for code, finding in self.findings.items() if finding.value is not None}
        if self.accuracy is not None:
            scalars["accuracy"] = self.accuracy
        columns = {"hidden_norm": self.hidden_norms, "gradient_norm": self.gradient_norms, "gamma": self.gamma}
        for name, values in columns.items():
            scalars.update({f"{name}/{layer}": value for layer, value in enumerate(values)})
        return scalars


class Monitor:
    """The same diagnostics as an audit, every `every` epochs: call `monitor.step(epoch)` in your own loop.

    model, batches         as for `audit`; a one-shot iterator of batches is kept in memory
    credit                 checkpoint.credit(), or a function Batch -> [a_0..a_L]: Γ per layer
    blocks, read, loss_fn, reference, thresholds  as for `audit`
    on_firing              called with (finding, epoch) when a diagnostic first fires that protocol strict judges or
                           warns about; default: print a line
    writer                 a TensorBoard SummaryWriter, or the folder to create one in

    Training continues exactly as without it: weights, gradients, modes, buffers and random states are not changed.
    D3 needs a trained frozen control: pass its accuracy to `report(control_accuracy=...)`.

    >>> import creditscope, torch
    >>> from creditscope.networks.build import build
    >>> network = build("resmlp", 6, 3, seed=0, d=8, depth=2)
    >>> inputs, labels = torch.linspace(-1, 1, 384).view(64, 6), torch.arange(64) % 3
    >>> monitor = creditscope.Monitor(network, [(inputs, labels)])
    >>> for epoch in range(2):  # train here, then measure
    ...     row = monitor.step(epoch)
    >>> monitor.history[-1].epoch, monitor.history[-1].fires
    (1, ())
    """

    def __init__(
        self,
        model: nn.Module,
        batches: Iterable[Any],
        every: int = 1,
        credit: CreditSource | CreditFunction | None = None,
        *,
        blocks: str | Sequence[str] | None = None,
        read: Read = "auto",
        loss_fn: LossFunction | None = None,
        reference: nn.Module | None = None,
        thresholds: Mapping[str, float] | None = None,
        check_gradient: bool = True,
        on_firing: Alarm | None = None,
        writer: Any = None,
    ) -> None:
        if type(every) is not int or every < 1:
            raise InvalidInput(
                f"every must be a whole number of at least 1, got {every!r}.\nNo epoch would be measured otherwise."
            )
        self._options: dict[str, Any] = {"blocks": blocks, "read": read, "loss_fn": loss_fn, "reference": reference}
        self._options |= {"thresholds": checked_limits(thresholds), "check_gradient": check_gradient, "credit": credit}
        self._stream = referenced(model, reference, blocks, read)
        given, local = own_credit(self._stream, credit, None, loss_fn or cross_entropy)
        self._source = None if given is None else credit_source(given, local)
        if self._source is not None:
            check_model(self._source, self._stream.subject)
        self._model, self._every = model, every
        with preserved_rng():
            self._batches = list(batches) if isinstance(batches, Iterator) else batches
        self._alarm, self._writer = on_firing or _print_firing, _writer(writer)
        self.history: list[Row] = []
        self.first: dict[str, int] = {}  # the epoch of each diagnostic's first alarm
        self.should_stop = False  # a failure mode of protocol strict is shown

    def step(self, epoch: int) -> Row | None:
        """Measure after this epoch if it is due, and append the row to the history."""
        if epoch % self._every:
            return None
        row = self._measured(epoch)
        self.history.append(row)
        self.should_stop |= judge(PROTOCOLS[DEFAULT], row.findings).outcome == "fail"
        if self._writer is not None:
            for name, value in row.scalars().items():
                self._writer.add_scalar(f"creditscope/{name}", value, epoch)
        for code in alarms(PROTOCOLS[DEFAULT], row.findings):
            if code not in self.first:
                self.first[code] = epoch
                self._alarm(row.findings[code], epoch)
        return row

    def report(self, **options: Any) -> Report:
        """A full audit of the network in its present state; options as for `audit`, including `control_accuracy`."""
        firsts = ", ".join(f"{code} at epoch {epoch}" for code, epoch in self.first.items())
        watched = f"monitored over {counted(len(self.history), 'epoch')}; first fired: {firsts or 'nothing'}"
        notes = "; ".join(filter(None, (options.pop("notes", ""), watched)))
        with preserved_rng():
            return audit(self._model, self._batches, notes=notes, **{**self._options, **options})

    def _measured(self, epoch: int) -> Row:
        stream, aligned = self._stream, AlignmentLedger()
        ledger = Ledger(stream)

        def beside(batch: Batch, trace: Trace) -> None:
            if self._source is not None:
                aligned.add(*paired_vectors(stream, checked_signals(self._source, batch, trace), trace.gradients))

        check = self._options["check_gradient"] and not self.history
        with preserved_rng(), undisturbed(stream.model), own_gradients(stream.model):
            for trace in traces(stream, self._batches, self._options["loss_fn"], check, {}, beside):
                ledger.add(trace)
        evidence = ledger.evidence()
        evidence = replace(evidence, non_finite={**(evidence.non_finite or {}), "weights": bad_weights(stream.subject)})
        gamma = () if self._source is None else aligned.alignment().exact
        return self._row(epoch, evidence, ledger.accuracy, gamma)

    def _row(self, epoch: int, evidence: Evidence, accuracy: float | None, gamma: tuple[float, ...]) -> Row:
        hidden, gradient = tuple(evidence.hidden_medians.tolist()), tuple(evidence.gradient_medians.tolist())
        findings = examine_all(evidence, PROTOCOLS[DEFAULT], self._options["thresholds"])
        return Row(epoch, accuracy, hidden, gradient, findings, gamma)

    def _repr_html_(self) -> str:
        from creditscope.report.notebook import history

        rows = [(row.epoch, row.accuracy, row.findings) for row in self.history]
        return history(f"Monitor of {type(self._stream.subject).__name__}", rows, self.should_stop)


def _print_firing(finding: Finding, epoch: int) -> None:
    from creditscope.report.numbers import limit, value

    text = (
        f"creditscope, epoch {epoch}: {finding.code} {finding.title} fires, {value(finding)} "
        f"(limit {limit(finding.limit)}){f'; {finding.note}' if finding.note else ''}"
    )
    if sys.stdout is not None:  # a program without standard output
        sys.stdout.write(printable(text) + "\n")


def _writer(given: Any) -> Any:
    """The given writer; for a folder, a TensorBoard writer."""
    if given is None or hasattr(given, "add_scalar"):
        return given
    if not isinstance(given, str | Path):
        raise InvalidInput(
            f"writer is a {type(given).__name__}, neither a folder nor an object with add_scalar().\n"
            "The numbers could not be written. Pass a SummaryWriter, or the folder to create one in."
        )
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise InvalidInput(
            "TensorBoard is not installed.\n"
            "The numbers could not be written. Install the extra: pip install 'creditscope[tensorboard]'."
        ) from error
    return SummaryWriter(str(given))
