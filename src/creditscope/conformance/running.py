"""Training: every weight learns, bits repeat, frozen blocks stay, and nothing is lost in a checkpoint or a snapshot."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from creditscope.conformance.clause import NotChecked, Remark, clause
from creditscope.conformance.subject import CheckedRule, differing, drawn, same_credit, seeded
from creditscope.methods.wrappers import Frozen, Ladder, wrapped
from creditscope.networks.staged import StagedNetwork
from creditscope.records.run import HistoryRow, RunRecord
from creditscope.training.checkpoint import Checkpoint, read_tensors, restored
from creditscope.training.weights import load_weights


@clause("learn", states="A step of learning changes no weight of the network, which is left to the optimiser.")
def learn(subject: CheckedRule) -> Iterator[Remark]:
    """Auxiliary losses are single numbers by name."""
    case = subject.case()
    before = {name: p.detach().clone() for name, p in case.network.named_parameters()}
    credit = case.step()
    changed = differing(before, {name: p.detach() for name, p in case.network.named_parameters()})
    if changed:
        yield Remark(f"a step of learning changes {', '.join(changed[:3])}")
    unknown = sorted(credit.gradients.keys() - before.keys())
    if unknown:
        yield Remark(f"there are gradients for {', '.join(unknown[:3])}, which is no parameter")
    wrong = [name for name, value in credit.auxiliary.items() if value.dim()]
    if wrong:
        yield Remark(f"the auxiliary loss {', '.join(wrong)} is not one number")


@clause(
    "training",
    states="A run moves every weight and ends twice with the same bits; frozen and lower blocks keep theirs.",
)
def training(subject: CheckedRule) -> Iterator[Remark]:
    """Weight decay included. BatchNorm's statistics are not weights: they follow the stream."""
    start, one = subject.network(), subject.trained(subject.fresh())
    two = subject.trained(subject.fresh())
    changed = differing(one.tensors(), two.tensors())
    if changed or one.record.history != two.record.history:
        yield Remark(f"two runs of the same seed differ{': ' if changed else ''}{', '.join(changed[:2])}")
    if one.record.diverged is not None:
        yield Remark(f"the run diverged: {one.record.diverged.why}")
    still = [name for name, p in start.named_parameters() if name not in _moved(start, one.network)]
    if still:
        yield Remark(f"{', '.join(still[:3])} does not learn")
    frozen = _moved(start, subject.trained(Frozen(subject.fresh())).network)
    ladder = _moved(start, subject.trained(Ladder(subject.fresh(), 1)).network)
    blocks = {name: start.block_of(name) for name, _ in start.named_parameters()}
    wrong = [name for name, block in blocks.items() if (block is None) != (name in frozen)]
    if wrong:
        yield Remark(f"with frozen blocks {wrong[0]} does {'not ' if blocks[wrong[0]] is None else ''}learn")
    wrong = [name for name, block in blocks.items() if (block in (None, start.depth - 1)) != (name in ladder)]
    if wrong:
        yield Remark(f"on the first rung of the ladder the wrong weights learn: {', '.join(wrong[:3])}")
    yield from _record(subject, one)


def _record(subject: CheckedRule, run: Checkpoint) -> Iterator[Remark]:
    """The record of a run carries the facts and every option of its rule."""
    rule: Any = subject.rule
    options = {f"method.{o.name}": getattr(rule, o.name) for o in dataclasses.fields(rule)}
    if run.record.method != rule.facts or any(run.record.resolved.get(name) != v for name, v in options.items()):
        yield Remark("the record of a run does not hold the facts and options of its rule")


def _moved(start: StagedNetwork, end: StagedNetwork) -> set[str]:
    before, after = (_parameters(network) for network in (start, end))
    return set(differing(before, after))


def _parameters(network: StagedNetwork) -> dict[str, Tensor]:
    return {name: p.detach() for name, p in network.named_parameters()}


class _Interrupted(Exception):
    """What ends a run after its first epoch."""


@clause("resumed", states="A run that is interrupted and resumed ends with the bits of an uninterrupted one.")
def resumed(subject: CheckedRule) -> Iterator[Remark]:
    """With a penalty, on a rung of the ladder; the rule that resumes is a new one, as in another process."""

    def rule() -> Any:
        return wrapped(subject.fresh(), penalty=0.1, control="ladder-1")

    def interrupt(row: HistoryRow) -> None:
        if row.epoch == 1:
            raise _Interrupted

    whole = subject.trained(rule(), epochs=2)
    with tempfile.TemporaryDirectory() as folder:
        snapshot = Path(folder) / "snapshot"
        with suppress(_Interrupted):
            subject.trained(rule(), epochs=2, on_epoch=interrupt, snapshot=snapshot, snapshot_seconds=0.0)
        if not snapshot.exists():
            raise NotChecked("the run ended before it could be interrupted")
        again = subject.trained(rule(), epochs=2, snapshot=snapshot)
    changed = differing(whole.tensors(), again.tensors())
    if changed or whole.record.history != again.record.history:
        yield Remark(f"the resumed run differs in {', '.join(changed[:3]) or 'its history'}: a state is not saved")


@clause("saved", states="After a run its credit can be computed from the checkpoint alone, bit for bit.")
def saved(subject: CheckedRule) -> Iterator[Remark]:
    """Feedback and auxiliary networks are in the file; the rule that reads it is a new one."""
    run, batch = subject.trained(subject.fresh()), drawn(7)
    with tempfile.TemporaryDirectory() as folder:
        parts = read_tensors(run.save(Path(folder) / "run"))
        record = RunRecord.from_json(Path(folder) / "run" / "record.json")
    network, rule = subject.network(), subject.fresh()
    load_weights(network, parts["network"], "the checkpoint")
    feedback, missing = restored(rule.feedback(network, run.example, seeded(77)), parts, "the checkpoint")
    if missing:
        yield Remark(f"the checkpoint does not hold {', '.join(missing[:3])}")
        return
    before = run.rule.credit(run.network.eval(), run.feedback, batch)
    if not same_credit(before, rule.credit(network, feedback, batch)):
        yield Remark("the credit from the checkpoint is another one: a state is not saved")
    if record.model_copy(update={"weights_checksum": ""}) != run.record:  # the file alone is bound to its weights
        yield Remark("the record that was read is not the one that was written")
