"""The transformer against slow twins: a textbook block, PyTorch's attention, patches cut by hand."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from creditscope.networks.build import build
from creditscope.networks.vit_mini import Attention, TransformerBlock

SHAPE = (3, 8, 8)


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_attention_is_a_loop_over_samples_heads_and_tokens() -> None:
    attention, h = Attention(8, 2).double(), noise(2, 5, 8)
    q, k, v = attention.qkv(h).chunk(3, dim=-1)
    mixed = torch.zeros_like(h)
    for n in range(2):
        for part in (slice(0, 4), slice(4, 8)):
            for t in range(5):
                scores = torch.stack([(q[n, t, part] * k[n, s, part]).sum() / math.sqrt(4) for s in range(5)])
                mixed[n, t, part] = sum(w * v[n, s, part] for s, w in enumerate(scores.softmax(0)))
    torch.testing.assert_close(attention(h), attention.proj(mixed))


def test_attention_agrees_with_that_of_pytorch() -> None:
    attention, h = Attention(8, 2).double(), noise(3, 5, 8)
    twin = nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    twin.in_proj_weight.data, twin.in_proj_bias.data = attention.qkv.weight.data, attention.qkv.bias.data
    twin.out_proj.load_state_dict(attention.proj.state_dict())
    torch.testing.assert_close(attention(h), twin(h, h, h, need_weights=False)[0])


def test_the_branch_plus_the_stream_is_a_textbook_pre_ln_block() -> None:
    block, h = TransformerBlock(8, 2, 4).double(), noise(3, 5, 8)
    u = h + block.attn(block.ln1(h))
    textbook = u + block.w2(F.gelu(block.w1(block.ln2(u))))
    torch.testing.assert_close(h + block(h), textbook)


def test_a_small_branch_survives_a_huge_stream() -> None:
    """Nothing is subtracted from the stream, so f keeps its digits where (h + f) - h would lose them all."""
    block = TransformerBlock(8, 2, 4)
    h = noise(3, 5, 8)
    single, double = block(1e9 * h.float()), block.double()(1e9 * h.float().double())
    torch.testing.assert_close(single.double(), double, rtol=1e-3, atol=1e-4)


def test_each_token_is_its_own_patch() -> None:
    net = build("vit_mini", SHAPE, 4, 0, d=8, heads=2, patch=4).double()
    images = noise(2, *SHAPE)
    h = net.embedding(images)
    assert h.shape == (2, 1 + 4, 8)
    corners = [(0, 0), (0, 4), (4, 0), (4, 4)]
    for token, (top, left) in enumerate(corners, start=1):
        pixels = images[:, :, top : top + 4, left : left + 4].flatten(1)
        torch.testing.assert_close(h[:, token], net.patch_embed(pixels) + net.pos_embed[:, token])
    torch.testing.assert_close(h[:, 0], (net.cls_token + net.pos_embed)[:, 0].expand(2, -1))


def test_the_logits_read_the_class_token_alone() -> None:
    net = build("vit_mini", SHAPE, 4, 0, d=8, heads=2).double()
    h = noise(2, 5, 8).requires_grad_()
    (gradient,) = torch.autograd.grad(net.readout(h).sum(), h)
    assert net.token == "first"
    assert gradient[:, 0].any()
    assert not gradient[:, 1:].any()


def test_every_weight_passes_through_a_plain_linear_layer() -> None:
    """Feedback reaches F.linear; nn.MultiheadAttention would train by backprop unseen."""
    net = build("vit_mini", SHAPE, 4, 0, d=8, heads=2)
    matrices = {key for key, p in net.named_parameters() if p.dim() == 2}
    assert matrices == {f"{key}.weight" for key, layer in net.named_modules() if type(layer) is nn.Linear}
    assert not any(isinstance(layer, nn.MultiheadAttention) for layer in net.modules())


def test_the_class_token_starts_tiny_and_a_block_grows_it_less_than_fifty_times() -> None:
    net = build("vit_mini", (3, 32, 32), 10, 42)
    with torch.no_grad():
        norms = [h[:, 0].norm(dim=1).median().item() for h in net.states(noise(16, 3, 32, 32).float())]
    assert norms[0] == pytest.approx(0.02 * math.sqrt(2 * 128), rel=0.2)
    assert max(after / before for before, after in pairwise(norms)) < 50
