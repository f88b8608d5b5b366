"""Exceptions raised for invalid input; every message says what was found, why it matters and what to do."""

from typing import ClassVar

BAD_INPUT, IO_ERROR, NO_RESOURCES = 2, 74, 75  # exit codes; 74 and 75 as in sysexits.h


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
    """A model whose weights, gradients or modules changed while it was measured; it has been put back."""


class BadFile(CreditscopeError):
    """A file that is missing, damaged, of another version, or not safe to load."""


class NoRoom(BadFile):
    """A disk or an output that is full or broken: with room again, the same command resumes."""

    exit_code = IO_ERROR


class OutOfResources(CreditscopeError):
    """Memory, processes or open files ran out: with more of them, the same command resumes."""

    exit_code = NO_RESOURCES


class DataUnavailable(CreditscopeError):
    """A dataset that is not on disk and not downloadable."""
