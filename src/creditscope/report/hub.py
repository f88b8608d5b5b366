"""Reports for the Hugging Face hub: a model card's model-index, and entries of .eval_results/*.yaml."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from creditscope.errors import InvalidInput
from creditscope.records.report import Report
from creditscope.report.numbers import per_cent
from creditscope.verdict import Finding

TASK = "image-classification"
PREFIX = "creditscope-"  # of metric types that the hub does not define
# Not allowed in YAML as they are, or marks that turn the direction of writing
UNPRINTABLE = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def model_index(report: Report, dataset: str = "", task: str = TASK, url: str = "") -> list[dict[str, Any]]:
    """The `model-index` of a model card: accuracies, every diagnostic that has a number, and the verdict.

    dataset  its id on the hub, or its name; url  of the report, where it is published
    """
    images = f"{report.provenance.images:,} images of the audit"
    result: dict[str, Any] = {
        "task": {"type": task},
        "dataset": {"type": dataset or "unknown", "name": dataset or images},
        "metrics": list(_metrics(report)),
    }
    if url:
        result["source"] = {"name": f"creditscope {report.provenance.creditscope}", "url": url}
    return [{"name": report.subject.name, "results": [result]}]


def _metrics(report: Report) -> Iterator[dict[str, Any]]:
    if report.accuracy:
        yield {"type": "accuracy", "name": "Accuracy", "value": _number(fmean(report.accuracy))}
    if report.control_accuracy:
        name = "Accuracy with frozen blocks (control)"
        yield {"type": f"{PREFIX}control-accuracy", "name": name, "value": _number(fmean(report.control_accuracy))}
    yield from (_metric(code, finding) for code, finding in report.findings.items() if finding.value is not None)
    origin = {"protocol": report.protocol, "content_hash": report.content_hash}
    yield {"type": f"{PREFIX}verdict", "name": "Verdict of the audit", "value": report.verdict.text, "args": origin}


def _metric(code: str, finding: Finding) -> dict[str, Any]:
    limit = {"fires": finding.limit.fires, "limit": _number(finding.limit.at), "status": finding.status.value}
    value = _number(math.nan if finding.value is None else finding.value)
    return {"type": f"{PREFIX}{code}", "name": f"{code} {finding.title}", "value": value, "args": limit}


def _number(value: float) -> float | str:
    """JSON and YAML on the hub have no NaN and no infinity."""
    return value if math.isfinite(value) else str(value)


def eval_results(report: Report, dataset: str, task_id: str = "default", url: str = "") -> list[dict[str, Any]]:
    """The entries of a file .eval_results/*.yaml: the accuracy on a benchmark of the hub; the audit is in its notes.

    dataset, task_id  of the benchmark, as its page names them; url  of the report, where it is published
    """
    if not HUB_ID.fullmatch(str(dataset)):
        raise InvalidInput(
            f"{dataset!r:.80} is not the id of a dataset on the hub.\n"
            "The result would appear on no leaderboard. Pass OWNER/NAME, as in the address of the dataset's page."
        )
    if not report.accuracy or not math.isfinite(fmean(report.accuracy)):
        raise InvalidInput(
            "The report has no accuracy.\nThere is no value to enter. Audit on batches with labels, or pass accuracy=."
        )
    entry: dict[str, Any] = {"dataset": {"id": dataset, "task_id": task_id}, "value": fmean(report.accuracy)}
    if report.provenance.created:
        entry["date"] = report.provenance.created
    if url:
        entry["source"] = {"url": url, "name": f"creditscope {report.provenance.creditscope}"}
    control = f", {per_cent(report.control_accuracy)} % with frozen blocks" if report.control_accuracy else ""
    seeds = f"mean of {len(report.accuracy)} seeds, " if len(report.accuracy) > 1 else ""
    audit = f"{seeds}audited: {report.verdict} (protocol {report.protocol}){control}; report {report.content_hash[:16]}"
    return [{**entry, "notes": audit}]


def yaml_text(value: Any, indent: int = 0) -> str:
    """Lists, dicts and scalars as YAML in block style; scalars are written as JSON, which YAML reads alike."""
    pad = "  " * indent
    if isinstance(value, Mapping):
        return "".join(f"{pad}{_key(name)}:{_inside(part, indent)}" for name, part in value.items())
    if not isinstance(value, list):
        return f"{pad}{_scalar(value)}\n"
    items = (yaml_text(part, indent + 1) for part in value)
    return "".join(f"{pad}- {item[len(pad) + 2 :]}" for item in items)


def _inside(part: Any, indent: int) -> str:
    if isinstance(part, Mapping | list) and part:
        deeper = indent if isinstance(part, list) else indent + 1
        return "\n" + yaml_text(part, deeper)
    return f" {_scalar(part)}\n"


def _scalar(part: Any) -> str:
    """A scalar as JSON, changed where YAML 1.1 would read it otherwise: 1e-07 is a string there, 1.0e-07 a number."""
    text = json.dumps(part, ensure_ascii=False, allow_nan=False)
    if isinstance(part, float):
        mantissa, mark, exponent = text.partition("e")
        return text if "." in mantissa else f"{mantissa}.0{mark}{exponent}"
    return UNPRINTABLE.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][\w-]*", name) else json.dumps(name)
