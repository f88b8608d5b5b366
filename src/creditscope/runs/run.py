"""Training a RunSpec into a checkpoint or a folder, and loading a checkpoint from its folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path

import torch

from creditscope.arguments import as_device, as_path, check_flags
from creditscope.batch import Batch
from creditscope.control import Control
from creditscope.datasets import datasets
from creditscope.datasets.tensors import Dataset
from creditscope.errors import DamagedFile, InvalidInput
from creditscope.methods import methods
from creditscope.methods.adapted import adapted
from creditscope.methods.loss import LOSSES
from creditscope.methods.rule import CreditRule, run_generator
from creditscope.methods.wrappers import wrapped
from creditscope.networks import networks
from creditscope.networks.build import build
from creditscope.networks.sizes import IN_TRAINING, check_options, check_size
from creditscope.networks.staged import StagedNetwork
from creditscope.plugins import check_vouched, load_plugin, vouch
from creditscope.records.folder import RECORD, remove_snapshots, snapshot_path, weights_damage
from creditscope.records.run import HistoryRow, RunRecord
from creditscope.runs.spec import RunSpec, read_spec
from creditscope.training.checkpoint import Checkpoint, read_tensors, restored
from creditscope.training.fit import fit
from creditscope.training.recipe import Recipe
from creditscope.training.weights import load_weights


def load_plugins(spec: RunSpec) -> None:
    """Import the modules that register what a run names: a run that the user declared, not one read from a file."""
    vouch(spec.modules)
    for plugin in spec.plugins:
        load_plugin(plugin)


@contextmanager
def computing_with(threads: int) -> Iterator[None]:
    """So many threads of PyTorch inside the block: sums round otherwise with another number of them."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def make_rule(spec: RunSpec) -> CreditRule:
    """The rule of a run, with its wrappers."""
    spec.resolved()  # refuses unknown options with the nearest name
    _check_network(spec)
    return wrapped(methods[spec.method](**spec.method_options), penalty=spec.penalty, control=spec.control)


def _check_network(spec: RunSpec) -> None:
    """Refuse a method or a rung that the network does not support; a plugin's network is checked when it is built."""
    supported, ours = methods[spec.method].networks, networks[spec.network].__module__.startswith("creditscope.")
    if supported is not None and ours and spec.network not in supported:
        raise InvalidInput(
            f"The method {spec.method!r} does not support the network {spec.network!r}.\n"
            f"It cannot give credit to its states. Use {' or '.join(map(repr, supported))}, or another method."
        )
    depth = spec.setting("network.depth")
    if isinstance(depth, int):
        Control.parse(spec.control).check(depth)


def check_network_options(spec: RunSpec) -> None:
    """Refuse options with which the network cannot be made or trained here, before any data are loaded."""
    check_options(spec.network, spec.network_options)


def make_network(spec: RunSpec, data: Dataset) -> StagedNetwork:
    """The untrained network of a run, drawn from its seed; a model that is not ours is run once, to find its blocks."""
    built = build(spec.network, data.shape, data.classes, spec.seed, **spec.network_options)
    network = adapted(built, data.example.inputs)
    network.loss_fn = LOSSES[spec.loss]
    return network


def make_recipe(spec: RunSpec) -> Recipe:
    """The recipe of a run."""
    return Recipe(**{field.name: getattr(spec, field.name) for field in fields(Recipe)})


def load_data(spec: RunSpec, folder: Path | None = None) -> Dataset:
    """The dataset of a run; read once per process."""
    return _data(spec.data, tuple(sorted(spec.data_options.items())), folder, os.environ.get("CREDITSCOPE_DATA"))


@lru_cache(maxsize=2)
def _data(name: str, options: tuple[tuple[str, object], ...], folder: Path | None, variable: str | None) -> Dataset:
    return datasets[name](folder, **dict(options))


def train(
    spec: RunSpec,
    *,
    data_folder: Path | None = None,
    device: str = "cpu",
    on_epoch: Callable[[HistoryRow], None] | None = None,
    snapshot: Path | None = None,
    snapshot_seconds: float = 30.0,
) -> Checkpoint:
    """Run a spec from its seed to its checkpoint."""
    load_plugins(spec)
    data = load_data(spec, data_folder)
    rule = make_rule(spec)
    network = make_network(spec, data).to(device)
    with computing_with(spec.threads):
        checkpoint = fit(
            network,
            rule,
            data,
            make_recipe(spec),
            seed=spec.seed,
            on_epoch=on_epoch,
            spec=spec.model_dump(mode="json"),
            resolved=spec.settings(defaults=True),
            snapshot=snapshot,
            snapshot_seconds=snapshot_seconds,
        )
    return keyed(checkpoint, spec)


