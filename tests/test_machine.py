"""A full disk and exhausted memory are told apart from errors of a run and from bugs of creditscope."""

from __future__ import annotations

import errno
import subprocess
import sys

import numpy as np
import pytest
import torch

from creditscope.cli import run
from creditscope.errors import BadFile, CreditscopeError, DataUnavailable, InvalidInput, NoRoom, OutOfResources
from creditscope.machine import machine_error, memory
from creditscope.study.engines.job import _run_error
from creditscope.study.engines.local import _Worker


def raised(act) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011  which kind is the libraries' own choice
        act()
    return caught.value


def unwritable() -> None:
    try:
        raise OSError(errno.ENOSPC, "No space left on device", "a/file")
    except OSError as error:
        raise BadFile("a/file cannot be written.") from error


def raising(error: Exception):
    def act() -> None:
        raise error

    return act


DISK = [
    raising(OSError(errno.EDQUOT, "Disk quota exceeded")),
    raising(FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")),
    unwritable,
]
MEMORY = [
    lambda: torch.empty(10**16),
    lambda: np.empty(10**16),
    lambda: bytearray(10**16),
    raising(OSError(errno.EMFILE, "Too many open files")),
    raising(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")),
]


@pytest.mark.parametrize("act", DISK)
def test_a_full_disk_is_recognised(act):
    assert isinstance(machine_error(raised(act)), NoRoom)


@pytest.mark.parametrize("act", MEMORY)
def test_what_torch_numpy_and_python_say_when_memory_or_handles_run_out_is_recognised(act):
    error = machine_error(raised(act))
    assert isinstance(error, OutOfResources)
    assert "ran out of memory" in str(error)


@pytest.mark.parametrize("error", [ValueError("out of memory"), InvalidInput("no"), OSError(errno.ENOENT, "gone")])
def test_any_other_error_is_not_the_machine(error):
    assert machine_error(error) is None


@pytest.mark.parametrize(
    ("function", "code"), [(unwritable, 74), (lambda: torch.empty(10**16), 75), (lambda: bytearray(10**16), 75)]
)
def test_the_exit_codes_are_74_for_disks_and_75_for_memory_without_a_traceback(only, function, code, capsys):
    only(function)
    assert run(["act"]) == code
    assert "Traceback" not in capsys.readouterr().err


def test_a_run_error_says_what_the_machine_lacked():
    assert _run_error(raised(MEMORY[0]), "train").lacking == "memory"
    assert _run_error(raised(MEMORY[0]), "train").message.startswith("The machine ran out of memory")
    assert _run_error(raised(unwritable), "train").lacking == "disk"
    for number in (errno.EACCES, errno.EPERM, errno.EROFS):
        assert _run_error(OSError(number, "no"), "train").lacking == "permission"
    assert _run_error(ValueError("no"), "audit").lacking == ""
    missing = _run_error(DataUnavailable("mnist is not here"), "train")
    assert (missing.lacking, missing.message) == ("data", "mnist is not here")


def ended(program: str):
    """Why a worker ended that ran this program in place of its own."""
    worker = _Worker.__new__(_Worker)
    from multiprocessing.connection import Pipe
    from tempfile import TemporaryFile

    worker.connection, _ = Pipe()
    worker.errors = TemporaryFile()  # noqa: SIM115  closed by `exit_reason`
    worker.process = subprocess.Popen([sys.executable, "-S", "-c", program], stderr=worker.errors)
    return worker.exit_reason()


@pytest.mark.parametrize(
    ("program", "lacking"),
    [
        ("import os; os.kill(os.getpid(), 9)", "memory"),
        ("import os; os.write(2, b'terminate called: std::bad_alloc'); os.abort()", "memory"),
        ("raise MemoryError", "memory"),
        ("import os; os.abort()", ""),
        ("raise ValueError", ""),
    ],
)
def test_a_worker_that_the_machine_ended_is_told_from_one_that_crashed(program, lacking):
    error = ended(program)
    assert error.lacking == lacking
    assert ("ran out of memory" in error.message) == bool(lacking)


def test_memory_is_what_the_machine_or_a_lower_limit_allows():
    assert 2**26 < memory() < 2**50


def test_every_error_has_an_exit_code_of_its_own_kind():
    assert [kind.exit_code for kind in (CreditscopeError, BadFile, NoRoom, OutOfResources)] == [2, 2, 74, 75]
