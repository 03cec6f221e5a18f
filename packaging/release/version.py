#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the version from meson.build, where it is written once, and compares it with the files that
repeat it.

    version.py            prints the version
    version.py check      fails if the changelog, a package or a manual page has another version
    version.py changelog  prints the changelog as Markdown, the newest version first

The program runs in the top directory of the tree. Package formats need the version in files of their own; such a
file also has the revision, the number of the package of one version. All of them have the same revision.
"""
import email.utils
import pathlib
import re
import sys

MESON = pathlib.Path("meson.build")
CHANGELOG = pathlib.Path("packaging/debian/changelog")
SPEC = pathlib.Path("packaging/rpm/sconce.spec.in")
PKGBUILD = pathlib.Path("packaging/arch/PKGBUILD")
MANUAL = pathlib.Path("docs/man")
# The first line of a version in the changelog, and its last one.
HEAD = re.compile(r"^sconce \(([^)]+)\)")
TAIL = re.compile(r"^ -- .*>  (.*)$")


def find(path, pattern):
    found = re.search(pattern, path.read_text(), re.M)
    if not found:
        raise SystemExit(f"{path}: no line matches {pattern}")
    return found[1]


def version():
    return find(MESON, r"^\s*version: '([^']+)'")


def entries():
    """Yields a tuple for each version of the changelog: the version, its date, and its lines."""
    name, lines = None, []
    for line in CHANGELOG.read_text().splitlines():
        if head := HEAD.match(line):
            name, lines = head[1], []
        elif tail := TAIL.match(line):
            yield name, email.utils.parsedate_to_datetime(tail[1]).date().isoformat(), lines
        elif line.strip():
            lines.append(line)


def mistakes():
    """Yields a sentence for each file that does not have the version of meson.build, or the revision of the changelog."""
    want = version()
    newest, revision = next(entries())[0].rpartition("-")[::2]
    if newest != want:
        yield f"{CHANGELOG}: the newest version is {newest}, and {MESON} has {want}"
    for path, pattern, right in (
            (SPEC, r"^Version: *(\S+)", want), (SPEC, r"^Release: *(\d+)", revision),
            (PKGBUILD, r"^pkgver=(\S+)", want), (PKGBUILD, r"^pkgrel=(\S+)", revision)):
        if (found := find(path, pattern)) != right:
            yield f"{path}: {pattern[1:].split(':')[0].split('=')[0]} is {found} instead of {right}"
    for page in sorted(MANUAL.iterdir()):
        found = re.search(r'^\.TH \S+ \d \d{4}-\d\d-\d\d "?sconce ?([\d.]*)', page.read_text(), re.M)
        if not found or found[1] not in ("", want):
            yield f"{page}: the line .TH has no date, or another version than {want}"


def markdown():
    """Returns the changelog, with one section for each version."""
    text = "# Changes\n"
    for name, date, lines in entries():
        text += f"\n## {name} ({date})\n\n"
        for line in lines:
            text += re.sub(r"^  \* ", "- ", line) + "\n" if line.startswith("  * ") else "  " + line.strip() + "\n"
    return text


def main(args):
    if args == ["check"]:
        found = list(mistakes())
        print("\n".join(found) if found else "all files have the version " + version())
        return bool(found)
    if args == ["changelog"]:
        print(markdown(), end="")
    elif not args:
        print(version())
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
