# SPDX-License-Identifier: Apache-2.0
"""The network of sconce-guide: a small Qwen3 (RMS norms, rotary positions, grouped queries with
norms on queries and keys, SwiGLU, tied head), and its GGUF writer."""
import dataclasses

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

# Five messages (three questions and two answers) are enough for a follow-up question. Earlier messages are dropped, so
# that no prompt is longer than those of the training data.
TEMPLATE = (
    "{%- for message in messages[-5:] %}"
    "{{- '<|turn|>' + message.role + '\\n' }}"
    "{%- if message.content is string %}"
    "{{- message.content | trim }}"
    "{%- else %}"
    "{%- for part in message.content if part.type == 'text' %}{{- part.text | trim }}{%- endfor %}"
    "{%- endif %}"
    "{{- '<|end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|turn|>assistant\\n' }}{%- endif %}"
)
TURN, END, PAD = "<|turn|>", "<|end|>", "<|pad|>"


@dataclasses.dataclass
class Config:
    n_vocab: int
    d_model: int = 192
    d_ff: int = 512
    n_layers: int = 4
    n_heads: int = 6
    n_kv_heads: int = 3
    d_head: int = 32
    n_ctx: int = 2048
    eps: float = 1e-6
    rope_base: float = 10000.0


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        linear = lambda n_in, n_out: nn.Linear(n_in, n_out, bias=False)
        self.c = c
        self.attn_norm = nn.RMSNorm(c.d_model, c.eps)
        self.attn_q = linear(c.d_model, c.n_heads * c.d_head)
        self.attn_k = linear(c.d_model, c.n_kv_heads * c.d_head)
        self.attn_v = linear(c.d_model, c.n_kv_heads * c.d_head)
        self.attn_output = linear(c.n_heads * c.d_head, c.d_model)
        self.attn_q_norm = nn.RMSNorm(c.d_head, c.eps)
        self.attn_k_norm = nn.RMSNorm(c.d_head, c.eps)
        self.ffn_norm = nn.RMSNorm(c.d_model, c.eps)
        self.ffn_gate = linear(c.d_model, c.d_ff)
        self.ffn_up = linear(c.d_model, c.d_ff)
        self.ffn_down = linear(c.d_ff, c.d_model)

    def forward(self, x, cos, sin):
        c, (B, T, _) = self.c, x.shape
        h = self.attn_norm(x)
        heads = lambda y, n: y.view(B, T, n, c.d_head)
        q = rotate(self.attn_q_norm(heads(self.attn_q(h), c.n_heads)), cos, sin)
        k = rotate(self.attn_k_norm(heads(self.attn_k(h), c.n_kv_heads)), cos, sin)
        v = heads(self.attn_v(h), c.n_kv_heads)
        y = attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        x = x + self.attn_output(y.transpose(1, 2).reshape(B, T, -1))
        h = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))


