#!/bin/sh
# Checks every #include "folder/file.h" of libinfer and services against the allowed layers:
# libinfer/LAYERS for libinfer; services may include common, themselves and core alone,
# those with models services/host too.
set -u
cd "${1:-.}" || exit 2
python3 - <<'PY'
import re, sys, pathlib

layers = {}
for line in pathlib.Path("libinfer/LAYERS").read_text().splitlines():
    line = line.split("#")[0].strip()
    if line:
        name, rest = line.split(":")
        layers[name] = set(rest.split()) | {name}

include = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
bad = 0

def tell(path, text):
    global bad
    bad += 1
    print(f"{path}: {text}")

for path in sorted(pathlib.Path("libinfer").rglob("*.[ch]")):
    folder = path.parts[1]
    if folder == "include":
        for name in include.findall(path.read_text()):
            tell(path, f'includes "{name}"; public headers include <infer/…> and the C library')
        continue
    if folder not in layers:
        tell(path, "its folder is not in LAYERS")
        continue
    for name in include.findall(path.read_text()):
        if "/" not in name:
            tell(path, f'includes "{name}" without its folder')
            continue
        other = name.split("/")[0]
        if other not in layers[folder]:
            tell(path, f'includes "{name}": {folder} may not use {other}')
        elif not (pathlib.Path("libinfer") / name).exists():
            tell(path, f'includes "{name}", which is not there')

for path in sorted(pathlib.Path("services").rglob("*.[ch]")):
    folder = path.parts[1]
    allowed = {folder, "common", "core"} | ({"host"} if folder in ("chat", "embed", "audio") else set())
    for name in include.findall(path.read_text()):
        if name.split("/")[0] not in allowed:
            tell(path, f'includes "{name}": {folder} may use {", ".join(sorted(allowed))}')
    text = path.read_text()
    if folder in ("gateway", "cache", "common") and re.search(r"#\s*include\s+<infer/(?!(?:types|tier)\.h)", text):
        tell(path, "includes a header of libinfer beyond <infer/types.h> and <infer/tier.h>: no model code here")
    if re.search(r"#\s*include\s+<h2o", text) and path.parts[1:3] != ("common", "http"):
        tell(path, "includes libh2o; only services/common/http may")

sys.exit(1 if bad else 0)
PY
