"""Writes the page on the validation suite and its picture, from results/validation.json (made by `make validation`)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from creditscope.diagnostics import diagnostics
from creditscope.files import atomic_write, write_text
from creditscope.protocols import PROTOCOLS
from creditscope.registry import natural_key
from creditscope.statistics.calibration import NARROW, Gap, gap
from creditscope.statistics.intervals import binomial_bound

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results" / "validation.json"
WATCHED = ROOT / "results" / "weightwatcher.json"
TRAINED = ROOT / "results" / "trained_networks.json"
PAGE = ROOT / "docs" / "validation.md"
PICTURE = ROOT / "docs" / "images" / "validation.svg"

Row = dict[str, Any]
JUDGES = {
    "strict": "`strict` (default)",
    "three": "`three`",
    "four": "`four`",
    "diagnose": "published `diagnose`",
    "FAProtocol": "published `FAProtocol`",
    "weightwatcher": "WeightWatcher, α",
    "accuracy": "accuracy above chance",
}
CALIBRATED = ("D11", "D12", "D1:stream")
FAMILIES = {  # family -> the diagnostic whose value is shown
    "growth of one block": "D1:stream",
    "growth of each of 4 blocks": "D1:stream",
    "growth of each of 12 blocks": "D1:stream",
    "share of exploded images": "D1:stream",
    "read-out": "D11",
    "overwritten stream": "D11",
    "share of overwritten images": "D11",
    "branches": "D12",
    "noise on the weights of the blocks": "D3",
}


def results() -> Row:
    """The stored run, with WeightWatcher's answer for every network among the outcomes."""
    run: Row = json.loads(RESULTS.read_text(encoding="utf-8"))
    watched: Row = json.loads(WATCHED.read_text(encoding="utf-8"))
    for part in ("faults", "healthy"):
        answers = {(row.get("base"), row["name"]): row["outcome"] for row in watched[part]}
        for row in run[part]:
            row["outcomes"]["weightwatcher"] = answers[row.get("base"), row["name"]]
    return {**run, "weightwatcher": watched, "trained": json.loads(TRAINED.read_text(encoding="utf-8"))}


def sound_networks(run: Row) -> list[Row]:
    """The networks that are sound by construction and that no criterion calls broken."""
    return [row for row in run["healthy"] if not row["broken"]]


def broken_at_start(run: Row) -> list[Row]:
    """The networks that are sound by construction, of which the claim of a diagnostic is true all the same."""
    return [row for row in run["healthy"] if row["broken"]]


def value(row: Row, code: str) -> float:
    """A diagnostic's number; NaN where it was not measured."""
    finding = row["findings"].get(code)
    return math.nan if finding is None else float(finding["value"])


def fires(row: Row, code: str) -> bool:
    """Whether a diagnostic fired."""
    return bool(row["findings"].get(code, {}).get("status") == "fires")


def graded(run: Row, kind: str) -> list[Row]:
    """The planted faults of one kind that can be known and are strong enough to be graded."""
    return [row for row in run["faults"] if row["kind"] == kind and row["grade"] in ("fails", "not silent")]


def gaps(run: Row) -> dict[str, Gap]:
    """The gap between sound and broken networks, for each calibrated diagnostic."""
    return {
        code: gap(
            [value(row, code) for row in group(run, code, "sound")],
            [value(row, code) for row in group(run, code, "broken")],
            diagnostics[code].limit.fires,
        )
        for code in CALIBRATED
    }


def group(run: Row, code: str, kind: str) -> list[Row]:
    """The sound networks, or those, planted or not, of which the claim of the diagnostic is true."""
    if kind == "sound":
        rows = [row for row in run["healthy"] if code not in row["broken"]]
    else:
        rows = [row for row in [*run["healthy"], *run["faults"]] if code in row["broken"]]
    return [row for row in rows if math.isfinite(value(row, code))]


def limits(run: Row) -> dict[str, float]:
    """The calibrated limits: the geometric middle of each gap, to two significant digits."""
    return {code: float(f"{found.middle:.1e}") for code, found in gaps(run).items()}


