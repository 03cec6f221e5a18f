#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures what transcription is judged by, beside whisper.cpp and the whisper package, prints each
# figure with its target, and exits non-zero when one falls short.
#
#   audio.sh [--build DIR] [--whisper DIR] [--python PYTHON] [--part PART]... [OPTION]...
#
# Parts: front parity words speed clients memory; all of them if none is named. DIR holds
# whisper.cpp's programs; PYTHON has numpy, and openai-whisper, torch and transformers for the parts
# that compare with them; words needs libespeak-ng. audio.sh --help names all options. Needs python3.
set -u
here=$(cd "$(dirname "$0")" && pwd)
command -v python3 >/dev/null || {
    echo "audio.sh: no python3" >&2
    exit 2
}
exec python3 "$here/audio.py" "$@"
