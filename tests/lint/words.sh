#!/bin/sh
# Checks that sentences of comments, docs and manual pages begin with their subject. Lists openings
# such as "Of all blocks", "Those that wait", "Who asks" and "What is kept is": a reader must read
# such sentences twice.
set -u
cd "${1:-.}" || exit 2
python3 - <<'PY'
import pathlib, re, subprocess, sys

OPENINGS = re.compile(
    r"(?:Of [a-z]+\b(?! course)"
    r"|Those (?:who|that|which|of|in|with)\b"
    r"|Who(?:ever)? [a-z]+"
    r"|What(?:ever)? [^.?!:;]*? (?:is|are|was|were|has|goes|comes|stays|costs|fails)\b"
    r"|That which\b)[^?]*?(?:[.!;:]|$)")
CODE = (".c", ".h", ".comp", ".glsl")
SCRIPT = (".js",)
SHELL = (".sh", ".py", ".build", ".yaml", ".options", ".service", ".socket", ".conf")

def comments(path, text):
    """Yields pairs of a line number and a paragraph of plain text."""
    if path.endswith(CODE):
        for m in re.finditer(r"/\*(.*?)\*/", text, re.S):
            line = text.count("\n", 0, m.start()) + 1
            yield line, re.sub(r"\n\s*\* ?", "\n", m[1])
    elif path.endswith(SCRIPT):
        for m in re.finditer(r"(?m)(?:^[ \t]*//.*\n)+|(?<=\S)[ \t]+// .*$", text):
            yield text.count("\n", 0, m.start()) + 1, re.sub(r"(?m)^[ \t]*// ?", "", m[0])
    elif path.endswith(SHELL):
        for m in re.finditer(r"(?m)(?:^[ \t]*#(?!!).*\n)+|(?<=\S)[ \t]+# .*$", text):
            yield text.count("\n", 0, m.start()) + 1, re.sub(r"(?m)^[ \t]*# ?", "", m[0])
        if path.endswith(".py"):
            for m in re.finditer(r'"""(.*?)"""', text, re.S):
                yield text.count("\n", 0, m.start()) + 1, m[1]
    else:
        text = re.sub(r"(?ms)^```.*?^```", lambda m: "\n" * m[0].count("\n"), text)
        text = re.sub(r"(?m)^(#|\.(?!PP|IP|TP)|\|).*$", "", text)
        for m in re.finditer(r"(?:[^\n]+\n?)+", text):
            yield text.count("\n", 0, m.start()) + 1, m[0]

bad = 0
files = subprocess.run(["git", "ls-files"], capture_output=True, text=True).stdout.split("\n")
for path in files:
    if not (path.endswith(CODE + SCRIPT + SHELL + (".md",)) or path.startswith("docs/man/")):
        continue
    if re.match(r"tests/(golden|fuzz/corpus)/|tests/lint/words|packaging/(guide|ears)/corpus", path):
        continue
    for line, text in comments(path, pathlib.Path(path).read_text()):
        flat = re.sub(r"\s+", " ", text.strip())
        for sentence in re.split(r"(?<=[.;])\s+(?=[A-Z])|(?:^|\s)- (?=[A-Z])", flat):
            m = OPENINGS.match(sentence or "")
            if m and "?" not in sentence[:200]:
                print(f"{path}:{line}: {sentence[:90]}")
                bad += 1
print(f"{bad} sentences begin without their subject" if bad else "", end="\n" if bad else "")
sys.exit(bad > 0)
PY
