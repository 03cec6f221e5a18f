# SPDX-License-Identifier: Apache-2.0
"""Keeps the results of compare.sh, one JSON file for each machine, and makes the tables of
docs/benchmarks.md from all of them. So a run never overwrites the results of another machine.

    machines.py docs/benchmarks.md [README.md]     writes the tables anew

A file docs/benchmarks/<machine>.json has the members
- machine: the CPU as /proc/cpuinfo names it, the instruction set, the threads, the memory, the
  kernel;
- parts: for each table its header, its rows, the sentence below it, the date, the number of rounds,
  the commits of the programs, and for the parts decode and prefill the results of all runs.
"""
import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

import engine
from figures import markdown, put

TREE = pathlib.Path(__file__).resolve().parent.parent.parent
SECTIONS = ("decode", "prefill", "formats", "clients", "clients-shapes", "gaps", "cold", "contexts", "growth")
# The rows of the table of worst ratios. Each has the name of a figure, the section and the row of
# the figure, the columns of sconce and of llama.cpp, the unit, and whether less is better.
WORST = (("writing an answer, Q4_K_M", "decode", "Q4_K_M", 1, 3, "tokens/s", False),
         ("reading a prompt of 512 tokens, Q4_K_M", "prefill", "Q4_K_M", 1, 3, "tokens/s", False),
         ("writing an answer, F16", "decode", "F16", 1, 3, "tokens/s", False),
         ("16 clients at once, sum of all", "clients", "16", 1, 3, "tokens/s", False),
         ("cold start to the first token", "cold", "0.6B", 1, 3, "", True),
         ("private memory after the first token", "cold", "0.6B", 2, 4, "", True))


def first(pattern, text):
    m = re.search(pattern, text, re.M)
    return m[1].strip() if m else "unknown"


def environment(threads, isa):
    """Describes this machine."""
    cpu = pathlib.Path("/proc/cpuinfo").read_text()
    kib = int(first(r"^MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text()))
    # Virtual machines hide the model of their CPU in its name, so family and model stand beside it.
    return {"cpu": first(r"^model name\s*:(.*)", cpu), "vendor": first(r"^vendor_id\s*:(.*)", cpu),
            "family": first(r"^cpu family\s*:(.*)", cpu), "model": first(r"^model\s*:(.*)", cpu),
            "isa": isa, "threads": threads, "memory_gib": round(kib / 2**20, 1),
            "kernel": platform.release().split("-")[0], "architecture": platform.machine()}


def title(machine):
    name = re.sub(r"\((?:R|TM)\)", "", machine["cpu"])
    if machine["family"] == "unknown":
        return name
    return "%s, family %s, model %s" % (name, machine["family"], machine["model"])


def slug(machine):
    """Returns the name of the machine's file."""
    words = "%(vendor)s %(family)s %(model)s %(isa)s %(threads)s threads" % machine
    return re.sub(r"[^a-z0-9]+", "-", words.replace("unknown", "").lower()).strip("-")


def folder(docs):
    return docs.with_suffix("")


def read(docs):
    """Returns the results of all machines, in the order of their files' names."""
    return [json.loads(p.read_text()) for p in sorted(folder(docs).glob("*.json"))]


def commit():
    result = subprocess.run(["git", "-C", TREE, "describe", "--always", "--dirty"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return result.stdout.strip() or "unknown"


def keep(options, figures, isa):
    """Adds the tables of this run to the file of this machine, and makes all tables anew."""
    if not figures.cells:
        return
    machine = environment(options.threads, isa)
    path = folder(options.docs) / (slug(machine) + ".json")
    kept = json.loads(path.read_text()) if path.exists() else {"parts": {}}
    kept = {"machine": machine, "parts": kept["parts"]}
    commits = {"sconce": commit(), **engine.peer_commits(options)}
    for section, cells in figures.cells.items():
        kept["parts"][section] = {
            "date": datetime.date.today().isoformat(), "rounds": options.rounds,
            "commits": commits, **cells, "runs": figures.runs.get(section, {})}
    path.parent.mkdir(exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(dump(kept))
    os.replace(part, path)
    write(options.docs, options.readme)


def dump(kept):
    """Returns JSON with one line for each list of numbers or cells, so that files are short."""
    text = json.dumps(kept, indent=1, ensure_ascii=False)
    inner = re.compile(r"\[\s*((?:[^\[\]{}\"]|\"(?:[^\"\\]|\\.)*\")*?)\s*\]")
    return inner.sub(lambda m: "[%s]" % re.sub(r"\s*\n\s*", " ", m[1]), text) + "\n"


def block(kept, section):
    """Returns one machine's table of a section, below a line that names the machine."""
    machine, part = kept["machine"], kept["parts"][section]
    line = "%s, %s threads, %s, %s:" % (title(machine), machine["threads"], machine["isa"],
                                        part["date"])
    return "%s\n\n%s" % (line, markdown(part["header"], part["rows"], part["note"]))


def machine_table(all_kept):
    rows = []
    for kept in all_kept:
        machine, parts = kept["machine"], kept["parts"].values()
        dates = sorted({part["date"] for part in parts})
        commits = {}
        for part in parts:
            commits.update(part["commits"])
        rows.append([title(machine), machine["isa"], machine["threads"],
                     " to ".join(dict.fromkeys((dates[0], dates[-1]))),
                     max(part["rounds"] for part in parts),
                     ", ".join("%s %s" % item for item in commits.items()) or "not recorded"])
    return markdown(["CPU", "instruction set", "threads", "measured", "rounds", "commits"], rows)


def number(cell):
    """Returns the number at the beginning of a cell, or None."""
    m = re.match(r"[\d.]+", cell)
    return float(m[0]) if m else None


def ratio(part, row, ours, theirs, less):
    """Returns by which factor sconce is better, or None. The first column "ratio" is that of
    llama.cpp: the median of the ratios of all rounds, which is more exact than the quotient of two
    medians."""
    if "ratio" in part["header"]:
        return number(row[part["header"].index("ratio")])
    a, b = number(row[ours]), number(row[theirs])
    if not a or not b:
        return None
    return b / a if less else a / b


def worst(all_kept):
    """Returns the table of worst ratios."""
    rows = []
    for name, section, key, ours, theirs, unit, less in WORST:
        found = []
        for kept in all_kept:
            part = kept["parts"].get(section, {"rows": []})
            for row in part["rows"]:
                value = row[0] == key and ratio(part, row, ours, theirs, less)
                if value:
                    found.append((value, row, kept))
        if not found:
            continue
        value, row, kept = min(found, key=lambda f: f[0])
        rows.append([name, *(("%s %s" % (row[i], unit)).strip() if number(row[i]) else "–"
                             for i in (ours, theirs)), "%.2f" % value, title(kept["machine"])])
    return markdown(["", "sconce", "llama.cpp", "ratio", "worst on"], rows)


def render(text, all_kept):
    """Returns a document with the tables of all machines between its marks."""
    for section in SECTIONS:
        blocks = [block(kept, section) for kept in all_kept if section in kept["parts"]]
        if blocks:
            text, _ = put(text, section, "\n\n".join(blocks))
    text, _ = put(text, "machine", machine_table(all_kept))
    return put(text, "worst", worst(all_kept))[0]


def write(docs, readme=None):
    all_kept = read(docs)
    for path in (docs, readme):
        if path:
            path.write_text(render(path.read_text(), all_kept))


if __name__ == "__main__":
    write(*map(pathlib.Path, sys.argv[1:3]))
