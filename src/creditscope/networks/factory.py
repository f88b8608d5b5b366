"""Networks of other people's making: `package.module:factory` in place of a registered name."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from creditscope.errors import CreditscopeError, InvalidInput
from creditscope.plugins import named_object
from creditscope.randomness import forked_rng


class Factory:
    """A function or class that returns a model, as an entry among the networks.

    It is called with its options by keyword and nothing else, while PyTorch's global generator is seeded from the run's
    seed: a factory that draws its weights as usual gives the same model for the same seed. Its options are its keyword
    arguments whose default is a number, a text, true or false, or a tuple of these.
    """

    revision = 1
    summary = ""

    def __init__(self, path: str) -> None:
        self.path = path
        self._make = named_object(path)
        if not callable(self._make) or isinstance(self._make, nn.Module):
            raise InvalidInput(
                f"{path} is a {type(self._make).__name__}, not a function that returns a network.\n"
                "Every run and every control needs an untrained network of its own. Name a function or a class."
            )
        self.__module__ = path.partition(":")[0]

    @property
    def __signature__(self) -> inspect.Signature:
        """Shape and classes, which are not passed on, then the options."""
        passed = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in ("inputs", "classes")]
        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in inspect.signature(self._make).parameters.values()
            if isinstance(parameter.default, bool | int | float | str | tuple)
        ]
        return inspect.Signature([*passed, *own])

    def __call__(self, inputs: object, classes: int, *, generator: torch.Generator, **options: Any) -> nn.Module:
        """An untrained model, drawn from the seed of the generator."""
        with forked_rng():
            torch.manual_seed(generator.initial_seed())
            try:
                model = self._make(**options)
            except CreditscopeError:
                raise
            except Exception as error:
                raise InvalidInput(
                    f"{self.path} failed when called with {options or 'no options'}: {type(error).__name__}: {error}\n"
                    "There is no network to train. Give every argument a default, or pass it as an option."
                ) from error
        if not isinstance(model, nn.Module):
            raise InvalidInput(
                f"{self.path} returned a {type(model).__name__}, not a torch.nn.Module.\n"
                "Only a network can be trained. Return the network itself."
            )
        return model
