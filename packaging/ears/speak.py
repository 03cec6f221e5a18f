# SPDX-License-Identifier: Apache-2.0
"""Generates speech with libespeak-ng, with the times of words, and distorts speech.

Samples are mono, 16 kHz, float32 in -1 … 1.
"""
import ctypes
import pathlib
import subprocess
import tempfile

import numpy as np
from scipy.signal import lfilter, resample_poly

RATE = 16000
ESPEAK_RATE = 22050
DIALECTS = ["en-us", "en-us", "en"]
VARIANTS = ["", "m3", "f2"]
# These voices are not in the training data: other voice variants, and another dialect.
STRANGERS = ["en-us+m1", "en+f3", "en-gb-x-rp"]

SYNCHRONOUS, EVENT_WORD, CHARS_UTF8, POS_CHARACTER = 2, 1, 1, 1
PARAMETER_RATE, PARAMETER_PITCH, PARAMETER_RANGE = 1, 3, 4


class Event(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("unique", ctypes.c_uint), ("text_position", ctypes.c_int),
                ("length", ctypes.c_int), ("audio_position", ctypes.c_int), ("sample", ctypes.c_int),
                ("user", ctypes.c_void_p), ("id", ctypes.c_char * 8)]


CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int,
                            ctypes.POINTER(Event))


class Speaker:
    """Speaks with libespeak-ng. Only one instance may exist, since the library has one voice at a time."""

    def __init__(self):
        self.lib = ctypes.CDLL("libespeak-ng.so.1")
        if self.lib.espeak_Initialize(SYNCHRONOUS, 0, None, 0) != ESPEAK_RATE:
            raise RuntimeError("libespeak-ng has a sampling rate other than 22,050 Hz")
        self.pieces, self.events = [], []
        self.callback = CALLBACK(self.take)
        self.lib.espeak_SetSynthCallback(self.callback)

    def take(self, samples, n, events):
        if samples and n > 0:
            self.pieces.append(np.ctypeslib.as_array(samples, (n,)).copy())
        i = 0
        while events[i].type != 0:
            if events[i].type == EVENT_WORD:
                self.events.append((events[i].text_position - 1, events[i].audio_position / 1000))
            i += 1
        return 0

    def say(self, text, voice="en-us", speed=165, pitch=50, span=50):
        """Returns the samples and a list of words: (index of the first character, time in seconds).
        @speed: words per minute; @pitch and @span (range of the pitch): 0 … 100."""
        self.pieces, self.events = [], []
        if self.lib.espeak_SetVoiceByName(voice.encode()) != 0:
            raise ValueError(f"libespeak-ng has no voice {voice!r}")
        for parameter, value in ((PARAMETER_RATE, speed), (PARAMETER_PITCH, pitch),
                                 (PARAMETER_RANGE, span)):
            self.lib.espeak_SetParameter(parameter, int(value), 0)
        data = text.encode()
        self.lib.espeak_Synth(data, len(data) + 1, 0, POS_CHARACTER, 0, CHARS_UTF8, None, None)
        self.lib.espeak_Synchronize()
        x = np.concatenate(self.pieces).astype(np.float32) / 32768
        return resample_poly(x, 320, 441).astype(np.float32), self.events


def word_spans(text, events, end):
    """Returns [begin, end] in seconds for each word between spaces; words that espeak-ng joins share a span."""
    starts = dict(reversed(events))
    spans, at = [], 0
    for word in text.split(" "):
        spans.append([starts.get(at), None])
        at += len(word) + 1
    spans[0][0] = spans[0][0] if spans[0][0] is not None else 0.0
    for i in range(1, len(spans)):
        if spans[i][0] is None:
            spans[i][0] = spans[i - 1][0]
    for i, span in enumerate(spans):
        later = [s[0] for s in spans[i + 1:] if s[0] > span[0]]
        span[1] = later[0] if later else end
    return spans


def trimmed(x, threshold=0.003):
    """Returns the samples without the silence at both ends, and how many were removed at the beginning."""
    loud = np.flatnonzero(np.abs(x) > threshold)
    a, b = max(0, loud[0] - 160), min(len(x), loud[-1] + 320)
    return x[a:b], a


def draw_voice(rng):
    voice, variant = rng.choice(DIALECTS), rng.choice(VARIANTS)
    return {"voice": voice + ("+" + variant if variant else ""), "speed": rng.randint(140, 185),
            "pitch": rng.randint(30, 70), "span": rng.randint(30, 70)}


def spoken(speaker, text, **how):
    """Speaks a text. Returns the samples without silence at both ends, and the spans of the words in them."""
    x, events = speaker.say(text, **how)
    x, cut = trimmed(x)
    end = len(x) / RATE
    spans = word_spans(text, [(c, min(max(0.0, t - cut / RATE), end)) for c, t in events], end)
    return x / max(0.05, np.abs(x).max()) * 0.7, spans


def telephone(x):
    """Reduces samples to telephone quality: sampled at 8 kHz, about 300 … 3,400 Hz, 8-bit mu-law."""
    y = resample_poly(x, 1, 2)
    y = y - lfilter([0.15], [1, -0.85], y)
    y = np.sign(y) * np.log1p(255 * np.clip(np.abs(y), 0, 1)) / np.log(256)
    y = np.round(y * 127) / 127
    y = np.sign(y) * (256 ** np.abs(y) - 1) / 255
    return resample_poly(y, 2, 1)[:len(x)].astype(np.float32)


def through_codec(clips, codec, suffix, bitrate):
    """Encodes and decodes all clips, one after another, with ffmpeg."""
    joined = np.concatenate(clips)
    with tempfile.TemporaryDirectory() as d:
        coded = pathlib.Path(d) / ("clips" + suffix)
        raw = ["-f", "f32le", "-ar", str(RATE), "-ac", "1"]
        run = ["ffmpeg", "-v", "error", "-threads", "1"]
        subprocess.run(run + raw + ["-i", "-", "-c:a", codec, "-b:a", bitrate, coded],
                       input=joined.tobytes(), check=True)
        out = subprocess.run(run + ["-i", coded] + raw + ["-"], check=True, capture_output=True)
    y = np.frombuffer(out.stdout, np.float32)
    y = np.pad(y, (0, max(0, len(joined) - len(y))))[:len(joined)]
    return [c.copy() for c in np.split(y, np.cumsum([len(c) for c in clips])[:-1])]


def noise(n, rng):
    """Returns @n samples of colored noise with a power of 1. @rng is a random generator of numpy."""
    kind = rng.integers(4)
    x = rng.standard_normal(n).astype(np.float32)
    if kind == 1:
        x = lfilter([1], [1, -0.95], x)
    elif kind == 2:
        x = lfilter([1, -0.95], [1], x)
    elif kind == 3:
        t = np.arange(n) / RATE
        hum = sum(np.sin(2 * np.pi * rng.choice([50, 60]) * k * t + k) / k for k in range(1, 8))
        x = 0.3 * x + hum
    return (x / max(1e-6, x.std())).astype(np.float32)
