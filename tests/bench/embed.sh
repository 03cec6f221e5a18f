#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures the embed service beside others, prints each figure with its goal, and exits non-zero when
# one falls short.
#
#   embed.sh --model DIR|FILE.gguf [--build DIR] [--llama-server PATH [--gguf FILE]]
#            [--python PYTHON [--hf DIR]] [--pytest PYTHON] [--q8]
#            [--part tests|cosine|throughput|latency]... [--seconds S]
#
# The model is in Hugging Face layout or a GGUF file, such as all-MiniLM-L6-v2; --gguf and --hf name
# it for those that do not read the one given. PYTHON has sentence-transformers
# (or transformers) and onnxruntime, whatever of it shall be compared with. Needs python3.
set -u
here=$(cd "$(dirname "$0")" && pwd)
command -v python3 >/dev/null || {
    echo "embed.sh: no python3" >&2
    exit 2
}
exec python3 "$here/embed_service.py" "$@"
