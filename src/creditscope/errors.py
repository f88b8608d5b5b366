"""Exceptions raised for invalid input; every message says what was found, why it matters and what to do."""

from typing import ClassVar

BAD_INPUT, IO_ERROR, NO_RESOURCES = 2, 74, 75  # exit codes; 74 and 75 as in sysexits.h
MOST_LINES, MOST_SIGNS = 30, 1000  # of a message, and of one of its lines: what was found may be a whole file


class CreditscopeError(Exception):
    """Something about the input would make the result wrong; the command line exits with 2.

    >>> import creditscope
    >>> try:
    ...     creditscope.explain("D1x")
    ... except creditscope.CreditscopeError as error:
    ...     print(type(error).__name__)
    UnknownName
    """

    exit_code: ClassVar[int] = BAD_INPUT

    def __str__(self) -> str:
        return shortened(super().__str__())


class UnknownName(CreditscopeError):
    """A name that no registry, option table or module tree knows."""


class InvalidInput(CreditscopeError):
    """Batches, labels, accuracies or options that cannot be what they claim to be."""


class FunctionFailed(InvalidInput):
    """A function that the user passed in raised an error, which is the cause of this one."""


class ModelMismatch(CreditscopeError):
    """A model whose stream of states cannot be found or read."""


class AmbiguousStream(ModelMismatch):
    """A model with several runs of blocks that could be its stream; `runs` are the names of the blocks of each."""

    def __init__(self, message: str, runs: tuple[tuple[str, ...], ...]) -> None:
        super().__init__(message)
        self.runs = runs


class NotTheGradient(CreditscopeError):
    """A backward pass that is not the gradient of the forward pass."""


class NotDeterministic(CreditscopeError):
    """A model that answers the same input twice in two ways."""


class ModelChanged(CreditscopeError):
    """A model whose weights, gradients, modules or hooks changed while it was measured; it has been put back."""


class BadFile(CreditscopeError):
    """A file that is missing, damaged, of another version, or not safe to load."""


class DamagedFile(BadFile):
    """A file whose content is not what creditscope wrote: cut off, changed, or of another kind."""


class NoRoom(BadFile):
    """A disk or an output that is full or broken: with room again, the same command resumes."""

    exit_code = IO_ERROR


class OutOfResources(CreditscopeError):
    """Memory, processes or open files ran out: with more of them, the same command resumes."""

    exit_code = NO_RESOURCES


class DataUnavailable(CreditscopeError):
    """A dataset that is not on disk and not downloadable."""


def shortened(text: str) -> str:
    """A message of at most 30 lines; the last ones stay, since they say what to do."""
    lines = [line if len(line) <= MOST_SIGNS else f"{line[:MOST_SIGNS]} [...]" for line in text.split("\n")]
    if len(lines) > MOST_LINES:
        tail = 4
        head = MOST_LINES - tail - 1
        lines = [*lines[:head], f"[... {len(lines) - head - tail:,} more lines]", *lines[-tail:]]
    return "\n".join(lines)
