"""audit_arrays(): the numbers of an audit of the network itself, as far as arrays allow."""

from __future__ import annotations

import io
import weakref
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tests.foreign_models import CLASSES, FEATURES, Tokens, batches, images
from torch import Tensor, nn

import creditscope
from creditscope.auditing.array_ledger import stages_of
from creditscope.batch import Batch
from creditscope.errors import BadFile, CreditscopeError, InvalidInput
from creditscope.networks.build import build
from creditscope.records.report import Report
from creditscope.stream.find import find_stream
from creditscope.stream.trace import LossFunction, capture, cross_entropy
from creditscope.verdict import Reason, Status

NEEDS_NETWORK = ("D6", "D7", "D8", "D9", "D10")


def network() -> nn.Module:
    return build("resmlp", FEATURES, CLASSES, 0, d=8, depth=3, w2_std=0.3).eval()


def crooked(states: tuple[Tensor, ...], gradients: tuple[Tensor, ...]) -> list[Tensor]:
    """Some credit: partly the gradient, partly the state."""
    return [g + 0.01 * layer * h for layer, (h, g) in enumerate(zip(states, gradients, strict=True))]


def dumped(
    model: nn.Module, batch: Batch, loss_fn: LossFunction = cross_entropy, blocks: str | None = None
) -> dict[str, Any]:
    """What a library would have dumped for a batch."""
    trace = capture(find_stream(model, blocks), batch, loss_fn)
    layers = {"h": trace.hiddens, "g": trace.gradients, "a": crooked(trace.hiddens, trace.gradients)}
    arrays = {f"{letter}_{layer}": t.numpy() for letter, ts in layers.items() for layer, t in enumerate(ts)}
    return {**arrays, "logits": trace.logits.numpy(), "labels": batch.labels.numpy()}


def without(arrays: dict[str, Any], *gone: str) -> dict[str, Any]:
    return {name: array for name, array in arrays.items() if name not in gone and name.partition("_")[0] not in gone}


def same_numbers(ours: Report, theirs: Report) -> None:
    """Every finding that arrays allow, and every measure, agrees in all its numbers."""
    for code, finding in ours.findings.items():
        if code not in NEEDS_NETWORK:
            assert (finding.status, finding.measurement) == (
                theirs.findings[code].status,
                theirs.findings[code].measurement,
            )
    for name, measure in ours.measures.items():
        assert measure == theirs.measures[name]
    assert (ours.verdict.text, ours.accuracy) == (theirs.verdict.text, theirs.accuracy)
    assert ours.subject.widths == theirs.subject.widths


def test_arrays_give_the_numbers_of_the_network_itself() -> None:
    model, data = network(), batches(3, 100)
    stream = find_stream(model)

    def credit(batch: Batch) -> list[Tensor]:
        trace = capture(stream, batch)
        return crooked(trace.hiddens, trace.gradients)

    theirs = creditscope.audit(model, data, credit=credit, control_accuracy=0.1)
    ours = creditscope.audit_arrays((dumped(model, batch) for batch in data), control_accuracy=0.1, name="from JAX")
    same_numbers(ours, theirs)
    assert {"gamma", "gamma_clamped", "gamma_clamped_mean", "gain"} <= set(ours.measures)
    assert (ours.subject.name, ours.subject.model, ours.provenance.images) == ("from JAX", "arrays", 300)
    for code in NEEDS_NETWORK:
        assert ours.findings[code].status is Status.SKIPPED
        assert "needs the network, not only its arrays" in ours.findings[code].note
    guard = ours.provenance.guards["gradient"]
    assert (guard.passed, "taken on trust" in guard.text) == (False, True)


def test_tokens_are_read_where_the_gradient_says_that_they_are() -> None:
    model, data = Tokens().eval(), batches(2, 8, shape=(4, FEATURES))
    theirs = creditscope.audit(model, data, blocks="layers", check_gradient=False)
    ours = creditscope.audit_arrays(without(dumped(model, batch, blocks="layers"), "a") for batch in data)
    same_numbers(ours, theirs)
    assert ours.provenance.read == theirs.provenance.read == "first"
    last = [{**arrays, "g_2": arrays["g_2"][:, ::-1]} for arrays in (dumped(model, data[0], blocks="layers"),)]
    assert creditscope.audit_arrays(last).provenance.read == "-1"
    each = dumped(model, data[0], blocks="layers")
    each["g_2"] = each["g_2"] + 1
    assert creditscope.audit_arrays(each).provenance.read == "mean"


