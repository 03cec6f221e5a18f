# SPDX-License-Identifier: Apache-2.0
"""Measures decoding and prefill: `sconce bench` and the benches of peers take turns on the same
models."""
import json
import os
import pathlib
import subprocess

from figures import median

HERE = pathlib.Path(__file__).resolve().parent

# Formats with targets, and formats that are measured only for information.
TARGETED = ("Q4_K_M", "Q8_0", "Q4_0", "Q5_K", "Q6_K")
INFORMATION = ("F16", "BF16")

DECODE_OF_BANDWIDTH = 90  # percent
DECODE_OF_LLAMA = 1.8
PREFILL_OF_PEAK = 50  # percent
PREFILL_OF_LLAMA = 3.5
PREFILL_OF_IK = 2.2


def run_json(argv, env=None):
    result = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env=env)
    if result.returncode != 0:
        raise RuntimeError("%s\n%s" % (" ".join(map(str, argv)), result.stderr[-2000:]))
    return json.loads(result.stdout)


def sconce_bench(sconce, model, threads, *args):
    return run_json([sconce, "bench", "-m", model, "-t", threads, "--json", *args])


# The commits, or versions, of the programs that ran, by path.
commits = {}


def peer_bench(path, model, threads, *args):
    """Returns the tokens per second of one test of llama-bench, from llama.cpp or ik_llama.cpp."""
    rows = run_json([path, "-m", model, "-t", threads, "-ngl", "0", "-o", "json", *args])
    commits[path] = rows[-1].get("build_commit")
    return rows[-1]["avg_ts"]


def mistralrs_bench(python, model, threads, n_prompt, n_generate):
    """Returns the tokens per second of one run of mistral.rs, whose module @python has."""
    rows = run_json([python, HERE / "mistralrs_peer.py", model, n_prompt, n_generate, 1],
                    env=dict(os.environ, RAYON_NUM_THREADS=str(threads)))
    commits[python] = rows[-1]["build_commit"]
    return rows[-1]["avg_ts"]


class Turns:
    """Runs rounds in which each program measures once, one right after the other. Every second
    round has the reverse order, so that no program always comes first."""

    def __init__(self, options, programs):
        self.options = options
        self.programs = programs  # name → function of a model that returns a figure or a tuple
        self.results = {name: [] for name in programs}

    def run(self, model):
        for i in range(self.options.rounds):
            with self.options.lock:
                for name in list(self.programs)[::-1 if i % 2 else 1]:
                    self.results[name].append(self.programs[name](model))
        return self.results


def ratio(ours, theirs):
    return median([a / b for a, b in zip(ours, theirs)])


def peers(options, *args):
    """Returns functions that measure the peers whose programs were given, by name."""
    found = {}
    for name, path in (("llama.cpp", options.llama_bench), ("ik_llama.cpp", options.ik_bench)):
        if path:
            found[name] = lambda model, path=path: peer_bench(
                path, model, options.threads, "-r", options.repeat, *args)
    if options.mistralrs:
        found["mistral.rs"] = lambda model: mistralrs_bench(
            options.mistralrs, model, options.threads, args[1], args[3])
    return found


def peer_commits(options):
    """Returns the commit or the version of each peer that ran."""
    paths = {"llama.cpp": options.llama_bench, "ik_llama.cpp": options.ik_bench,
             "mistral.rs": options.mistralrs}
    return {name: commits[path] for name, path in paths.items() if commits.get(path)}


def cells(results, name):
    return "%.4g" % median(results[name]) if name in results else "–"


def fractions(measured, steady):
    """Returns, for each run, the share of the bound that the run reached. The bound is the one that
    was measured beside this run, or with @steady the highest bound of all runs."""
    highest = max(bound for _, _, bound in measured)
    return [part * (bound / highest if steady else 1) for _, part, bound in measured]


def compare(options, figures, part, title, measure, extra, targets):
    """Measures one part ("decode" or "prefill") for all formats. @measure: model → (tok/s, fraction
    of the bound, bound); @targets: (percent of the bound, its name, {peer: ratio}, unit of the
    bound, whether the machine always reaches that bound)."""
    percent, bound, ratios, unit, steady = targets
    if options.mistralrs:
        ratios = {**ratios, "mistral.rs": None}
    figures.title(title)
    rows, bounds = [], []
    for preset in (*TARGETED, *INFORMATION):
        if options.formats and preset not in options.formats:
            continue
        info = preset in INFORMATION
        model = options.model(preset)
        results = Turns(options, {"sconce": measure, **peers(options, *extra)}).run(model)
        ours = [r[0] for r in results["sconce"]]
        bounds += [r[2] for r in results["sconce"]]
        figures.raw(part, preset, results)
        of_bound = 100 * median(fractions(results["sconce"], steady))
        results["sconce"] = ours
        figures.figure("%s %s" % (part, preset), median(ours), "tok/s")
        # The measured peak is that of integers; products of floats have a different peak.
        known = not (info and part == "prefill")
        if known:
            figures.figure("%s %s, of the %s" % (part, preset, bound), of_bound, "%",
                           least=None if info else percent)
        row = [preset, "%.4g" % median(ours), "%.0f %%" % of_bound if known else "–"]
        for peer, least in ratios.items():
            name = "%s %s, beside %s" % (part, preset, peer)
            if peer in results:
                value = ratio(ours, results[peer])
                figures.figure(name, value, "×", least=None if info else least)
                row += [cells(results, peer), "%.2f" % value]
            else:
                figures.skipped(name, "its bench was not given")
                row += ["–", "–"]
        rows.append(row)
    header = ["weights", "tok/s", "of the " + bound]
    for peer in ratios:
        header += [peer, "ratio"]
    found = "%.3g %s (median; %.3g to %.3g)" % (median(bounds), unit, min(bounds), max(bounds))
    figures.note("the %s was %s" % (bound, found))
    figures.table(part, header, rows, "The %s was %s." % (bound, found))


def decode(options, figures):
    n = options.generate

    def measure(model):
        r = sconce_bench(options.sconce, model, options.threads, "-p", 0, "-n", n, "-r",
                         options.repeat, "--membw")
        return r["tg"]["tok_s"], r["tg"]["of_membw"], r["membw"]["bytes_s"] * 1e-9

    compare(options, figures, "decode", "Decoding %d tokens, %d threads" % (n, options.threads),
            measure, ("-p", 0, "-n", n),
            (DECODE_OF_BANDWIDTH, "bandwidth bound",
             {"llama.cpp": DECODE_OF_LLAMA, "ik_llama.cpp": None}, "GB/s", False))


def prefill(options, figures):
    n = options.prompt

    def measure(model):
        r = sconce_bench(options.sconce, model, options.threads, "-p", n, "-n", 0, "-r",
                         options.repeat, "--peak")
        return r["pp"]["tok_s"], r["pp"]["of_peak"], r["peak"]["ops_s"] * 1e-12

    compare(options, figures, "prefill", "A prompt of %d tokens, %d threads" % (n, options.threads),
            measure, ("-p", n, "-n", 0),
            (PREFILL_OF_PEAK, "int8 peak",
             {"llama.cpp": PREFILL_OF_LLAMA, "ik_llama.cpp": PREFILL_OF_IK}, "TOPS", True))
