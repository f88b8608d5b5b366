"""Hugging Face's models, made from a configuration, are found by themselves and read as their heads do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.explicit_states import agrees, by_hand, every, first
from tests.foreign_models import unchanged
from torch import Tensor

from creditscope import audit
from creditscope.stream.find import find_stream

pytestmark = [pytest.mark.thirdparty, pytest.mark.filterwarnings("ignore")]

WORDS, CLASSES, LENGTH, CONTROL = 50, 5, 7, 0.1


def bert(kind: str, **options: Any) -> Any:
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=WORDS,
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        num_labels=CLASSES,
        initializer_range=0.3,
        **options,
    )
    return getattr(transformers, kind)(config)


def gpt2(kind: str, **options: Any) -> Any:
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=WORDS, n_positions=16, n_embd=16, n_layer=3, n_head=2, initializer_range=0.3,
        bos_token_id=1, eos_token_id=2, **options,
    )  # fmt: skip
    return getattr(transformers, kind)(config)


def sentences(count: int = 2, size: int = 16) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(3, WORDS, (size, LENGTH), generator=generator) for _ in range(count)]


def onward(state: Tensor, block: Any) -> Tensor:
    out = block(state)
    return out[0] if isinstance(out, tuple) else out


def bert_states(model: Any, ids: Tensor) -> list[Tensor]:
    states = [model.bert.embeddings(input_ids=ids)]
    for layer in model.bert.encoder.layer:
        states.append(onward(states[-1], layer))
    return states


def gpt2_states(model: Any, ids: Tensor) -> list[Tensor]:
    inner = model.transformer
    states = [inner.wte(ids) + inner.wpe(torch.arange(ids.shape[1]))]
    for block in inner.h:
        states.append(onward(states[-1], block))
    return states


def test_bert_for_sentences_is_read_at_its_class_token() -> None:
    model = bert("BertForSequenceClassification")
    given = [(ids, ids[:, 1] % CLASSES) for ids in sentences()]
    with unchanged(model):
        report = audit(model, [({"input_ids": ids}, y) for ids, y in given], control_accuracy=CONTROL)
    assert (report.subject.depth, report.provenance.read) == (3, "first")
    model.eval()

    def walk(ids: Tensor) -> tuple[list[Tensor], Tensor]:
        states = bert_states(model, ids)
        return states, model.classifier(model.bert.pooler(states[-1]))

    agrees(report, by_hand(walk, given, first), CONTROL)


def per_token(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")


def test_bert_for_tokens_is_read_at_every_position() -> None:
    model = bert("BertForTokenClassification")
    given = [(ids, ids % CLASSES) for ids in sentences()]
    report = audit(model, [({"input_ids": ids}, y) for ids, y in given], loss_fn=per_token, control_accuracy=CONTROL)
    assert report.provenance.read == "all"
    model.eval()

    def walk(ids: Tensor) -> tuple[list[Tensor], Tensor]:
        states = bert_states(model, ids)
        return states, model.classifier(states[-1])

    agrees(report, by_hand(walk, given, every, per_token), CONTROL)


def test_gpt2_for_language_is_read_at_every_position() -> None:
    model = gpt2("GPT2LMHeadModel")
    given = [(ids, torch.roll(ids, -1, 1)) for ids in sentences()]
    with unchanged(model):
        report = audit(model, [({"input_ids": x}, y) for x, y in given], loss_fn=per_token, control_accuracy=CONTROL)
    assert (report.subject.depth, report.provenance.read) == (3, "all")
    model.eval()

    def walk(ids: Tensor) -> tuple[list[Tensor], Tensor]:
        states = gpt2_states(model, ids)
        return states, model.lm_head(model.transformer.ln_f(states[-1]))

    agrees(report, by_hand(walk, given, every, per_token), CONTROL)


def test_gpt2_for_sentences_is_read_at_the_last_token() -> None:
    model = gpt2("GPT2ForSequenceClassification", pad_token_id=0, num_labels=CLASSES)
    given = [(ids, ids[:, 1] % CLASSES) for ids in sentences()]
    report = audit(model, [({"input_ids": ids}, y) for ids, y in given], control_accuracy=CONTROL)
    assert report.provenance.read == "-1"
    model.eval()

    def walk(ids: Tensor) -> tuple[list[Tensor], Tensor]:
        states = gpt2_states(model, ids)
        return states, model.score(model.transformer.ln_f(states[-1])[:, -1])

    agrees(report, by_hand(walk, given, lambda state: state[:, -1]), CONTROL)


def test_llama_whose_norms_compute_in_float32_is_audited_and_its_gradient_is_not_refused() -> None:
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=WORDS, hidden_size=16, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=16, initializer_range=0.3, pad_token_id=0, num_labels=CLASSES,
    )  # fmt: skip
    model = transformers.LlamaForSequenceClassification(config)
    given = [(ids, ids[:, 1] % CLASSES) for ids in sentences()]
    with unchanged(model):
        report = audit(model, [({"input_ids": ids}, y) for ids, y in given], control_accuracy=CONTROL)
    assert (report.subject.depth, report.provenance.read) == (3, "-1")
    assert report.provenance.guards["gradient"].passed


def test_collated_batches_with_masks_and_labels_are_taken_as_they_come() -> None:
    from transformers import BatchEncoding

    model = bert("BertForSequenceClassification")
    collated = [
        BatchEncoding({"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids[:, 1] % CLASSES})
        for ids in sentences()
    ]
    plain = audit(model, [({"input_ids": ids}, ids[:, 1] % CLASSES) for ids in sentences()])
    report = audit(model, collated)
    for code in ("D1", "D2", "D4"):
        assert report.findings[code].value == pytest.approx(plain.findings[code].value, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_of_an_encoder_and_a_decoder_the_one_is_taken_that_the_loss_depends_on_most(seed: int) -> None:
    import transformers

    torch.manual_seed(seed)
    config = transformers.T5Config(vocab_size=WORDS, d_model=16, d_kv=8, d_ff=32, num_layers=3, num_heads=2)
    model, ids = transformers.T5ForConditionalGeneration(config).eval(), sentences()[0]
    inputs = {"input_ids": ids, "decoder_input_ids": ids}
    found = find_stream(model).run(inputs)
    named = {part: find_stream(model, f"{part}.block").run(inputs) for part in ("encoder", "decoder")}
    assert [len(run.hiddens) for run in (found, *named.values())] == [4, 4, 4]
    torch.testing.assert_close(found.hiddens, named["decoder"].hiddens)


@pytest.mark.parametrize("factory", ["bert_model", "gpt2_model"])
def test_inspect_runs_a_model_on_the_inputs_that_it_suggests(factory: str, capsys: pytest.CaptureFixture[str]) -> None:
    from creditscope.cli import run

    assert run(["inspect", f"tests.thirdparty.test_transformers:{factory}"]) == 0
    assert "a stream of 3 blocks" in capsys.readouterr().out


def bert_model() -> Any:
    return bert("BertForSequenceClassification")


def gpt2_model() -> Any:
    return gpt2("GPT2LMHeadModel")


@pytest.mark.parametrize(("groups", "inner"), [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("blocks", [None, "albert.encoder.albert_layer_groups"])
def test_albert_is_the_stream_of_the_calls_of_its_shared_layers(groups: int, inner: int, blocks: str | None) -> None:
    import transformers

    torch.manual_seed(0)
    config = transformers.AlbertConfig(
        vocab_size=WORDS, embedding_size=8, hidden_size=16, num_hidden_layers=6, num_hidden_groups=groups,
        inner_group_num=inner, num_attention_heads=2, intermediate_size=32, max_position_embeddings=16,
        num_labels=CLASSES, initializer_range=0.3,
    )  # fmt: skip
    model: Any = transformers.AlbertForSequenceClassification(config)
    given = [(ids, ids[:, 1] % CLASSES) for ids in sentences()]
    batches: Any = [({"input_ids": ids}, y) for ids, y in given]
    report = audit(model, batches, blocks=blocks, control_accuracy=CONTROL)
    assert (report.subject.depth, report.provenance.read) == (6, "first")
    if blocks is None:
        assert report.provenance.guards["stream"].text.startswith("6 calls of AlbertLayerGroup")
    model.eval()

    def walk(ids: Tensor) -> tuple[list[Tensor], Tensor]:
        encoder = model.albert.encoder
        states = [encoder.embedding_hidden_mapping_in(model.albert.embeddings(input_ids=ids))]
        for call in range(6):
            states.append(onward(states[-1], encoder.albert_layer_groups[call * groups // 6]))
        pooled = model.albert.pooler_activation(model.albert.pooler(states[-1][:, 0]))
        return states, model.classifier(pooled)

    agrees(report, by_hand(walk, given, first), CONTROL)
