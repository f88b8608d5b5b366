"""Real audits: a tiny DFA run, trained here once per process, with its frozen control."""

from __future__ import annotations

import copy
from functools import cache

import torch

from creditscope.auditing.audit import audit
from creditscope.records.run import RunRecord
from creditscope.report.views import AuditView, from_report, from_runs
from creditscope.runs.audit import audit_checkpoint
from creditscope.runs.run import load_data, train
from creditscope.runs.spec import RunSpec
from creditscope.training.checkpoint import Checkpoint

SPEC = RunSpec(network_options={"d": 16, "depth": 2}, method="dfa", epochs=2, seed=1)


@cache
def tiny_run() -> Checkpoint:
    """DFA on MNIST-1D: two blocks of width 16, two epochs."""
    return train(SPEC)


@cache
def tiny_record() -> RunRecord:
    """The record of the run with its audit inside, credit and frozen control included."""
    control = train(SPEC.control_spec("frozen")).record
    report = audit_checkpoint(tiny_run(), load_data(SPEC), [control])
    return tiny_run().record.model_copy(update={"report": report, "key": SPEC.key})


def tiny_view() -> AuditView:
    """The same as pages and charts take it."""
    (view,) = from_runs([tiny_record()])
    return view


@cache
def audits() -> dict[str, AuditView]:
    """One audit of every kind."""
    network, batches = tiny_run().network, list(load_data(SPEC).test_batches(250))
    broken = copy.deepcopy(network)
    with torch.no_grad():
        next(broken.parameters())[0] = torch.nan
    (bare,) = from_runs([tiny_run().record])
    return {
        "credit": tiny_view(),
        "no credit": from_report(audit(network, batches, name="no credit", control_accuracy=0.1)),
        "fail": from_report(audit(network, batches, name="unused depth", accuracy=0.2, control_accuracy=0.5)),
        "inconclusive": from_report(audit(network, batches, name="without a control")),
        "nan": from_report(audit(broken, batches, name="diverged", control_accuracy=0.5)),
        "not audited": bare,
    }
