"""Files arrive whole and checked, or not at all."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import platformdirs
import pytest

from creditscope.datasets.cache import Checksum, Unreachable, cache_folder, download, obtain, unfinished
from creditscope.errors import BadFile, DataUnavailable

CONTENT = b"the real thing"
CHECKSUM = Checksum("sha256", hashlib.sha256(CONTENT).hexdigest())


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server on this machine that offers one file."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("CREDITSCOPE_OFFLINE", raising=False)
    offered = tmp_path_factory.mktemp("offered")
    (offered / "file").write_bytes(CONTENT)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(offered))) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def test_the_folder_given_comes_before_the_variable_and_the_variable_before_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREDITSCOPE_DATA", str(tmp_path / "variable"))
    assert cache_folder(tmp_path / "given") == tmp_path / "given"
    assert cache_folder() == tmp_path / "variable"
    monkeypatch.delenv("CREDITSCOPE_DATA")
    assert cache_folder() == Path(platformdirs.user_cache_dir("creditscope", appauthor=False))


def test_a_download_arrives_whole(server: str, tmp_path: Path) -> None:
    download(f"{server}/file", tmp_path / "deep" / "file", CHECKSUM)
    assert (tmp_path / "deep" / "file").read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["file"]


def test_a_download_with_a_wrong_checksum_leaves_nothing(server: str, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="the download has SHA256 .*, not SHA256 00"):
        download(f"{server}/file", tmp_path / "file", Checksum("sha256", "00"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("url", ["{server}/missing", "http://127.0.0.1:9/file"])
def test_an_address_that_does_not_answer_is_unreachable(server: str, tmp_path: Path, url: str) -> None:
    with pytest.raises(Unreachable):
        download(url.format(server=server), tmp_path / "file", CHECKSUM)
    assert not list(tmp_path.iterdir())


def test_offline_means_that_nothing_is_asked_for(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREDITSCOPE_OFFLINE", "1")
    with pytest.raises(Unreachable, match="switched off by CREDITSCOPE_OFFLINE"):
        download(f"{server}/file", tmp_path / "file", CHECKSUM)


def test_a_block_that_fails_keeps_the_old_file_and_no_part(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with pytest.raises(RuntimeError), unfinished(target) as part:
        part.write_text("half of the new")
        raise RuntimeError
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BadFile, match="cannot be written"), unfinished(tmp_path / "file" / "inside"):
        pass


def test_a_file_with_other_bytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    CHECKSUM.check_file(tmp_path / "file")
    (tmp_path / "file").write_bytes(CONTENT[:-1])
    with pytest.raises(BadFile, match="damaged, incomplete or a different dataset"):
        CHECKSUM.check_file(tmp_path / "file")


def test_sources_are_tried_in_order_until_one_works(tmp_path: Path) -> None:
    called = []

    def fails() -> None:
        called.append("first")
        raise Unreachable("no answer")

    obtain(
        "some", tmp_path, {"a": fails, "b": lambda: called.append("second"), "c": lambda: called.append("third")}, ""
    )
    assert called == ["first", "second"]


def test_the_error_names_every_source_tried_and_the_remedy(tmp_path: Path) -> None:
    def fails(why: str) -> None:
        raise Unreachable(why)

    sources = {"the archive": partial(fails, "no answer"), "the package": partial(fails, "npm is not installed")}
    with pytest.raises(DataUnavailable) as caught:
        obtain("some", tmp_path, sources, "Put x into y.")
    message = str(caught.value)
    for words in (str(tmp_path), "the archive: no answer", "the package: npm is not installed", "Put x into y."):
        assert words in message
