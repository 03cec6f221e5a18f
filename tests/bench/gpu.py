# SPDX-License-Identifier: Apache-2.0
"""Prints each figure by which the Vulkan backend is judged, its target, and whether the target is
reached.

Exit status: 0 when all targets are reached, 1 when a target is missed or the time was too short to
measure its figure, 2 when something could not be run.
"""
import argparse
import datetime
import glob
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from engine import run_json  # noqa: E402
from figures import median, run  # noqa: E402
from programs import Lock  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent

SHAPES = ("qwen3-0.6b", "qwen3-1.7b", "qwen3-8b")
PRESETS = ("Q4_K_M", "Q8_0", "BF16")
STREAMS = 16
STREAM_DEPTH = 128  # tokens in the context of each stream

OF_LLAMA = 1.1
OF_LLAMA_LAVAPIPE = 5
OF_COPY = 70  # percent of the copy bandwidth, for the largest shape
WARM_START = 500  # ms


class Options(argparse.Namespace):
    """Holds the command line, and the values derived from it."""

    def model(self, shape, preset):
        """Returns the file of a model of random weights; makes it if needed."""
        path = self.models / ("%s-%s.gguf" % (shape, preset))
        if not path.exists():
            begin = time.monotonic()
            self.models.mkdir(parents=True, exist_ok=True)
            made = path.with_suffix(".part")
            subprocess.run([sys.executable, HERE / "make_model.py", "--shape", shape, "--type",
                            preset, made], check=True)
            made.rename(path)
            self.made.append(path)
            print("made %s in %.1f s" % (path.name, time.monotonic() - begin), flush=True)
        return path

    def drop(self, path):
        """Deletes a model that this run made, because all of them together are large."""
        if path in self.made and not self.keep:
            path.unlink()
            self.made.remove(path)

    def time_left(self):
        return self.minutes * 60 - (time.monotonic() - self.begin)


