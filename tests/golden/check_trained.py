#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares trained models in each number format with the same weights decoded to F32.

    check_trained.py SCONCE [MODEL]... [-k PART]

SCONCE is the program. `sconce convert` writes each model in each type: as GGUF files, and, if the
model is a directory, as directories for MLX, GPTQ and AWQ. It also converts each result to F32.
`sconce ppl` then compares both on a text: the Kullback-Leibler divergence of the predictions, and
how often both find the same token most probable. On the CPU they differ because products with most
formats round their inputs to int8; a Vulkan device computes with floats. Keys and values are F32.
Also checks that GPTQ codes keep their weights when they are repacked to MLX, from there back to
GPTQ, and directly to AWQ.

Models: those of the arguments, or sconce-guide, TinyStories-656K (if $SCONCE_DATA has it), and,
with SCONCE_TEST_FULL, Gemma 3 270M (if the packages in $SCONCE_WEIGHTS contain it). A CPU runs its
best instruction set; with SCONCE_TEST_FULL, it runs each, and the Vulkan device runs the formats,
too. The reference kernels run only small models, because they need a minute for each format of
Gemma. -k selects the types whose names contain PART. Exit status: 1 if a limit is exceeded.
"""
import argparse
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import trained_models

ROOT = pathlib.Path(__file__).resolve().parents[2]
FULL = bool(os.environ.get("SCONCE_TEST_FULL"))
RUNGS = ("ref", "avx2", "avxvnni", "avx512", "avx512fp16", "amx", "neon", "dotprod", "i8mm")
GGUF = """F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K_M Q4_K_M Q5_K_M Q6_K IQ1_S IQ1_M IQ2_XXS IQ2_XS
    IQ2_S IQ3_XXS IQ3_S IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4 NVFP4 Q1_0 Q2_0""".split()
# Types that are given to the tensors that match the pattern; the others get Q8_0. Models whose weights
# are not ternary do not survive ternary values in all matrices: any rounding then changes everything.
FEW = r"^blk\.[01]\.ffn_down"
SOME = {"MXFP4": ".*", "IQ2_S": ".*", "Q1_0": FEW, "Q2_0": FEW, "TQ1_0": FEW, "TQ2_0": FEW}
NEED_IMPORTANCE = ("IQ1_", "IQ2_", "IQ3_", "Q1_0")
MLX = ["MLX%d_G%d" % (bits, group) for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)] + [
    "MLX_MXFP4", "MLX_MXFP8", "MLX_NVFP4", "MLX_MIXED_2_6", "MLX_MIXED_3_4", "MLX_MIXED_3_6",
    "MLX_MIXED_4_6"]
# The divergence up to which a format is fine on the CPU. Where it is larger, it may be so because
# the weights are so inexact that the model has become chaotic: then every rounding has large effects.
# Therefore the same weights are also converted to Q8_0, whose products round inputs alike. The
# divergence may be TIMES_Q8_0 times that of this Q8_0 model, and the share of equal top tokens may
# be smaller by LESS_TOP.
FINE, TIMES_Q8_0, LESS_TOP = 1e-3, 3, 0.2
# The limits for Q8_0 itself, and for formats whose products do not round inputs to bytes. On some
# CPUs, products with BF16 round inputs to BF16, and those with F16 round both factors to 13 bits.
FIXED = {"F16": 1e-4, "BF16": 1e-3, "Q8_0": 1e-2}
# The limit where inputs are floats, and the instruction sets that multiply F16 as floats.
EXACT = 1e-6
F16_AS_FLOATS = ("ref", "avx2", "avxvnni", "neon", "dotprod", "i8mm")
# The least share of equal top tokens, unless Q8_0 has a smaller one.
SAME_TOP = 0.9
# Bytes in F32 from which on the reference kernels are left out.
LARGE = 64 << 20

TEXT = """Once upon a time, there was a little girl named Mia. She lived in a small house near the
woods with her mom, her dad and a brown dog. Every morning the dog ran into the garden and dug a
hole. One day, Mia saw that something was shining in the hole. "Look, Mom!" she said. "There is a
box!" Her mom came to help. They pulled and pulled until the box came out of the ground. It was old
and heavy, and it had a big lock. Mia was sad because she did not have a key. Then the dog barked
and ran back to the hole. He dug again, and he found a small key. Mia was very happy. She opened the
box with the key. Inside there was a red ball and a letter. The letter said, "This ball is for a
good dog." Mia laughed and threw the ball, and the dog ran after it. They played in the garden all
day. When the sun went down, they were tired and went home. Mia gave the dog a big hug. "You are the
best dog in the world," she said. From that day on, they were never bored again. The dog kept the
ball in his bed, and Mia kept the letter in a book. She read it to her friends when they came to
visit, and they all wanted to hear the story again.
"""


def sconce(*args, check=True):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True)
    if check and done.returncode:
        raise SystemExit("%s\n%s" % (" ".join(map(str, args)), done.stderr))
    return done


class Check:
    def __init__(self, program, root, part):
        self.program, self.root, self.part = program, root, part
        self.text = root / "text.txt"
        self.text.write_text(TEXT)
        self.failed = 0
        self.places = self.find_places()

    def find_places(self):
        """Returns the options of `sconce ppl` for each place that runs the formats."""
        if not FULL:
            return [("cpu", ["--device", "cpu"], True)]
        places = []
        for rung in RUNGS:
            args = ["--device", "cpu", "--isa", rung]
            said = sconce(self.program, "ppl", ROOT / "packaging/guide/sconce-guide.gguf", self.text,
                          "-c", 8, "--chunks", 1, *args, check=False)
            if said.returncode == 0:
                places.append((rung, args, True))
        if "vulkan:0" in sconce(self.program, "info", "--devices").stdout:
            places.append(("vulkan", ["--device", "vulkan:0"], False))
        return places

    def convert(self, model, out, kind, *more):
        """Converts a model. Returns the formats of the new tensors."""
        said = sconce(self.program, "convert", model, out, "--type", kind, "--json", *more).stdout
        return [json.loads(line).get("to") for line in said.splitlines()]

    def measure(self, path, plain, n_context, args):
        """Returns the divergence, the share of equal top tokens, and the perplexity."""
        got = json.loads(sconce(self.program, "ppl", path, self.text, "--base", plain, "-c",
                                n_context, "--chunks", 1, "--kv-type", "f32", "--base-kv-type",
                                "f32", "--json", *args).stdout)
        return got["base"]["kld"]["value"], got["base"]["same_top"]["value"], got["ppl"]

    def limits(self, kind, plain, n_context, place, args, rounds, found):
        """Returns the limits of the divergence and of the share of equal top tokens."""
        if kind == "F16" and place in F16_AS_FLOATS:
            return EXACT, SAME_TOP
        if not rounds or kind in FIXED:
            return FIXED[kind] if rounds else EXACT, SAME_TOP
        if found[0] <= FINE and found[1] >= SAME_TOP:
            return FINE, SAME_TOP
        eight = self.root / "q8_0.gguf"
        self.convert(plain, eight, "Q8_0", "--force", "--pure")
        kld, top, _ = self.measure(eight, plain, n_context, args)
        eight.unlink()
        return max(TIMES_Q8_0 * kld, FINE), min(SAME_TOP, top - LESS_TOP)

    def compare(self, name, kind, path, n_context):
        """Compares the model @path with its weights in F32. Returns a digest of the weights."""
        plain = self.root / "f32.gguf"
        self.convert(path, plain, "F32", "--force")
        large = plain.stat().st_size > LARGE
        for place, args, rounds in self.places:
            if large and place == "ref":
                continue
            found = self.measure(path, plain, n_context, args)
            most, least = self.limits(kind, plain, n_context, place, args, rounds, found)
            bad = not (found[0] <= most and found[1] >= least)
            self.failed += bad
            print("%-16s %-16s %-10s divergence %.2e (limit %.1e), same top token %5.1f %%, "
                  "perplexity %.2f%s" % (name, kind, place, found[0], most, 100 * found[1], found[2],
                                         "  TOO LARGE" if bad else ""), flush=True)
        digest = hashlib.sha256(plain.read_bytes()[trained_models.Gguf(plain).start:]).hexdigest()
        plain.unlink()
        return digest

    def wanted(self, kind):
        return not self.part or self.part in kind

    def files(self, name, model, n_context, importance):
        for kind in filter(self.wanted, GGUF):
            out = self.root / "model.gguf"
            more = ["--force"] + (["--tensor-type", "%s=%s" % (SOME[kind], kind)] if kind in SOME
                                  else ["--pure"])
            if kind.startswith(NEED_IMPORTANCE):
                more += ["--imatrix", importance]
            formats = self.convert(model, out, "Q8_0" if kind in SOME else kind, *more)
            if kind.removesuffix("_M" if "K" in kind else "") not in formats:
                print("%-16s %-16s no matrix has rows of whole blocks" % (name, kind))
                continue
            self.compare(name, kind, out, n_context)

    def directories(self, name, model, n_context):
        out = self.root / "model"
        for kind in filter(self.wanted, MLX):
            if "U32" not in self.planes(model, out, kind):
                print("%-16s %-16s no matrix has rows of whole groups" % (name, kind))
            else:
                self.compare(name, kind, out, n_context)
            shutil.rmtree(out)

    def planes(self, model, out, kind):
        self.convert(model, out, kind)
        return {t[0] for t in trained_models.read_safetensors(out / "model.safetensors").values()}

    def repacks(self, name, model, n_context):
        """Quantizes to GPTQ. Repacks the codes to MLX and to AWQ, and those of MLX back to GPTQ."""
        if not self.wanted("GPTQ"):
            return
        made = {kind: self.root / kind for kind in ("gptq", "mlx", "again", "awq")}
        trained_models.code_gptq(model, made["gptq"])
        self.convert(made["gptq"], made["mlx"], "MLX")
        self.convert(made["mlx"], made["again"], "GPTQ")
        self.convert(made["gptq"], made["awq"], "AWQ")
        found = {kind: self.compare(name, "GPTQ as " + kind, path, n_context)
                 for kind, path in made.items()}
        if len(set(found.values())) > 1:
            print("%-16s the repacks have different weights: %s" % (name, found))
            self.failed += 1
        for path in made.values():
            shutil.rmtree(path)

    def model(self, name, model, n_context, text):
        self.text.write_text(text)
        importance = self.root / "importance.gguf"
        sconce(self.program, "imatrix", model, self.text, "-o", importance, "-c", n_context, "--force",
               check=True)
        self.files(name, model, n_context, importance)
        if model.is_dir():
            self.directories(name, model, n_context)
            self.repacks(name, model, n_context)


def models(check, root):
    """Yields the name, the path, the length of a chunk in tokens, and a text of each model."""
    guide = ROOT / "packaging/guide"
    yield ("sconce-guide", guide / "sconce-guide.gguf", 128,
           (guide / "exam.txt").read_text()[:8000])
    stories = pathlib.Path(os.environ.get("SCONCE_DATA", "")) / "models/TinyStories-656K"
    if (stories / "config.json").exists():
        yield stories.name, stories, 128, TEXT
    else:
        print("skipped: TinyStories-656K; SCONCE_DATA does not name a directory that has it")
    if not FULL:
        return
    if not trained_models.write_gemma(root / "gemma.gguf"):
        print("skipped: Gemma 3 270M; " + trained_models.GEMMA_HOW)
        return
    check.convert(root / "gemma.gguf", root / "gemma-bf16.gguf", "BF16")
    trained_models.hf_of_gemma(root / "gemma-bf16.gguf", root / "gemma")
    (root / "gemma-bf16.gguf").unlink()
    yield "gemma-3-270m", root / "gemma", 64, TEXT


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    parser.add_argument("-k", dest="part")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        root = pathlib.Path(tmp)
        check = Check(args.program, root, args.part)
        for model in ([(m.name, m, 64, TEXT) for m in args.models] if args.models else
                      models(check, root)):
            check.model(*model)
    print("%d failed" % check.failed)
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
