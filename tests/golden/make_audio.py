#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes files with the expected results of the unit tests of libinfer/media. All numbers in the
files are little-endian and have 32 bits.

audio/mel.bin has log-mel frames of some signals, computed by the math of Whisper's reference in
double precision. For each signal and each number of bins it has a name in 16 bytes, the number of
bins, and the number of frames. Then it has the index and the float32 values of each frame. The file
does not have the samples of the signal "noise"; the test makes the same signal.

audio/vad.bin has two rows of probabilities of speech. The first row is computed in double precision
with the weights in silero_vad_16k.safetensors. The second row is computed by Silero's own
silero_vad.onnx; ggml-silero-v6.2.0.bin contains the same weights in half precision. For each signal
the file has a name in 16 bytes, the number of chunks, and both rows as float32.

audio/speech.bin has spans of speech that Silero's own get_speech_timestamps() finds. It begins with
the number of probabilities and the probabilities as float32. For each set of parameters it then has
the number of samples, the threshold (float32), and five durations in ms: the shortest and the
longest speech, silence, pause, and padding. The number of spans follows, and for each span its
first and last sample.

Needs numpy, torch, safetensors and onnxruntime. The first argument is the directory of test data,
with whisper/mel_filters.npz (the filters of openai-whisper), speech/*.wav and vad/*. The second is
the directory of the silero-vad repository with utils_vad.py and data/silero_vad.onnx.

    python3 make_audio.py ../../../shared/data silero-vad/src/silero_vad
"""

import pathlib
import struct
import sys
import types
import wave

import numpy as np
import onnxruntime
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

OUT = pathlib.Path(__file__).resolve().parent / "audio"
N_FFT, HOP, PAD = 400, 160, 480000


def noise(n):
    """Makes noise with a linear congruential generator. Its four quarters are silent, loud, quiet
    and very quiet."""
    x, out = 1, np.empty(n)
    for i in range(n):
        x = (x * 1664525 + 1013904223) % 2**32
        gain = [0, 1, 64, 1024][i * 4 // n]
        out[i] = 0.0 if gain == 0 else ((x >> 16) - 32768) // gain
    return out / 32768


def speech(path):
    with wave.open(str(path)) as w:
        return np.frombuffer(w.readframes(w.getnframes()), "<i2").astype(np.float64) / 32768


def log_mel(signal, filters):
    x = np.pad(np.pad(signal, (0, PAD)), N_FFT // 2, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(N_FFT) / N_FFT)
    n = (len(signal) + PAD) // HOP
    frames = np.lib.stride_tricks.sliding_window_view(x, N_FFT)[::HOP][:n]
    power = np.abs(np.fft.rfft(frames * window, axis=1)) ** 2
    out = np.log10(np.maximum(power @ filters.astype(np.float64).T, 1e-10))
    return (np.maximum(out, out.max() - 8) + 4) / 4


def write_mel(data):
    filters = np.load(data / "whisper" / "mel_filters.npz")
    signals = {"noise": noise(16100)}
    for name in ["jfk", "austen-0870"]:
        signals[name] = speech(data / "speech" / f"{name}.wav")
    out = b""
    for name, signal in signals.items():
        n = len(signal) // HOP
        picked = sorted({0, 1, 2, n - 2, n - 1, n, *range(13, n, n // 12)})
        for n_bins in [80, 128]:
            mel = log_mel(signal, filters[f"mel_{n_bins}"]).astype("<f4")
            out += struct.pack("<16sII", name.encode(), n_bins, len(picked))
            for i in picked:
                out += struct.pack("<I", i) + mel[i].tobytes()
    (OUT / "mel.bin").write_bytes(out)


def vad_network(w, x, state):
    """Computes one step of Silero's network for 64 + 512 samples; returns the next state and a
    probability."""
    x = F.pad(x[None, None], (0, 64), mode="reflect")
    x = F.conv1d(x, w["stft_conv.weight"], stride=128)
    x = (x[:, :129] ** 2 + x[:, 129:] ** 2).sqrt()
    for name, stride in [("conv1", 1), ("conv2", 2), ("conv3", 2), ("conv4", 1)]:
        x = F.conv1d(x, w[name + ".weight"], w[name + ".bias"], stride=stride, padding=1).relu()
    cell = torch.nn.LSTMCell(128, 128, dtype=torch.float64)
    cell.load_state_dict({k.removeprefix("lstm_cell."): v for k, v in w.items() if "lstm" in k})
    state = cell(x[..., 0], state)
    out = F.conv1d(state[0].relu()[..., None], w["final_conv.weight"], w["final_conv.bias"])
    return state, out.sigmoid().item()


def write_vad(data, silero):
    session = onnxruntime.InferenceSession(str(silero / "data" / "silero_vad.onnx"))
    w = {k: v.double() for k, v in load_file(data / "vad" / "silero_vad_16k.safetensors").items()}
    out = b""
    for name in ["vad/test", "speech/jfk"]:
        signal = torch.from_numpy(speech(data / f"{name}.wav"))
        signal = F.pad(signal, (64, -len(signal) % 512))
        state, p, own_state, own = None, [], np.zeros((2, 1, 128), np.float32), []
        with torch.no_grad():
            for i in range(64, len(signal), 512):
                state, value = vad_network(w, signal[i - 64:i + 512], state)
                p.append(value)
                value, own_state = session.run(None, {
                    "input": signal[None, i - 64:i + 512].numpy().astype(np.float32),
                    "state": own_state, "sr": np.array(16000, np.int64)})
                own.append(value.item())
        out += struct.pack("<16sI", name.encode(), len(p)) + np.array(p + own, "<f4").tobytes()
    (OUT / "vad.bin").write_bytes(out)


class Recorded:
    """Replaces a model: each call returns the next of the given values."""

    def __init__(self, values):
        self.values = iter(values)

    def reset_states(self):
        pass

    def __call__(self, chunk, rate):
        return torch.tensor(next(self.values))


def write_speech(silero):
    # utils_vad.py imports torchaudio to read files, which this script does not need.
    sys.modules.setdefault("torchaudio", types.ModuleType("torchaudio"))
    sys.path.insert(0, str(silero))
    from utils_vad import get_speech_timestamps
    rng = np.random.default_rng(7)
    # Speech and silence of random lengths, with noise around the thresholds.
    p = np.concatenate([np.full(rng.geometric(0.12), level) for _ in range(45)
                        for level in (0.1, 0.8)])[:700]
    p = np.clip(p + rng.normal(0, 0.15, len(p)), 0, 1).astype("<f4")
    out = struct.pack("<I", len(p)) + p.tobytes()
    for last in [512, 1, 300]:
        n = (len(p) - 1) * 512 + last
        for threshold, least, most, silence, pause, pad in [
                (0.5, 250, 0, 100, 98, 30), (0.5, 0, 0, 0, 98, 0), (0.5, 250, 0, 300, 98, 200),
                (0.6, 100, 2000, 100, 30, 30), (0.4, 250, 3000, 800, 98, 400),
                (0.5, 250, 1500, 2000, 0, 16), (0.75, 30, 5000, 500, 98, 300),
                (0.1, 250, 4000, 100, 98, 30)]:
            spans = get_speech_timestamps(
                torch.zeros(n), Recorded(p), threshold=threshold, min_speech_duration_ms=least,
                max_speech_duration_s=most / 1000 if most else float("inf"),
                min_silence_duration_ms=silence, min_silence_at_max_speech=pause,
                speech_pad_ms=pad)
            out += struct.pack("<IfIIIIII", n, threshold, least, most, silence, pause, pad,
                               len(spans))
            for span in spans:
                out += struct.pack("<II", span["start"], span["end"])
    (OUT / "speech.bin").write_bytes(out)


def main():
    data, silero = map(pathlib.Path, sys.argv[1:])
    OUT.mkdir(exist_ok=True)
    write_mel(data)
    write_vad(data, silero)
    write_speech(silero)


if __name__ == "__main__":
    main()
