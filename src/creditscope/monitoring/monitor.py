"""Monitor: the diagnostics of an audit after every epoch of any training loop."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from creditscope.arguments import as_count, check_callable, check_flags
from creditscope.auditing.audit import audit
from creditscope.auditing.input_checks import checked_limits
from creditscope.auditing.judging import examined
from creditscope.auditing.measures import bad_weights
from creditscope.auditing.traces import traces
from creditscope.credit import CreditSource, Local
from creditscope.errors import InvalidInput
from creditscope.evidence.credit import CreditEvidence
from creditscope.evidence.ledger import Ledger
from creditscope.evidence.records import Evidence
from creditscope.monitoring.adapters import as_loggers
from creditscope.monitoring.loggers import event_text
from creditscope.monitoring.row import Row
from creditscope.probes.probing import Probing
from creditscope.probes.source import CreditFunction, Redraw
from creditscope.protocols import DEFAULT, PROTOCOLS, alarms, judge
from creditscope.records.labels import counted
from creditscope.records.report import Report
from creditscope.stream.isolation import preserved_rng, undisturbed
from creditscope.stream.reading import Read
from creditscope.stream.reference_model import own_credit, referenced
from creditscope.stream.trace import LossFunction, cross_entropy
from creditscope.stream.unchanged import unchanged
from creditscope.terminal import printable
from creditscope.verdict import Finding

Alarm = Callable[[Finding, int], object]


class Monitor:
    """The same diagnostics as an audit, every `every` epochs: call `monitor.step(epoch)` in your own loop.

    model, batches         as for `audit`; a one-shot iterator of batches is kept in memory
    credit                 checkpoint.credit(), a bound rule, or a function Batch -> [a_0..a_L]: Γ per layer, D5 to D9
    blocks, read, loss_fn, reference, thresholds, credit_local, redraw  as for `audit`
    on_firing              called with (finding, epoch) when a diagnostic first fires that protocol strict judges or
                           warns about; default: print a line
    logger                 gets every number, every first alarm and the report: a run of W&B, MLflow or trackio, a
                           SummaryWriter, a Lightning logger, a transformers Trainer, an object with
                           log(scalars, step), a function (scalars, step), a .csv file, a folder for TensorBoard, or a
                           list of these

    `print(monitor)` shows the history as a table.
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
        credit_local: Local | None = None,
        redraw: Redraw | None = None,
        thresholds: Mapping[str, float] | None = None,
        check_gradient: bool = True,
        on_firing: Alarm | None = None,
        logger: Any = None,
    ) -> None:
        if type(every) is not int or every < 1:
            raise InvalidInput(
                f"every must be a whole number of at least 1, got {every!r}.\nNo epoch would be measured otherwise."
            )
        check_flags(check_gradient=check_gradient)
        check_callable("loss_fn", loss_fn, "a function (logits, labels) -> one loss per sample")
        check_callable("on_firing", on_firing, "a function (finding, epoch)")
        self._options: dict[str, Any] = {"blocks": blocks, "read": read, "loss_fn": loss_fn, "reference": reference}
        self._options |= {"thresholds": checked_limits(thresholds), "check_gradient": check_gradient, "credit": credit}
        self._options |= {"credit_local": credit_local, "redraw": redraw}
        self._stream = referenced(model, reference, blocks, read)
        self._credit, self._local = own_credit(self._stream, credit, credit_local, loss_fn or cross_entropy)
        self._probing()  # refuses a credit that cannot be measured
        self._model, self._every = model, every
        with preserved_rng():
            self._batches = list(batches) if isinstance(batches, Iterator) else batches
        self._alarm, self._loggers = on_firing or _print_firing, as_loggers(logger)
        self.history: list[Row] = []
        self.first: dict[str, int] = {}  # the epoch of each diagnostic's first alarm
        self.should_stop = False  # a failure mode of protocol strict is shown

    def step(self, epoch: int, *, log_step: int | None = None) -> Row | None:
        """Measure after this epoch if it is due, and append the row to the history.

        log_step  the step under which the loggers get it; default: the epoch
        """
        epoch = as_count("epoch", epoch)
        log_step = None if log_step is None else as_count("log_step", log_step)
        if epoch % self._every:
            return None
        row = self._measured(epoch)
        self.history.append(row)
        self.should_stop |= judge(PROTOCOLS[DEFAULT], row.findings).outcome == "fail"
        new = [code for code in alarms(PROTOCOLS[DEFAULT], row.findings) if code not in self.first]
        self.first |= dict.fromkeys(new, epoch)
        at = epoch if log_step is None else log_step
        for logger in self._loggers:
            logger.log(row.scalars() | {f"creditscope/alarm/{code}": 1.0 for code in new}, at)
        for code in new:
            for logger in self._loggers:
                logger.event(row.findings[code], epoch, at)
            self._alarm(row.findings[code], epoch)
        return row

    def report(self, **options: Any) -> Report:
        """A full audit of the network in its present state, also given to the loggers.

        Options as for `audit`, including `control_accuracy`.
        """
        firsts = ", ".join(f"{code} at epoch {epoch}" for code, epoch in self.first.items())
        watched = f"monitored over {counted(len(self.history), 'epoch')}; first fired: {firsts or 'nothing'}"
        notes = "; ".join(filter(None, (options.pop("notes", ""), watched)))
        with preserved_rng():
            report = audit(self._model, self._batches, notes=notes, **{**self._options, **options})
        for logger in self._loggers:
            logger.report(report)
        return report

    def _probing(self) -> Probing:
        return Probing(self._stream, self._credit, self._local, None, self._options["redraw"])

    def _measured(self, epoch: int) -> Row:
        stream, probing = self._stream, self._probing()
        ledger, loss_fn = Ledger(stream), self._options["loss_fn"]
        check = self._options["check_gradient"] and not self.history
        with preserved_rng(), unchanged(stream.model), undisturbed(stream.model), probing.prepared():
            for trace in traces(stream, self._batches, loss_fn, check, {}, probing.add):
                ledger.add(trace)
                del trace  # free it before the next one is made
            evidence = probing.completed(ledger.evidence(), loss_fn or cross_entropy, None, judged_only=True)
        evidence = replace(evidence, non_finite={**(evidence.non_finite or {}), "weights": bad_weights(stream.subject)})
        accuracy = ledger.accuracy if probing.accuracy is None else probing.accuracy
        return self._row(epoch, evidence, accuracy)

    def _row(self, epoch: int, evidence: Evidence, accuracy: float | None) -> Row:
        hidden, gradient = tuple(evidence.hidden_medians.tolist()), tuple(evidence.gradient_medians.tolist())
        evidence, findings = examined(evidence, PROTOCOLS[DEFAULT], self._options["thresholds"])
        gamma = evidence.credit.alignment.exact if isinstance(evidence.credit, CreditEvidence) else ()
        return Row(epoch, accuracy, hidden, gradient, findings, gamma)

    def __str__(self) -> str:
        from creditscope.report.history import history_table

        return history_table(self._title, self._rows(), self.first)

    def _repr_html_(self) -> str:
        from creditscope.report.notebook import history

        return history(self._title, self._rows(), self.should_stop)

    @property
    def _title(self) -> str:
        return f"Monitor of {type(self._stream.subject).__name__}"

    def _rows(self) -> list[tuple[int, float | None, Mapping[str, Finding]]]:
        return [(row.epoch, row.accuracy, row.findings) for row in self.history]


def _print_firing(finding: Finding, epoch: int) -> None:
    text = f"creditscope, epoch {epoch}: {finding.code} {finding.title} fires, {event_text(finding)}"
    if sys.stdout is not None:  # a program without standard output
        sys.stdout.write(printable(text) + "\n")
