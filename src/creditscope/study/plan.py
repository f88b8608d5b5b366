"""The plan of a study: its runs by key, expanded and checked once, then read from the store.

Keys need the defaults and revisions of networks, methods and datasets, which import torch. A stored expansion is used
as long as neither the study nor the code behind the keys has changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from creditscope import __version__
from creditscope.errors import BadFile, DamagedFile
from creditscope.files import write_text
from creditscope.reading import ZEROS, parse_json, read_text, seal_holds, sealed
from creditscope.records.labels import PARTS, labels
from creditscope.runs.spec import RunSpec
from creditscope.study.declaration import Study
from creditscope.study.store import check_key

PACKAGE = Path(__file__).resolve().parents[1]
EXPANDED = "expanded"  # the folder of a store that holds expanded studies
Plan = dict[str, RunSpec]  # by key, in the order of the study


def plan(
    study: Study,
    budget: str | None = None,
    plugins: Sequence[str] = (),
    store: Path | None = None,
    *,
    create: bool = False,
) -> Plan:
    """The runs of a study by key, checked: every one of them can start.

    store    the folder of a store; the expansion is remembered in it
    create   whether to make that folder if it does not exist
    """
    path = None if store is None else store / EXPANDED / f"{_digest(study, budget, plugins)}.json"
    if path is not None and path.exists():
        with suppress(BadFile, ValueError):  # a damaged file is expanded again
            return _stored(path)
    specs = _checked(study, budget, plugins)
    runs: Plan = {}
    for spec in specs:
        runs.setdefault(spec.key, spec)
    if path is not None and store is not None and (create or store.is_dir()) and _ours(specs):
        content = {key: spec.model_dump(mode="json") for key, spec in runs.items()}
        with suppress(BadFile):  # a store that cannot be written can still be read
            write_text(path, sealed(json.dumps({"checksum": ZEROS, "runs": content}).encode()).decode())
    return runs


def _stored(path: Path) -> Plan:
    """An expansion as it was stored, without keys that lead out of the store and without modules of others."""
    text = read_text(path, "The expansion")
    if not seal_holds(text.encode()):
        raise DamagedFile(f"{path} is not what was written.")
    content = parse_json(text, str(path))
    runs = {check_key(key): RunSpec.model_validate(spec) for key, spec in content["runs"].items()}
    if any(spec.modules for spec in runs.values()):
        raise DamagedFile(f"{path} names modules that creditscope never stores.")
    return runs


def run_labels(runs: Plan) -> dict[str, str]:
    """A label for each run that shows whatever differs within the study; a lone run has its title."""
    if len(runs) == 1:
        return {key: spec.title for key, spec in runs.items()}
    return dict(zip(runs, labels([spec.settings() for spec in runs.values()]), strict=True))


def _checked(study: Study, budget: str | None, plugins: Sequence[str]) -> list[RunSpec]:
    from creditscope.plugins import load_plugin, vouch
    from creditscope.study.expansion import check, expand

    vouch(study.modules)
    for plugin in dict.fromkeys((*study.plugins, *plugins)):
        load_plugin(plugin)
    specs = expand(study, budget, plugins)
    check(study, specs)
    return specs


def _ours(specs: Sequence[RunSpec]) -> bool:
    """Whether every entry belongs to this package, so that `_digest` notices its changes."""
    from creditscope.runs.spec import registered

    names = {(part, getattr(spec, part)) for spec in specs for part in PARTS}
    modules = [registered(part)[name].__module__ for part, name in names]
    return not any(spec.plugins for spec in specs) and all(module.startswith("creditscope.") for module in modules)


def _sources() -> list[Path]:
    """The files behind names, options and keys."""
    folders = [PACKAGE / name for name in ("networks", "methods", "datasets")]
    return [
        PACKAGE / "training" / "recipe.py",
        *(PACKAGE / "records" / f"{name}.py" for name in ("declared", "labels", "record")),
        *(PACKAGE / "runs" / f"{name}.py" for name in ("run", "spec")),
        *(PACKAGE / f"{name}.py" for name in ("options", "control")),
        *(PACKAGE / "study" / f"{name}.py" for name in ("declaration", "expansion")),
        *(file for folder in folders for file in sorted(folder.glob("*.py"))),
    ]


def _digest(study: Study, budget: str | None, plugins: Sequence[str]) -> str:
    """A hash of everything that decides the expansion: the study, and the files behind names, options and keys."""
    stamps = [(str(file.relative_to(PACKAGE)), file.stat().st_size, file.stat().st_mtime_ns) for file in _sources()]
    content = [__version__, stamps, study.model_dump(mode="json"), budget, list(plugins)]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