# --- the page ---


def page(run: Row) -> str:
    """The whole page."""
    parts = (_start, _verdicts, _by_diagnostic, _calibration, _broken_at_start, _doses, _trained, _unknown, _coverage)
    return "\n".join(part(run) for part in parts)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(map(str, line)) + " |" for line in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]]) + "\n"


def number(shown: float) -> str:
    """Two significant digits."""
    return f"{shown:.2g}" if math.isfinite(shown) else "undefined"


def percent(share: float) -> str:
    """One decimal."""
    return f"{100 * share:.1f} %"


def _start(run: Row) -> str:
    network, claims = graded(run, "network"), graded(run, "claim")
    milder = sum(row["grade"] == "dose" for row in run["faults"])
    sound = sound_networks(run)
    trained = sum(row["trained"] for row in sound)
    versions = run["versions"]
    return f"""# Validation

How often is the audit wrong? `make validation` plants {len(network)} faults in trained networks and {len(claims)} in
the numbers claimed for them, audits {len(sound)} sound networks ({trained} trained by backprop, the others at
initialisation), and writes this page. The run shown took {run["cpu_seconds"]:,} s of processor time
(creditscope {versions["creditscope"]}, PyTorch {versions["torch"]}, Python {versions["python"]}).

The networks are in `tests/planted/`: residual MLPs, transformers, a mixer, convolutional maps at several resolutions,
volumes, highway, dense and plain networks, recurrent blocks, gated scans, message passing, mixtures of experts; widths
16 to 4,096, 2 to 48 blocks, 2 to 1,000 classes; LayerNorm, RMSNorm, BatchNorm, GroupNorm, InstanceNorm or none. All are
trained by one recipe on MNIST-1D. The faults and doses were chosen by us, in networks made by us: the figures below
describe this suite, not the networks of others. {milder} milder doses are shown under
[dose and response](#dose-and-response) and graded nowhere.
"""


def _tally(rows: list[Row], judge: str) -> dict[str, int]:
    outcomes = [row["outcomes"][judge] for row in rows]
    return {word: outcomes.count(word) for word in ("fail", "inconclusive", "pass", "refused")}


