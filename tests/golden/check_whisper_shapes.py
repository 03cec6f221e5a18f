#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes models with random weights in the sizes of Whisper's models, and compares libinfer's
results for these models with those of transformers and whisper.cpp.

For each size ("shape") the script makes a directory in Hugging Face layout in F32 (with numbers
that F16 can represent) and a .bin file in F16. It asks each program for the logits of a text about
a window of speech, and for the next tokens of the text, once with the rules for times and once
without them:

    F32            The logits must be those of transformers, with an NMSE of at most 1e-7, and the
                   tokens must be the same.
    F16 Q8_0 Q5_0  These are .bin files; whisper-quantize makes the last two. The NMSE to the logits
                   of transformers in F32, with the same weights, must be at most 1e-4 (1e-3 for
                   formats that are multiplied as whole numbers), or at most that of whisper.cpp.
                   The tokens must be those of both programs, up to the first place where the most
                   likely two tokens differ by less than the errors of the logits.

If whisper.cpp crashes, the script reports it, but does not fail. It prints a line for each
comparison, and exits with 1 if one of them fails.

Needs: torch 2.x, transformers 5.x, safetensors, gguf, numpy, and openai-whisper for its tokens;
large-v3 takes 14 GB of memory and of disk. The script makes one model at a time in $BENCH_DIR, or
in the folder for temporary files, and removes it again.

    check_whisper_shapes.py --build BUILD [--whisper DIR] [--formats F32,F16] [--speech jfk.wav] [tiny ...]
