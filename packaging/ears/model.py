# SPDX-License-Identifier: Apache-2.0
"""The network of sconce-ears: a small Whisper. Parameters have the names of OpenAI's checkpoints,
which whisper.cpp's files also use; export.py also writes them with the names of Hugging Face."""
import dataclasses

import torch
import torch.nn.functional as F
from torch import nn

CONSTANT = 8.0


@dataclasses.dataclass
class Config:
    n_text: int  # number of tokens before the special ones
    n_mels: int = 80
    n_audio_ctx: int = 1500
    n_text_ctx: int = 448
    width: int = 128
    n_heads: int = 2
    n_audio_layers: int = 3
    n_text_layers: int = 3
    n_special: int = 107  # special tokens: the end, the start, 99 languages, six others
    n_times: int = 1501
    # The heads of the decoder, as (layer, head), that are trained to attend to the word that is being written.
    alignment_heads: tuple = ((1, 0), (2, 1))

    @property
    def n_vocab(self):
        return self.n_text + self.n_special + self.n_times


def sinusoids(n, width):
    """Returns float32 [n, width]: sines of falling frequency, then cosines of the same frequencies."""
    rates = torch.exp(-torch.log(torch.tensor(10000.0)) / (width // 2 - 1) *
                      torch.arange(width // 2))
    angles = torch.arange(n)[:, None] * rates
    return torch.cat((angles.sin(), angles.cos()), 1)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n_heads = c.n_heads
        self.query = nn.Linear(c.width, c.width)
        self.key = nn.Linear(c.width, c.width, bias=False)
        self.value = nn.Linear(c.width, c.width)
        self.out = nn.Linear(c.width, c.width)

    def forward(self, x, other=None, causal=False, look=False):
        """Returns the output, and the weights [B, heads, T, S] if @look is true, else None."""
        split = lambda y: y.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        other = x if other is None else other
        q, k, v = split(self.query(x)), split(self.key(other)), split(self.value(other))
        p = None
        if look:
            p = ((q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)).softmax(-1)
            y = p @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.out(y.transpose(1, 2).flatten(2)), p


class Block(nn.Module):
    def __init__(self, c, cross):
        super().__init__()
        self.attn = Attention(c)
        self.attn_ln = nn.LayerNorm(c.width)
        if cross:
            self.cross_attn = Attention(c)
            self.cross_attn_ln = nn.LayerNorm(c.width)
        self.mlp = nn.Sequential(nn.Linear(c.width, 4 * c.width), nn.GELU(),
                                 nn.Linear(4 * c.width, c.width))
        self.mlp_ln = nn.LayerNorm(c.width)

    def forward(self, x, encoded=None, look=False):
        x = x + self.attn(self.attn_ln(x), causal=encoded is not None)[0]
        p = None
        if encoded is not None:
            y, p = self.cross_attn(self.cross_attn_ln(x), encoded, look=look)
            x = x + y
        return x + self.mlp(self.mlp_ln(x)), p


class Encoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1 = nn.Conv1d(c.n_mels, c.width, 3, padding=1)
        self.conv2 = nn.Conv1d(c.width, c.width, 3, stride=2, padding=1)
        self.register_buffer("positional_embedding", sinusoids(c.n_audio_ctx, c.width))
        self.blocks = nn.ModuleList(Block(c, False) for _ in range(c.n_audio_layers))
        self.ln_post = nn.LayerNorm(c.width)

    def forward(self, mel, at):
        """Returns [B, T, width]. @mel: [B, 80, 2 T]; @at: [B], the position of the first of the T rows."""
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).transpose(1, 2)
        rows = at[:, None] + torch.arange(x.shape[1])
        x = x + self.positional_embedding[rows]
        for block in self.blocks:
            x, _ = block(x)
        return self.ln_post(x)


class Decoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.token_embedding = nn.Embedding(c.n_text + c.n_special, c.width)
        # In the files, the tokens of times have rows like all other tokens. Here these rows are
        # computed from a few shared parameters, so that times that are rare in the training data
        # are learned from neighboring times.
        self.times = nn.Linear(c.width, c.width, bias=False)
        self.register_buffer("clock", sinusoids(c.n_times, c.width), persistent=False)
        self.positional_embedding = nn.Parameter(0.1 * sinusoids(c.n_text_ctx, c.width))
        self.blocks = nn.ModuleList(Block(c, True) for _ in range(c.n_text_layers))
        self.ln = nn.LayerNorm(c.width)
        self.looking = {layer for layer, _ in c.alignment_heads}
        # The first value of every output is CONSTANT, and the first value of every token's row is 0. export.py
        # adds rows whose first value is negative, for tokens that are then never selected.
        self.register_buffer("used", (torch.arange(c.width) > 0).float(), persistent=False)
        with torch.no_grad():
            self.ln.weight[0], self.ln.bias[0] = 0, CONSTANT

    def table(self):
        return torch.cat((self.token_embedding.weight, self.times(self.clock))) * self.used

    def forward(self, ids, encoded, picked=None):
        """Returns the logits and a list. The logits are [B, T, n_vocab], or only those of the
        positions in the mask @picked. The list has the weights of the cross attention of each
        layer, or None for a layer without heads for alignment."""
        T, table = ids.shape[1], self.table()
        x = table[ids] + self.positional_embedding[:T]
        looked = []
        for i, block in enumerate(self.blocks):
            x, p = block(x, encoded, i in self.looking)
            looked.append(p)
        return F.linear(self.ln(x if picked is None else x[picked]), table), looked


@torch.no_grad()
def look_beside(attention, reach):
    """Initializes the attention so that the first head attends to the row @reach rows before,
    and the second to the row @reach rows after, by the positions in the input. Neighboring
    sounds help to recognize a sound. Without this initialization, learning to use them takes
    longer than the rest of the training."""
    width = attention.query.weight.shape[0]
    d, half = width // attention.n_heads, width // 2
    rates = torch.exp(-torch.log(torch.tensor(10000.0)) / (half - 1) * torch.arange(half))[:d // 2]
    i = torch.arange(d // 2)
    attention.key.weight.mul_(0.3)
    attention.query.weight.mul_(0.3)
    for head, shift in enumerate((-reach, reach)):
        sine, cosine = head * d + i, head * d + d // 2 + i
        turn = rates * shift
        attention.key.weight[sine, i] += 1
        attention.key.weight[cosine, half + i] += 1
        attention.query.weight[sine, i] += turn.cos()
        attention.query.weight[sine, half + i] += turn.sin()
        attention.query.weight[cosine, i] -= turn.sin()
        attention.query.weight[cosine, half + i] += turn.cos()
    nn.init.normal_(attention.value.weight, 0, width ** -0.5)
    nn.init.normal_(attention.out.weight, 0, 0.5 * width ** -0.5)


class Ears(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.encoder, self.decoder = Encoder(c), Decoder(c)
        for name, p in self.named_parameters():
            if p.dim() > 1 and "positional" not in name and "conv" not in name:
                deep = name.endswith(("out.weight", "mlp.2.weight"))
                n = 2 * (c.n_text_layers if name.startswith("decoder") else c.n_audio_layers)
                nn.init.normal_(p, 0, 0.05 / n ** 0.5 if deep else 0.05)
                if "token_embedding" in name or "times" in name:
                    nn.init.normal_(p, 0, 0.02)
        with torch.no_grad():
            self.encoder.conv1.weight.mul_(2)
            self.encoder.conv2.weight.mul_(2)
        for block, reach in zip(self.encoder.blocks, (3, 8, 20)):
            look_beside(block.attn, reach)

    def tensors(self):
        """Returns float32 tensors by name, as in the files, where the rows of times are among those of the tokens."""
        out = {k: v.detach().float().clone() for k, v in self.state_dict().items()}
        del out["decoder.times.weight"]
        out["decoder.token_embedding.weight"] = self.decoder.table().detach().float().clone()
        return out
