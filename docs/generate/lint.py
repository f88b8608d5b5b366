"""Writes the rules on docs/lint.md from the registry, and the counts on other people's code from results/lint.json."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from creditscope.files import write_text
from creditscope.linting.rules import lint_rules

PATH = Path(__file__).resolve().parents[1] / "lint.md"
RESULTS = PATH.parents[1] / "results"
TREES, READ = RESULTS / "lint.json", RESULTS / "lint_read.json"  # what was found, and the judgements of who read it
COUNTS, END_OF_COUNTS = "<!-- counts: make lint-counts writes this part -->\n", "<!-- end of the counts -->"
BEGIN, END = "<!-- rules: make docs writes this part -->\n", "<!-- end of the rules -->"


def rules() -> str:
    """The table of all rules, then what each finds, why it matters and what to write."""
    rows = [f"| {rule.code} | {rule.title} | [pitfall](pitfalls/{rule.page}) |" for rule in lint_rules.values()]
    parts = ["\n".join(("| code | finds | explained |", "|---|---|---|", *rows))]
    for rule in lint_rules.values():
        parts += [f"### {rule.code}", f"{rule.why} Fix: {rule.fix}.", f"```python\n{rule.wrong}```", "Right:"]
        parts += [f"```python\n{rule.right}```"]
    return "\n\n".join(parts) + "\n"


def counts() -> str:
    """The alarms on the source trees of other packages: counts, then every alarm with its judgement."""
    read = {_key(one["package"], one): one["judgement"] for one in json.loads(READ.read_text(encoding="utf-8"))}
    heads = ("package", "files", "lines", "alarms", "true", "false", "not read", "false per 50,000 lines")
    rows, alarms = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"], []
    for tree in json.loads(TREES.read_text(encoding="utf-8")):
        found = [read.get(_key(tree["package"], alarm), "not read") for alarm in tree["alarms"]]
        kinds, name = Counter(found), f"{tree['package']} {tree['version']}"
        share = kinds["false"] * 50_000 / tree["lines"]
        numbers = [len(found), *(kinds[kind] for kind in ("true", "false", "not read"))]
        cells = [name, f"{tree['files']:,}", f"{tree['lines']:,}", *map(str, numbers), f"{share:.2f}"]
        rows.append("| " + " | ".join(cells) + " |")
        alarms += [
            f"- {name}: `{alarm['path']}:{alarm['line']}`, {alarm['code']}, {judgement}"
            for alarm, judgement in zip(tree["alarms"], found, strict=True)
        ]
        alarms += [f"- {name}: `{one['path']}` not linted: {one['reason']}" for one in tree["not_linted"]]
    return "\n".join([*rows, "", *alarms]) + "\n"


def _key(package: str, alarm: dict[str, Any]) -> tuple[str, ...]:
    return (package, *(str(alarm[name]) for name in ("code", "path", "line")))


def page() -> str:
    """The page with the rules that the code has now, and the counts that were found last."""
    text = PATH.read_text(encoding="utf-8")
    for begin, end, content in ((BEGIN, END, rules()), (COUNTS, END_OF_COUNTS, counts())):
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}{content}{end}{after}"
    return text


if __name__ == "__main__":
    print(write_text(PATH, page()))
