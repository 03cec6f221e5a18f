#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes recordings in the format Ogg Opus, and their texts, for tests of the audio service.
libespeak-ng speaks the sentences. The model packaging/ears/sconce-ears was trained with the same
voices, but not with these sentences.

Needs: numpy, scipy; libespeak-ng 1.51, ffmpeg.
Usage: make_ears.py [DIRECTORY]        (audio/ears beside this file)
"""
import json
import pathlib
import random
import subprocess
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "packaging/ears"))
import corpus  # noqa: E402
import speak  # noqa: E402

N = 8


def main():
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "audio/ears"
    out.mkdir(parents=True, exist_ok=True)
    rng, speaker, texts = random.Random(11), speak.Speaker(), {}
    pause = np.zeros(speak.RATE // 4, np.float32)
    for i, text in enumerate(corpus.sentences(N, 2026, held_out=True)):
        x, _ = speak.spoken(speaker, text, **speak.draw_voice(rng))
        name = "%d.opus" % i
        subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-y", "-f", "f32le", "-ar", str(speak.RATE),
                        "-ac", "1", "-i", "-", "-c:a", "libopus", "-b:a", "32k", "-fflags", "+bitexact",
                        "-flags:a", "+bitexact", "-f", "ogg", str(out / name)],
                       input=np.concatenate((pause, x, pause)).tobytes(), check=True)
        texts[name] = text
    (out / "texts.json").write_text(json.dumps(texts, indent=1) + "\n")


if __name__ == "__main__":
    main()
