"""What comes from a file is within limits before anybody looks at it, and carries a checksum of itself."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from creditscope.errors import BadFile, CreditscopeError, DamagedFile
from creditscope.reading import (
    MOST_DEPTH,
    MOST_DIGITS,
    ZEROS,
    parse_json,
    parse_toml,
    read_text,
    seal_holds,
    sealed,
)


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("depth", [MOST_DEPTH + 2, 900, 10_000])
def test_a_text_nested_too_deeply_is_refused(depth: int) -> None:
    with pytest.raises(DamagedFile, match="more than 100 levels deep"):
        parse_json(nested(depth), "a file")
    with pytest.raises(DamagedFile, match="more than 100 levels deep"):
        parse_toml(f"a = {nested(depth)}", "a file")


def test_what_is_nested_within_the_limit_is_read() -> None:
    assert json.dumps(parse_json(nested(MOST_DEPTH), "a file")) == nested(MOST_DEPTH)
    assert parse_toml(f"a = {nested(MOST_DEPTH - 1)}", "a file")


@pytest.mark.parametrize("digits", [MOST_DIGITS + 1, 5000])
def test_a_number_with_too_many_digits_is_refused(digits: int) -> None:
    with pytest.raises(DamagedFile, match="digits"):
        parse_json("9" * digits, "a file")
    with pytest.raises(DamagedFile, match="digits"):
        parse_toml(f"a = {'9' * digits}", "a file")


def test_the_largest_number_is_within_the_range_of_a_float() -> None:
    assert float(parse_json("9" * MOST_DIGITS, "a file")) == pytest.approx(10.0**MOST_DIGITS)


def test_a_folder_bytes_that_are_no_text_and_too_many_of_them_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match="it is a folder"):
        read_text(tmp_path, "The record")
    path = tmp_path / "file"
    path.write_bytes(b"{\xff}")
    with pytest.raises(DamagedFile, match=r"not UTF-8 \(invalid start byte at byte 1\)"):
        read_text(path, "The record")
    path.write_bytes(b"12345")
    assert read_text(path, "The record", most=5) == "12345"
    with pytest.raises(BadFile, match="more than 4 bytes"):
        read_text(path, "The record", most=4)
    with pytest.raises(BadFile, match="NUL"):
        read_text(f"{path}\0", "The record")


def test_a_pipe_is_read_to_its_end() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"text")
    os.close(writing)
    assert read_text(f"/dev/fd/{reading}", "The record") == "text"
    os.close(reading)


def test_every_single_changed_bit_breaks_the_seal() -> None:
    content = sealed(json.dumps({"checksum": ZEROS, "key": "value", "numbers": [1.5, "NaN"]}).encode())
    assert seal_holds(content) is True
    for place in range(8 * len(content)):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        assert seal_holds(bytes(changed)) is not True
    assert seal_holds(content[:-1]) is False
    assert seal_holds(content + b" ") is False


def test_a_text_without_a_checksum_says_so_and_none_can_be_sealed_twice() -> None:
    assert seal_holds(b"{}") is None
    with pytest.raises(ValueError, match="no empty checksum"):
        sealed(b"{}")
    with pytest.raises(ValueError, match="no empty checksum"):
        sealed(sealed(f'{{"checksum": "{ZEROS}"}}'.encode()))


def test_a_message_has_at_most_thirty_lines_and_ends_with_what_to_do() -> None:
    draw = random.Random(1)
    text = "\n".join("x" * draw.randrange(3000) for _ in range(5000)) + "\nRemove it."
    message = str(CreditscopeError(text))
    assert len(message.split("\n")) == 30
    assert len(message) < 31 * 1010
    assert message.endswith("\nRemove it.")
    assert "more lines]" in message
    assert str(CreditscopeError("short")) == "short"