def test_another_loss_comes_with_its_own_errors() -> None:
    model, batch = network(), images(40)

    def squared(logits: Tensor, labels: Tensor) -> Tensor:
        return (logits - F.one_hot(labels, CLASSES)).square().sum(1)

    theirs = creditscope.audit(model, [batch], loss_fn=squared)
    arrays = without(dumped(model, batch, squared), "a")
    errors = 2 * (arrays["logits"] - F.one_hot(batch.labels, CLASSES).numpy())
    ours = creditscope.audit_arrays({**arrays, "e": errors.astype(numpy.float32)})
    for code in ("D1", "D2", "D2:tail", "D11", "D12"):
        assert ours.findings[code].value == pytest.approx(theirs.findings[code].value, rel=1e-5)
    assert ours.accuracy == theirs.accuracy


def test_gradients_of_a_mean_loss_are_multiplied_by_the_batch() -> None:
    arrays = without(dumped(network(), images(50)), "a")
    mean = {name: array / 50 if name[0] == "g" else array for name, array in arrays.items()}
    own, wrong, mended = (
        creditscope.audit_arrays(each, reduction=reduction)
        for each, reduction in ((arrays, "sum"), (mean, "sum"), (mean, "mean"))
    )
    assert wrong.findings["D2"].value == pytest.approx(own.findings["D2"].value / 50)
    for code in ("D1", "D2", "D2:tail", "D11", "D12"):
        assert mended.findings[code].value == pytest.approx(own.findings[code].value, rel=1e-6)
    errors = {**without(mean, "logits", "labels"), "e": mean["logits"]}  # e of the same mean loss is scaled alike
    scaled = creditscope.audit_arrays(errors, reduction="mean").findings["D11"].value
    assert scaled == pytest.approx(creditscope.audit_arrays(errors).findings["D11"].value, rel=1e-6)


