# SPDX-License-Identifier: Apache-2.0
"""Prints how many bytes of weights per cycle and core a product of a single row multiplies, for
each format and instruction set: measured on this machine with weights in the second-level cache
(checkkern --bench --in-cache), and predicted by llvm-mca for CPUs of which it has a model.

Each format has a bar, the number of bytes that a kernel should reach: 8 for F32, F16, BF16 and
Q8_0; 5 for Q4_0 … Q6_K. An entry that is below its bar is bold. A prediction assumes that all loads
hit the first-level cache. Each prediction names its limit: a unit of the CPU, the front end, which
fetches and decodes instructions, or dependencies between instructions. Exit status: 0 when all
entries were made, 2 when something could not be run.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import statistics
import sys
import tempfile

sys.dont_write_bytecode = True

from figures import Figures  # noqa: E402
from rows import BARS, rates  # noqa: E402
from traces import Arm64, Llvm, Program, predict  # noqa: E402

TREE = pathlib.Path(__file__).resolve().parent.parent.parent

# The instruction sets of each CPU that llvm-mca models. LLVM 19 describes some CPUs by the model of
# an older one: znver5 by that of znver4, cortex-a76 by that of Cortex-A57, which has half as many
# pipes, and apple-m1 by that of Cyclone (2013). Neoverse N1 has the pipes of Cortex-A76.
X86 = {"skylake": ["avx2"], "skylake-avx512": ["avx2"],
       "icelake-server": ["avx2", "avx512"],
       "sapphirerapids": ["avx2", "avxvnni", "avx512", "avx512fp16", "amx"],
       "alderlake": ["avx2", "avxvnni"],
       "znver2": ["avx2"], "znver3": ["avx2"], "znver4": ["avx2", "avx512"]}
ARM64 = {"cortex-a76": ["neon", "dotprod"], "neoverse-n1": ["neon", "dotprod"],
         "neoverse-v1": ["neon", "dotprod"], "neoverse-v2": ["neon", "dotprod"],
         "apple-m1": ["neon", "dotprod"]}
# Instructions that a rung (an instruction set level) uses if the CPU has them, and the CPUs that
# have the rung without these instructions. llvm-mca accepts every instruction for every CPU.
LACKS = {"icelake-server": "bf16"}


def this_model():
    """Returns the name of the model that is nearest to the CPU of this machine, by its flags."""
    with open("/proc/cpuinfo") as f:
        text = f.read()
    flags = set(re.findall(r"\w+", (re.search(r"^flags.*", text, re.M) or [""])[0]))
    if "AuthenticAMD" in text:
        return "znver4" if "avx512_vnni" in flags else "znver3" if "vaes" in flags else "znver2"
    for flag, name in (("amx_tile", "sapphirerapids"), ("avx512_vnni", "icelake-server"),
                       ("avx512f", "skylake-avx512"), ("avx_vnni", "alderlake")):
        if flag in flags:
            return name
    return "skylake"


def parse(argv):
    p = argparse.ArgumentParser(prog="mca.py", description=__doc__,
                                formatter_class=argparse.RawTextHelpFormatter)
    add = p.add_argument
    add("--build", type=pathlib.Path, default=TREE / "build",
        help="build directory with tests, of the type release (default: build)")
    add("--llvm-mca", metavar="PATH", help="llvm-mca of LLVM 19 or newer (default: llvm-mca-19);\n"
        "llvm-objdump must be in the same directory")
    add("--arm64", type=pathlib.Path, metavar="PATH",
        help="a static checkkern for arm64 (default: one is built)")
    add("--only", choices=["x86-64", "arm64"], help="only this architecture")
    add("--format", action="append", dest="formats", metavar="TYPE", help="only this format")
    add("--rung", action="append", dest="rungs", metavar="NAME", help="only this instruction set")
    add("--model", default=this_model(),
        help="the model to compare with this machine (default: %(default)s)")
    add("--measured", metavar="FILE", help="take the measurements from this output of\n"
        "checkkern --bench --in-cache")
    add("--docs", metavar="FILE", help="put tables between the marks of this Markdown file")
    add("--json", metavar="FILE", help="write all figures")
    o = p.parse_args(argv)
    if o.docs and (o.formats or o.rungs):
        p.error("--docs writes whole tables, without --format and --rung")
    return o


class Table:
    """The kernels of one architecture, and what is known of each."""

    def __init__(self, options, llvm, program, cpus):
        self.llvm, self.program, self.cpus = llvm, program, cpus
        rungs, formats = program.rungs()
        known = {rung for rungs in cpus.values() for rung in rungs}
        if unknown := set(rungs) - known:
            raise RuntimeError("mca.py does not say which CPUs have %s" % ", ".join(unknown))
        self.absent = sorted(known - set(rungs))
        self.formats = [f for f in formats if not options.formats or f in options.formats]
        self.rungs = [r for r in rungs if not options.rungs or r in options.rungs]
        self.kernels, self.measured, self.predicted = [], {}, {}

    def trace(self):
        """Traces the kernels. A rung that runs the same functions as a lower one has no kernel of
        its own."""
        for weights in self.formats:
            seen = set()
            for rung in self.rungs:
                kernel = self.program.trace(weights, rung)
                if kernel.functions not in seen:
                    self.kernels.append(kernel)
                seen.add(kernel.functions)

    def measure(self, text):
        """Reads the measurements from the output of checkkern, which runs here if @text is None."""
        self.measured = rates(text or self.program.run("--bench", "--in-cache"))

    def runs(self, kernel, cpu):
        lacking = LACKS.get(cpu)
        return kernel.rung in self.cpus[cpu] and not (
            lacking and any(lacking in line.split()[0] for line in kernel.lines))

    def predict(self):
        pairs = [(k, cpu) for k in self.kernels for cpu in self.cpus if self.runs(k, cpu)]
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            found = pool.map(lambda p: predict(self.llvm, p[0], self.program.triple, p[1]), pairs)
            for (kernel, cpu), prediction in zip(pairs, found):
                self.predicted[kernel.weights, kernel.rung, cpu] = prediction

    def cell(self, weights, value, more=""):
        text = "%.1f" % value
        return ("**%s**" % text if value < BARS.get(weights, 0) else text) + more

    def rows(self):
        for k in self.kernels:
            row = [k.weights, k.rung]
            if self.measured:
                row.append(self.cell(k.weights, self.measured[k.weights, k.rung]))
            for cpu in self.cpus:
                p = self.predicted.get((k.weights, k.rung, cpu))
                row.append(self.cell(k.weights, p.rate, ", " + p.limit) if p else "–")
            yield row

    def header(self):
        return ["weights", "rung"] + ["measured"] * bool(self.measured) + list(self.cpus)

    def misses(self):
        """Yields one line for each CPU: the formats for which no rung reaches the bar."""
        for cpu in self.cpus:
            best = {}
            for (weights, _, name), p in self.predicted.items():
                if name == cpu:
                    best[weights] = max(p.rate, best.get(weights, 0))
            short = [w for w in best if best[w] < BARS.get(w, 0)]
            if best:
                yield "%s: %s" % (cpu, ", ".join(short) or "none")

    def distances(self, model):
        """Returns predictions as multiples of measurements, for this machine."""
        return {(k.weights, k.rung): self.predicted[k.weights, k.rung, model].rate /
                self.measured[k.weights, k.rung]
                for k in self.kernels if (k.weights, k.rung, model) in self.predicted
                and (k.weights, k.rung) in self.measured}

    def data(self):
        return [{"weights": k.weights, "rung": k.rung, "bytes": k.n_bytes,
                 "instructions": len(k.lines), "measured": self.measured.get((k.weights, k.rung)),
                 "predicted": {cpu: vars(p) for (w, r, cpu), p in self.predicted.items()
                               if (w, r) == (k.weights, k.rung)}} for k in self.kernels]


def show(header, rows):
    rows = [header, *rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def tell(figures, name, table, note):
    """Prints a table with the formats that miss their bars, and keeps it for the documentation."""
    rows = list(table.rows())
    print("\n%s: bytes of weights per cycle and core" % name)
    show(table.header(), rows)
    print("no instruction set reaches the bar:")
    for line in table.misses():
        print("  " + line)
    if table.absent:
        print("this machine cannot run %s" % ", ".join(table.absent))
    print(note)
    figures.table("single-rows-" + name, table.header(), rows, note)


def sentence(table, model):
    """Returns how far the predictions are from the measurements."""
    distances = table.distances(model)
    if not distances:
        return ""
    values = sorted(distances.values())
    (low, low_rung), (high, high_rung) = (f(distances, key=distances.get) for f in (min, max))
    return ("Predictions for %s divided by measurements: median %.2f; from %.2f (%s, %s) to %.2f "
            "(%s, %s)." % (model, statistics.median(values), values[0], low, low_rung, values[-1],
                           high, high_rung))


def main():
    options = parse(sys.argv[1:])
    llvm, figures, data = Llvm(options.llvm_mca), Figures(), {}
    if options.only != "arm64":
        program = Program(llvm, options.build / "tests/checkkern/checkkern")
        table = Table(options, llvm, program, X86)
        if options.docs and table.absent:
            raise RuntimeError("--docs needs a CPU that has %s" % ", ".join(table.absent))
        text = pathlib.Path(options.measured).read_text() if options.measured else None
        table.measure(text)
        table.trace()
        table.predict()
        tell(figures, "x86-64", table, sentence(table, options.model))
        data["x86-64"] = table.data()
    if options.only != "x86-64":
        with tempfile.TemporaryDirectory(prefix="sconce-mca-") as folder:
            table = Table(options, llvm, Arm64(llvm, pathlib.Path(folder), options.arm64),
                          ARM64)
            table.trace()
        table.predict()
        tell(figures, "arm64", table, "")
        data["arm64"] = table.data()
    if options.docs:
        figures.write_docs(options.docs)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"llvm": llvm.version, **data}, indent=1))


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, OSError) as error:
        print("mca.py: %s" % error, file=sys.stderr)
        sys.exit(2)
