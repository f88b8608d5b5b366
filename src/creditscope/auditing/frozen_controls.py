"""Frozen controls that are given as networks: checked against the audited one, and asked the same images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from creditscope.auditing.traces import as_input_error
from creditscope.batch import Batch
from creditscope.errors import InvalidInput, ModelMismatch
from creditscope.evidence.records import Evidence
from creditscope.probes.weight_drift import initial_weights
from creditscope.stream.find import find_stream
from creditscope.stream.isolation import undisturbed
from creditscope.stream.reading import Read
from creditscope.stream.states import Stream
from creditscope.stream.trace import Trace
from creditscope.stream.unchanged import unchanged


class FrozenControls:
    """Which test images the audited network and every control get right; does nothing where there is no control."""

    def __init__(
        self, stream: Stream, controls: Any, initial: Any, blocks: str | Sequence[str] | None, read: Read
    ) -> None:
        self._audited, self._initial = stream, initial
        given = [] if controls is None else [controls] if isinstance(controls, nn.Module) else _listed(controls)
        if controls is not None and (not given or not all(isinstance(control, nn.Module) for control in given)):
            raise InvalidInput(
                f"control is a {type(controls).__name__}, not a network or a list of networks.\n"
                "There is nothing to compare with. Pass the trained frozen control, or one per seed."
            )
        self._streams = [find_stream(control, blocks, read) for control in given]
        self._right: list[list[Tensor]] = []

    def __len__(self) -> int:
        return len(self._streams)

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Evaluation mode for all controls inside the block."""
        with ExitStack() as stack:
            for stream in self._streams:
                stack.enter_context(unchanged(stream.model))
                stack.enter_context(undisturbed(stream.model))
            yield

    def add(self, batch: Batch, trace: Trace) -> None:
        """Ask every control about the images of a batch; the first batch comes after the checks of the controls."""
        if not self._streams:
            return
        if batch.labels.dim() != 1 or batch.labels.is_floating_point():
            raise InvalidInput(
                f"The labels have shape {tuple(batch.labels.shape)} and are {batch.labels.dtype}, not one class per "
                "image.\nRight and wrong answers cannot be counted. Leave out control=, and pass control_accuracy=."
            )
        if not self._right:
            for index, stream in enumerate(self._streams):
                self._check(stream.subject, f"Control {index}" if len(self) > 1 else "The control")
        logits = [trace.logits]
        for stream in self._streams:
            with torch.no_grad(), as_input_error(stream.model, batch):
                logits.append(stream.run(batch.inputs).logits)
        self._right.append([(answer.argmax(-1) == batch.labels).cpu() for answer in logits])

    def accuracies(self) -> list[float]:
        """Share of right answers of every control."""
        shares: list[float] = self._table()[1:].mean(1).tolist()
        return shares

    def completed(self, evidence: Evidence) -> Evidence:
        """The evidence with the right answers of the audited network (1, images) and of the controls."""
        table = self._table()
        return replace(evidence, answers=table[:1], control_answers=table[1:]) if self._streams else evidence

    def _table(self) -> NDArray[numpy.bool_]:
        columns = [torch.cat(column) for column in zip(*self._right, strict=True)]
        table: NDArray[numpy.bool_] = torch.stack(columns).numpy() if columns else numpy.zeros((0, 0), bool)
        return table

    def _check(self, control: nn.Module, name: str) -> None:
        """Refuse a control of another architecture, one whose blocks moved, and one that was not trained."""
        own, other = (dict(model.named_parameters()) for model in (self._audited.subject, control))
        if {key: p.shape for key, p in own.items()} != {key: p.shape for key, p in other.items()}:
            raise ModelMismatch(
                f"{name} is not the audited network with other weights: their parameters differ in names or shapes.\n"
                "The margin would measure the architecture too. Train the same network with its blocks frozen."
            )
        inside = {id(p) for block in self._audited.blocks for p in block.parameters()}
        frozen = {key for key, p in own.items() if id(p) in inside}
        if self._initial is None:
            if _moved(other, own, own.keys()) == []:
                raise ModelMismatch(
                    f"{name} has the weights of the audited network.\n"
                    "The margin would be 0 by construction. Pass the network that was trained with frozen blocks."
                )
            return
        start = initial_weights(self._audited.subject, self._initial)
        if moved := _moved(other, start, frozen):
            raise ModelMismatch(
                f"{name} is not frozen: {moved[0]} and {len(moved) - 1} more parameters of its blocks differ from "
                "initial=.\nDepth would look useless because the control was trained too. Freeze the blocks at the "
                "same initial values, and exclude them from weight decay."
            )
        if not _moved(other, start, own.keys() - frozen):
            raise ModelMismatch(
                f"{name} is untrained: its embedding and read-out equal initial=.\n"
                "The margin would credit the blocks with what the read-out learns. Train the control's embedding and "
                "read-out with the recipe of the method."
            )


def _moved(weights: Mapping[str, Tensor], start: Mapping[str, Tensor], names: Any) -> list[str]:
    """The parameters among `names` that differ from their start, in the order of the network."""
    wanted = set(names)
    return [
        key
        for key, value in weights.items()
        if key in wanted and not torch.equal(value.detach(), start[key].detach().to(value.device, value.dtype))
    ]


def _listed(controls: Any) -> Sequence[Any]:
    return controls if isinstance(controls, Sequence) and not isinstance(controls, str) else ()
