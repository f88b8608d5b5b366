"""Imports point one way, and what needs no tensor imports no torch."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import creditscope

ROOT = Path(creditscope.__file__).parent
CONTRIBUTING = ROOT.parents[1] / "CONTRIBUTING.md"
PAPERS = ROOT.parent / "creditscope_papers"
AT_ONCE, TYPING, LATER = "at once", "for types", "inside a function"

GROUND = (
    "arguments batch control credit errors files machine modes options plugins progress protocols provenance "
    "randomness reading registry terminal verdict"
)
# What each part may import of ours; every part is listed, in strata from the bottom up. CONTRIBUTING.md draws it.
MAY: dict[str, str] = {
    "errors": "",
    "batch": "",
    "provenance": "",
    "randomness": "",
    "machine": "errors",
    "terminal": "errors",
    "arguments": "errors machine terminal",
    "files": "arguments errors machine",
    "reading": "arguments errors",
    "registry": "errors",
    "plugins": "errors registry",
    "options": "errors registry",
    "progress": "",
    "control": "errors registry",
    "verdict": "",
    "modes": "verdict",
    "protocols": "errors modes registry verdict",
    "credit": "batch errors verdict",
    "stream": GROUND,
    "networks": GROUND,
    "datasets": GROUND,
    "statistics": GROUND,
    "linting": GROUND,
    "records": GROUND,
    "diagnostics": f"statistics {GROUND}",
    "evidence": f"stream {GROUND}",
    "methods": f"stream networks records {GROUND}",
    "report": f"records statistics {GROUND}",
    "probes": f"stream evidence {GROUND}",
    "training": f"methods datasets networks evidence diagnostics stream records {GROUND}",
    "glossary": f"diagnostics methods networks datasets linting {GROUND}",
    "partial": f"report records diagnostics statistics {GROUND}",
    "auditing": f"probes diagnostics evidence records stream statistics {GROUND}",
    "conformance": f"training probes diagnostics methods datasets networks stream records {GROUND}",
    "experiments": f"auditing training diagnostics records statistics stream {GROUND}",
    "runs": f"training auditing methods datasets networks records {GROUND}",
    "monitoring": f"auditing probes evidence records report stream {GROUND}",
    "compat": f"auditing diagnostics evidence stream {GROUND}",
    "testing": f"auditing diagnostics records report {GROUND}",
    "study": f"runs report records training datasets diagnostics statistics {GROUND}",
    "papers": f"study runs report records diagnostics statistics {GROUND}",
    "commands": "papers testing compat monitoring study runs experiments conformance auditing partial training probes "
    f"report glossary methods evidence diagnostics records statistics datasets networks stream linting {GROUND}",
    "cli": f"commands {GROUND}",
    "__main__": "cli",
}
MAY_FOR_TYPES = {"diagnostics": "evidence", "partial": "evidence"}
IMPORT_BY_NAME = {  # what may call import_module: registries and plugins, the public names, and a package of others
    "creditscope",
    "creditscope.registry",
    "creditscope.plugins",
    "creditscope.commands.entries",
    "creditscope.monitoring.adapters",
    "creditscope.monitoring.callback",
}
MAY_LATER = {"records": "report"}  # Report.to_html() and its kin: the one late edge
PAPERS_MAY = f"papers study runs partial report records diagnostics statistics {GROUND}"


def part(path: Path) -> str:
    """The first folder or file below the package; the package itself is named after it."""
    name = path.relative_to(ROOT).with_suffix("").parts[0]
    return "creditscope" if name == "__init__" else name


def module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


FILES = sorted(ROOT.rglob("*.py"))
MODULES = {module(path) for path in (*FILES, *PAPERS.rglob("*.py"))}


@cache
def imported(path: Path) -> list[tuple[str, str]]:
    """Every (module of ours, when) that a file imports."""

    def names(node: ast.AST) -> list[str]:
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            return [name if name in MODULES else node.module or "" for name in inside]
        return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []

    def visit(node: ast.AST, when: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            inner = when
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                inner = TYPING
            elif isinstance(child, ast.FunctionDef | ast.Lambda) and when != TYPING:
                inner = LATER
            yield from ((name, when) for name in names(child) if name in MODULES)
            yield from visit(child, inner)

    return sorted(set(visit(ast.parse(path.read_text(encoding="utf-8")), AT_ONCE)))


def parts(path: Path) -> Iterator[tuple[str, str]]:
    """Every (part of ours, when) that a file imports; of `creditscope` itself a test allows nothing but the version."""
    for name, when in imported(path):
        if name != "creditscope":
            package, _, rest = name.partition(".")
            yield (rest.partition(".")[0] if package == "creditscope" else package), when


def test_every_part_is_listed_and_every_listed_part_exists() -> None:
    assert {part(path) for path in FILES} - {"creditscope"} == set(MAY)


def test_the_list_itself_points_one_way() -> None:
    strata = list(MAY)
    for name, below in MAY.items():
        assert all(strata.index(other) < strata.index(name) for other in below.split()), name


def test_contributing_draws_the_same_diagram() -> None:
    drawn = re.findall(r"^(\w+) +-> (.*)$", CONTRIBUTING.read_text(encoding="utf-8"), flags=re.MULTILINE)
    ground = set(GROUND.split())
    listed = {name: set(below.split()) - ground for name, below in MAY.items() if name not in ("commands", "cli")}
    assert {name: set(below.split(", ")) for name, below in drawn if name != "commands"} == {
        name: below for name, below in listed.items() if below - {"cli"} and name not in ground
    }
    assert set(MAY["commands"].split()) == set(MAY) - {"commands", "cli", "__main__"}


@pytest.mark.parametrize("name", MAY)
def test_a_part_imports_only_what_lies_below_it(name: str) -> None:
    for path in FILES:
        if part(path) != name:
            continue
        for other, when in parts(path):
            allowed = {name, *MAY[name].split()}
            allowed |= set(MAY_FOR_TYPES.get(name, "").split()) if when == TYPING else set()
            allowed |= set(MAY_LATER.get(name, "").split()) if when == LATER else set()
            assert other in allowed, f"{path.relative_to(ROOT)} imports creditscope.{other} {when}"


def test_a_paper_stands_on_the_engine_and_the_library_imports_no_paper() -> None:
    for path in PAPERS.rglob("*.py"):
        for other, when in parts(path):
            assert other in {"creditscope_papers", *PAPERS_MAY.split()}, f"{path} imports {other} {when}"
    for path in FILES:
        assert "creditscope_papers" not in {other for other, _ in parts(path)}, path


def taken_from_the_package(source: str) -> set[str]:
    """The names that a file takes from `creditscope` itself, whose public names reach into every part."""
    nodes = list(ast.walk(ast.parse(source)))
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "creditscope"]
    names = {alias.name for node in froms for alias in node.names if f"creditscope.{alias.name}" not in MODULES}
    whole = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return names | {"creditscope" for name in whole if name.partition(".")[0] == "creditscope"}


def imports_by_name(source: str) -> bool:
    nodes = ast.walk(ast.parse(source))
    return any(getattr(node, "attr", getattr(node, "id", "")) in ("import_module", "__import__") for node in nodes)


def test_modules_take_only_the_version_from_the_package_itself() -> None:
    assert taken_from_the_package("from creditscope import audit, options") == {"audit"}
    assert taken_from_the_package("import creditscope.methods as m") == {"creditscope"}
    for path in (*FILES, *PAPERS.rglob("*.py")):
        names = taken_from_the_package(path.read_text(encoding="utf-8"))
        assert names <= {"__version__"}, f"{path} imports {names} from creditscope"


def test_only_the_listed_modules_import_by_name() -> None:
    assert imports_by_name("importlib.import_module('creditscope.methods')")
    assert imports_by_name("import_module('creditscope.methods')")
    files = (*FILES, *PAPERS.rglob("*.py"))
    assert {module(path) for path in files if imports_by_name(path.read_text(encoding="utf-8"))} == IMPORT_BY_NAME


def test_a_part_may_import_only_what_it_does_import() -> None:
    ground, imports = set(GROUND.split()), {name: set[str]() for name in MAY}
    for path in FILES:
        if part(path) in MAY:
            imports[part(path)] |= {other for other, _ in parts(path)}
    for name in set(MAY) - ground - {"commands"}:  # the commands may use everything
        assert set(MAY[name].split()) - ground <= imports[name], name


def test_no_two_classes_have_one_name() -> None:
    trees = (ast.parse(path.read_text(encoding="utf-8")) for folder in (ROOT, PAPERS) for path in folder.rglob("*.py"))
    names = Counter(node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    twice = {name for name, count in names.items() if count > 1}
    assert twice == {"CreditscopeCallback"}  # one for each of two trainers, where users look for that name


def test_methods_and_diagnostics_never_meet() -> None:
    for path in FILES:
        others = {other for other, _ in parts(path)}
        assert not (part(path) == "methods" and "diagnostics" in others)
        assert not (part(path) == "diagnostics" and "methods" in others)


def test_no_module_imports_itself_on_a_detour_not_even_later() -> None:
    below: dict[str, set[str]] = {}
    for path in (*FILES, *PAPERS.rglob("*.py")):
        own = module(path)
        late = set() if own == "creditscope" else MAY_LATER.get(part(path) if path in FILES else "", "").split()
        below[own] = {
            name
            for name, when in imported(path)
            if name not in (own, "creditscope") and when != TYPING and name.split(".")[1] not in late
        }
    while below:
        free = {name for name, others in below.items() if not others & set(below)}
        assert free, f"these import each other: { {name: others & set(below) for name, others in below.items()} }"
        below = {name: others for name, others in below.items() if name not in free}


@pytest.mark.parametrize(
    "statement",
    [
        "import creditscope; dir(creditscope); creditscope.__version__",
        "from creditscope import Report, CreditscopeError, Batch",
        "import creditscope.verdict, creditscope.records.run, creditscope.registry, creditscope.statistics.seeds",
        "from creditscope.diagnostics import diagnostics; [(e.question, e.formula) for e in diagnostics.values()]",
        "from creditscope.records.report import Report; Report.json_schema()",
    ],
)
def test_what_needs_no_tensor_imports_no_heavy_library(statement: str) -> None:
    heavy = "{'torch', 'scipy', 'ray', 'lightning', 'altair', 'tensorboard', 'pandas'}"
    code = f"{statement}\nimport sys\nprint(sorted({heavy} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip().splitlines()[-1] == "[]"


def test_an_unknown_name_is_an_attribute_error_and_the_public_ones_are_listed() -> None:
    with pytest.raises(AttributeError, match="module 'creditscope' has no attribute 'auditt'"):
        creditscope.auditt  # noqa: B018
    assert {"audit", "Report", "FAProtocol", "diagnose", "__version__"} <= set(dir(creditscope))
    for name in creditscope.__all__:
        assert getattr(creditscope, name) is not None


def test_every_package_that_is_imported_is_declared() -> None:
    declared = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text())["project"]
    extras = [one for group in declared["optional-dependencies"].values() for one in group]
    names = {re.split(r"[^\w-]", line)[0].replace("-", "_") for line in (*declared["dependencies"], *extras)}
    own = {"PIL": "pillow", "vl_convert": "vl_convert_python"}
    optional = {"pandas", "polars", "pytest"}  # asked for by the caller, who has them
    for path in (*ROOT.rglob("*.py"), *PAPERS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            for module in {name.partition(".")[0] for name in modules} - sys.stdlib_module_names - optional:
                assert own.get(module, module) in names or module.startswith("creditscope"), (path, module)


def test_the_releases_of_lightning_that_carried_malware_are_excluded() -> None:
    declared = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text())["project"]
    (lightning,) = declared["optional-dependencies"]["lightning"]
    assert {"2.6.2", "2.6.3"} <= {part.removeprefix("!=") for part in re.split(r"[ ,]|(?<=lightning)", lightning)}
