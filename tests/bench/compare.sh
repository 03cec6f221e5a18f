#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares this build with the limits of the machine, with llama.cpp and with ik_llama.cpp. Prints
# each figure with its target, and exits non-zero when a figure misses its target.
#
#   compare.sh [--sconce PATH] [--llama-bench PATH] [--ik-bench PATH] [--llama-server PATH]
#              [--part decode|prefill|clients|cold|growth]... [OPTION]...
#
# compare.sh --help names all options. Needs python3.
set -u
here=$(cd "$(dirname "$0")" && pwd)
command -v "${PYTHON:-python3}" >/dev/null || {
    echo "compare.sh: no python3" >&2
    exit 2
}
exec "${PYTHON:-python3}" "$here/compare.py" "$@"
