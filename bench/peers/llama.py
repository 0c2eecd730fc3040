# SPDX-License-Identifier: Apache-2.0
"""The Llama of ref/model/llama/llama.h in PyTorch: the same parameters by the same names, the same function."""
import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, kv_width, heads):
        super().__init__()
        self.heads, self.q_proj = heads, nn.Linear(width, width, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(width, kv_width, bias=False) for _ in range(2))
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x, cosines, sines):
        q, k, v = (part(x).unflatten(-1, (-1, x.shape[-1] // self.heads)).transpose(1, 2)
                   for part in (self.q_proj, self.k_proj, self.v_proj))
        cosines, sines = cosines.to(q.dtype), sines.to(q.dtype)
        q, k = (part * cosines + torch.cat((-part.chunk(2, -1)[1], part.chunk(2, -1)[0]), -1) * sines
                for part in (q, k))
        shared = {"enable_gqa": True} if k.shape[1] < self.heads else {}
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, **shared)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, width, kv_width, heads, hidden):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = (nn.RMSNorm(width, eps=1e-5) for _ in range(2))
        self.self_attn, self.mlp = Attention(width, kv_width, heads), MLP(width, hidden)

    def forward(self, x, cosines, sines):
        x = x + self.self_attn(self.input_layernorm(x), cosines, sines)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, layers, heads, weights):
        super().__init__()
        vocabulary, width = weights["model.embed_tokens.weight"].shape
        hidden = weights["model.layers.0.mlp.gate_proj.weight"].shape[0]
        kv_width = weights["model.layers.0.self_attn.k_proj.weight"].shape[0]
        self.embed_tokens, self.norm = nn.Embedding(vocabulary, width), nn.RMSNorm(width, eps=1e-5)
        self.layers = nn.ModuleList(Block(width, kv_width, heads, hidden) for _ in range(layers))


class Llama(nn.Module):
    def __init__(self, layers, heads, length, weights):
        super().__init__()
        vocabulary, width = weights["lm_head.weight"].shape
        self.model, self.lm_head = Body(layers, heads, weights), nn.Linear(width, vocabulary, bias=False)
        half = torch.arange(0, width // heads, 2, dtype=torch.float64) / (width // heads)
        angles = torch.outer(torch.arange(length, dtype=torch.float64), 10000.0 ** -half).repeat(1, 2)
        self.register_buffer("cosines", angles.cos().float(), persistent=False)
        self.register_buffer("sines", angles.sin().float(), persistent=False)
        self.load_state_dict(weights)

    @property
    def h(self):
        return self.model.layers

    def forward(self, tokens):
        """The mean loss of sequences that are one token longer than the model's length."""
        x = self.model.embed_tokens(tokens[:, :-1])
        for block in self.h:
            x = block(x, self.cosines, self.sines)
        logits = self.lm_head(self.model.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
