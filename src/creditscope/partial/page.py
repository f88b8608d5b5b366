"""A partial audit as a page for the terminal: states per seed, diagnostics over seeds, verdict, what would close it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from creditscope.partial.readings import Coverage, LogFinding
from creditscope.protocols import PROTOCOLS
from creditscope.records.labels import counted
from creditscope.report.headline import Judgement, in_words
from creditscope.report.layout import (
    NARROWEST,
    Flag,
    Paint,
    flag_section,
    joined,
    listed,
    painter,
    printable_record,
    title_line,
    verdict_section,
    wrapped,
)
from creditscope.report.numbers import accuracy, distance, interval, limit, value
from creditscope.verdict import Status

if TYPE_CHECKING:
    from creditscope.partial.auditing import PartialAudit, SeedAudit

STATE_STYLES = {Coverage.OPEN: "yellow", Coverage.MISSING: "dim"}
GAP = 2
KEPT_NAME, SHORTEST_NAME = 24, 8  # letters of a log's name; the smaller number only where nothing else fits


def page(audit: PartialAudit, width: int = 80, colour: bool = False) -> str:
    """The whole audit as text of at most `width` columns; `colour` adds ANSI styles, nothing else."""
    audit = printable_record(audit)
    width, paint = max(width, NARROWEST), painter(colour)
    needed = [(code, reading.needed) for code, reading in audit.readings.items() if reading.needed]
    return joined(
        (
            _header(audit, width, paint),
            _seeds(audit.seeds, width, paint) if len(audit.seeds) > 1 else "",
            flag_section([_flag(audit, code) for code in audit.readings], width, paint),
            _verdict(audit, width, paint),
            listed("What would answer the open questions", needed, width, paint),
            listed("How to read it", [("-", text) for text in _reminders(audit)], width, paint),
        )
    )


def _header(audit: PartialAudit, width: int, paint: Paint) -> str:
    several = len(audit.seeds) > 1
    title = f"Partial audit of {f'{len(audit.seeds)} logs' if several else audit.seeds[0].name}"
    rows = sorted({seed.rows for seed in audit.seeds})
    baselines = [seed.baseline for seed in audit.seeds if seed.baseline is not None]
    if len(set(baselines)) == 1:
        baselines = baselines[:1]
    facts = (
        f"{_range(rows)} row{'' if rows == [1] else 's'}{' per log' if several else ''}, "
        f"{_blocks(audit.blocks)}, gradients of batches of {audit.batch_size or 'unknown size'}",
        f"protocol {audit.protocol}, creditscope {audit.creditscope}",
        f"accuracy {accuracy(tuple(seed.accuracy for seed in audit.seeds))}, frozen baseline "
        f"{accuracy(tuple(baselines)) if baselines else 'not given'}",
    )
    said = wrapped(_in_words(audit, baselines), width)
    lines = [line for fact in facts for line in wrapped(fact, width)]
    return "\n".join([title_line(title, audit.verdict, width, paint), *([*said, ""] if said else []), *lines])


def _in_words(audit: PartialAudit, baselines: Sequence[float]) -> str:
    """A failure in words with its numbers, if they are exact; a bound would read as if it had been measured."""
    shown = (mode for mode in PROTOCOLS[audit.protocol].modes if mode.name in audit.verdict.shown)
    states = {audit.readings[code].state for mode in shown for code in mode.requires}
    if audit.verdict.outcome != "fail" or states != {Coverage.EXACT}:
        return ""
    findings = {code: reading.finding for code, reading in audit.readings.items()}
    accuracies = [seed.accuracy for seed in audit.seeds]
    return " ".join(in_words(Judgement(audit.protocol, audit.verdict, findings, accuracies, baselines or None)))


def _range(numbers: Sequence[int]) -> str:
    return f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"


def _blocks(blocks: int | None) -> str:
    return "unknown number of blocks" if blocks is None else counted(blocks, "block")


# --- the table of seeds ---


def _seeds(seeds: Sequence[SeedAudit], width: int, paint: Paint) -> str:
    """A few lines for each seed: states, numbers below them; verdicts beside it where they have room, else after it."""
    verdicts = max(len(seed.verdict.text) for seed in seeds) + GAP
    lines, used = _table(seeds, width - verdicts, KEPT_NAME, paint, stacked=False)
    beside = used <= width - verdicts
    if not beside:
        lines, used = _table(seeds, width, KEPT_NAME, paint, stacked=False)
    if used > width:
        lines, used = _table(seeds, width, SHORTEST_NAME, paint, stacked=True)
    every = len(lines[1:]) // len(seeds)
    if beside:
        added = {0: paint("verdict", "bold")} | {1 + every * i: seed.verdict.text for i, seed in enumerate(seeds)}
        return "\n".join((line + " " * GAP + added.get(i, "")).rstrip() for i, line in enumerate(lines))
    names = _names(seeds, width - verdicts)
    size = max(map(len, (*names, "log")))
    below = [f"{name.ljust(size)}  {seed.verdict.text}" for name, seed in zip(names, seeds, strict=True)]
    heading = paint(f"{'log'.ljust(size)}  verdict", "bold")
    return "\n".join(line.rstrip() for line in (*lines, "", heading, *below))


def _table(seeds: Sequence[SeedAudit], width: int, least: int, paint: Paint, *, stacked: bool) -> tuple[list[str], int]:
    """The lines of the table and their width, more than asked for where names of `least` letters do not fit."""
    codes = list(seeds[0].readings)
    rows = [_cells([seed.readings[code] for code in codes], stacked=stacked) for seed in seeds]
    head = ["accuracy", *codes]
    sizes = [len(head[0]), *(max(map(len, [code, *column])) for code, column in _columns(codes, rows))]
    names = _names(seeds, max(least, width - sum(sizes) - GAP * len(sizes)))
    sizes = [max(map(len, (*names, "log"))), *sizes]
    lines = [
        paint((" " * GAP).join(cell.ljust(size) for cell, size in zip(("log", *head), sizes, strict=True)), "bold")
    ]
    for seed, name, cells in zip(seeds, names, rows, strict=True):
        for number, row in enumerate(cells):
            lead = (name, accuracy((seed.accuracy,))) if number == 0 else ("", "")
            padded = [lead[0].ljust(sizes[0]), lead[1].rjust(sizes[1])]
            for cell, code, size in zip(row, codes, sizes[2:], strict=True):
                padded.append(paint(cell.ljust(size), _style(seed.readings[code]) if number == 0 else ""))
            lines.append((" " * GAP).join(padded))
    return lines, sum(sizes) + GAP * (len(sizes) - 1)


def _columns(codes: Sequence[str], rows: Sequence[list[list[str]]]) -> Iterator[tuple[str, list[str]]]:
    """Every code with all the cells below it."""
    for column, code in enumerate(codes):
        yield code, [line[column] for lines in rows for line in lines]


def _cells(readings: Sequence[LogFinding], *, stacked: bool) -> list[list[str]]:
    """Coverage with status, and the number below; stacked, all three below each other."""
    numbers = [_number(reading) for reading in readings]
    if not stacked:
        return [[_state(reading) for reading in readings], numbers]
    states = [_state(reading).partition(" ") for reading in readings]
    return [[state for state, _, _ in states], [word for _, _, word in states], numbers]


def _names(seeds: Sequence[SeedAudit], room: int) -> list[str]:
    """The names of the logs, the ends of long ones; numbers where ends do not tell them apart."""
    names = [seed.name if len(seed.name) <= room else "..." + seed.name[len(seed.name) + 3 - room :] for seed in seeds]
    return names if len(set(names)) == len(names) else [f"log {index + 1}" for index in range(len(names))]


def _style(reading: LogFinding) -> str:
    return "red" if reading.finding.status is Status.FIRES else STATE_STYLES.get(reading.state, "green")


def _state(reading: LogFinding) -> str:
    """The state, and what the diagnostic says where it says anything: 'exact FIRES', 'bounded pass', 'open'."""
    if reading.state in (Coverage.OPEN, Coverage.MISSING):
        return str(reading.state)
    fires = reading.finding.status is Status.FIRES
    return f"{reading.state} {'FIRES' if fires else reading.finding.status}"


def _number(reading: LogFinding) -> str:
    """The number as it is meant: itself, a lower bound, or a hint from another layer."""
    number = reading.finding.value
    if number is None:
        return ""
    bound = "≥ " if reading.at_least and math.isfinite(number) else ""
    layer = "" if reading.layer is None else f"g_{reading.layer} "
    return f"{layer}{bound}{value(reading.finding)}"


# --- diagnostics and verdict ---


def _flag(audit: PartialAudit, code: str) -> Flag:
    """Coverage, number and limit, with notes on the number."""
    reading = audit.readings[code]
    finding = reading.finding
    advisory = "" if code in PROTOCOLS[audit.protocol].codes else "advisory"
    return Flag(
        code=code,
        title=finding.title,
        status=_state(reading),
        style=_style(reading),
        value=_number(reading),
        limit=limit(finding.limit),
        distance=distance(finding) if reading.state is Coverage.EXACT else "",
        notes=(interval(finding), finding.note, _first(audit.seeds, code), advisory),
    )


def _first(seeds: Sequence[SeedAudit], code: str) -> str:
    """When each seed fired first, in the order of the table; empty where none did."""
    firsts = [seed.readings[code].first or "never" for seed in seeds]
    return "" if set(firsts) == {"never"} else f"first fired: {', '.join(firsts)}"


def _verdict(audit: PartialAudit, width: int, paint: Paint) -> str:
    verdict = audit.verdict
    over = f" over {len(audit.seeds)} seeds" if len(audit.seeds) > 1 else ""
    paragraphs = (
        verdict.why if verdict.outcome == "fail" else "",
        f"Still open: {', '.join(verdict.open)}." if verdict.open else "",
        f"Ruled out: {', '.join(verdict.ruled_out)}." if verdict.ruled_out else "",
    )
    return verdict_section(f"Verdict{over}", verdict, paragraphs, width, paint)


def _reminders(audit: PartialAudit) -> Iterator[str]:
    """How to read the numbers of this page."""
    yield "A log never passes an audit: only the weights show whether every number is finite (D0)."
    given = sorted({seed.h0 for seed in audit.seeds if seed.h0 is not None})
    if given:
        yield "‖h_0‖ was given, not logged. It must be that of the trained network, and is used for every row."
    if audit.readings["D2"].finding.value is not None:
        yield (
            "Gradients are read as medians over samples of ‖g‖ under the batch-mean loss. Multiplied by the batch size "
            "they are those of each sample's own loss; divided by 128 they are on the scale of D2's limit."
        )
