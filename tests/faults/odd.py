"""Strategies for what should never happen: damaged files, records edited by hand, hostile names, odd values."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st

from creditscope.reading import ZEROS, sealed

# Nothing here is a whole number above 1: no value that is by chance a good one starts a long training.
VALUES = [
    "", " ", "-1", "0", "1", "-0", "0.5", "nan", "inf", "-inf", "1e999", "9" * 20, "9" * 5000, "0x10", "1e-400", "+",
    "true", "None", "[]", "{}", "[1,", "'", '"', "\\", "*", "%s%n", "{0.__class__}", "$(touch x)", "; touch x", "--",
    "=", "a=", "=b", "a=b=c", "d=-1", "d=0", "d=99999999999", "depth=99999999", "depth=0", "depth=nan", "d=[1]",
    "D1=nan", "D1=1e999", "D1=", "D99=1", "seed=1,,2", "seed=", "method=,", "no_such_name", "a:b", ":", "a:", "a.b:c",
    "json:loads", "os.path:join", "..", ".", "~", "a/b/c", "/dev/null", "/dev/full", "a\0b", "\x7f",
    "\x1b[2J\x1b]0;x\x07", "\u202egnp.exe", "\ud800", "\udcff", "é" * 300, "x" * 100_000, "\\input{x}", "[red]x[/red]",
    "<script>alert(1)</script>", "=cmd|' /C calc'!A0", "](javascript:x)", "line\nline", "\r\n", "\t", "３", "１e２",
]  # fmt: skip
values = st.one_of(st.sampled_from(VALUES), st.text(max_size=8), st.text(alphabet="0-.eE+_x=,:/[]", max_size=8))

# --- content of files ---

LEAVES = [
    None, True, False, 0, -1, 1, 0.5, -0.0, 1e308, 10**299, -(10**18), "", "x", "NaN", "../../x", "\x1b[2J", "é" * 500,
    float("nan"), float("inf"), -float("inf"), [], {}, [[]], [None], {"": None}, {"a": {"a": {}}}, "\ud800", "\0",
    "line\nline", "=1+1", "\\write18{x}", "x" * 50_000, [0] * 2000, ["a", 1, None], {"key": 1}, "2" * 400,
]  # fmt: skip
leaves = st.sampled_from(LEAVES)

BLOBS = [
    b"", b" ", b"\0", b"{}", b"[]", b"null", b"0", b'""', b"NaN", b"{", b'{"a":', b"\xff\xfe{\0}\0", b"\xef\xbb\xbf{}",
    b"\xff" * 64, b"[" * 20_000, b'{"a":' * 5000, b"9" * 6000, b'{"a":' + b"9" * 6000 + b"}", b"PK\3\4", b"\x93NUMPY",
    (2**60).to_bytes(8, "little") + b"{}", b"a = [" * 5000, b"a = 1\na = 2", b"a = " + b"9" * 6000, b"a\tb\n1,2\n" * 9,
]  # fmt: skip


def paths(content: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every value inside a JSON content."""
    children = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for name, child in children:
        yield (*at, name)
        yield from paths(child, (*at, name))


@st.composite
def edited(draw: Callable[..., Any], text: str) -> bytes:
    """A JSON text with one to three of its values replaced, removed, renamed or doubled; its checksum may be right."""
    content = json.loads(text)
    seal = isinstance(content, dict) and content.pop("checksum", None) is not None and draw(st.booleans())
    for _ in range(draw(st.integers(1, 3))):
        places = list(paths(content))
        if not places:
            break
        *above, last = draw(st.sampled_from(places))
        parent = content
        for name in above:
            parent = parent[name]
        kind = draw(st.sampled_from(["replace", "replace", "replace", "remove", "rename", "wrap"]))
        if kind == "replace":
            parent[last] = copy.deepcopy(draw(leaves))
        elif kind == "wrap":
            parent[last] = [parent[last], copy.deepcopy(parent[last])]
        elif kind == "rename" and isinstance(parent, dict):
            parent[draw(st.sampled_from(["", "x", "\x1b", "__class__", "D1", "../x"]))] = parent.pop(last)
        else:
            del parent[last]
    new = json.dumps({"checksum": ZEROS, **content} if seal else content, indent=1).encode()
    return sealed(new) if seal else new


