#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares this build with the limits of the machine, and with llama.cpp, ik_llama.cpp and mistral.rs. Prints each
# figure with its target, and exits non-zero when a figure misses its target.
#
#   compare.sh [--sconce PATH] [--llama-bench PATH] [--ik-bench PATH] [--llama-server PATH]
#              [--mistralrs PYTHON] [--quick]
#              [--part rows|decode|prefill|clients|cold|growth|formats]... [OPTION]...
#
# compare.sh --help names all options. Needs python3.
set -u
here=$(cd "$(dirname "$0")" && pwd)
command -v "${PYTHON:-python3}" >/dev/null || {
    echo "compare.sh: there is no python3: install the Debian package python3" >&2
    exit 2
}
exec "${PYTHON:-python3}" "$here/compare.py" "$@"
