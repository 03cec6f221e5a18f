#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares the embed service with other programs. Prints each figure with its goal, and exits
# non-zero when a figure misses its goal.
#
#   embed.sh --model DIR|FILE.gguf [--build DIR] [--llama-server PATH [--gguf FILE]]
#            [--python PYTHON [--hf DIR]] [--pytest PYTHON] [--q8]
#            [--part tests|cosine|throughput|latency]... [--seconds S] [--isa NAME]
#
# The model, for example all-MiniLM-L6-v2, is a directory in Hugging Face layout or a GGUF file;
# --gguf and --hf name the same model for programs that need the other format. PYTHON has
# sentence-transformers (or transformers) and onnxruntime; missing ones are not compared. Needs
# python3.
set -u
here=$(cd "$(dirname "$0")" && pwd)
command -v python3 >/dev/null || {
    echo "embed.sh: there is no python3: install the Debian package python3" >&2
    exit 2
}
exec python3 "$here/embed_service.py" "$@"
