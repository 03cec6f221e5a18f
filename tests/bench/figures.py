# SPDX-License-Identifier: Apache-2.0
"""Reports measured figures and their targets: lines for people, tables for the documentation."""
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys


def median(values):
    return statistics.median(values) if values else 0.0


def percentile(values, part):
    """Returns a quantile: the smallest value that is at least as large as the share @part of all
    values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)] if ordered else 0.0


def markdown(header, rows, note=""):
    lines = ["| %s |" % " | ".join(header), "|%s" % ("---|" * len(header))]
    lines += ["| %s |" % " | ".join(str(cell) for cell in row) for row in rows]
    return "\n".join(lines + (["", note] if note else []))


def put(text, section, inside):
    """Returns @text with @inside between the marks of a section, and how many marks it has."""
    marks = r"(<!-- compare: %s -->\n).*?(<!-- end -->)" % re.escape(section)
    return re.subn(marks, lambda m: m[1] + inside + "\n" + m[2], text, flags=re.S)


def cpu_clock():
    """Returns the times of all CPUs together, as in proc_stat(5): user, nice, system, idle, …,
    steal."""
    with open("/proc/stat") as f:
        return [int(x) for x in f.readline().split()[1:9]]


class Figures:
    """Collects all figures of a run; `n_short` is how many missed their target."""

    def __init__(self):
        self.n_ok = self.n_short = self.n_skipped = 0
        self.rows = []  # for the JSON file
        self.tables = {}  # section of the documentation → Markdown
        self.cells = {}  # section → its header, rows and note
        self.runs = {}  # section → {row: {program: results of all runs}}

    def title(self, text):
        print("\n%s" % text, flush=True)
        self.clock = cpu_clock()

    def tell_machine(self):
        """Prints which share of the CPU time since the last title was taken by the host of this
        virtual machine, and which share was idle. A run from which the host took much time is not
        reliable."""
        before, now = self.clock, cpu_clock()
        total = max(1, sum(now) - sum(before))
        self.note("the host took %.1f %% of the CPU time, and %.1f %% was idle; load %.1f"
                  % (100 * (now[7] - before[7]) / total, 100 * (now[3] - before[3]) / total,
                     os.getloadavg()[0]))

    def note(self, text):
        print("  %s" % text, flush=True)

    def figure(self, name, value, unit="", least=None, most=None):
        """Prints one figure. With a target (@least or @most) it counts as reached or short."""
        line = "  %-58s %9.4g %-6s" % (name, value, unit)
        verdict = None
        if least is not None or most is not None:
            good = value >= least if least is not None else value <= most
            verdict = "ok" if good else "short"
            self.n_ok += good
            self.n_short += not good
            line += "  %s %-5g %s" % (("≥", least) + (verdict,) if least is not None
                                      else ("≤", most) + (verdict,))
        print(line.rstrip(), flush=True)
        self.rows.append({"name": name, "value": value, "unit": unit, "at_least": least,
                          "at_most": most, "verdict": verdict})

    def skipped(self, name, why):
        self.n_skipped += 1
        print("  %-58s skipped: %s" % (name, why), flush=True)
        self.rows.append({"name": name, "skipped": why})

    def failed(self, name, why):
        """Reports a figure that could not be measured; such a figure counts as one that missed its
        target."""
        self.n_short += 1
        print("  %-58s failed: %s" % (name, why), flush=True)
        self.rows.append({"name": name, "failed": why, "verdict": "short"})

    def table(self, section, header, rows, note=""):
        """Adds a Markdown table for a section of docs/benchmarks.md, and a sentence below it."""
        self.cells[section] = {"header": list(header), "note": note,
                               "rows": [[str(cell) for cell in row] for row in rows]}
        self.tables[section] = markdown(header, rows, note)

    def raw(self, section, row, results):
        """Keeps the results of all runs of a row: {program: [result, …]}."""
        self.runs.setdefault(section, {})[row] = {name: list(r) for name, r in results.items()}

    def write_docs(self, path):
        """Writes each table between its marks in the file @path."""
        with open(path) as f:
            text = f.read()
        for section, table in self.tables.items():
            text, n = put(text, section, table)
            if n == 0:
                print("%s has no section for %s" % (path, section))
        with open(path, "w") as f:
            f.write(text)

    def save(self, docs, rows=None):
        """Writes the given files. It is called after each part, so that a run that ends early
        leaves its figures."""
        if rows:
            with open(rows, "w") as f:
                json.dump(self.rows, f, indent=1)
        if docs:
            self.write_docs(docs)

    def summary(self):
        print("\n%d ok, %d short, %d skipped" % (self.n_ok, self.n_short, self.n_skipped))


def run(name, measure):
    """Runs the program @name: measure(figures) does its work. Exits with 0 when all targets are
    reached, 1 when a target is missed, 2 when something could not be run."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # the exit stops the servers
    figures = Figures()
    try:
        measure(figures)
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        print("%s: %s" % (name, error), file=sys.stderr)
        sys.exit(2)
    figures.summary()
    sys.exit(1 if figures.n_short else 0)
