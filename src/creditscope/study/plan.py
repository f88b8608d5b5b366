"""Which runs, under which keys?  A study expanded and checked once, and remembered beside the store.

Keys need the defaults and revisions of networks, methods and datasets, and so torch. What was expanded before is read
from the store instead, as long as neither the study nor the code behind the keys has changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from creditscope import __version__
from creditscope.errors import BadFile, InvalidInput, UnknownName
from creditscope.files import write_text
from creditscope.runs.spec import RunSpec
from creditscope.study.declaration import FIELDS, PARTS, Study, Value

EXPANDED = "expanded"  # the folder of a store that holds what was expanded
Plan = dict[str, RunSpec]  # by key, in the order of the study


def plan(study: Study, budget: str | None = None, plugins: Sequence[str] = (), store: Path | None = None) -> Plan:
    """The runs of a study by key, checked: every one of them could start.

    store   the folder of a store, in which the answer is remembered if it is there
    """
    path = None if store is None else store / EXPANDED / f"{_digest(study, budget, plugins)}.json"
    if path is not None and path.exists():
        with suppress(OSError, ValueError, KeyError):  # a damaged memory is no memory
            found = json.loads(path.read_text(encoding="utf-8"))
            return {key: RunSpec.model_validate(spec) for key, spec in found.items()}
    specs = _checked(study, budget, plugins)
    made: Plan = {}
    for spec in specs:
        made.setdefault(spec.key, spec)
    if path is not None and store is not None and store.is_dir() and _ours(specs):
        content = {key: spec.model_dump(mode="json") for key, spec in made.items()}
        with suppress(BadFile):  # a store that cannot be written can still be read
            write_text(path, json.dumps(content))
    return made


def _checked(study: Study, budget: str | None, plugins: Sequence[str]) -> list[RunSpec]:
    from creditscope.plugins import load_plugin
    from creditscope.study.expansion import check, expand

    for plugin in dict.fromkeys((*study.plugins, *plugins)):
        load_plugin(plugin)
    specs = expand(study, budget, plugins)
    check(study, specs)
    return specs


def _ours(specs: Sequence[RunSpec]) -> bool:
    """Whether every entry is of this package, so that `_digest` sees when it changes."""
    from creditscope.study.expansion import registered

    names = {(part, getattr(spec, part)) for spec in specs for part in PARTS}
    modules = [registered(part)[name].__module__ for part, name in names]
    return not any(spec.plugins for spec in specs) and all(module.startswith("creditscope.") for module in modules)


def _digest(study: Study, budget: str | None, plugins: Sequence[str]) -> str:
    """Of everything that decides the expansion: the study's content, and the files behind names, options and keys."""
    package = Path(__file__).resolve().parents[1]
    folders = [package / name for name in ("networks", "methods", "datasets")]
    alone = [
        package / "training" / "recipe.py",
        package / "runs" / "spec.py",
        *(package / "study" / f"{name}.py" for name in ("declaration", "expansion")),
    ]
    files = [*alone, *(file for folder in folders for file in sorted(folder.glob("*.py")))]
    stamps = [(str(file.relative_to(package)), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    content = [__version__, stamps, study.model_dump(mode="json"), budget, list(plugins)]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def only(runs: Plan, wanted: Mapping[str, Sequence[str]]) -> Plan:
    """The runs whose settings read as one of the wanted words; none at all is an error that lists what there is."""
    from creditscope.study.expansion import setting

    kept = dict(runs)
    for key, words in wanted.items():
        if key not in FIELDS and key.partition(".")[0] not in PARTS:
            raise UnknownName(
                f"--only {key}: there is no such setting.\nKnown: {', '.join(FIELDS)}, network.OPTION, ..."
            )
        there = {spec_key: setting(spec, key) for spec_key, spec in kept.items()}
        found = {spec_key: kept[spec_key] for spec_key, value in there.items() if any(_reads(value, w) for w in words)}
        if not found:
            values = ", ".join(sorted({str(value) for value in there.values()}))
            raise InvalidInput(f"--only {key}={','.join(words)} leaves no run.\nThe study has {key}: {values}.")
        kept = found
    return kept


def _reads(value: Value | None, word: str) -> bool:
    """Whether a word of the command line stands for a value."""
    if isinstance(value, bool) or value is None:
        return str(value).lower() == word.lower()
    if isinstance(value, str):
        return value == word
    try:
        return value == float(word)
    except ValueError:
        return False
