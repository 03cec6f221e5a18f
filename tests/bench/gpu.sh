#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares the Vulkan backend on a GPU with that of llama.cpp. Prints each figure with its target,
# and exits non-zero when a figure misses its target. One call measures everything in at most 9
# minutes.
#
#   gpu.sh [--build DIR] [--llama-bench PATH] [--llama-batched-bench PATH] [OPTION]...
#   gpu.sh --lavapipe --llama-bench PATH     uses the software driver, and few tokens
#
# gpu.sh --help names all options. Needs python3.
set -u
here=$(cd "$(dirname "$0")" && pwd)
command -v "${PYTHON:-python3}" >/dev/null || {
    echo "gpu.sh: there is no python3: install the Debian package python3" >&2
    exit 2
}
exec "${PYTHON:-python3}" "$here/gpu.py" "$@"
