"""AdamW whose steps on the CPU go straight to PyTorch's fused kernel."""

from __future__ import annotations

from collections.abc import Callable
from inspect import unwrap
from typing import Any

import torch


class FusedAdamW(torch.optim.AdamW):
    """PyTorch's fused AdamW: same kernel, same state, same numbers.

    PyTorch sorts the parameters by device and precision before every step, which takes as long as the kernel on a
    small network. Here that is skipped where all of them are on the CPU in one precision. The first step, which makes
    the state, is PyTorch's own.

    PyTorch keeps four methods from its compiler, which it imports for that: two seconds of every process that trains.
    Nothing is compiled here, so they are taken as they are.
    """

    _whole_step = unwrap(torch.optim.AdamW.step)
    add_param_group = unwrap(torch.optim.Optimizer.add_param_group)
    state_dict = unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = unwrap(torch.optim.Optimizer.load_state_dict)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of every parameter that has a gradient."""
        (group, *others) = self.param_groups
        parameters = [p for p in group["params"] if p.grad is not None]
        state = [self.state.get(p, {}) for p in parameters]
        alike = {(p.device.type, p.dtype) for p in parameters} | {("cpu", torch.float32)}
        if closure is not None or others or len(alike) > 1 or not all(state) or group["amsgrad"] or group["maximize"]:
            return self._whole_step(closure)
        counts = [own["step"] for own in state]
        torch._foreach_add_(counts, 1)
        beta1, beta2 = group["betas"]
        torch._fused_adamw_(
            parameters,
            [p.grad for p in parameters],
            [own["exp_avg"] for own in state],
            [own["exp_avg_sq"] for own in state],
            [],
            counts,
            lr=group["lr"],
            beta1=beta1,
            beta2=beta2,
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
        )
        return None