class OnlyArray:
    """An array of a library that NumPy knows how to ask."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._values


class OnlyDLPack:
    """An array of a library that only speaks DLPack."""

    def __init__(self, values: Any) -> None:
        self._values = torch.as_tensor(values)

    def __dlpack__(self, **options: Any) -> Any:
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._values.__dlpack_device__()


def readonly(values: Any) -> Any:
    copy = values.copy()
    copy.flags.writeable = False
    return copy


@pytest.mark.parametrize(
    "convert",
    [
        torch.from_numpy,
        OnlyArray,
        OnlyDLPack,
        readonly,
        lambda v: v.astype(v.dtype.newbyteorder(">")),
        lambda v: v.tolist(),
    ],
    ids=["torch", "__array__", "__dlpack__", "read-only", "big-endian", "lists"],
)
def test_any_kind_of_array_is_taken(convert: Any) -> None:
    arrays = dumped(network(), images(16))
    own = creditscope.audit_arrays(arrays)
    other = creditscope.audit_arrays({name: convert(array) for name, array in arrays.items()})
    for code, finding in own.findings.items():
        assert other.findings[code].status == finding.status
        if finding.value is not None:
            assert other.findings[code].value == pytest.approx(finding.value, rel=1e-6, nan_ok=True)


def test_keywords_dicts_and_both_kinds_of_file_hold_the_same_batch(tmp_path: Path) -> None:
    arrays = dumped(network(), images(16))
    numpy.savez(tmp_path / "batch.npz", **arrays)
    numpy.savez_compressed(tmp_path / "small.npz", **arrays)
    save_file({name: torch.from_numpy(array) for name, array in arrays.items()}, tmp_path / "batch.safetensors")
    layers = {letter: [arrays[f"{letter}_{layer}"] for layer in range(4)] for letter in "hga"}
    own = creditscope.audit_arrays(
        hiddens=layers["h"], gradients=layers["g"], credit=layers["a"], logits=arrays["logits"], labels=arrays["labels"]
    )
    for source in (arrays, *tmp_path.iterdir(), str(tmp_path / "batch.npz")):
        same_numbers(creditscope.audit_arrays(source), own)


def test_without_logits_what_needs_the_errors_is_skipped_and_d2_does_not_guess_its_cause() -> None:
    arrays = without(dumped(network(), images(20)), "logits", "labels", "a")
    tiny = {name: array * 1e-9 if name[0] == "g" else array for name, array in arrays.items()}
    report = creditscope.audit_arrays(tiny, accuracy=0.8, control_accuracy=0.3)
    for code in ("D2:tail", "D11", "D12"):
        assert (report.findings[code].status, report.findings[code].reason) == (Status.SKIPPED, Reason.NOT_GIVEN)
        assert "no logits and labels were given" in report.findings[code].note
    reference = report.findings["D2"]
    assert (reference.status, reference.cause) == (Status.FIRES, "")
    assert "no logits were given, so collapsed cannot be told from fitted" in reference.note
    assert "gain" not in report.measures
    assert report.verdict.outcome == "inconclusive"
    assert creditscope.audit_arrays(arrays).findings["D3"].status is Status.SKIPPED


def test_updates_beside_backprop_give_the_cosines_per_tensor_and_per_block() -> None:
    states = without(dumped(network(), images(20)), "a")
    generator = numpy.random.default_rng(0)
    names = ["embed/W", "blocks/0/W", "blocks.1.W", "blocks/2/W", "head/W"]
    bp = {name: generator.standard_normal((3, 4)) for name in names}
    updates = {name: b + generator.standard_normal((3, 4)) for name, b in bp.items()}
    parts = {f"{kind}/{name}": a for kind, named in (("updates", updates), ("bp", bp)) for name, a in named.items()}
    measures = creditscope.audit_arrays({**states, **parts}).measures

    def cosine(*chosen: str) -> float:
        u, b = (numpy.concatenate([side[name].ravel() for name in chosen]) for side in (updates, bp))
        return float(u @ b / numpy.sqrt((u @ u) * (b @ b)))

    found = measures["gamma_update"]
    assert found.per_tensor == pytest.approx({name: cosine(name) for name in names})
    assert found.per_layer == pytest.approx([cosine(name) for name in names[:4]])
    assert measures["gamma_update_whole"].value == pytest.approx(cosine(*names))
    again = creditscope.audit_arrays({**states, **parts}, stages={"head/W": 1}).measures["gamma_update"]
    assert again.per_layer[1] == pytest.approx(cosine("blocks/0/W", "head/W"))
    table = creditscope.audit_arrays({**states, **parts}).updates
    assert table is not None
    assert [(row.name, row.stage) for row in table.tensors] == [(name, stage) for stage, name in enumerate(names)]
    assert "blocks/0/W" in creditscope.audit_arrays({**states, **parts}).to("full")


def test_a_stage_is_known_by_its_name_or_refused() -> None:
    names = ["embedding.weight", "blocks.0.w", "blocks/2/w", "readout/b"]
    assert stages_of(names, None, 3) == {"embedding.weight": 0, "blocks.0.w": 1, "blocks/2/w": 3, "readout/b": 4}
    for name in ("blocks.3.w", "blocks.x.w", "blocks", "scale"):
        with pytest.raises(InvalidInput, match=rf"(?s)The stage of the parameter {name} is not known.*stages="):
            stages_of([name], None, 3)
        assert stages_of([name], {name: 2}, 3) == {name: 2}


def test_layers_that_are_exact_by_construction_are_left_out() -> None:
    arrays = dumped(network(), images(30))
    arrays["a_3"] = arrays["g_3"]
    gamma = creditscope.audit_arrays(arrays).measures["gamma"].per_layer
    report = creditscope.audit_arrays(arrays, exact_layers=[3])
    assert report.exact_layers == (3,)
    assert report.measures["gamma"].value == pytest.approx((gamma[1] + gamma[2]) / 2)


def test_only_one_batch_is_held_at_a_time() -> None:
    model, alive = network(), []

    def stream() -> Iterator[dict[str, Any]]:
        for index in range(6):
            assert all(kept() is None for kept in alive)
            arrays = {name: torch.as_tensor(a) for name, a in dumped(model, images(64, seed=index)).items()}
            alive[:] = [weakref.ref(array) for array in arrays.values()]
            yield arrays
            del arrays

    report = creditscope.audit_arrays(stream())
    assert (report.provenance.images, report.provenance.batches) == (6 * 64, 6)


def changed(**more: Any) -> dict[str, Any]:
    return {**dumped(network(), images(8)), **more}


BAD: list[tuple[Any, str]] = [
    (changed(hidden=1), "an array called 'hidden'"),
    (changed(H_0=1), "an array called 'H_0'"),
    (without(changed(), "h"), "holds no states"),
    (without(changed(), "g"), "holds no gradients"),
    (without(changed(), "h_1"), "holds h_3 but not h_1"),
    (without(changed(), "g_3"), "holds 4 states, but gradients at 3 of them"),
    (changed(a_4=numpy.zeros((8, 8), numpy.float32)), "holds 4 states, but credit at 5 of them"),
    (changed(g_1=numpy.zeros((8, 7), numpy.float32)), "g_1 has shape (8, 7), but h_1 has (8, 8)"),
    (changed(h_2=numpy.zeros((7, 8), numpy.float32)), "8 samples of h_0, but 7 of h_2"),
    (changed(h_0=numpy.zeros((8, 8), numpy.int64)), "has shape (8, 8) and type int64"),
    (changed(h_0=numpy.zeros(8, numpy.float32)), "has shape (8,) and type float32"),
    (changed(h_0=numpy.zeros((8, 8), complex)), "its numbers are of type complex128"),
    (changed(h_0=numpy.array([object()])), "its numbers are of type object"),
    (changed(h_0=numpy.ma.masked_array(numpy.zeros((8, 8)))), "is a masked array"),
    (changed(h_0=torch.zeros(8, 8).to_sparse()), "is a sparse, nested or meta tensor"),
    (changed(h_0=object()), "h_0 is a object that cannot be read"),
    (without(changed(), "labels"), "holds logits without labels"),
    (without(changed(), "logits"), "holds labels without logits"),
    (changed(labels=numpy.zeros(7, int)), "labels has shape (7,), but there are 8 samples"),
    (changed(labels=numpy.full(8, 9)), "labels from 9 to 9, but the model has 5 classes"),
    (changed(labels=numpy.zeros(8)), "not class numbers"),
    ({**changed(), "updates/w": numpy.zeros(3)}, "holds arrays updates/NAME but none bp/NAME"),
    ({**changed(), "updates/w": numpy.zeros(3), "bp/v": numpy.zeros(3)}, "holds updates/w, but no bp/w"),
    ({**changed(), "updates/w": numpy.zeros(3), "bp/w": numpy.zeros(4)}, "bp/w of another shape"),
    ([], "There are no batches"),
    ([changed(), 7], "Batch 1 is a int, neither a file nor a dict"),
    (7, "batches is a int, not an iterable"),
    ([changed(), without({**changed(), "labels": numpy.arange(8) % 5}, "a")], "does not hold the same arrays"),
    ([changed(), changed()], "Batches 0 and 1 hold the same samples"),
    ({f"{letter}_0": numpy.zeros((0, 3)) for letter in "hg"}, "holds no samples"),
]


@pytest.mark.parametrize(("source", "message"), BAD, ids=[message for _, message in BAD])
def test_what_cannot_be_audited_is_refused(source: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        creditscope.audit_arrays(source)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Neither batches nor arrays were given"),
        ({"batches": [], "logits": 1}, "Both batches and arrays were given"),
        ({"hiddens": numpy.zeros((3, 8, 8))}, "hiddens is a ndarray, not a list of arrays"),
        ({"updates": [1]}, "updates is a list, not arrays by parameter name"),
        ({"batches": changed(), "reduction": "none"}, "reduction must be 'sum' or 'mean', got 'none'"),
        ({"batches": changed(), "exact_layers": [4]}, "are not all among the layers 0 to 3"),
        (
            {"batches": {**changed(), "updates/w": numpy.ones(3), "bp/w": numpy.ones(3)}, "stages": {"w": 5}},
            "The stage of the parameter w cannot be 5: there are 0 (embedding) to 4 (read-out)",
        ),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        creditscope.audit_arrays(**options)
    assert message in str(refused.value)


def huge(path: Path) -> None:
    """An archive of a few bytes whose header promises more than any machine holds."""
    header = io.BytesIO()
    numpy.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**14,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("h_0.npy", header.getvalue())


def pickled(path: Path) -> None:
    numpy.savez(path, h_0=numpy.array([{}, {}]))


def damaged(path: Path) -> None:
    numpy.savez(path, **changed())
    path.write_bytes(path.read_bytes()[:-200])


def flipped(path: Path) -> None:
    """One bit of the numbers of an array is not what was written."""
    numpy.savez(path, **changed())
    content = bytearray(path.read_bytes())
    content[400] ^= 1
    path.write_bytes(content)


def short_safetensors(path: Path) -> None:
    save_file({"h_0": torch.zeros(4, 4)}, path)
    path.write_bytes(path.read_bytes()[:-8])


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (huge, "would unpack to 8e+14 bytes"),
        (pickled, "Object arrays cannot be loaded"),
        (damaged, "is not a complete file of arrays"),
        (flipped, "is not a complete file of arrays: Bad CRC-32"),
        (short_safetensors, "is not a complete file of arrays"),
        (lambda path: path.write_text("h_0"), "is neither an npz nor a safetensors file"),
        (lambda path: None, "cannot be read: No such file or directory"),
        (Path.mkdir, "cannot be read: Is a directory"),
    ],
)
def test_a_file_that_cannot_be_trusted_is_refused(tmp_path: Path, write: Any, message: str) -> None:
    path = tmp_path / "batch.npz"
    write(path)
    with pytest.raises(BadFile) as refused:
        creditscope.audit_arrays([path])
    assert message in str(refused.value)
    assert isinstance(refused.value, CreditscopeError)