def _verdicts(run: Row) -> str:
    faults, claims, sound = graded(run, "network"), graded(run, "claim"), sound_networks(run)
    broken, alarms = [], []
    for judge, name in JUDGES.items():
        found, wrong = _tally(faults, judge), _tally(sound, judge)
        missed = len(faults) - found["fail"]
        broken.append(
            [
                name,
                f"{found['fail']} of {len(faults)}",
                percent(1 - binomial_bound(missed, len(faults))),
                found["inconclusive"],
                found["refused"],
                found["pass"],
                _tally(claims, judge)["pass"],
            ]
        )
        alarms.append(
            [
                name,
                f"{wrong['fail']} of {len(sound)}",
                percent(binomial_bound(wrong["fail"], len(sound))),
                wrong["inconclusive"],
                wrong["refused"],
                wrong["pass"],
            ]
        )
    silent = [row for row in [*faults, *claims] if row["silent"]]
    noisy = [row for row in faults if row["outcomes"]["strict"] == "pass" and not row["silent"]]
    soft = [row for row in faults if row["grade"] == "fails" and row["outcomes"]["strict"] != "fail"]
    undecided = [row for row in faults if row["outcomes"]["strict"] == "inconclusive"]
    walked = [row for row in sound if row["outcomes"]["four"] == "fail"]
    unsure = [row for row in sound if row["trained"] and row["outcomes"]["strict"] == "inconclusive"]
    controls = sum(row["outcomes"]["strict"] == "inconclusive" and not row["trained"] for row in sound)
    untrained = sum(not row["trained"] for row in sound)
    return f"""## Verdicts

Planted faults. *Rejected* is FAIL or "needs walk-back"; *at least* is the exact one-sided 95 % bound (Clopper and
Pearson) of the share rejected.

{table(["judge", "rejected", "at least", "left open", "refused", "passed", "claims passed"], broken)}
`strict` passes {len(silent)} of these faults silently, that is with no finding that fires and no
warning{_names(silent)}. It passes {len(noisy)}, {_warned(noisy)} with a warning:
their function is intact and only the units of the stream changed, by less than the clamp of the usual cosine notices,
in tokens that nobody reads, in one pixel, by a constant that the next block takes off, or where no block
grows{_names(noisy)}.

It leaves {len(undecided)} open, whose margin over the control one seed does not decide{_names(undecided)}. Faults that
had to be rejected and were not: {len(soft)}{_names(soft)}.

Sound networks: everything rejected here is a false alarm. *At most* is the exact one-sided 95 % bound.

{table(["judge", "false alarms", "at most", "left open", "refused", "passed"], alarms)}
{controls} of the {untrained} networks at initialisation stay open under `strict`: they have no control and nothing was
trained, so depth cannot be judged. Trained networks that stay open, because one seed or the test images do not decide
their margin: {len(unsure)}{_plain(unsure)}.

"Accuracy above chance" (exact binomial test, p < 0.001) rejects networks at initialisation as untrained, which is
right; trained ones that it rejects: {sum(row["trained"] and row["outcomes"]["accuracy"] == "fail" for row in sound)}.

D4 fires on {sum(fires(row, "D4") for row in walked)} of the {len(walked)} sound networks that `four` rejects.
`diagnose` and `FAProtocol` are ours by their published names and numbers; they fail closed on NaN and on a missing
baseline, where the published code does not. They are given the same batches, accuracy and control.

WeightWatcher {run["weightwatcher"]["version"]} fits a power law to the eigenvalues of every weight matrix and has no
verdict of its own. Its documentation calls exponents α from 2 to 6 well trained; here it rejects a network whose mean α
over layers, its own summary, lies outside, and it refuses where no layer has an exponent. `make validation` runs it in
an environment of its own. It sees neither data nor states, so that it judges another question: how well weights are
trained, not whether a claim about credit holds.
"""


def _warned(rows: Sequence[Row]) -> str:
    """How many of these have a warning, in words."""
    count = sum(bool(row["warnings"]) for row in rows)
    return "all" if count == len(rows) else f"{count} of them"


def _names(rows: list[Row]) -> str:
    return " (" + "; ".join(f"{row['base']}: {row['name']}" for row in rows) + ")" if rows else ""


def _plain(rows: list[Row]) -> str:
    return " (" + "; ".join(row["name"] for row in rows) + ")" if rows else ""


def _by_diagnostic(run: Row) -> str:
    faults, sound = [*graded(run, "network"), *graded(run, "claim")], sound_networks(run)
    lines = []
    for code in ("D0", "D1", "D1:stream", "D2", "D2:tail", "D3", "D4", "D10", "D11", "D12"):
        meant = [row for row in faults if code in row["seen"] and code in row["findings"]]
        asked = [row for row in sound if code in row["findings"]]
        hits, alarms = sum(fires(row, code) for row in meant), sum(fires(row, code) for row in asked)
        lines.append(
            [
                code,
                f"{hits} of {len(meant)}" if meant else "none planted",
                percent(1 - binomial_bound(len(meant) - hits, len(meant))) if meant else "",
                f"{sum(fires(row, code) for row in faults)} of {len(faults)}",
                f"{alarms} of {len(asked)}" if asked else "not measured",
                percent(binomial_bound(alarms, len(asked))) if asked else "",
            ]
        )
    return f"""## Each diagnostic

*Meant for it*: planted faults that list the diagnostic among those of which at least one must notice; *at least* and
*at most* are exact one-sided 95 % bounds. *Sound*: networks on which it was measured. Under `strict`
{", ".join(_alone())} fail a network by themselves; D4 is shown as the protocols `four` and `april` judge it.

{table(["diagnostic", "fires, meant for it", "at least", "fires, all faults", "fires, sound", "at most"], lines)}"""


