#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures the two tiers of the KV cache: the memory of the engine, and the cache service. Prints
# each figure with its target, and exits non-zero when a figure misses its target.
#
#   prefix.sh [--build DIR] [--part PART]... [OPTION]... [MODEL]...
#
# Parts: restart restored turns fresh faults traces index models texts; all of them if none is
# named.
#
# A MODEL is a GGUF file; without one, the script makes one of random weights in the shape of
# Qwen3-0.6B. prefix.sh --help names all options. Needs python3, and root to empty the page cache of
# all files.
set -u
here=$(cd "$(dirname "$0")" && pwd)
command -v "${PYTHON:-python3}" >/dev/null || {
    echo "prefix.sh: there is no python3: install the Debian package python3" >&2
    exit 2
}
exec "${PYTHON:-python3}" "$here/prefix.py" "$@"