@st.composite
def damaged(draw: Callable[..., Any], content: bytes) -> bytes:
    """A file with a flipped bit, a missing or foreign part, or something else in its place."""
    kind = draw(st.sampled_from(["flip", "cut", "insert", "repeat", "zeros", "blob"]))
    place = draw(st.integers(0, max(0, len(content) - 1)))
    if kind == "flip" and content:
        return content[:place] + bytes([content[place] ^ 1 << draw(st.integers(0, 7))]) + content[place + 1 :]
    if kind == "cut":
        return content[:place]
    if kind == "insert":
        return content[:place] + draw(st.binary(min_size=1, max_size=8)) + content[place:]
    if kind == "repeat":
        return content + content[place:]
    if kind == "zeros":
        return content[:place] + bytes(len(content) - place)
    return draw(st.sampled_from(BLOBS))


TOML_VALUES = [
    "", "nan", "-inf", "1e999", "[]", "{}", '""', '"x"', "true", "-1", "0", "9" * 20, "9" * 400, "[[[]]]", '["a", 1]',
    "1979-05-27", "{a = 1, a = 2}", "\'\'\'x", '"\\u001b[2J"', '"no_such"', "[-1]", "[0.5]", "[1, 1]", "{a = {b = 1}}",
    '["bp", "bp"]', '["../x"]', '"a:b"', "[" * 200 + "]" * 200, "10000000", '"' + "x" * 9000 + '"', "[true]",
]  # fmt: skip


@st.composite
def odd_toml(draw: Callable[..., Any], text: str) -> bytes:
    """A TOML text with odd values, names, tables, or lines that are missing or there twice."""
    lines = text.splitlines()
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(lines) - 1))
        name = lines[at].partition("=")[0].strip()
        kind = draw(st.sampled_from(["value", "value", "value", "name", "remove", "twice", "table"]))
        if kind == "value" and "=" in lines[at]:
            lines[at] = f"{name} = {draw(st.sampled_from(TOML_VALUES))}"
        elif kind == "name" and "=" in lines[at]:
            new = draw(
                st.sampled_from(["x", '""', '"\\u0000"', '"network.x"', "plugins", "seed", "budgets", "exclude"])
            )
            lines[at] = f"{new} = {draw(st.sampled_from(TOML_VALUES))}"
        elif kind == "table":
            lines.insert(at, draw(st.sampled_from(["[x]", "[[grid]]", "[fixed.a]", "[", "[budgets.small]", "[grid]"])))
        elif kind == "twice":
            lines.append(lines[at])
        else:
            lines[at] = ""
    return "\n".join(lines).encode("utf-8", "surrogatepass")


ARRAYS: list[Any] = [
    np.zeros(0), np.zeros((0, 3)), np.float64(1), np.full((8, 8), np.nan), np.full((8, 8), np.inf), np.ones((8, 8, 2)),
    np.ones((3, 8)), np.ones((8, 8), dtype=np.complex64), np.array(["x", "y"]), np.ones((8, 8), dtype=bool),
    np.ones(8, dtype="datetime64[s]"), np.ones((8, 8), dtype=np.float16), np.ones((8, 8), dtype=np.int64) * -1,
    np.ones((8, 8), dtype=">f8"), np.ones((1, 8)), np.full((8, 8), 1e308), np.zeros((8, 8)),
    np.array([(1, 2.0)], "i4,f8"),
]  # fmt: skip


@st.composite
def odd_archive(draw: Callable[..., Any], arrays: dict[str, Any]) -> bytes:
    """An .npz with arrays of odd shapes and types, names that do not belong, or arrays missing; or a damaged one."""
    changed = dict(arrays)
    for _ in range(draw(st.integers(0, 2))):
        name = draw(st.sampled_from(sorted(arrays)))
        kind = draw(st.sampled_from(["value", "value", "remove", "name"]))
        if kind == "remove":
            changed.pop(name, None)
        else:
            odd = st.sampled_from(["h_99", "h_-1", "x", "h_", "g_0_0", "h_1e9", "../x", "labels_0"])
            changed[name if kind == "value" else draw(odd)] = ARRAYS[draw(st.integers(0, len(ARRAYS) - 1))]
    file = io.BytesIO()
    np.savez(file, **changed)
    content = file.getvalue()
    return draw(damaged(content)) if changed.keys() == arrays.keys() or draw(st.booleans()) else content
