"""partial_audit: from the logs of one method, one per seed, to a reading of each diagnostic and a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from creditscope import __version__
from creditscope.errors import InvalidInput
from creditscope.partial.fields import checked_roles, number, share
from creditscope.partial.logs import Log, LogRow, parse_log, with_embedding
from creditscope.partial.readings import Coverage, LogFinding, depth, drift, finite, reference, scale
from creditscope.protocols import judge, protocol_named
from creditscope.records.labels import counted
from creditscope.records.record import Record
from creditscope.verdict import Status, Verdict

Shares = float | Sequence[float] | None


class SeedAudit(Record):
    """One log: its reading of each diagnostic, and the verdict of this seed alone."""

    name: str
    rows: int
    accuracy: float
    baseline: float | None
    h0: float | None
    readings: dict[str, LogFinding]
    verdict: Verdict


class PartialAudit(Record):
    """The logs of one method, one per seed, judged apart and together."""

    schema_version: Literal[1] = 1
    creditscope: str
    protocol: str
    blocks: int | None
    batch_size: int | None
    test_images: int | None
    fields: dict[str, str]
    seeds: tuple[SeedAudit, ...]
    readings: dict[str, LogFinding]
    verdict: Verdict

    def __str__(self) -> str:
        from creditscope.partial.page import page

        return page(self)

    def to_json(self) -> str:
        """The audit as JSON."""
        return self.model_dump_json(indent=1) + "\n"


@dataclass(frozen=True, slots=True)
class _Known:
    """Facts about the runs that the logs do not hold."""

    blocks: int | None
    batch_size: int | None
    test_images: int | None
    protocol: str


def partial_audit(
    logs: Mapping[str, Any],
    *,
    baseline: Shares = None,
    h0: Shares = None,
    blocks: int | None = None,
    batch_size: int | None = None,
    test_images: int | None = None,
    fields: Mapping[str, str] | None = None,
    protocol: str = "three",
) -> PartialAudit:
    """Judge the logs of one method.

    logs         parsed JSON by name, one per seed: {"final_test_acc": 0.36, "log": [{"h_L_norm": 4e4, ...}, ...]}
    baseline     accuracy with frozen blocks, one for all seeds or one per seed in the order of the logs
    h0           median ‖h_0‖ of the trained network where no log holds it, one for all or one per seed
    blocks       L, the number of blocks
    batch_size   of the logged gradients, which are those of the batch-mean loss
    test_images  behind each accuracy: with one seed D3 then has an interval
    fields       what the logs call things, by role: accuracy, log, epoch, h_0..h_L, g_0..g_L, h and g (lists of all)
    """
    if not logs:
        raise InvalidInput("No log was given.\nThere is nothing to judge. Give one per seed.")
    _check(protocol, {"blocks": blocks, "batch_size": batch_size, "test_images": test_images})
    baselines, starts = _spread_out(baseline, len(logs), "baseline"), _spread_out(h0, len(logs), "h0")
    roles = checked_roles(fields or {})
    parsed = [parse_log(name, content, roles, blocks) for name, content in logs.items()]
    known = _Known(_common_depth(parsed), batch_size, test_images, protocol)
    seeds = tuple(
        _seed(with_embedding(log, start), control, start, known)
        for log, control, start in zip(parsed, baselines, starts, strict=True)
    )
    readings, verdict = _together(seeds, baseline, known)
    return PartialAudit(
        creditscope=__version__,
        protocol=protocol,
        blocks=known.blocks,
        batch_size=batch_size,
        test_images=test_images,
        fields=roles,
        seeds=seeds,
        readings=readings,
        verdict=verdict,
    )


def _seed(log: Log, baseline: float | None, h0: float | None, known: _Known) -> SeedAudit:
    """One log: its last row describes the trained network, the others tell when a diagnostic first fired."""
    by_row: dict[str, Callable[[LogRow], LogFinding]] = {
        "D0": finite,
        "D1": lambda row: scale(row.hidden, known.blocks),
        "D2": lambda row: reference(row.gradient, known.blocks, known.batch_size),
    }
    readings = {code: _history(log.rows, read) for code, read in by_row.items()}
    control = None if baseline is None else (baseline,)
    readings |= {"D3": depth((log.accuracy,), control, known.test_images), "D4": drift()}
    verdict = judge(protocol_named(known.protocol), {code: reading.finding for code, reading in readings.items()})
    begun = readings["D0"]
    if begun.first and begun.finding.status is not Status.FIRES:
        warning = f"{log.name}: {begun.first} holds a norm that is not finite, although the last row does not."
        verdict = replace(verdict, warnings=(*verdict.warnings, warning))
    return SeedAudit(
        name=log.name,
        rows=len(log.rows),
        accuracy=log.accuracy,
        baseline=baseline,
        h0=h0,
        readings=readings,
        verdict=verdict,
    )


def _history(rows: Sequence[LogRow], read: Callable[[LogRow], LogFinding]) -> LogFinding:
    """The reading of the last row, with the first row that fired."""
    readings = [read(row) for row in rows]
    fired = [row.label for row, reading in zip(rows, readings, strict=True) if reading.finding.status is Status.FIRES]
    return readings[-1].model_copy(update={"first": fired[0] if fired and len(rows) > 1 else ""})


def _together(seeds: tuple[SeedAudit, ...], baseline: Shares, known: _Known) -> tuple[dict[str, LogFinding], Verdict]:
    """Over seeds: D3 by its interval, every other diagnostic by its readings on each seed, as in a study."""
    if len(seeds) == 1:
        return seeds[0].readings, seeds[0].verdict
    readings = {code: _over_seeds([seed.readings[code] for seed in seeds]) for code in seeds[0].readings}
    controls = _listed(baseline)
    readings["D3"] = depth(tuple(seed.accuracy for seed in seeds), controls or None, known.test_images)
    verdict = judge(protocol_named(known.protocol), {code: reading.finding for code, reading in readings.items()})
    warnings = dict.fromkeys(warning for seed in seeds for warning in seed.verdict.warnings)
    return readings, replace(verdict, warnings=tuple(warnings))


def _over_seeds(readings: Sequence[LogFinding]) -> LogFinding:
    """One reading for all seeds, with the weakest coverage; a number only if all seeds have one of the same kind."""
    from creditscope.diagnostics.seeds import over_seeds

    finding = over_seeds([reading.finding for reading in readings])
    if len({(reading.state, reading.at_least, reading.layer) for reading in readings}) > 1:
        finding = replace(finding, measurement=None)
    states = {reading.state for reading in readings}
    weakest = max(states, key=list(Coverage).index)
    notes = dict.fromkeys(reading.finding.note for reading in readings)
    fires = sum(reading.finding.status is Status.FIRES for reading in readings)
    known = sum(reading.state is not Coverage.MISSING for reading in readings)
    count = f"fires on {fires} of {len(readings)} seeds" + (f", known on {known}" if known < len(readings) else "")
    own = next(iter(notes)) if len(notes) == 1 else ""
    note = "; ".join(part for part in (own, count if fires or not own else "") if part)
    return LogFinding(
        state=Coverage.OPEN if weakest is Coverage.MISSING and len(states) > 1 else weakest,
        finding=replace(finding, note=note),
        at_least=any(reading.at_least for reading in readings),
        layer=next((reading.layer for reading in readings if reading.layer is not None), None),
        needed=next((reading.needed for reading in readings if reading.needed), ""),
    )


# --- checks of the input ---


def _check(protocol: str, counts: Mapping[str, int | None]) -> None:
    if variants := protocol_named(protocol).needs_network:
        raise InvalidInput(
            f"The protocol {protocol!r} measures {', '.join(variants)} in another form.\n"
            "A log gives no bound on that form. Use three or four, or audit the weights."
        )
    for name, given in counts.items():
        if given is not None and (isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= 10**9):
            over = isinstance(given, int) and given > 1
            raise InvalidInput(
                f"{name} must be a positive whole number{' of at most 10^9' * over}, got {given!r}.\n"
                "Bounds and intervals depend on it. Give that of the logged runs."
            )


def _listed(given: Shares) -> tuple[float, ...]:
    return () if given is None else tuple(given) if isinstance(given, Sequence) else (given,)


def _spread_out(given: Shares, seeds: int, what: Literal["baseline", "h0"]) -> tuple[float | None, ...]:
    """One number per seed, from none, one for all or one for each."""
    values = _listed(given)
    if len(values) not in (0, 1, seeds):
        raise InvalidInput(
            f"--{what} is given {len(values)} times for {seeds} logs.\n"
            "It is ambiguous which value belongs to which seed. Give one for all logs, or one per log in their order."
        )
    for value in values:
        if what == "baseline":
            share(value, "--baseline")
        elif not 0 < (number(value, "--h0") or 0) < math.inf:
            raise InvalidInput(
                f"--h0 must be a positive number, got {value!r}.\n"
                "D1 divides by it. Measure the median ‖h_0‖ on the trained network, or omit it: D1 then stays open."
            )
    return (None,) * seeds if not values else values * seeds if len(values) == 1 else values


def _common_depth(logs: Sequence[Log]) -> int | None:
    depths = {log.blocks: log.name for log in logs}
    if len(depths) > 1:
        described = ", ".join(f"{name} has {_depth(blocks)}" for blocks, name in depths.items())
        raise InvalidInput(
            f"The logs are of different networks: {described}.\n"
            "An interval over seeds would mix them. Audit each network separately."
        )
    return next(iter(depths))


def _depth(blocks: int | None) -> str:
    return "an unknown number of blocks" if blocks is None else counted(blocks, "block")
