"""Exceptions raised for invalid input; every message says what was found, why it matters and what to do."""


class CreditscopeError(Exception):
    """Something about the input would make the result wrong; the command line exits with 2.

    >>> import creditscope
    >>> try:
    ...     creditscope.explain("D1x")
    ... except creditscope.CreditscopeError as error:
    ...     print(type(error).__name__)
    UnknownName
    """


class UnknownName(CreditscopeError):
    """A name that no registry, option table or module tree knows."""


class InvalidInput(CreditscopeError):
    """Batches, labels, accuracies or options that cannot be what they claim to be."""


class ModelMismatch(CreditscopeError):
    """A model whose stream of states cannot be found or read."""


class NotTheGradient(CreditscopeError):
    """A backward pass that is not the gradient of the forward pass."""


class NotDeterministic(CreditscopeError):
    """A model that answers the same input twice in two ways."""


class BadFile(CreditscopeError):
    """A file that is missing, damaged, of another version, or not safe to load."""


class DataUnavailable(CreditscopeError):
    """A dataset that is not on disk and not downloadable."""
