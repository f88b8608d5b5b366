"""WatchingCallback: what the callbacks of Lightning and of transformers have in common."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import Any

from torch import nn

from creditscope.errors import InvalidInput
from creditscope.monitoring.monitor import Monitor


class WatchingCallback:
    """Makes a Monitor when the model is known, and steps it after every epoch.

    batches  as for `Monitor`; held-out images, not the ones trained on
    module   path of the network inside the model that is trained; that model itself if not given
    stop     stop the run once a failure mode of protocol strict is shown
    options  all other arguments of `Monitor`: every, credit, logger, blocks, read, loss_fn, on_firing and so on
    """

    monitor: Monitor | None = None

    def __init__(self, batches: Iterable[Any], *, module: str = "", stop: bool = False, **options: Any) -> None:
        super().__init__()
        self._batches, self._module, self._stop, self._options = batches, module, stop, options

    def _watched(self, model: nn.Module, epoch: int, log_step: int, loggers: Sequence[Any]) -> bool:
        """Measure, log beside the user's own logger to `loggers`, and say whether the run is to be stopped."""
        if self.monitor is None:
            own = self._options.get("logger")
            given = () if own is None else own if isinstance(own, list | tuple) else (own,)
            network = model.get_submodule(self._module) if self._module else model
            self.monitor = Monitor(network, self._batches, **{**self._options, "logger": [*loggers, *given]})
        self.monitor.step(epoch, log_step=log_step)
        return self._stop and self.monitor.should_stop


def base_class(name: str, *modules: str) -> Any:
    """A class of another package, from the first module that has it; `object` if the package is not installed."""
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except ImportError:
            continue
    return object


def check_installed(base: type, package: str, extra: str) -> None:
    """Refuse a callback whose package is not installed."""
    if base is object:
        raise InvalidInput(
            f"{package} is not installed.\nThe callback cannot be used. Install the extra: pip install "
            f"'creditscope[{extra}]'."
        )