def _alone() -> list[str]:
    """The diagnostics that fail a network by themselves under strict."""
    modes = [mode for own in PROTOCOLS["strict"].modes for mode in (own, own.instead) if mode is not None]
    return sorted((code for mode in modes if len(mode.requires) == 1 for code in mode.requires), key=natural_key)


def _quantiles(values: list[float]) -> list[str]:
    ordered = sorted(found for found in values if not math.isnan(found))
    if not ordered:
        return ["0", "", "", ""]
    return [str(len(ordered)), *(number(found) for found in (ordered[0], ordered[len(ordered) // 2], ordered[-1]))]


def _calibration(run: Row) -> str:
    found, chosen = gaps(run), limits(run)
    groups: dict[str, Callable[[str], list[Row]]] = {
        "sound, at initialisation": lambda code: [row for row in group(run, code, "sound") if not row["trained"]],
        "sound, trained": lambda code: [row for row in group(run, code, "sound") if row["trained"]],
        "broken by the criterion": lambda code: group(run, code, "broken"),
    }
    spread = [
        [code, name, *_quantiles([value(row, code) for row in rows(code)])]
        for code in CALIBRATED
        for name, rows in groups.items()
    ]
    ends = [
        [
            f"{code} {diagnostics[code].title.lower()}",
            number(found[code].sound),
            number(found[code].broken),
            f"{found[code].decades:.1f}",
            f"{diagnostics[code].limit.fires} {chosen[code]:.2g}",
            "yes" if found[code].decides else "no: advisory",
        ]
        for code in CALIBRATED
    ]
    return f"""## Calibration

Three limits come from this suite. What is broken is decided by the answers of a network at the resolution of float32,
not by the number that is calibrated (`tests/planted/criterion.py`, written down before the limits were calculated):

- **D11, dead states**: exchanging a state for a different one of another image, for each of four others, leaves the
  loss of at least a tenth of the images as it is, to one unit of float32.
- **D12, dead blocks**: bypassing a block leaves the loss of at least half of the images as it is, for every block.
- **D1:stream**: the stream was multiplied until the reference gradient of a tenth of the images fell below the floor of
  the usual cosine.

Every network that is sound by construction counts as sound unless its criterion holds: deep plain networks and networks
with unset BatchNorm statistics at initialisation, and branches that start small, are among them. Planted doses for
which the criterion does not hold count as neither. A limit is the geometric middle between the sound network nearest
to the broken ones and the broken one nearest to the sound, to two digits; with a gap narrower than {NARROW:g} decade
the diagnostic only advises.

The criterion of D11 was amended once, after the values were seen. Its first version also counted exchanges of *equal*
states, and computed in float32. It held for eleven networks more: six whose states are the same for every image (a
blind embedding, branches times zero), two whose influence a later block loses by rounding (1e-8 of the stream left, D11
up to 1.3e-4), and three doses of 1e-7 at the edge of the resolution. In float64 the loss does depend on all of these.
With the first version the groups of D11 overlap, and D11 would only advise.

Where states have positions (tokens, pixels), D11 and D12 sum ‖h_p‖·‖g_p‖ over them. They were first specified with the
gradients summed before the norm is taken, as Γ and D2 read a pooled state. That product is zero for states that matter:
behind an InstanceNorm the loss does not feel a shift of all pixels alike, and a class token that starts at zero has no
size of its own. It failed two sound networks of this suite (maps without borders, class token that starts at zero). The
sum is the most that the loss can move, to first order, when every position moves by its own size, each in its own
direction; so a small value says that the state is dead, and not that positions cancel. Flat states have one position.

{table(["limit", "sound end", "broken end", "decades", "fires", "can fail a network"], ends)}
The ends of D12 are branches that start at 1e-5 and at 1e-6: less than a factor of 10 apart, and finer doses would only
narrow the gap. So D12 advises: it is a warning beside the verdict of `strict`.

{table(["", "networks", "number", "smallest", "median", "largest"], spread)}
![The values of three diagnostics over sound and broken networks, on a log scale](images/validation.svg)
"""


def _broken_at_start(run: Row) -> str:
    rows = [
        [row["name"], ", ".join(row["broken"]), number(value(row, "D11")), number(value(row, "D12")), row["verdict"]]
        for row in broken_at_start(run)
    ]
    return f"""## Sound by construction, dead at initialisation

In a network of 24 layers without skips at PyTorch's default initialisation, or of 16 layers with unset BatchNorm
statistics, the loss does not depend on the first states in float32; where branches start at 1e-6 or zero (LayerScale,
ReZero), no block moves the loss. The criterion holds for them, so that a diagnostic which says so is right, and they
count as broken for its limit. It does not mean that they cannot be trained: audit networks after training.

{table(["network", "criterion holds", "D11", "D12", "`strict`"], rows)}"""


def _doses(run: Row) -> str:
    parts = ["## Dose and response\n"]
    for family, code in FAMILIES.items():
        rows = [row for row in run["faults"] if row["family"] == family]
        bases = list(dict.fromkeys(row["base"] for row in rows))
        doses = sorted({row["dose"] for row in rows}, reverse=code in ("D11", "D12"))
        cells = {(row["base"], row["dose"]): f"{number(value(row, code))}, {row['verdict']}" for row in rows}
        lines = [[f"{dose:g}", *(cells.get((base, dose), "") for base in bases)] for dose in doses]
        parts.append(f"### {family[0].upper()}{family[1:]}: {code}\n\n{table(['dose', *bases], lines)}")
    return "\n".join(parts)


def _trained(run: Row) -> str:
    codes = ("D1", "D1:stream", "D2", "D2:tail", "D4", "D11", "D12")
    rows = [
        [
            f"{row['network']} (`{row['package']}` {row['version']})",
            f"{row['task']}: {percent(row['accuracy'])}",
            row["samples"],
            *(number(row["values"][code]) if code in row["values"] else "no skips" for code in codes),
            ", ".join(row["fires"]) or "none",
            row["verdict"],
        ]
        for row in run["trained"]
    ]
    failed = sum(row["verdict"].startswith("FAIL") for row in run["trained"])
    warned = sum(bool(row["warnings"]) for row in run["trained"])
    return f"""## Trained networks of other people

{len(rows)} networks from packages of the index, with their published weights (loaded with `weights_only=True`), audited
under `strict` without a hint where the blocks are. Inputs are scikit-learn's tables and photographs, tones, reactions
written by a template and ideal helices (`tests/thirdparty/trained_networks.py`). Nobody published their frozen
controls, so that depth stays open. {failed} of {len(rows)} fail, and {warned} have a warning; D2 fires where a network
fits its inputs, which is no fault. ProteinMPNN was trained on whole proteins: a lone helix says little about its
residues.

{table(["network", "task: accuracy", "samples", *codes, "fires", "verdict"], rows)}"""


def _unknown(run: Row) -> str:
    rows = [
        [row["name"], row["verdict"] + (", with a warning" if row["warnings"] else ""), row["unknown"]]
        for row in run["faults"]
        if row["grade"] == "unknown"
    ]
    return f"""## What cannot be known from the outside

{table(["fault", "verdict", "why"], rows)}"""


def _covers(share: float | None) -> str:
    return "no interval" if share is None else percent(share)


def _range(shares: list[float]) -> str:
    return f"{100 * min(shares):.1f} to {percent(max(shares))}"


def _coverage(run: Row) -> str:
    rows = run["coverage"]
    shapes, worst = list(rows[0]["covers"]), list(rows[0]["worst"])
    shown = [
        [
            f"{row['seeds'][0]} and {row['seeds'][1]}",
            f"{100 * row['spread']:g}",
            f"{row['images']:,}",
            *(_covers(row["covers"][shape]) for shape in shapes),
            *(_covers(row["worst"][shape]) for shape in worst),
        ]
        for row in rows
    ]
    several = [row for row in rows if max(row["seeds"]) > 2]
    paired = [row["covers"][shapes[0]] for row in several]
    full = [row["worst"][worst[0]] for row in several]
    return f"""## Coverage of D3's interval

The share of {rows[0]["repeats"]} simulated studies in which the 95 % interval contains the true margin between the two
*methods*, 5 points (standard error about {percent(math.sqrt(0.05 * 0.95 / rows[0]["repeats"]))}). Seeds are those
of the method and of its control; their spread is in points. In the usual world half of an image's difficulty is shared
by all runs and a quarter by the seeds of one method. In the worst world for accuracies the seeds of a method agree on
every image and the two methods on none.

- **Answers per image** cover {_range(paired)} where one side has three seeds or more. The top is three seeds
  against one that hardly spread. Two demands force it: an interval is never narrower than the images' own error, and
  it is Student's where the seeds' spread dominates. These two alone cover up to 98.7 % where the spread is known to
  two degrees of freedom and up to 99.3 % to one; our formula between them covers up to 98.8 % and 99.4 %
  (`tests/statistics/test_margin.py` computes all four without a random number).
- **Two seeds** know their spread to one degree of freedom. Nobody knows how unequal the spreads of the two sides are,
  so Welch's interval is wide for equal ones. Two seeds against one are wider still.
- **One seed on both sides** does not know the spread at all: 3 points are assumed, so it covers 95 % at 3 points, more
  below, and less above.
- **Accuracies** do not say which images are hard for both sides, so that the images' error counts in full:
  {_range(full)} in the worst world (three seeds or more), higher in the usual one. Give the control itself
  (`control=`), which is asked the same images.
- **Accuracies alone**: 1,000 images are assumed, which is wide for larger test sets and too narrow for smaller ones.
  Give the number (`accuracy_images=`).

{table(["seeds", "spread", "images", *shapes, *(f"{shape}; worst" for shape in worst)], shown)}"""


# --- the picture ---


def spec(run: Row) -> dict[str, Any]:
    """Every value as a tick, one row per group and one panel per diagnostic, on a log axis; zeros stand at its end."""
    points = []
    for code in CALIBRATED:
        for row in [*run["healthy"], *run["faults"]]:
            broken = code in row["broken"]
            if not math.isfinite(value(row, code)) or ("trained" not in row and not broken):
                continue
            kind = "broken" if broken else "sound, trained" if row["trained"] else "sound, untrained"
            points.append({"code": code, "group": kind, "value": max(value(row, code), 1e-12)})
    rules = [{"code": code, "limit": at} for code, at in limits(run).items()]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "background": "white",
        "vconcat": [_panel(code, points, rules) for code in CALIBRATED],
    }


def _panel(code: str, points: list[Row], rules: list[Row]) -> dict[str, Any]:
    axis = {"type": "quantitative", "scale": {"type": "log"}, "title": f"{code}, {diagnostics[code].title.lower()}"}
    own = [point for point in points if point["code"] == code]
    return {
        "width": 520,
        "height": 90,
        "layer": [
            {
                "data": {"values": own},
                "mark": {"type": "tick", "thickness": 1.5, "color": "#0072b2"},
                "encoding": {
                    "x": {"field": "value", **axis, "axis": {"format": ".0e", "tickCount": 8}},
                    "y": {"field": "group", "type": "nominal", "title": None},
                },
            },
            {
                "data": {"values": [rule for rule in rules if rule["code"] == code]},
                "mark": {"type": "rule", "color": "#d55e00", "strokeDash": [4, 3]},
                "encoding": {"x": {"field": "limit", "type": "quantitative", "scale": {"type": "log"}}},
            },
        ],
    }


def draw(run: Row) -> None:
    """Write the picture."""
    from creditscope.report.charts.figures import rendered

    with atomic_write(PICTURE) as part:
        part.write_bytes(rendered(spec(run), "svg"))


if __name__ == "__main__":
    stored = results()
    print(write_text(PAGE, page(stored)).relative_to(ROOT))
    draw(stored)
    print(PICTURE.relative_to(ROOT))
