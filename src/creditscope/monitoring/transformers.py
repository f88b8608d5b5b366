"""CreditscopeCallback: runs a Monitor inside a training run of transformers' Trainer."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from creditscope.monitoring.callback import WatchingCallback, base_class, check_installed

TrainerCallback: Any = base_class("TrainerCallback", "transformers")


class CreditscopeCallback(WatchingCallback, TrainerCallback):  # type: ignore[misc]  # else it says what to install
    """Measures after every training epoch, and can stop the run.

    batches  as for `Monitor`: (inputs, labels), or dictionaries with "labels"; held out, not the ones trained on
    module   path of the network inside the model of the Trainer; that model itself if not given
    stop     stop the run once a failure mode of protocol strict is shown
    options  all other arguments of `Monitor`: every, credit, logger, blocks, read, loss_fn, on_firing and so on

    A callback does not know its Trainer. With logger=trainer, whatever the Trainer reports to gets the numbers:

    >>> from creditscope.monitoring.transformers import CreditscopeCallback
    >>> def watch(trainer, held_out):
    ...     trainer.add_callback(CreditscopeCallback(held_out, logger=trainer, stop=True))
    """

    def __init__(self, batches: Iterable[Any], *, module: str = "", stop: bool = False, **options: Any) -> None:
        check_installed(TrainerCallback, "transformers", "transformers")
        super().__init__(batches, module=module, stop=stop, **options)

    def on_epoch_end(self, args: Any, state: Any, control: Any, *, model: Any, **others: Any) -> None:
        """Measure, log, and stop the run if requested; epochs count from 0."""
        if self._watched(model, math.ceil(state.epoch) - 1, state.global_step, ()):
            control.should_training_stop = True