def attend(q, k, v):
    """Computes causal attention. q has the shape [B, heads, T, d], k and v have [B, kv heads, T,
    d]. The function exists because on CPUs the gradient of torch's own function is several times
    slower for short rows."""
    B, H, T, d = q.shape
    n_kv = k.shape[1]
    q = q.reshape(B, n_kv, H // n_kv * T, d)
    s = (q @ k.transpose(-1, -2)).view(B, n_kv, H // n_kv, T, T) * d ** -0.5
    hidden = torch.full((T, T), float("-inf"), dtype=s.dtype).triu(1)
    p = (s + hidden).softmax(-1)
    return (p.view(B, n_kv, -1, T) @ v).view(B, H, T, d)


def rotate(x, cos, sin):
    """Applies the rotary embedding, which pairs the halves of a head as in Qwen3. x has the shape
    [B, T, heads, d], cos and sin have [T, 1, d/2]."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Guide(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.token_embd = nn.Embedding(c.n_vocab, c.d_model)
        self.blk = nn.ModuleList(Layer(c) for _ in range(c.n_layers))
        self.output_norm = nn.RMSNorm(c.d_model, c.eps)
        freq = c.rope_base ** (-torch.arange(0, c.d_head, 2) / c.d_head)
        angle = torch.arange(c.n_ctx)[:, None] * freq[None]
        self.register_buffer("cos", angle.cos()[:, None], persistent=False)
        self.register_buffer("sin", angle.sin()[:, None], persistent=False)
        for name, p in self.named_parameters():
            if p.dim() > 1:
                deep = name.endswith(("attn_output.weight", "ffn_down.weight"))
                nn.init.normal_(p, 0, 0.02 / (2 * c.n_layers) ** 0.5 if deep else 0.02)

    def forward(self, ids, picked=None):
        """Returns the logits of all positions, or only of the positions in the mask @picked."""
        T = ids.shape[1]
        x = self.token_embd(ids)
        for layer in self.blk:
            x = layer(x, self.cos[:T], self.sin[:T])
        return F.linear(self.output_norm(x if picked is None else x[picked]), self.token_embd.weight)


def write_gguf(model, tokenizer, path, version):
    """Writes a GGUF file. @tokenizer is a tokenizers.Tokenizer: byte-level BPE with Qwen2's pre-tokenizer."""
    import json

    import gguf

    c, kinds = model.c, gguf.GGMLQuantizationType
    bpe = json.loads(tokenizer.to_str())["model"]
    tokens = [t for t, _ in sorted(tokenizer.get_vocab().items(), key=lambda kv: kv[1])]
    control = {TURN, END, PAD}
    w = gguf.GGUFWriter(path, "qwen3")
    w.add_name("sconce-guide")
    w.add_description("Answers questions about sconce; trained on packaging/guide/corpus")
    w.add_version(version)
    w.add_license("Apache-2.0")
    w.add_size_label(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f}M")
    w.add_languages(["en"])
    w.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    w.add_context_length(c.n_ctx)
    w.add_embedding_length(c.d_model)
    w.add_block_count(c.n_layers)
    w.add_feed_forward_length(c.d_ff)
    w.add_head_count(c.n_heads)
    w.add_head_count_kv(c.n_kv_heads)
    w.add_key_length(c.d_head)
    w.add_value_length(c.d_head)
    w.add_rope_freq_base(c.rope_base)
    w.add_layer_norm_rms_eps(c.eps)
    w.add_vocab_size(len(tokens))
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list(tokens)
    w.add_token_types([gguf.TokenType.CONTROL if t in control else gguf.TokenType.NORMAL
                       for t in tokens])
    w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in bpe["merges"]])
    w.add_eos_token_id(tokenizer.token_to_id(END))
    w.add_pad_token_id(tokenizer.token_to_id(PAD))
    w.add_add_bos_token(False)
    w.add_chat_template(TEMPLATE)
    for name, p in model.named_parameters():
        data = p.detach().float().numpy()
        if p.dim() > 1:
            w.add_tensor(name, gguf.quants.quantize(data, kinds.Q8_0), raw_dtype=kinds.Q8_0)
        else:
            w.add_tensor(name, data.astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def read_gguf(path):
    """Returns (model, tokens, merges) of a file that write_gguf() wrote."""
    import gguf

    r = gguf.GGUFReader(path)
    text = lambda name: r.fields[name].contents()
    tokens, merges = text("tokenizer.ggml.tokens"), text("tokenizer.ggml.merges")
    model = Guide(Config(n_vocab=len(tokens), n_layers=text("qwen3.block_count")))
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for t in r.tensors:
            data = gguf.quants.dequantize(t.data, t.tensor_type)
            p = parameters.pop(t.name)
            p.copy_(torch.from_numpy(data.copy()).view_as(p))
    assert not parameters, f"{path}: no {', '.join(parameters)}"
    return model, tokens, merges


def q8_0(model):
    """Rounds the matrices to the values that they have in the file."""
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                blocks = p.view(-1, 32)
                scale = (blocks.abs().amax(1, keepdim=True) / 127).half().float()
                q = torch.where(scale > 0, (blocks / scale).round(), torch.zeros_like(blocks))
                p.copy_((q * scale).view_as(p))