def parse(argv):
    p = argparse.ArgumentParser(
        prog="gpu.sh", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = p.add_argument
    add("--build", type=pathlib.Path, default=TREE / "build",
        help="build directory (default: build)")
    add("--device", default="vulkan", metavar="NAME",
        help="the device that computes (default: vulkan)")
    add("--llama-bench", type=pathlib.Path, metavar="PATH",
        help="llama-bench of llama.cpp, built with Vulkan")
    add("--llama-batched-bench", type=pathlib.Path, metavar="PATH",
        help="llama-batched-bench of llama.cpp, for 16 streams")
    add("--lavapipe", action="store_true",
        help="use Vulkan in software, with a short prompt and few tokens")
    add("--shape", action="append", dest="shapes", metavar="NAME", help="only this shape (%s)"
        % ", ".join(SHAPES))
    add("--preset", action="append", dest="presets", metavar="TYPE", help="only this format (%s)"
        % ", ".join(PRESETS))
    add("--models", type=pathlib.Path, metavar="DIR",
        default=os.environ.get("BENCH_DIR", tempfile.gettempdir() + "/sconce-bench"),
        help="directory of the models (default: $BENCH_DIR, else /tmp/sconce-bench);\n"
             "missing ones are made")
    add("--keep", action="store_true", help="keep the models that are made")
    add("-p", "--prompts", type=int, nargs=2, default=None, metavar="N",
        help="numbers of tokens of the two prompts (default: 512 4096)")
    add("-n", "--generate", type=int, default=None, metavar="N",
        help="number of tokens to decode (default: 128)")
    add("-r", "--repeat", type=int, default=3, metavar="N",
        help="number of runs of each bench (default: 3)")
    add("--starts", type=int, default=5, metavar="N", help="number of warm starts (default: 5)")
    add("--minutes", type=float, default=9, metavar="N",
        help="minutes that all measurements together may take (default: 9)")
    add("--lock", metavar="FILE", help="lock this file (flock) during measurements")
    add("--docs", metavar="FILE", help="put tables between the marks of this Markdown file")
    add("--json", metavar="FILE", help="write all figures")
    o = p.parse_args(argv, Options())
    o.begin = time.monotonic()
    o.made = []
    o.build = o.build.resolve()
    o.models = pathlib.Path(o.models)
    o.sconce = o.build / "services/cli/sconce"
    o.bench_copy = o.build / "tests/bench/bench-copy"
    for program in (o.sconce, o.bench_copy, o.llama_bench, o.llama_batched_bench):
        if program and not os.access(program, os.X_OK):
            p.error("%s: not an executable" % program)
    o.shapes = o.shapes or (SHAPES[:1] if o.lavapipe else SHAPES)
    o.presets = o.presets or (PRESETS[:1] if o.lavapipe else PRESETS)
    o.prompts = o.prompts or ([64] if o.lavapipe else [512, 4096])
    o.generate = o.generate or (8 if o.lavapipe else 128)
    o.lock = Lock(o.lock)
    o.cache = tempfile.mkdtemp(prefix="sconce-gpu-")
    return o


def environment(options):
    """Returns the environment of all programs. sconce caches compiled kernels in a directory of
    this run. With --lavapipe, only the software driver is visible; llama.cpp uses this driver only
    if GGML_VK_VISIBLE_DEVICES names it."""
    env = dict(os.environ, XDG_CACHE_HOME=options.cache)
    if options.lavapipe:
        drivers = glob.glob("/usr/share/vulkan/icd.d/lvp_icd*.json")
        if drivers:
            env["VK_DRIVER_FILES"] = env["VK_ICD_FILENAMES"] = drivers[0]
        env["GGML_VK_VISIBLE_DEVICES"] = "0"
    return env


def sconce_bench(options, model, *args):
    return run_json([options.sconce, "bench", "-m", model, "--device", options.device, "--json",
                     "-r", options.repeat, *args])


def ours(options, model, streams):
    """Returns {test: tok/s} of sconce, and the bytes of weights that a token reads."""
    found = {}
    for i, n in enumerate(options.prompts):
        decode = options.generate if i == 0 else 0
        r = sconce_bench(options, model, "-p", n, "-n", decode)
        found["pp%d" % n] = r["pp"]["tok_s"]
        if decode:
            found["tg%d" % decode] = r["tg"]["tok_s"]
    if streams:
        r = sconce_bench(options, model, "-p", 0, "-n", options.generate, "-d", STREAM_DEPTH,
                         "--streams", STREAMS)
        found["%d streams" % STREAMS] = r["tg"]["tok_s"]
    return found, r["bytes_per_token"]


def theirs(options, model):
    """Returns {test: tok/s} of llama.cpp, for the programs that were given."""
    found = {}
    if options.llama_bench:
        repeat = 1 if options.lavapipe else options.repeat
        for row in run_json([options.llama_bench, "-m", model, "-ngl", 99, "-p",
                             ",".join(map(str, options.prompts)), "-n", options.generate, "-r",
                             repeat, "-o", "json"]):
            name = "pp%d" % row["n_prompt"] if row["n_prompt"] else "tg%d" % row["n_gen"]
            found[name] = row["avg_ts"]
    if options.llama_batched_bench and not options.lavapipe:
        n = STREAM_DEPTH + options.generate
        out = subprocess.run(
            [str(a) for a in (options.llama_batched_bench, "-m", model, "-ngl", 99, "-c",
                              n * STREAMS, "-npp", STREAM_DEPTH, "-ntg", options.generate, "-npl",
                              STREAMS, "--output-format", "jsonl")],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
        rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        found["%d streams" % STREAMS] = rows[-1]["speed_tg"]
    return found


def speed(value):
    """Returns a speed as a cell of a table."""
    return "%.4g" % value if value < 1000 else "{:,.0f}".format(value)


def compare(options, figures, name, mine, others):
    """Prints the figures of both programs and returns the cells of a table."""
    least = OF_LLAMA_LAVAPIPE if options.lavapipe else OF_LLAMA
    cells = []
    for test, value in mine.items():
        figures.figure("%s, %s" % (name, test), value, "tok/s")
        if test in others:
            figures.figure("%s, %s, beside llama.cpp" % (name, test), value / others[test], "×",
                           least=least)
            cells += [speed(value), speed(others[test]), "%.2f" % (value / others[test])]
        else:
            figures.skipped("%s, %s, beside llama.cpp" % (name, test), "its bench was not given")
            cells += [speed(value), "–", "–"]
    return cells


def copy_speed(options, figures):
    with options.lock:
        r = run_json([options.bench_copy, options.device])
    figures.figure("copying within the device, reads and writes", r["copy_bytes_s"] * 1e-9, "GB/s")
    return r["copy_bytes_s"]


def one_model(options, figures, copy, shape, preset):
    """Measures one model; returns its tests and its row of the table."""
    name = "%s %s" % (shape, preset)
    model = options.model(shape, preset)
    with options.lock:
        mine, bytes_token = ours(options, model, streams=not options.lavapipe)
        others = theirs(options, model)
    cells = compare(options, figures, name, mine, others)
    part = 100 * bytes_token * mine["tg%d" % options.generate] / copy
    figures.figure("%s, decoding, relative to the speed of copies" % name, part, "%",
                   least=OF_COPY if shape == SHAPES[-1] else None)
    # starts() needs the first model again.
    if (shape, preset) != (options.shapes[0], options.presets[0]):
        options.drop(model)
    return list(mine), [shape, preset, *cells, "%.0f %%" % part]


def speeds(options, figures, copy):
    figures.title("Prompts and decoding")
    rows, tests = [], []
    for shape in options.shapes:
        for preset in options.presets:
            name = "%s %s" % (shape, preset)
            if options.time_left() < 20:
                figures.failed(name, "there is no time left")
                continue
            try:
                tests, row = one_model(options, figures, copy, shape, preset)
                rows.append(row)
            except (RuntimeError, subprocess.CalledProcessError) as error:
                figures.failed(name, str(error))
    header = ["shape", "weights"]
    for test in tests:
        header += [test, "llama.cpp", "ratio"]
    figures.table("lavapipe" if options.lavapipe else "gpu", header + ["share of copy speed"], rows)


def first_token(options, model):
    """Returns the milliseconds from the start of a new process to the first text."""
    begin = time.perf_counter()
    with subprocess.Popen([str(a) for a in (options.sconce, "run", model, "--device",
                                            options.device, "-n", 1, "--temperature", 0, "Hello")],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        text = process.stdout.read(1)
        ms = 1000 * (time.perf_counter() - begin)
        _, errors = process.communicate()
        if not text or process.returncode != 0:
            raise RuntimeError("sconce run: %s" % errors.decode(errors="replace")[-1000:])
    return ms


def starts(options, figures):
    """Measures starts of a process with compiled kernels and the model in the page cache."""
    figures.title("From a new process to the first token")
    model = options.model(options.shapes[0], options.presets[0])
    with options.lock:
        first = first_token(options, model)
        ms = [first_token(options, model) for _ in range(options.starts)]
    figures.figure("the first in this run", first, "ms")
    figures.figure("warm, median of %d" % len(ms), median(ms), "ms",
                   most=None if options.lavapipe else WARM_START)
    figures.table("lavapipe-start" if options.lavapipe else "gpu-start",
                  ["model", "warm start", "fastest", "slowest"],
                  [["%s %s" % (options.shapes[0], options.presets[0]), "%.0f ms" % median(ms),
                    "%.0f ms" % min(ms), "%.0f ms" % max(ms)]])
    options.drop(model)


def provenance(options):
    devices = run_json([options.sconce, "info", "--devices", "--json"])["devices"]
    for d in devices:
        if d["name"] == options.device or (options.device == "vulkan" and d["name"] != "cpu"):
            return "%s, %s, %s:" % (d["description"], d["driver"],
                                    datetime.date.today().isoformat())
    raise RuntimeError("there is no device %s" % options.device)


def measure(figures):
    options = parse(sys.argv[1:])
    os.environ.update(environment(options))
    line = provenance(options)
    print(line, flush=True)
    figures.tables["lavapipe-machine" if options.lavapipe else "gpu-machine"] = line
    figures.title("Memory")
    copy = copy_speed(options, figures)
    try:
        speeds(options, figures, copy)
        starts(options, figures)
    finally:
        for path in list(options.made):
            options.drop(path)
        figures.save(options.docs, options.json)
    figures.note("the whole run took %.0f s" % (time.monotonic() - options.begin))


if __name__ == "__main__":
    run("gpu.sh", measure)
