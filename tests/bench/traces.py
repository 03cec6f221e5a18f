# SPDX-License-Identifier: Apache-2.0
"""Collects the instructions of products of a single row, and predicts their speed with llvm-mca.

`checkkern --trace` computes a product of one row with 32 rows of W, and lists every instruction
that the product executes. The list has the whole product: the loops, the conversion of scales
between them, and the calls. So a prediction needs no mark in a kernel, and no assumption about how
many weights one round of a loop multiplies: the product reads all of its weights once.
"""
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess

import need

HERE = pathlib.Path(__file__).resolve().parent
LLVM = 19  # the first release with models of all CPUs
PIECES, PIECE = 8, 1500  # pieces of a trace, and instructions in each
EMULATOR = "qemu-aarch64"


class Missing(RuntimeError):
    """A program that somebody must install first."""


def output(argv, **options):
    result = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, **options)
    if result.returncode != 0:
        raise RuntimeError("%s\n%s" % (" ".join(map(str, argv)), result.stderr[-2000:]))
    return result.stdout


class Llvm:
    """The programs llvm-mca and llvm-objdump of one LLVM."""

    def __init__(self, mca):
        self.mca = mca or need.program("llvm-mca-%d" % LLVM, "llvm-%d" % LLVM)
        name = os.path.basename(self.mca)
        self.objdump = os.path.join(os.path.dirname(shutil.which(self.mca) or self.mca),
                                    name.replace("mca", "objdump"))
        self.version = re.search(r"LLVM version (\S+)", output([self.mca, "--version"]))[1]
        if int(self.version.split(".")[0]) < LLVM:
            raise Missing("%s is from LLVM %s: install the Debian package llvm-%d"
                          % (self.mca, self.version, LLVM))

    def disassemble(self, program):
        """Returns the instructions of a program by address, and the functions by address."""
        code, functions = {}, {}
        text = output([self.objdump, "-d", "--no-show-raw-insn", program])
        for line in text.splitlines():
            if m := re.match(r"\s*([0-9a-f]+):\s+(.*\S)", line):
                # Targets of jumps have their names after them, and some operands have comments.
                code[int(m[1], 16)] = re.sub(r"\s*(?:# |// |<).*$", "", m[2])
            elif m := re.match(r"([0-9a-f]+) <(.*)>:$", line):
                functions[int(m[1], 16)] = m[2]
        return code, functions


@dataclasses.dataclass
class Kernel:
    """The trace of a product of one row."""

    weights: str  # format
    rung: str
    n_bytes: int  # of weights
    functions: frozenset  # addresses of the functions that ran
    lines: list  # the instructions, as text


def for_mca(text):
    """Returns an instruction as llvm-mca can read it. Removes prefixes, which llvm-mca would count
    as instructions. Replaces the target of a jump, which may be too far from address 0 for AArch64,
    by a near address."""
    text = re.sub(r"^(?:rep|notrack)\s+", "", text)
    return re.sub(r"^((?:cbn?z|tbn?z|adrp?|ldr|b[.\w]*)\s(?:.*[\s,])?)0x[0-9a-f]+$", r"\1.", text)


class Program:
    """A checkkern for x86-64, which records its own instructions."""

    triple = "x86_64"

    def __init__(self, llvm, path):
        if not os.access(path, os.X_OK):
            raise Missing("%s: not a program; --build names a build directory with tests" % path)
        self.path = path
        self.code, self.names = llvm.disassemble(path)
        self.begin = next(a for a, name in self.names.items() if name == "trace_begin")
        self.starts = sorted(self.names)

    def run(self, *args):
        return output([self.path, *args])

    def rungs(self):
        """Returns the rungs (instruction set levels) that can be traced here, lowest first, and the
        formats."""
        lines = self.run("--bench", "--in-cache", "--rung", "none").splitlines()[2:]
        return [r for r in lines[0].split() if r != "ref"], [line.split()[0] for line in lines[1:]]

    def steps(self, weights, rung):
        """Returns the bytes of weights of a product, and the addresses of its instructions."""
        lines = self.run("--trace", weights, "--rung", rung).splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("symbol"))
        shift = self.begin - int(lines[at].split()[2], 16)
        n_bytes = next(int(line.split()[1]) for line in lines if line.startswith("bytes"))
        return n_bytes, [int(line, 16) + shift for line in lines[at + 1:]]

    def trace(self, weights, rung):
        n_bytes, steps = self.steps(weights, rung)
        functions, lines, last = set(), [], None
        for at in steps:
            text = self.code.get(at)
            # A string instruction raises one trap for each repetition. A product also calls
            # functions of the C library that copy and clear memory; the text of their few
            # instructions is not known here.
            if text is None or at == last:
                continue
            last = at
            if at in self.names:
                functions.add(at)
            # llvm-mca knows neither the targets of calls nor their cost.
            if not re.match(r"(call|ret|bl|blr|br)\w?\b|ret", text):
                lines.append(for_mca(text))
        return Kernel(weights, rung, n_bytes, frozenset(functions), lines)


