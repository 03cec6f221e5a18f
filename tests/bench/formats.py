# SPDX-License-Identifier: Apache-2.0
"""Measures decoding and prefill in every number format of GGUF files: `sconce bench` and
`llama-bench` of llama.cpp take turns on the same models, whose matrices all have one format."""
from engine import Turns, commits, ratio, run_json, sconce_bench
from figures import median

# From the largest to the smallest.
FORMATS = ("Q8_0", "Q6_K", "Q5_1", "Q5_0", "Q5_K", "Q4_1", "IQ4_NL", "NVFP4", "Q4_0", "Q4_K", "IQ4_XS",
           "MXFP4", "IQ3_S", "Q3_K", "IQ3_XXS", "Q2_K", "IQ2_S", "IQ2_XS", "Q2_0", "IQ2_XXS",
           "TQ2_0", "IQ1_M", "IQ1_S", "Q1_0")
# A format reaches its target in decoding with this share of the bandwidth bound, or with this ratio.
DECODE_OF_BANDWIDTH = 80  # percent
DECODE_OF_LLAMA, DECODE_OF_LLAMA_IQ = 1.5, 1.3
PREFILL_OF_LLAMA = 2.5


def ours(options, model):
    """Returns (tokens per second of decoding, its share of the bandwidth bound, tokens per second of
    prefill)."""
    r = sconce_bench(options.sconce, model, options.threads, "-p", options.prompt, "-n",
                     options.generate, "-r", options.repeat, "--membw")
    return r["tg"]["tok_s"], r["tg"]["of_membw"], r["pp"]["tok_s"]


def theirs(options, model):
    """Returns the tokens per second of decoding and of prefill, or None if llama.cpp cannot run the
    model."""
    try:
        rows = run_json([options.llama_bench, "-m", model, "-t", options.threads, "-ngl", "0", "-o",
                         "json", "-r", options.repeat, "-p", options.prompt, "-n",
                         options.generate])
    except RuntimeError:
        return None
    commits[options.llama_bench] = rows[-1].get("build_commit")
    speed = {bool(row["n_gen"]): row["avg_ts"] for row in rows}
    return speed[True], speed[False]


def judge(figures, kind, share, decode, prefill):
    """Compares the figures of a format with its targets."""
    least = DECODE_OF_LLAMA_IQ if kind.startswith("IQ") else DECODE_OF_LLAMA
    fast = share >= DECODE_OF_BANDWIDTH
    figures.figure("%s, decoding, of the bandwidth bound" % kind, share, "%",
                   least=DECODE_OF_BANDWIDTH if fast or decode is None else None)
    if decode is None:
        figures.skipped("%s, beside llama.cpp" % kind, "llama.cpp did not run")
        return
    figures.figure("%s, decoding, beside llama.cpp" % kind, decode, "×", least=None if fast else least)
    figures.figure("%s, prefill, beside llama.cpp" % kind, prefill, "×", least=PREFILL_OF_LLAMA)


def measure(options, figures, kind):
    """Returns the row of the table."""
    model = options.model(kind)
    programs = {"sconce": lambda m: ours(options, m)}
    if options.llama_bench:
        programs["llama.cpp"] = lambda m: theirs(options, m)
    results = Turns(options, programs).run(model)
    mine, peer = results["sconce"], results.get("llama.cpp", [None])
    figures.raw("formats", kind, results)
    share = 100 * median([r[1] for r in mine])
    row = [kind, "%.0f" % (model.stat().st_size / 1e6), "%.4g" % median([r[0] for r in mine]),
           "%.0f %%" % share]
    prompt = "%.4g" % median([r[2] for r in mine])
    if None in peer:
        judge(figures, kind, share, None, None)
        return row + ["–", "–", prompt, "–", "–"]
    decode = ratio([r[0] for r in mine], [r[0] for r in peer])
    prefill = ratio([r[2] for r in mine], [r[1] for r in peer])
    judge(figures, kind, share, decode, prefill)
    return row + ["%.4g" % median([r[0] for r in peer]), "%.2f" % decode, prompt,
                  "%.4g" % median([r[1] for r in peer]), "%.2f" % prefill]


def formats(options, figures):
    """Measures all formats, or those that were chosen. A model that was made for this is deleted
    afterwards, because all together are large."""
    figures.title("All formats: a prompt of %d tokens and %d decoded tokens, %d threads"
                  % (options.prompt, options.generate, options.threads))
    rows = []
    for kind in FORMATS:
        if options.formats and kind not in options.formats:
            continue
        path = options.model_path(kind)
        was_there = path.exists()
        rows.append(measure(options, figures, kind))
        if not was_there:
            path.unlink()
    if rows:
        figures.table("formats", ["weights", "MB", "decoding tok/s", "of the bandwidth bound",
                                  "llama.cpp", "ratio", "prompt tok/s", "llama.cpp", "ratio"], rows)
