"""CreditscopeCallback: runs a Monitor inside a Lightning training run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from creditscope.monitoring.adapters import LightningLogger
from creditscope.monitoring.callback import WatchingCallback, base_class, check_installed

Callback: Any = base_class("Callback", "lightning.pytorch.callbacks", "pytorch_lightning.callbacks")


class CreditscopeCallback(WatchingCallback, Callback):  # type: ignore[misc]  # without Lightning it says what to install
    """Measures after every training epoch, logs every number as creditscope/..., and can stop the run.

    batches  as for `Monitor`; held-out images, not the ones trained on
    module   path of the network inside the LightningModule; the LightningModule itself if not given
    stop     stop the run once a failure mode of protocol strict is shown
    options  all other arguments of `Monitor`: every, credit, logger, blocks, read, loss_fn, on_firing and so on

    The run's own loggers get the numbers and the alarms; those that can store files get the report too.

    >>> import creditscope, torch
    >>> held_out = [(torch.zeros(8, 6), torch.arange(8) % 3)]
    >>> callback = creditscope.CreditscopeCallback(held_out, stop=True)  # for Trainer(callbacks=[callback])
    """

    def __init__(self, batches: Iterable[Any], *, module: str = "", stop: bool = False, **options: Any) -> None:
        check_installed(Callback, "Lightning", "lightning")
        super().__init__(batches, module=module, stop=stop, **options)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Measure, log, and stop the run if requested."""
        loggers = [LightningLogger(logger) for logger in trainer.loggers]
        if self._watched(pl_module, trainer.current_epoch, trainer.global_step, loggers):
            trainer.should_stop = True
