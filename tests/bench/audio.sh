#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares transcription with whisper.cpp and the whisper package. Prints each figure with its
# target, and exits non-zero when a figure misses its target.
#
#   audio.sh [--build DIR] [--whisper DIR] [--python PYTHON] [--part PART]... [OPTION]...
#
# Parts: front parity words speed clients memory; all of them if none is named. DIR contains the
# programs of whisper.cpp. PYTHON has numpy, and openai-whisper, torch and transformers for the
# parts that compare with them. The part words needs libespeak-ng. audio.sh --help names all
# options. Needs python3.
set -u
here=$(cd "$(dirname "$0")" && pwd)
command -v python3 >/dev/null || {
    echo "audio.sh: there is no python3: install the Debian package python3" >&2
    exit 2
}
exec python3 "$here/audio.py" "$@"
