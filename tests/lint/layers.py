#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every #include in libinfer and services against libinfer/LAYERS and services/LAYERS.

services/LAYERS explains the rows. The words in libinfer/LAYERS have the same meaning.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.M)
# All folders may include these public headers, because they contain no model code.
PLAIN = ("infer/types.h", "infer/tier.h")
# A row of services/LAYERS must name these libraries if its folder may include their headers.
NAMED = ("infer", "h2o")

bad = 0


def tell(path, text):
    global bad
    bad += 1
    print(f"{path}: {text}")


def read(path):
    """Returns the rows by name, each with its words for headers and its words for .c files."""
    rows = {}
    for line in path.read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            name, words = line.split(":")
            own, _, more = words.partition("+")
            rows[name] = (set(own.split()) | {name}, set(more.split()))
    return rows


def row_of(rows, path):
    """Returns the longest row name that is a prefix of the path below the root, or None."""
    fits = [name for name in rows if path.startswith((name + "/", name + "."))]
    return max(fits, key=len, default=None)


def find_cycle(rows, name, above):
    if name in above:
        return [*above[above.index(name):], name]
    for word in sorted(rows.get(name, (set(),))[0] - {name}):
        if cycle := find_cycle(rows, word, [*above, name]):
            return cycle
    return None


def check_include(rows, row, path, quoted, system, others):
    own, more = rows[row]
    allowed = own | more if path.suffix == ".c" else own
    if system:
        library = system.split("/")[0].removesuffix(".h")
        if library in NAMED and system not in PLAIN and others and f"<{library}>" not in allowed:
            tell(path, f"includes <{system}>: {row} may not use {library}")
        return
    target = row_of(rows, quoted) or row_of(others, quoted) or quoted
    if target in others:
        target = target.split("/")[0]
    if target in allowed:
        return
    tell(path, f'includes "{quoted}": {row} may not use {target}' if "/" in quoted else
         f'includes "{quoted}" without its folder')


def check(root, others):
    """@others: the rows of another root whose folders may be included too."""
    root = pathlib.Path(root)
    rows = read(root / "LAYERS")
    for name in rows:
        if cycle := find_cycle(rows, name, []):
            tell(root / "LAYERS", "a cycle: " + " → ".join(cycle))
            break
    for path in sorted(root.rglob("*.[ch]")):
        inner = str(path.relative_to(root))
        if inner.startswith("include/"):
            for quoted, _ in INCLUDE.findall(path.read_text()):
                if quoted:
                    tell(path, f'includes "{quoted}"; public headers include <infer/…> and the C '
                         'library')
            continue
        row = row_of(rows, inner)
        if not row:
            tell(path, "its folder is not in LAYERS")
            continue
        for quoted, system in INCLUDE.findall(path.read_text()):
            check_include(rows, row, path, quoted, system, others)
    return rows


infer = check("libinfer", {})
check("services", infer)
sys.exit(1 if bad else 0)
