#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `sconce convert` with llama-quantize of llama.cpp: errors, perplexity and time.

    convert.py SCONCE LLAMA_QUANTIZE [--types TYPE…] [--model MODEL [--text FILE]] [--rounds N]

SCONCE and LLAMA_QUANTIZE are the programs. Both quantize random matrices to each type: one is
normally distributed, and one has Student's distribution with 3 degrees of freedom, which has heavy
tails. The error is the root mean square of the differences, in percent of that of the numbers; with
importance, both means are weighted with it. Types with less than 3 bits, and IQ3_XXS, get an
importance matrix of random numbers.

With --model, a GGUF file in F32, BF16 or F16, both programs also quantize this model with two
threads, in turns. The table then has the medians of --rounds times, and with --text the
perplexity of both files, which `sconce ppl` computes; the importance matrix is that of the text.
Only Python's standard library is needed.
"""
import argparse
import array
import json
import math
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
from gguf_file import GgufWriter
from trained_models import Gguf

TYPES = """Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K_S Q4_K_S Q5_K_S Q6_K IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ3_XXS
    IQ3_S IQ4_NL IQ4_XS TQ1_0 TQ2_0""".split()
IMPORTANT = ("IQ1_", "IQ2_", "IQ3_XXS", "Q2_K")
WIDTH, FF, HEADS, VOCAB = 512, 2048, 4, 256
MATRICES = {"normal": "blk.0.ffn_up.weight", "heavy": "blk.0.ffn_gate.weight"}


def student(rng):
    return rng.gauss(0, 1) / math.sqrt(sum(rng.gauss(0, 1) ** 2 for _ in range(3)) / 3)


def write_matrices(path, importance):
    """Writes a model of one layer with the two matrices, and an importance matrix for it (the
    format .dat of llama-imatrix)."""
    rng = random.Random(22)
    w = GgufWriter()
    w.add_string("general.architecture", "llama")
    for key, value in (("context_length", 512), ("embedding_length", WIDTH), ("block_count", 1),
                       ("feed_forward_length", FF), ("attention.head_count", HEADS),
                       ("vocab_size", VOCAB)):
        w.add_uint("llama." + key, value)
    w.add_float("llama.attention.layer_norm_rms_epsilon", 1e-5)
    w.add_string("tokenizer.ggml.model", "llama")
    w.add_strings("tokenizer.ggml.tokens", ["<0x%02X>" % i for i in range(VOCAB)])
    w.add_floats("tokenizer.ggml.scores", [0.0] * VOCAB)
    w.add_ints("tokenizer.ggml.token_type", [6] * VOCAB)
    shapes = {"token_embd": (VOCAB, WIDTH), "output_norm": (1, WIDTH), "blk.0.attn_norm": (1, WIDTH),
              "blk.0.attn_q": (WIDTH, WIDTH), "blk.0.attn_k": (WIDTH, WIDTH),
              "blk.0.attn_v": (WIDTH, WIDTH), "blk.0.attn_output": (WIDTH, WIDTH),
              "blk.0.ffn_norm": (1, WIDTH), "blk.0.ffn_gate": (FF, WIDTH),
              "blk.0.ffn_up": (FF, WIDTH), "blk.0.ffn_down": (WIDTH, FF)}
    heavy = [student(rng) for _ in range(FF * WIDTH)]
    with open(importance, "wb") as f:
        f.write(struct.pack("<i", sum(rows > 1 for rows, _ in shapes.values())))
        for name, (rows, cols) in shapes.items():
            name += ".weight"
            numbers = heavy if name == MATRICES["heavy"] else [
                rng.gauss(0, 1) for _ in range(rows * cols)]
            data = array.array("f", numbers).tobytes()
            w.add_tensor(name, "F32", rows, cols, lambda out, data=data: out.write(data))
            if rows > 1:
                f.write(struct.pack("<i%dsii%df" % (len(name), cols), len(name), name.encode(), 1,
                                    cols, *(rng.expovariate(1) + 0.05 for _ in range(cols))))
        f.write(struct.pack("<ii", 1, 0))
    w.write(path)


def read_importance(path):
    data, found, at = path.read_bytes(), {}, 4
    for _ in range(*struct.unpack_from("<i", data)):
        n, = struct.unpack_from("<i", data, at)
        name = data[at + 4:at + 4 + n].decode()
        n_calls, cols = struct.unpack_from("<ii", data, at + 4 + n)
        at += 12 + n
        found[name] = array.array("f", data[at:at + 4 * cols])
        at += 4 * cols
    return found


def error(old, new, weights):
    """Returns the error in percent. @weights: of the columns, or None."""
    n = len(weights) if weights else 1
    a = b = 0.0
    for i, (x, y) in enumerate(zip(old, new)):
        w = weights[i % n] if weights else 1.0
        a += w * x * x
        b += w * (x - y) * (x - y)
    return 100 * math.sqrt(b / a)


class Programs:
    def __init__(self, args, root):
        self.args, self.root = args, root

    def command(self, who, model, out, kind, importance, pure):
        more = ["--imatrix", importance] if importance and kind.startswith(IMPORTANT) else []
        if who == "sconce":
            return [self.args.sconce, "convert", model, out, "--type", kind, "-t", "2", "-q",
                    "--force", *(["--pure"] if pure else []), *more]
        return [self.args.llama_quantize, *(["--pure"] if pure else []), *more, model, out, kind, "2"]

    def run(self, *args):
        begin = time.monotonic()
        done = subprocess.run([str(a) for a in args], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit("%s\n%s" % (" ".join(map(str, args)), done.stderr[-2000:]))
        return time.monotonic() - begin, done.stdout

    def errors(self, who, kind, model, importance):
        """Quantizes the random matrices, and returns their errors."""
        out, plain = self.root / "out.gguf", self.root / "plain.gguf"
        self.run(*self.command(who, model, out, kind, importance, True))
        self.run(self.args.sconce, "convert", out, plain, "--type", "F32", "-q", "--force")
        old, new = Gguf(model), Gguf(plain)
        weights = read_importance(importance) if kind.startswith(IMPORTANT) else {}
        return {which: error(array.array("f", old.data(name)), array.array("f", new.data(name)),
                             weights.get(name)) for which, name in MATRICES.items()}

    def perplexity(self, path):
        out = self.run(self.args.sconce, "ppl", path, self.args.text, "-c", "512", "--json")[1]
        return json.loads(out)["ppl"]

    def times(self, kind, importance):
        """Quantizes the model in turns. Returns the median times, and the perplexities."""
        times = {"sconce": [], "llama": []}
        for _ in range(self.args.rounds):
            for who, found in times.items():
                out = self.root / (who + ".gguf")
                out.unlink(missing_ok=True)
                found.append(self.run(*self.command(who, self.args.model, out, kind, importance,
                                                    False))[0])
        ppl = {who: self.perplexity(self.root / (who + ".gguf")) if self.args.text else math.nan
               for who in times}
        return {who: statistics.median(found) for who, found in times.items()}, ppl


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sconce")
    parser.add_argument("llama_quantize")
    parser.add_argument("--types", nargs="+", default=TYPES)
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        root = pathlib.Path(tmp)
        programs = Programs(args, root)
        model, importance, of_text = root / "matrices.gguf", root / "matrices.dat", None
        write_matrices(model, importance)
        if args.model and args.text:
            of_text = root / "text.gguf"
            programs.run(args.sconce, "imatrix", args.model, args.text, "-o", of_text)
        print("| type | normal: sconce | llama-quantize | heavy tails: sconce | llama-quantize |" +
              (" perplexity: sconce | llama-quantize | seconds: sconce | llama-quantize | ratio |"
               if args.model else ""), flush=True)
        for kind in args.types:
            ours = programs.errors("sconce", kind, model, importance)
            theirs = programs.errors("llama", kind, model, importance)
            line = "| %s |" % kind + "".join(" %.2f %% | %.2f %% |" % (ours[w], theirs[w])
                                             for w in MATRICES)
            if args.model:
                times, ppl = programs.times(kind, of_text)
                line += " %.2f | %.2f | %.2f | %.2f | %.2f |" % (
                    ppl["sconce"], ppl["llama"], times["sconce"], times["llama"],
                    times["llama"] / times["sconce"])
            print(line, flush=True)


if __name__ == "__main__":
    main()
