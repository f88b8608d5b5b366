"""A small vision transformer with a class token and a terminal LayerNorm."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from creditscope.networks import network
from creditscope.networks.options import depth_of, heads_of, image_shape, patches, whole
from creditscope.networks.staged import StagedNetwork, initialise


class Attention(nn.Module):
    """Self-attention from two plain Linear layers: proj(softmax(q kᵀ/√(d/heads)) v), with (q, k, v) = qkv(h).

    Written out because nn.MultiheadAttention does not call F.linear, so that feedback could not reach its weights.
    """

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)

    def forward(self, state: Tensor) -> Tensor:
        """(N, T, d) -> (N, T, d)."""
        batch, tokens, d = state.shape
        qkv = self.qkv(state).view(batch, tokens, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (N, heads, T, d/heads)
        weights = torch.softmax((q * (d // self.heads) ** -0.5) @ k.transpose(-2, -1), dim=-1)
        out: Tensor = self.proj((weights @ v).transpose(1, 2).reshape(batch, tokens, d))
        return out


class TransformerBlock(nn.Module):
    """f(h) = a + mlp(ln2(h + a)),  a = attn(ln1(h)): both halves of a pre-LN block as one residual branch."""

    def __init__(self, d: int, heads: int, mlp_ratio: int) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(d)
        self.attn = Attention(d, heads)
        self.ln2 = nn.LayerNorm(d)
        self.w1 = nn.Linear(d, mlp_ratio * d)
        self.w2 = nn.Linear(mlp_ratio * d, d)

    def forward(self, state: Tensor) -> Tensor:
        """The residual branch only."""
        attended: Tensor = self.attn(self.ln1(state))
        out: Tensor = attended + self.w2(F.gelu(self.w1(self.ln2(state + attended))))
        return out


@network(
    "vit_mini",
    summary="Vision transformer with a class token: patches, positions | L pre-LN blocks | LayerNorm, Linear.",
)
class VisionTransformer(StagedNetwork):
    """patch_embed, class token, positions | L pre-LN blocks | LayerNorm and Linear on the class token.

    inputs     (channels, height, width)
    d, depth   width of the stream and number of blocks L
    patch      side of a square patch; it must divide both sides of the image
    heads      attention heads; they must divide d
    mlp_ratio  hidden width of a block's MLP, in units of d
    """

    token = "first"
    terminal_layernorm = True

    def __init__(
        self,
        inputs: int | tuple[int, ...] = (3, 32, 32),
        classes: int = 10,
        *,
        d: int = 128,
        depth: int = 4,
        patch: int = 4,
        heads: int = 4,
        mlp_ratio: int = 2,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        shape = image_shape(self.name, inputs)
        count = patches(shape, patch)
        heads_of(whole("d", d, 1), heads)
        whole("mlp_ratio", mlp_ratio, 1)
        self.patch = patch
        self.patch_embed = nn.Linear(shape[0] * patch * patch, d)
        self.cls_token = nn.Parameter(torch.empty(1, 1, d))
        self.pos_embed = nn.Parameter(torch.empty(1, 1 + count, d))
        self.blocks = nn.ModuleList(TransformerBlock(d, heads, mlp_ratio) for _ in range(depth_of(depth)))
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, classes)
        initialise(self, generator)
        nn.init.normal_(self.cls_token, 0.0, 0.02, generator=generator)
        nn.init.normal_(self.pos_embed, 0.0, 0.02, generator=generator)

    def embedding(self, inputs: Tensor) -> Tensor:
        """The class token, then one token per patch; positions are added: (N, 1 + patches, d)."""
        pixels = F.unfold(inputs, self.patch, stride=self.patch).transpose(1, 2)  # (N, patches, channels·patch²)
        tokens = self.patch_embed(pixels)
        out: Tensor = torch.cat([self.cls_token.expand(len(tokens), -1, -1), tokens], dim=1) + self.pos_embed
        return out

    def readout(self, state: Tensor) -> Tensor:
        """Terminal LayerNorm and head, on the class token alone."""
        out: Tensor = self.head(self.norm(state[:, 0]))
        return out
