"""A stack of runs: one network whose every tensor holds those of all runs, stepped together."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.datasets.augment import Shifts
from creditscope.methods.descent import laid_out
from creditscope.methods.rule import Feedback, Scope
from creditscope.networks.staged import StagedNetwork
from creditscope.randomness import forked_rng
from creditscope.training.run import Run
from creditscope.training.stacked import Numbers, Stacked, Unstackable

TOLERANCE = 1e-5  # of the largest gradient of a tensor: how far a stacked step may be from the single one


def form(run: Run) -> tuple[Any, ...]:
    """What runs of one stack have in common: all but seed, learning rate, size of the penalty and feedback."""
    inner, scope = run.rule.innermost, run.rule.scope(run.network)
    options: dict[str, Any] = asdict(inner) if is_dataclass(inner) else {}
    return (
        type(run.network.own),
        tuple((name, tensor.shape, tensor.dtype) for name, tensor in run.network.state_dict().items()),
        tuple(p.requires_grad for p in run.network.parameters()),
        type(inner),
        tuple(sorted((name, repr(value)) for name, value in options.items() if name not in inner.drawing)),
        (scope.trained, bool(scope.penalty), run.network.loss_fn),
        replace(run.recipe, learning_rate=1.0),
        tuple((name, tensor.shape) for name, tensor in run.feedback.tensors.items()),
    )


@dataclass(frozen=True, slots=True)
class Stack:
    """Runs of one form, trained as one network; each keeps its own optimiser, generator, order of samples and history.

    network   a copy of the first run's, with stacked tensors; the runs' own networks share their memory
    """

    runs: Sequence[Run]
    network: StagedNetwork
    feedback: Feedback
    scope: Scope

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Stack:
        """Join runs of one form; Unstackable if a step of the stack is not that of every run."""
        names = runs[0].feedback.tensors
        feedback = Feedback({name: Stacked.of([run.feedback.tensors[name] for run in runs]) for name in names})
        scopes = [run.rule.scope(run.network) for run in runs]
        penalties = [scope.penalty for scope in scopes]
        penalty: Any = penalties[0] if len(set(penalties)) == 1 else Numbers(penalties)
        network = copy.deepcopy(runs[0].network)
        stack = cls(runs, network, feedback, replace(scopes[0], penalty=penalty))
        try:
            _share(network, [run.network for run in runs])
            stack.check()
        except BaseException:
            stack.dissolve()
            raise
        return stack

    def credit(self, batch: Batch) -> Credit:
        """The credit of every run for its own batch, by the rule that trains one."""
        return self.runs[0].rule.innermost.credit(self.network, self.feedback, batch, self.scope)

    def check(self) -> None:
        """Compare a step of the stack with the same step of each run, and leave all of them as they were.

        What no list can foresee shows here: a network that draws random numbers, or that differs from the others of its
        stack in something besides its tensors.
        """
        kept = {name: tensor.clone() for name, tensor in self.network.named_buffers()}
        batches = [first_batch(run) for run in self.runs]
        together = Batch(*(Stacked.of(parts) for parts in zip(*batches, strict=True)))
        self.network.train()  # measurements at the end of an epoch leave a run in evaluation mode
        try:
            with forked_rng():
                found = {name: _each(gradient) for name, gradient in self.credit(together).gradients.items()}
                _restore(self.network, kept)
                for index, (run, batch) in enumerate(zip(self.runs, batches, strict=True)):
                    run.network.train()
                    alone = run.rule.credit(run.network, run.feedback, batch, run.rule.scope(run.network)).gradients
                    _compare({name: parts[index] for name, parts in found.items()}, alone)
        except RuntimeError as error:  # of torch.vmap
            raise Unstackable(str(error).partition("\n")[0]) from error
        finally:
            _restore(self.network, kept)

    def epoch(self) -> None:
        """One epoch of every run; each adds a row to its history."""
        for run in self.runs:
            run.open()
        judgements = self.steps()
        losses = [_each(loss) for loss, _ in judgements]
        auxiliary = [{name: _each(tensor) for name, tensor in named.items()} for _, named in judgements]
        for index, run in enumerate(self.runs):
            named = [{name: parts[index] for name, parts in row.items()} for row in auxiliary]
            run.close([parts[index] for parts in losses], named)

    def steps(self) -> list[tuple[Tensor, Mapping[str, Tensor]]]:
        """One update of every run per batch; the losses, and those of what learns alongside."""
        self.network.train()
        learning = [run.rule.scope(run.network).parameters(run.network) for run in self.runs]
        judgements: list[tuple[Tensor, Mapping[str, Tensor]]] = []
        for batch in self._batches():
            credit = self.credit(batch)
            gradients = {name: _each(gradient) for name, gradient in credit.gradients.items()}
            for index, (run, own) in enumerate(zip(self.runs, learning, strict=True)):
                for name, parameter in own.items():
                    parts = gradients.get(name)
                    parameter.grad = None if parts is None else laid_out(parts[index], parameter)
                run.optimiser.step()
            judgements.append((credit.loss, credit.auxiliary))
        return judgements

    def _batches(self) -> Iterator[Batch]:
        """The batches that the runs would take alone, each in the order and with the crops of its own generator."""
        size, data = self.runs[0].recipe.batch_size, self.runs[0].data
        labels = [run.data.train.labels for run in self.runs]
        orders = [torch.randperm(len(labels[0]), generator=run.generator) for run in self.runs]
        for start in range(0, len(labels[0]) - size + 1, size):
            chosen = torch.cat([order[start : start + size] for order in orders])
            drawn = [data.draw_shifts(size, run.generator) for run in self.runs]
            shifts = None if drawn[0] is None else Shifts(*map(torch.cat, zip(*drawn, strict=True)))
            inputs, own = data.gather(chosen, shifts)
            if any(part is not labels[0] for part in labels):  # drawn at random for each run
                picks = zip(labels, chosen.view(len(labels), size), strict=True)
                own = torch.cat([part.index_select(0, pick.to(part.device)) for part, pick in picks])
            yield Batch(*(Stacked(part.view(len(self.runs), size, *part.shape[1:])) for part in (inputs, own)))

    def dissolve(self) -> None:
        """Give every run memory of its own again."""
        for run in self.runs:
            for tensor in (*run.network.parameters(), *run.network.buffers()):
                tensor.data = tensor.data.clone()


def _share(network: nn.Module, networks: Sequence[nn.Module]) -> None:
    """Put stacks in place of a network's tensors, and let the tensors of the others be views of them."""
    stacks: dict[int, Stacked] = {}
    for module, *own in zip(network.modules(), *(one.modules() for one in networks), strict=True):
        for kind in ("_parameters", "_buffers"):
            tensors: dict[str, Tensor | None] = getattr(module, kind)
            for name, tensor in tensors.items():
                if tensor is None:
                    continue
                parts = [getattr(one, kind)[name] for one in own]
                if id(tensor) not in stacks:
                    stack = stacks[id(tensor)] = Stacked.of(parts, learns=tensor.requires_grad)
                    for part, place in zip(parts, stack.together.detach().unbind(0), strict=True):
                        part.data = place
                tensors[name] = stacks[id(tensor)]


def _each(tensor: Tensor) -> tuple[Tensor, ...]:
    """The parts of a stack; Unstackable if a tensor belongs to no run."""
    if not isinstance(tensor, Stacked):
        raise Unstackable("the rule returned a tensor that belongs to no run")
    return tensor.each


def first_batch(run: Run) -> Batch:
    """The first samples of the training set, not augmented."""
    return run.data.gather(torch.arange(run.recipe.batch_size), None)


def _restore(network: nn.Module, kept: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, buffer in network.named_buffers():
            buffer.copy_(kept[name])


def _compare(stacked: Mapping[str, Tensor], alone: Mapping[str, Tensor]) -> None:
    """Refuse gradients that are not those of the single run."""
    if stacked.keys() != alone.keys():
        raise Unstackable(f"a stack gives gradients to other parameters: {sorted(stacked.keys() ^ alone.keys())}")
    for name, gradient in alone.items():
        bound = TOLERANCE * gradient.abs().max().item()
        if not torch.allclose(stacked[name], gradient, rtol=0.0, atol=bound, equal_nan=True):
            raise Unstackable(f"in a stack the gradient of {name} is another one than alone")
