# SPDX-License-Identifier: Apache-2.0
"""Writes a Whisper model in Hugging Face layout as the converter of mlx-examples does, with Python's
standard library alone."""
import json
import pathlib
import shutil
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
from trained_models import read_safetensors, write_safetensors

NAMES = (("model.", ""), (".layers.", ".blocks."), ("encoder_attn_layer_norm", "cross_attn_ln"),
         ("self_attn_layer_norm", "attn_ln"), ("final_layer_norm", "mlp_ln"),
         ("encoder_attn.", "cross_attn."), ("self_attn.", "attn."), ("q_proj", "query"),
         ("k_proj", "key"), ("v_proj", "value"), ("out_proj", "out"), ("fc1", "mlp1"),
         ("fc2", "mlp2"), ("embed_tokens", "token_embedding"),
         ("embed_positions.weight", "positional_embedding"), ("encoder.layer_norm", "encoder.ln_post"),
         ("decoder.layer_norm", "decoder.ln"))
COUNTS = {"n_mels": "num_mel_bins", "n_audio_ctx": "max_source_positions",
          "n_audio_state": "d_model", "n_audio_head": "encoder_attention_heads",
          "n_audio_layer": "encoder_layers", "n_vocab": "vocab_size",
          "n_text_ctx": "max_target_positions", "n_text_state": "d_model",
          "n_text_head": "decoder_attention_heads", "n_text_layer": "decoder_layers"}


def turned(shape, data):
    """Turns [outputs, channels, taps] to [outputs, taps, channels]."""
    outputs, channels, taps = shape
    size = len(data) // (outputs * channels * taps)
    parts = [data[i:i + size] for i in range(0, len(data), size)]
    return [outputs, taps, channels], b"".join(
        parts[(o * channels + c) * taps + k]
        for o in range(outputs) for k in range(taps) for c in range(channels))


def write_mlx_whisper(source, out):
    """Writes the model @source, without its generation_config.json, as the directory @out."""
    out.mkdir()
    config = json.loads((source / "config.json").read_text())
    generation = json.loads((source / "generation_config.json").read_text())
    heads = generation["alignment_heads"]
    tensors = {"alignment_heads": ("I64", [len(heads), 2],
                                   b"".join(struct.pack("<qq", *pair) for pair in heads))}
    for name, (kind, shape, data) in read_safetensors(source / "model.safetensors").items():
        for old, new in NAMES:
            name = name.replace(old, new)
        if name == "encoder.positional_embedding":
            continue
        if len(shape) == 3:
            shape, data = turned(shape, data)
        tensors[name] = (kind, shape, data)
    write_safetensors(out / "weights.safetensors", tensors)
    (out / "config.json").write_text(json.dumps(
        {new: config[old] for new, old in COUNTS.items()} | {"model_type": "whisper"}))
    shutil.copy(source / "tokenizer.json", out)
