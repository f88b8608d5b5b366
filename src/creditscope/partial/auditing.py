"""partial_audit: the logs of one method, one per seed -> what each diagnostic rests on, and a verdict from that."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from creditscope import __version__
from creditscope.errors import InvalidInput
from creditscope.partial.fields import checked_roles, number, share
from creditscope.partial.logs import Log, LogRow, parse_log, with_embedding
from creditscope.partial.readings import Coverage, Reading, depth, drift, finite, reference, scale
from creditscope.protocols import judge, protocol_named
from creditscope.records.record import Record
from creditscope.verdict import Status, Verdict

Shares = float | Sequence[float] | None


class SeedAudit(Record):
    """One log: what it says about each diagnostic, and the verdict of this seed alone."""

    name: str
    rows: int
    accuracy: float
    baseline: float | None
    h0: float | None
    readings: dict[str, Reading]
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
    readings: dict[str, Reading]
    verdict: Verdict

    def __str__(self) -> str:
        from creditscope.partial.page import page

        return page(self)

    def to_json(self) -> str:
        """The audit as JSON."""
        return self.model_dump_json(indent=1) + "\n"


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known besides the logs."""

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
    """Judge the logs of one method by what they hold.

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
    """One log: the last row is the trained network, the others say when something fired first."""
    by_row: dict[str, Callable[[LogRow], Reading]] = {
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
        said = f"{log.name}: {begun.first} holds a norm that is not finite, though the last row does not."
        verdict = replace(verdict, warnings=(*verdict.warnings, said))
    return SeedAudit(
        name=log.name,
        rows=len(log.rows),
        accuracy=log.accuracy,
        baseline=baseline,
        h0=h0,
        readings=readings,
        verdict=verdict,
    )


def _history(rows: Sequence[LogRow], read: Callable[[LogRow], Reading]) -> Reading:
    """The reading of the last row, with the first row that fired."""
    found = [read(row) for row in rows]
    fired = [row.label for row, reading in zip(rows, found, strict=True) if reading.finding.status is Status.FIRES]
    return found[-1].model_copy(update={"first": fired[0] if fired and len(rows) > 1 else ""})


def _together(seeds: tuple[SeedAudit, ...], baseline: Shares, known: _Known) -> tuple[dict[str, Reading], Verdict]:
    """Over seeds: D3 by its interval, every other diagnostic by what it said on each seed, as a study does it."""
    if len(seeds) == 1:
        return seeds[0].readings, seeds[0].verdict
    readings = {code: _over_seeds([seed.readings[code] for seed in seeds]) for code in seeds[0].readings}
    controls = _listed(baseline)
    readings["D3"] = depth(tuple(seed.accuracy for seed in seeds), controls or None, known.test_images)
    verdict = judge(protocol_named(known.protocol), {code: reading.finding for code, reading in readings.items()})
    warnings = dict.fromkeys(warning for seed in seeds for warning in seed.verdict.warnings)
    return readings, replace(verdict, warnings=tuple(warnings))


def _over_seeds(found: Sequence[Reading]) -> Reading:
    """One reading for all seeds, in the weakest of their states; a number only where every seed has one of its kind."""
    from creditscope.diagnostics.seeds import over_seeds

    finding = over_seeds([reading.finding for reading in found])
    if len({(reading.state, reading.at_least, reading.layer) for reading in found}) > 1:
        finding = replace(finding, measurement=None)
    states = {reading.state for reading in found}
    weakest = max(states, key=list(Coverage).index)
    notes = dict.fromkeys(reading.finding.note for reading in found)
    fires = sum(reading.finding.status is Status.FIRES for reading in found)
    told = sum(reading.state is not Coverage.MISSING for reading in found)
    count = f"fires on {fires} of {len(found)} seeds" + (f", known on {told}" if told < len(found) else "")
    own = next(iter(notes)) if len(notes) == 1 else ""
    note = "; ".join(part for part in (own, count if fires or not own else "") if part)
    return Reading(
        state=Coverage.OPEN if weakest is Coverage.MISSING and len(states) > 1 else weakest,
        finding=replace(finding, note=note),
        at_least=any(reading.at_least for reading in found),
        layer=next((reading.layer for reading in found if reading.layer is not None), None),
        needed=next((reading.needed for reading in found if reading.needed), ""),
    )


# --- what cannot be ---


def _check(protocol: str, counts: Mapping[str, int | None]) -> None:
    if variants := protocol_named(protocol).variants:
        raise InvalidInput(
            f"The protocol {protocol!r} measures {', '.join(variants)} in another form.\n"
            "The bound from a log is not one of it. Use three or four, or audit the weights."
        )
    for name, count in counts.items():
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise InvalidInput(
                f"{name} = {count!r} is no number of anything.\nThe limits would move with it. Give a whole number "
                "from 1 on."
            )


def _listed(given: Shares) -> tuple[float, ...]:
    return () if given is None else tuple(given) if isinstance(given, Sequence) else (given,)


def _spread_out(given: Shares, seeds: int, what: Literal["baseline", "h0"]) -> tuple[float | None, ...]:
    """One number per seed, from none, one for all or one for each."""
    values = _listed(given)
    if len(values) not in (0, 1, seeds):
        raise InvalidInput(
            f"--{what} is given {len(values)} times for {seeds} logs.\n"
            "It is not clear which belongs to which seed. Give it once for all, or once per log in their order."
        )
    for value in values:
        if what == "baseline":
            share(value, "--baseline")
        elif not 0 < (number(value, "--h0") or 0) < math.inf:
            raise InvalidInput(
                f"--h0 is {value!r}, but the median ‖h_0‖ is a positive number.\n"
                "D1 divides by it. Measure it on the trained network, or leave it away: D1 then stays open."
            )
    return (None,) * seeds if not values else values * seeds if len(values) == 1 else values


def _common_depth(logs: Sequence[Log]) -> int | None:
    depths = {log.blocks: log.name for log in logs}
    if len(depths) > 1:
        said = ", ".join(f"{name} has {blocks} blocks" for blocks, name in depths.items())
        raise InvalidInput(
            f"The logs are of different networks: {said}.\n"
            "An interval over seeds would mix them. Audit each network by itself."
        )
    return next(iter(depths))
