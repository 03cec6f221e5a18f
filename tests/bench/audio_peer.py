# SPDX-License-Identifier: Apache-2.0
"""Compares the frames that bench-mel computes for recordings with those of the whisper package.

    audio_peer.py BENCH_MEL BINS WAV...

Prints the largest error, the seconds of sound, and how many ms bench-mel took for them.
Needs openai-whisper.
"""
import subprocess
import sys
import wave

import need

np = need.module("numpy", "python3-numpy", "numpy")
whisper = need.module("whisper.audio", pypi="openai-whisper")


def samples_of(path):
    with wave.open(path) as f:
        return np.frombuffer(f.readframes(f.getnframes()), "<i2").astype(np.float32) / 32768


def main():
    bench, bins = sys.argv[1], int(sys.argv[2])
    worst = seconds = took = 0.0
    for path in sys.argv[3:]:
        x = samples_of(path)
        done = subprocess.run([bench, str(bins)], input=x.tobytes(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=True)
        # whisper.transcribe() also pads the end with silence.
        want = whisper.log_mel_spectrogram(x, bins, padding=whisper.N_SAMPLES).numpy().T
        got = np.frombuffer(done.stdout, np.float32).reshape(-1, bins)
        if len(got) != len(want) - whisper.N_SAMPLES // 160:
            sys.exit("%s has %d frames, but whisper computes %d" % (path, len(got), len(want)))
        worst = max(worst, float(np.abs(got - want[:len(got)]).max()))
        seconds += len(x) / 16000
        took += float(done.stderr)
    print(worst, seconds, took)


main()