def keyed(checkpoint: Checkpoint, spec: RunSpec) -> Checkpoint:
    """The checkpoint with the key of its spec in its record."""
    record = checkpoint.record.model_copy(update={"key": spec.key, "revisions": spec.revisions})
    return replace(checkpoint, record=record)


def finished(folder: Path, spec: RunSpec) -> RunRecord | None:
    """The record of a run that its folder already holds; a folder that holds another run is refused.

    A damaged record or weights that are not its own raise a DamagedFile: `set_aside` makes room for the run.
    """
    if not (folder / RECORD).exists():
        return None
    record = RunRecord.from_json(folder / RECORD)
    if record.key != spec.key:
        raise InvalidInput(
            f"{folder} holds another run: key {record.key}, this one is {spec.key}.\n"
            "It would be overwritten. Choose another --out, or remove the folder."
        )
    reason = weights_damage(folder)
    if reason:
        raise DamagedFile(f"{reason}.\nThe run in {folder} cannot be trusted. Train it again.")
    return record


def train_into(
    folder: Path,
    spec: RunSpec,
    *,
    data_folder: Path | None = None,
    device: str = "cpu",
    on_epoch: Callable[[HistoryRow], None] | None = None,
) -> RunRecord:
    """Train a run into its folder; an interrupted run resumes from its snapshot."""
    snapshot = snapshot_path(folder)
    checkpoint = train(spec, data_folder=data_folder, device=device, on_epoch=on_epoch, snapshot=snapshot)
    checkpoint.save(folder)
    remove_snapshots(snapshot)
    return checkpoint.record


def check(spec: RunSpec, *, data_folder: Path | None = None) -> None:
    """Refuse a run that cannot be trained, for example for a rung that its ladder does not have."""
    spec.resolved()
    load_plugins(spec)
    data, rule = load_data(spec, data_folder), make_rule(spec)
    check_size(spec.network, data.shape, data.classes, spec.network_options, copies=IN_TRAINING)
    rule.scope(rule.prepare(make_network(spec, data), data.example))


def load(
    folder: Path | str, *, data_folder: Path | None = None, device: str = "cpu", trust_plugins: bool = False
) -> Checkpoint:
    """A checkpoint from its folder: the network rebuilt from the spec, weights and feedback from the file.

    A record that is not what was written, a key that is not its spec's, or weights that are not its own are refused.
    Modules that the record names are imported only if the user named them before, or with `trust_plugins`.

    Where feedback or auxiliary networks are missing from the file the network still loads; its credit is not available.

    >>> import creditscope, tempfile
    >>> from creditscope.runs.run import train
    >>> from creditscope.runs.spec import RunSpec
    >>> spec = RunSpec(method="dfa", epochs=1, network_options={"d": 8, "depth": 1})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = creditscope.load(train(spec).save(folder))
    >>> checkpoint.rule.name, checkpoint.missing
    ('dfa', ())
    """
    folder = as_path(folder)
    data_folder = None if data_folder is None else as_path(data_folder)
    check_flags(trust_plugins=trust_plugins)
    place = as_device(device)
    record = RunRecord.from_json(folder / RECORD)
    spec = read_spec(record, str(folder / RECORD))
    if not trust_plugins:
        check_vouched(spec.modules, str(folder / RECORD))
    load_plugins(spec)
    check_binding(record, spec, folder)
    data, rule, parts = load_data(spec, data_folder), make_rule(spec), read_tensors(folder)
    if record.data_checksum and record.data_checksum != data.checksum:
        raise InvalidInput(
            f"{folder} was trained on other data than {spec.data} holds here: checksum {record.data_checksum[:16]}, "
            f"not {data.checksum[:16]}.\nIts accuracy and its gradients would be of another task. Restore the data "
            "that it was trained on, or train it again."
        )
    example = data.example
    network = rule.prepare(make_network(spec, data), example)
    load_weights(network.own, parts["network"], str(folder))
    feedback, missing = restored(rule.feedback(network, example, run_generator(spec.seed)), parts, str(folder))
    network.to(place)
    example = Batch(example.inputs.to(place), example.labels.to(place))
    return Checkpoint(network, rule, feedback.to(place), record, example, missing)


def check_binding(record: RunRecord, spec: RunSpec, folder: Path) -> None:
    """Refuse a record whose key is not that of its spec, and weights that are not those of the record."""
    same_revisions = (record.revisions or dict.fromkeys(spec.revisions, 1)) == spec.revisions
    if record.key and same_revisions and record.key != spec.key:
        raise DamagedFile(
            f"{folder / RECORD} has the key {record.key}, but its spec is that of the run {spec.key}: {spec.title}.\n"
            "It was edited, or put together from two runs. Restore the folder, or train the run again."
        )
    reason = weights_damage(folder)
    if reason:
        raise DamagedFile(f"{reason}.\nAn audit would be of another network. Restore the file, or train the run again.")
