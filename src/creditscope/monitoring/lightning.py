"""CreditscopeCallback: runs a Monitor inside a Lightning training run."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from creditscope.errors import InvalidInput
from creditscope.monitoring.monitor import Monitor, Row


def _callback() -> Any:
    """Lightning's base class, under its new or old package name; None if Lightning is not installed."""
    for name in ("lightning.pytorch.callbacks", "pytorch_lightning.callbacks"):
        try:
            return importlib.import_module(name).Callback
        except ImportError:
            continue
    return None


Callback: Any = _callback()


class CreditscopeCallback(Callback or object):  # type: ignore[misc]  # without Lightning it explains what is missing
    """Measures after every training epoch, logs every number as creditscope/..., and can stop the run.

    batches  as for `Monitor`; held-out images, not the ones trained on
    module   path of the network inside the LightningModule; the LightningModule itself if not given
    stop     stop the run once a failure mode of protocol strict is shown
    options  all other arguments of `Monitor`: every, credit, blocks, read, loss_fn, on_firing and so on

    >>> import creditscope, torch
    >>> held_out = [(torch.zeros(8, 6), torch.arange(8) % 3)]
    >>> callback = creditscope.CreditscopeCallback(held_out, stop=True)  # for Trainer(callbacks=[callback])
    """

    def __init__(self, batches: Iterable[Any], *, module: str = "", stop: bool = False, **options: Any) -> None:
        if Callback is None:
            raise InvalidInput(
                "Lightning is not installed.\n"
                "The callback cannot be used. Install the extra: pip install 'creditscope[lightning]'."
            )
        super().__init__()
        self._batches, self._module, self._stop, self._options = batches, module, stop, options
        self.monitor: Monitor | None = None

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Measure, log, and stop the run if requested."""
        if self.monitor is None:
            model = pl_module.get_submodule(self._module) if self._module else pl_module
            self.monitor = Monitor(model, self._batches, **self._options)
        row = self.monitor.step(trainer.current_epoch)
        if row is not None:
            self._log(trainer, row)
        if self._stop and self.monitor.should_stop:
            trainer.should_stop = True

    def _log(self, trainer: Any, row: Row) -> None:
        numbers = {f"creditscope/{name}": value for name, value in row.scalars().items()}
        for logger in trainer.loggers:
            logger.log_metrics(numbers, step=trainer.global_step)
