# SPDX-License-Identifier: Apache-2.0
"""Finds the examples in the documents: fenced blocks of Markdown, .EX blocks of manual pages.

The first word of a fence is the language, the rest says how the tests treat the block:

    sh                  run while `sconce serve` runs; it must succeed
    sh server           run until SIGTERM: it must listen, and exit with success on SIGTERM
    sh system           run as root in a machine of its own, by the tests under systemd
    sh user             run as an ordinary user of such a machine
    sh norun: REASON    not run
    python              run while `sconce serve` runs
    yaml                a configuration; `yaml manifest`: a model's manifest; `yaml policy`: a policy
    json                valid JSON; `json above`: with the names and types of the output of the
                        last `sh` block
    text                not an example

In a manual page a comment before .EX says the same: .\\" block: server
"""
import pathlib
import re

TREE = pathlib.Path(__file__).resolve().parents[2]

MODES = {
    "sh": {"", "server", "system", "user", "norun"},
    "python": {"", "norun"},
    "yaml": {"", "manifest", "policy"},
    "json": {"", "above"},
    "text": {""},
}


class Block:
    def __init__(self, path, line, info, text):
        self.path, self.line, self.text = path, line, text
        self.language, _, rest = info.strip().partition(" ")
        self.mode, _, self.reason = (x.strip() for x in rest.partition(":"))

    def __repr__(self):
        return "%s:%d" % (self.path.relative_to(TREE), self.line)

    def problem(self):
        """Tells why a block is neither run nor marked `norun`; None if the block has no problem."""
        if self.language not in MODES:
            return "the language \"%s\" is not one of %s" % (self.language, ", ".join(MODES))
        if self.mode not in MODES[self.language]:
            return "\"%s\" is not a way to treat a %s block" % (self.mode, self.language)
        if self.mode == "norun" and len(self.reason.split()) < 3:
            return "norun: needs a reason"
        return None


def markdown_blocks(path):
    lines = path.read_text().split("\n")
    block = None
    for i, line in enumerate(lines, 1):
        fence = re.match(r"\s*```(.*)$", line)
        if not fence:
            if block:
                block[1].append(line)
        elif block:
            yield Block(path, block[0], block[2], "\n".join(block[1]) + "\n")
            block = None
        else:
            block = (i, [], fence.group(1))
    assert block is None, "%s: a fence is open at the end" % path


def manual_text(line):
    """Returns a line of roff as the reader sees it."""
    line = re.sub(r"\\f(\[\w*\]|.)", "", line)
    return line.replace("\\-", "-").replace("\\(aq", "'").replace("\\&", "").replace("\\e", "\\")


def manual_blocks(path):
    info, block = "sh", None
    for i, line in enumerate(path.read_text().split("\n"), 1):
        if line.startswith(".\\\" block:"):
            mode = line.partition(":")[2].strip()
            info = mode if mode.split()[0] in MODES else "sh " + mode
        elif line == ".EX":
            block = (i, [])
        elif line == ".EE":
            yield Block(path, block[0], info, "\n".join(block[1]) + "\n")
            info, block = "sh", None
        elif block:
            block[1].append(manual_text(line))


def documents():
    return [TREE / "README.md", TREE / "CONTRIBUTING.md", *sorted((TREE / "docs").glob("*.md")),
            *sorted((TREE / "packaging").glob("*/README.md"))]


def manual_pages():
    return sorted((TREE / "docs/man").glob("*.[0-9]"))


def all_blocks():
    for path in documents():
        yield from markdown_blocks(path)
    for path in manual_pages():
        yield from manual_blocks(path)