def build_arm64(folder):
    """Builds a checkkern for AArch64 in @folder, and returns its path."""
    need.program("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")
    path, keep = folder / "checkkern", folder / "keep"
    # The script that builds the program also runs it, with an emulator. Here the emulator is a
    # command that copies its third argument, which is the program.
    keep.write_text('#!/bin/sh\ncp "$3" "%s"\n' % path)
    keep.chmod(0o755)
    output(["sh", HERE.parent / "checkkern/arm64.sh"], env=dict(os.environ, ARM64_RUN=str(keep)))
    return path


class Arm64(Program):
    """A checkkern for AArch64, which runs under an emulator that lists the instructions."""

    triple = "aarch64"

    def __init__(self, llvm, folder, path=None):
        need.program(EMULATOR, "qemu-user")
        super().__init__(llvm, path or build_arm64(folder))
        self.log = folder / "log"
        self.end = next(a for a, name in self.names.items() if name == "trace_end")

    def run(self, *args):
        return output([EMULATOR, "-cpu", "max", self.path, *args])

    def steps(self, weights, rung):
        text = output([EMULATOR, "-cpu", "max", "-singlestep", "-d", "exec,nochain", "-D", self.log,
                       self.path, "--trace", weights, "--rung", rung])
        steps, inside = [], False
        with open(self.log) as log:
            for line in log:
                m = re.match(r"Trace \d+: \S+ \[[^/]*/([0-9a-f]+)/", line)
                at = int(m[1], 16) if m else None
                if at == self.end:
                    break
                inside |= at == self.begin
                if inside and at:
                    steps.append(at)
        self.log.unlink()
        return int(re.search(r"bytes (\d+)", text)[1]), steps


@dataclasses.dataclass
class Prediction:
    """What llvm-mca says about a kernel on a CPU."""

    rate: float  # bytes of weights per cycle
    limit: str  # what limits the speed
    busy: float  # share of the cycles in which the busiest unit works


def short_name(unit):
    """Returns the name of a unit of a model without the name of the model."""
    name = re.sub(r"^(Zn\d|SPR|ADLP|SKL|SKX|ICX|A57|N1|V1|V2|Cy)(Unit)?", "", unit)
    return re.sub(r"^Port0?(?=\d)", "p", name)


def unit_shares(text, cycles):
    """Returns the share of the cycles in which each unit of the CPU works."""
    units = dict(re.findall(r"^\[([\d.]+)\]\s+- (\w+)$", text, re.M))
    m = re.search(r"Resource pressure per iteration:\n(.*)\n(.*)\n", text)
    loads = zip(re.findall(r"\[([\d.]+)\]", m[1]), m[2].split())
    shares = {}
    for key, load in loads:
        # Units of a kind share their name; the result is that of the busiest one.
        value = 0 if load == "-" else float(load) / cycles
        shares[units[key]] = max(value, shares.get(units[key], 0))
    return shares


def simulate(llvm, lines, triple, cpu, *options):
    argv = [llvm.mca, "-mtriple=" + triple, "-mcpu=" + cpu, "-iterations=1",
            "-instruction-info=false", *options]
    return output(argv, input="\n".join(lines) + "\n")


def pieces(lines):
    """Returns pieces from all parts of a trace. Their analysis takes seconds; the analysis of a
    whole trace would take minutes."""
    if len(lines) <= PIECES * PIECE:
        return lines
    step = len(lines) // PIECES
    return [line for i in range(PIECES) for line in lines[i * step:i * step + PIECE]]


def waits_of(text):
    """Returns what instructions wait for most of the time, according to llvm-mca: a unit, the
    results of others, or nothing, if the front end does not deliver them fast enough."""
    waits = re.search(r"Throughput Bottlenecks: \n(.*?)\n\n", text, re.S)
    if not waits:
        return "front end"
    percent = {k.strip(): float(v)
               for k, v in re.findall(r"^ *-? ?([\w ]+?):? +\[ ([\d.]+)% \]$", waits[1], re.M)}
    if percent["Data Dependencies"] >= percent["Resource Pressure"]:
        return "dependencies"
    units = re.findall(r"^\[[\d.]+\]\s+- (\w+)$", text, re.M)
    return short_name(max(set(units) & set(percent), key=percent.get))


def predict(llvm, kernel, triple, cpu):
    """Returns a Prediction. The front end is the limit if it delivers instructions at 90 % of its
    width, and a unit is the limit if it works in 90 % of the cycles."""
    text = simulate(llvm, kernel.lines, triple, cpu)
    cycles = int(re.search(r"Total Cycles: +(\d+)", text)[1])
    width = int(re.search(r"Dispatch Width: +(\d+)", text)[1])
    rate = float(re.search(r"uOps Per Cycle: +([\d.]+)", text)[1])
    shares = unit_shares(text, cycles)
    unit = max(shares, key=shares.get)
    if rate >= 0.9 * width:
        limit = "front end"
    elif shares[unit] >= 0.9:
        limit = short_name(unit)
    else:
        limit = waits_of(simulate(llvm, pieces(kernel.lines), triple, cpu, "-bottleneck-analysis"))
    return Prediction(kernel.n_bytes / cycles, limit, shares[unit])
