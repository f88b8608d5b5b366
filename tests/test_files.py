"""A file is either whole or not there."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from creditscope.commands.parsing import writable
from creditscope.errors import BadFile
from creditscope.files import atomic_write, check_folder, write_text
from creditscope.reading import read_text


def test_what_was_written_is_read_back_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "report.json"
    assert write_text(path, "‖h‖ = 1\n") == path
    assert read_text(path, "The report") == "‖h‖ = 1\n"
    assert list(path.parent.iterdir()) == [path]


def test_while_it_is_written_the_old_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text(path, "old")
    with atomic_write(path) as part:
        part.write_text("new")
        assert part.name.endswith(".part")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_an_interrupted_write_leaves_the_old_file_and_no_part(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text(path, "old")
    with pytest.raises(KeyboardInterrupt), atomic_write(path) as part:
        part.write_text("ne")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_in_the_place_of_the_file_is_an_error_that_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(BadFile, match=r"file cannot be written: Is a directory\.\nNothing was left behind\. Choose"):
        write_text(tmp_path / "file", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_in_the_place_of_the_folder_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadFile, match=r"cannot be written: (Not a directory|File exists)"):
        write_text(tmp_path / "file" / "report.json", "text")
    with pytest.raises(BadFile, match="cannot be written: Not a directory"):
        write_text(tmp_path / "file" / "folder" / "report.json", "text")


def test_a_writer_that_writes_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="No such file"), atomic_write(tmp_path / "file"):
        pass


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"The report .*absent\.json cannot be read: .*\nCheck the path\."):
        read_text(tmp_path / "absent.json", "The report")


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadFile, match="cannot be read"):
        read_text(tmp_path / "file", "The report")


def test_a_device_or_a_pipe_is_refused_and_stays_what_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/null")):
        with pytest.raises(BadFile, match="is a device, a pipe or a socket"):
            write_text(path, "text")
    assert pipe.is_fifo()
    assert Path("/dev/null").is_char_device()
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_link_stays_a_link_and_permissions_stay(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    write_text(file, "old")
    file.chmod(0o600)
    link.symlink_to(file)
    write_text(link, "new")
    assert link.is_symlink()
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_circle_of_links_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(BadFile, match="cannot be written"):
        write_text(tmp_path / "a", "text")


@pytest.mark.parametrize("check", [check_folder, lambda folder: writable(folder / "report.html")])
def test_a_folder_is_checked_in_the_same_words_before_any_work(
    check: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(tmp_path / "new" / "folder")
    file = tmp_path / "file"
    file.write_text("mine")
    for folder in (file, file / "folder"):
        with pytest.raises(BadFile, match=rf"cannot be written: {file} is not a folder\."):
            check(folder)
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)  # root may write everywhere
    for folder in (tmp_path, tmp_path / "new"):
        with pytest.raises(BadFile, match=rf"cannot be written: no permission to write in {tmp_path}\."):
            check(folder)
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_can_only_be_replaced_where_its_folder_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "report.html"
    file.write_text("old")
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(BadFile, match=rf"no permission to write in {tmp_path}\."):
        writable(file)
    link = tmp_path / "link.html"
    (tmp_path / "open").mkdir()
    link.symlink_to(tmp_path / "open" / "report.html")
    assert writable(link) == link
    monkeypatch.setattr(os, "access", lambda path, mode: path != file)
    with pytest.raises(BadFile, match=r"no permission to overwrite it\."):
        writable(file)
