#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes audio/whisper-encoder/. This directory contains the encoder of a tiny random Whisper
model, as Hugging Face stores it (model.safetensors), and frames (mel.bin, float32 [40, 10]).
encoded.bin (float32 [20, 32]) is the output of the encoder for these frames, which transformers
computes in double precision.

If the arguments are a directory and one of "tiny", "base" and "large-v3", the script writes an
encoder of that shape into the directory. Such encoders are too large for the tree.

Needs: torch 2.x, transformers 5.x, safetensors, numpy.

    python3 make_whisper_model.py [DIRECTORY SHAPE]
"""

import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import WhisperConfig
from transformers.models.whisper.modeling_whisper import WhisperEncoder

# width, heads, layers, mel bins, rows
SHAPES = {None: (32, 4, 2, 10, 20), "tiny": (384, 6, 4, 80, 1500), "base": (512, 8, 6, 80, 1500),
          "large-v3": (1280, 20, 32, 128, 1500)}


def main():
    out = pathlib.Path(__file__).resolve().parent / "audio" / "whisper-encoder"
    name = None
    if len(sys.argv) > 1:
        out, name = pathlib.Path(sys.argv[1]), sys.argv[2]
    width, heads, layers, n_mels, rows = SHAPES[name]
    torch.manual_seed(11)
    model = WhisperEncoder(WhisperConfig(
        d_model=width, encoder_attention_heads=heads, encoder_layers=layers,
        encoder_ffn_dim=4 * width, num_mel_bins=n_mels, max_source_positions=rows,
        attn_implementation="eager")).eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            noise = torch.randn_like(p)
            if p.dim() > 1 and "positions" not in key:
                p.copy_(noise * 1.5 / p[0].numel() ** 0.5)
            elif key.endswith("bias"):
                p.copy_(noise * 0.3)
            elif p.dim() == 1:
                p.copy_(1 + noise * 0.2)
        mel = torch.randn(1, n_mels, 2 * rows)
        encoded = model.double()(mel.double()).last_hidden_state[0]
    out.mkdir(parents=True, exist_ok=True)
    save_file({"model.encoder." + k: v.float().contiguous() for k, v in
               model.state_dict().items()}, out / "model.safetensors")
    mel[0].T.contiguous().numpy().astype("<f4").tofile(out / "mel.bin")
    encoded.numpy().astype("<f4").tofile(out / "encoded.bin")


if __name__ == "__main__":
    main()