"""

import argparse
import base64
import ctypes
import gc
import importlib.util
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import wave

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration
from transformers.generation import logits_process

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "packaging/ears"))
import mel as ears_mel  # noqa: E402
from vocabulary import LANGUAGES, byte_letters  # noqa: E402

# width, heads, layers of both parts, mel bins, languages
SHAPES = {
    "tiny": (384, 6, 4, 4, 80, 99),
    "base": (512, 8, 6, 6, 80, 99),
    "small": (768, 12, 12, 12, 80, 99),
    "large-v3": (1280, 20, 32, 32, 128, 100),
    "turbo": (1280, 20, 32, 4, 128, 100),
}
N_TEXT, N_GOES_ON = 50257, 24
BIN_TYPES = {0: gguf.GGMLQuantizationType.F32, 1: gguf.GGMLQuantizationType.F16,
             6: gguf.GGMLQuantizationType.Q5_0, 8: gguf.GGMLQuantizationType.Q8_0}
HUGGING_FACE = [
    (r"^(encoder|decoder)\.", r"model.\1."), (r"\.blocks\.", ".layers."),
    (r"\.cross_attn_ln\.", ".encoder_attn_layer_norm."), (r"\.cross_attn\.", ".encoder_attn."),
    (r"\.attn_ln\.", ".self_attn_layer_norm."), (r"\.attn\.", ".self_attn."),
    (r"\.mlp_ln\.", ".final_layer_norm."), (r"\.mlp\.0\.", ".fc1."), (r"\.mlp\.2\.", ".fc2."),
    (r"\.query\.", ".q_proj."), (r"\.key\.", ".k_proj."), (r"\.value\.", ".v_proj."),
    (r"\.out\.", ".out_proj."), (r"\.(ln_post|ln)\.", ".layer_norm."),
    (r"\.positional_embedding$", ".embed_positions.weight"),
    (r"\.token_embedding\.", ".embed_tokens."),
]


def hugging_face(name):
    for pattern, to in HUGGING_FACE:
        name = re.sub(pattern, to, name)
    return name


def special_tokens(n_languages):
    languages = (LANGUAGES + ["yue"])[:n_languages]
    return ["<|endoftext|>", "<|startoftranscript|>", *[f"<|{name}|>" for name in languages],
            "<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>",
            "<|notimestamps|>"]


class Shape:
    def __init__(self, name):
        self.name = name
        (self.width, self.heads, self.audio_layers, self.text_layers, self.mels,
         self.n_languages) = SHAPES[name]
        self.special = special_tokens(self.n_languages)
        self.ids = {t: N_TEXT + i for i, t in enumerate(self.special)}
        self.first_time = N_TEXT + len(self.special)
        self.n_vocab = self.first_time + 1501

    def config(self):
        end = self.ids["<|endoftext|>"]
        return WhisperConfig(
            architectures=["WhisperForConditionalGeneration"], vocab_size=self.n_vocab,
            d_model=self.width, num_mel_bins=self.mels, encoder_layers=self.audio_layers,
            decoder_layers=self.text_layers, encoder_attention_heads=self.heads,
            decoder_attention_heads=self.heads, encoder_ffn_dim=4 * self.width,
            decoder_ffn_dim=4 * self.width, max_source_positions=1500, max_target_positions=448,
            pad_token_id=end, bos_token_id=end, eos_token_id=end,
            decoder_start_token_id=self.ids["<|startoftranscript|>"], attn_implementation="eager")

    def tensors(self):
        """Yields (OpenAI's name, tensor) of all weights. Each tensor takes different numbers from
        one long random row."""
        rng = np.random.default_rng(3)
        row = torch.from_numpy(rng.standard_normal(1 << 24, np.float32))
        at = 0

        def random(*shape, std=None, mean=0.0):
            nonlocal at
            n = int(np.prod(shape))
            at = (at + 7919 * 1013) % (1 << 23)
            x = row[at:].repeat(-(-n // (len(row) - at)))[:n].reshape(shape)
            return (mean + x * (std or 1.2 / (n // shape[0]) ** 0.5)).half().float()

        def norm(name):
            yield name + ".weight", random(self.width, std=0.2, mean=1.0)
            yield name + ".bias", random(self.width, std=0.1)

        def attention(name):
            for part in ("query", "key", "value", "out"):
                yield f"{name}.{part}.weight", random(self.width, self.width)
                if part != "key":
                    yield f"{name}.{part}.bias", random(self.width, std=0.1)

        def blocks(name, n, cross):
            for i in range(n):
                yield from attention(f"{name}.{i}.attn")
                yield from norm(f"{name}.{i}.attn_ln")
                if cross:
                    yield from attention(f"{name}.{i}.cross_attn")
                    yield from norm(f"{name}.{i}.cross_attn_ln")
                for part, a, b in ((0, 4 * self.width, self.width), (2, self.width, 4 * self.width)):
                    yield f"{name}.{i}.mlp.{part}.weight", random(a, b)
                    yield f"{name}.{i}.mlp.{part}.bias", random(a, std=0.1)
                yield from norm(f"{name}.{i}.mlp_ln")

        yield "encoder.positional_embedding", random(1500, self.width, std=0.5)
        for i, n_in in ((1, self.mels), (2, self.width)):
            yield f"encoder.conv{i}.weight", random(self.width, n_in, 3)
            yield f"encoder.conv{i}.bias", random(self.width, std=0.1)
        yield from blocks("encoder.blocks", self.audio_layers, False)
        yield from norm("encoder.ln_post")
        yield "decoder.positional_embedding", random(448, self.width, std=0.5)
        yield "decoder.token_embedding.weight", random(self.n_vocab, self.width, std=1)
        yield from blocks("decoder.blocks", self.text_layers, True)
        yield from norm("decoder.ln")


def read_tokens(path):
    lines = (line.split() for line in path.read_bytes().splitlines())
    return [base64.b64decode(x[0]) for x in lines if len(x) == 2]


def merges(tokens):
    """Returns, for each token, the pair of tokens from which BPE made it."""
    ranks, out = {t: i for i, t in enumerate(tokens)}, []
    for token in tokens:
        parts = [bytes([b]) for b in token]
        while len(parts) > 2:
            best = min(range(len(parts) - 1),
                       key=lambda i: ranks.get(parts[i] + parts[i + 1], 1 << 30))
            parts[best:best + 2] = [parts[best] + parts[best + 1]]
        if len(parts) == 2:
            out.append(parts)
    return out


def write_directory(shape, tokens, out):
    out.mkdir()
    letters = byte_letters()
    spell = lambda token: "".join(letters[b] for b in token)  # noqa: E731
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": True}
    (out / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": t, "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True}
                         for t, i in shape.ids.items()],
        "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": False,
                  "byte_fallback": False, "ignore_merges": False,
                  "vocab": {spell(t): i for i, t in enumerate(tokens)},
                  "merges": [[spell(a), spell(b)] for a, b in merges(tokens)]}}))
    shape.config().save_pretrained(out)
    (out / "generation_config.json").write_text(json.dumps({
        "is_multilingual": True, "suppress_tokens": suppressed(shape),
        "begin_suppress_tokens": [220, shape.ids["<|endoftext|>"]]}))
    save_file({hugging_face(name): t.clone() for name, t in shape.tensors()},
              out / "model.safetensors", metadata={"format": "pt"})


def suppressed(shape):
    """Returns the suppressed tokens: a few words, and all special tokens that are not text."""
    return [1, 7, 9, 50, 359, 3467] + [shape.ids[t] for t in (
        "<|startoftranscript|>", "<|translate|>", "<|transcribe|>", "<|startoflm|>",
        "<|startofprev|>", "<|nospeech|>")]


def write_bin(shape, tokens, out):
    with open(out, "wb") as f:
        f.write(struct.pack("<12I", 0x67676D6C, shape.n_vocab, 1500, shape.width, shape.heads,
                            shape.audio_layers, 448, shape.width, shape.heads, shape.text_layers,
                            shape.mels, 1))
        filters = ears_mel.filters(shape.mels)
        f.write(struct.pack("<2I", *filters.shape) + filters.tobytes())
        f.write(struct.pack("<I", len(tokens)))
        for token in tokens:
            f.write(struct.pack("<I", len(token)) + token)
        for name, tensor in shape.tensors():
            x = tensor.numpy()
            if re.fullmatch(r"encoder\.conv.\.bias", name):
                x = x[:, None]
            half = x.ndim > 1 and not name.endswith(("bias", "positional_embedding"))
            f.write(struct.pack("<3I", x.ndim, len(name), half))
            f.write(struct.pack(f"<{x.ndim}I", *reversed(x.shape)) + name.encode())
            f.write(x.astype(np.float16 if half else np.float32).tobytes())


def read_bin(path):
    """Yields (OpenAI's name, float32 tensor) of all weights of a .bin file."""
    with open(path, "rb") as f:
        f.seek(48)
        n_mels, n_fft = struct.unpack("<2I", f.read(8))
        f.seek(4 * n_mels * n_fft, 1)
        for _ in range(struct.unpack("<I", f.read(4))[0]):
            f.seek(struct.unpack("<I", f.read(4))[0], 1)
        while head := f.read(12):
            n_dims, n_name, kind = struct.unpack("<3I", head)
            dims = struct.unpack(f"<{n_dims}I", f.read(4 * n_dims))[::-1]
            name = f.read(n_name).decode()
            block, size = gguf.GGML_QUANT_SIZES[BIN_TYPES[kind]]
            data = np.frombuffer(f.read(int(np.prod(dims)) // block * size), np.uint8)
            data = data.reshape(*dims[:-1], dims[-1] // block * size)
            if kind < 2:
                x = data.view(np.float16 if kind else np.float32).astype(np.float32)
            else:
                x = gguf.quants.dequantize(data, BIN_TYPES[kind])
            yield name, torch.from_numpy(np.ascontiguousarray(x.reshape(dims)))


def load_reference(shape, tensors):
    with torch.device("meta"):
        model = WhisperForConditionalGeneration(shape.config())
    state = {}
    for name, x in tensors:
        if re.fullmatch(r"encoder\.conv.\.bias", name):
            x = x.reshape(-1)
        state[hugging_face(name)] = x
    state["proj_out.weight"] = state["model.decoder.embed_tokens.weight"]
    model.load_state_dict(state, assign=True)
    return model.eval()


@torch.no_grad()
def ask_reference(shape, model, frames, text, forced=None):
    """Returns the logits of @text, and the next tokens, without rules and with the rules for times.
    With @forced, also returns the logits along these tokens after @text."""
    model.generation_config.no_timestamps_token_id = shape.ids["<|notimestamps|>"]
    model.generation_config.eos_token_id = shape.ids["<|endoftext|>"]
    model.generation_config.bos_token_id = shape.ids["<|endoftext|>"]
    model.generation_config.max_initial_timestamp_index = 50
    encoded = model.model.encoder(torch.from_numpy(frames)[None])
    n = len(text)
    rules = [logits_process.SuppressTokensAtBeginLogitsProcessor(
                 [220, shape.ids["<|endoftext|>"]], n),
             logits_process.SuppressTokensLogitsProcessor(suppressed(shape)),
             logits_process.WhisperTimeStampLogitsProcessor(model.generation_config, begin_index=n)]
    whole = None

    def go_on(rules):
        nonlocal whole
        ids, past, new = torch.tensor([text]), None, torch.tensor([text])
        for _ in range(N_GOES_ON):
            out = model(encoder_outputs=encoded, decoder_input_ids=new, past_key_values=past,
                        use_cache=True)
            whole = out.logits[0].numpy().copy() if whole is None else whole
            past, logits = out.past_key_values, out.logits[:, -1].clone()
            for rule in rules:
                logits = rule(ids, logits)
            new = logits.argmax(-1, keepdim=True)
            ids = torch.cat((ids, new), 1)
        return ids[0, n:].tolist()

    said = {"greedy": go_on([]), "timed": go_on(rules)}
    along = None
    if forced is not None:
        along = model(encoder_outputs=encoded,
                      decoder_input_ids=torch.tensor([text + forced])).logits[0, n - 1:-1].numpy()
    return whole, said, along


def ask_ours(args, path, frames, text, *options):
    with tempfile.TemporaryDirectory(dir=args.dir) as d:
        d = pathlib.Path(d)
        frames.T.astype("<f4").tofile(d / "frames")
        np.array(text, "<i4").tofile(d / "text")
        run = subprocess.run([args.build / "tests/golden/whisper-eval", path, d / "frames", d / "text",
                              str(N_GOES_ON), d / "logits", "--threads", str(args.threads), *options],
                             check=True, capture_output=True, text=True)
        said = {line.split()[0]: [int(t) for t in line.split()[1:]]
                for line in run.stdout.splitlines()}
        return np.fromfile(d / "logits", "<f4").reshape(len(text), -1), said


def peer(library, path, frames, text, n, threads, out):
    """Computes whisper.cpp's logits of @text and its next @n tokens, in a process of its own."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # whisper.cpp prints many messages
    lib = ctypes.CDLL(str(library))
    lib.whisper_init_from_file.restype = ctypes.c_void_p
    lib.whisper_init_from_file.argtypes = [ctypes.c_char_p]
    lib.whisper_get_logits.restype = ctypes.POINTER(ctypes.c_float)
    for name, kinds in (("whisper_get_logits", "p"), ("whisper_n_vocab", "p"),
                        ("whisper_set_mel", "ppii"), ("whisper_encode", "pii"),
                        ("whisper_decode", "ppiii")):
        getattr(lib, name).argtypes = [
            {"p": ctypes.c_void_p, "i": ctypes.c_int}[k] for k in kinds]
    ctx = lib.whisper_init_from_file(str(path).encode())
    frames = np.ascontiguousarray(frames, np.float32)
    assert ctx and lib.whisper_set_mel(ctx, frames.ctypes.data, frames.shape[1], frames.shape[0]) == 0
    assert lib.whisper_encode(ctx, 0, threads) == 0
    n_vocab, rows, said, todo = lib.whisper_n_vocab(ctx), [], [], list(text)
    while len(said) < n:
        token = (ctypes.c_int32 * 1)(todo.pop(0))
        assert lib.whisper_decode(ctx, token, 1, len(rows), threads) == 0
        rows.append(np.ctypeslib.as_array(lib.whisper_get_logits(ctx), (n_vocab,)).copy())
        if not todo:
            todo = [int(rows[-1].argmax())]
            said += todo
    out.put((np.stack(rows[:len(text)]), said))


def ask_peer(args, path, frames, text):
    """Returns what peer() computes, or None if whisper.cpp crashed."""
    out = multiprocessing.Queue()
    p = multiprocessing.Process(target=peer, args=(args.whisper / "libwhisper.so", path, frames,
                                                   text, N_GOES_ON, args.threads, out))
    p.start()
    while p.is_alive() and out.empty():
        p.join(0.2)
    result = None if out.empty() and p.exitcode else out.get(timeout=60)
    p.join()
    return result


def nmse(got, want):
    got, want = got.astype(np.float64), want.astype(np.float64)
    return ((got - want) ** 2).sum() / (want ** 2).sum()


def same_until_end(a, b, end):
    cut = lambda x: x[:x.index(end) + 1] if end in x else x  # noqa: E731
    return cut(a) == cut(b)


def compare(ours, theirs, along, error, end):
    """Compares tokens; returns (whether they pass, a text about it). The tokens pass if they are
    the same up to a place where the errors of the logits may have decided. @along: the exact logits
    that precede each of @ours."""
    if same_until_end(ours, theirs, end):
        return True, "the same"
    i = next(i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b)
    row = along[i].astype(np.float64)
    tie = abs(row[ours[i]] - row[theirs[i]]) <= 6 * np.sqrt(2 * error * (row ** 2).mean())
    return tie, f"{i} the same, then {'a tie' if tie else 'ANOTHER'}"


def check_exact(args, shape, model, directory, frames, text):
    want, said, _ = ask_reference(shape, model, frames, text)
    got, ours = ask_ours(args, directory, frames, text, "--exact")
    error, end = nmse(got, want), shape.ids["<|endoftext|>"]
    same = {k: same_until_end(ours[k], said[k], end) for k in said}
    print(f"{shape.name} F32: NMSE {error:.1e} of transformers; the same tokens: {same['greedy']}; "
          f"with the rules of times: {same['timed']}", flush=True)
    return error <= 1e-7 and all(same.values())


def check_bin(args, shape, model, path, kind, frames, text):
    """Compares a .bin file with @model, which is transformers' model with the weights of the
    file."""
    ours, our_said = ask_ours(args, path, frames, text)
    want, said, along = ask_reference(shape, model, frames, text, our_said["greedy"])
    error, end = nmse(ours, want), shape.ids["<|endoftext|>"]
    good, told = compare(our_said["greedy"], said["greedy"], along, error, end)
    line = f"{shape.name} {kind}: NMSE {error:.1e} of transformers; tokens: {told}"
    bound = 1e-4 if kind == "F16" else 1e-3
    if args.whisper is not None:
        peer_says = ask_peer(args, path, frames, text)
        if peer_says is None:
            line += "; whisper.cpp CRASHES"
        else:
            theirs, their_said = peer_says
            their_error = nmse(theirs, want)
            bound = max(bound, their_error)
            same, told = compare(our_said["greedy"], their_said, along, max(error, their_error), end)
            good &= same
            line += f"; whisper.cpp: NMSE {their_error:.1e}; tokens, ours and its: {told}"
    print(line, flush=True)
    return good and error <= bound


def read_speech(path):
    with wave.open(str(path)) as f:
        x = np.frombuffer(f.readframes(f.getnframes()), "<i2").astype(np.float32) / 32768
        assert f.getframerate() == 16000 and f.getnchannels() == 1
    return x


def noise():
    """Makes ten seconds of noise, alternately louder and softer."""
    rng = np.random.default_rng(5)
    loud = np.repeat(rng.random(40, np.float32), 4000)
    return 0.3 * loud * rng.standard_normal(160000, np.float32)


def check_shape(args, name, tokens, speech):
    shape, formats = Shape(name), args.formats.split(",")
    frames = WhisperFeatureExtractor(feature_size=shape.mels)(
        speech, sampling_rate=16000, return_tensors="np").input_features[0]
    text = [shape.ids[t] for t in ("<|startofprev|>", "<|startoftranscript|>", "<|en|>",
                                   "<|transcribe|>")]
    text = text[:1] + [400, 370, 456, 11] + text[1:]
    good, d = True, pathlib.Path(tempfile.mkdtemp(dir=args.dir))
    try:
        if "F32" in formats:
            write_directory(shape, tokens, d / "f32")
            model = load_reference(shape, shape.tensors())
            good &= check_exact(args, shape, model, d / "f32", frames, text)
            shutil.rmtree(d / "f32")
            del model
        if set(formats) - {"F32"}:
            write_bin(shape, tokens, d / "F16.bin")
        for kind in formats:
            gc.collect()
            path = d / f"{kind}.bin"
            if kind == "F32":
                continue
            if kind != "F16":
                subprocess.run([args.whisper / "whisper-quantize", d / "F16.bin", path,
                                kind.lower()], check=True, capture_output=True)
            model = load_reference(shape, read_bin(path))
            good &= check_bin(args, shape, model, path, kind, frames, text)
            del model
    finally:
        shutil.rmtree(d)
    return good


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("shapes", nargs="*", choices=[[], *SHAPES])
    p.add_argument("--build", type=pathlib.Path, required=True)
    p.add_argument("--whisper", type=pathlib.Path, help="the folder of whisper.cpp's programs and library")
    p.add_argument("--speech", type=pathlib.Path, help="a .wav file, mono, 16 kHz, instead of noise")
    p.add_argument("--formats", default="")
    p.add_argument("--threads", type=int, default=2)
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    multiprocessing.set_start_method("spawn")
    args.formats = args.formats or ("F32,F16,Q8_0,Q5_0" if args.whisper else "F32,F16")
    args.dir = os.environ.get("BENCH_DIR")
    whisper = pathlib.Path(importlib.util.find_spec("whisper").origin).parent
    tokens = read_tokens(whisper / "assets/multilingual.tiktoken")
    speech = read_speech(args.speech) if args.speech else noise()
    results = [check_shape(args, name, tokens, speech)
               for name in args.shapes or ["tiny", "base", "large-v3", "turbo"]]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
