# SPDX-License-Identifier: Apache-2.0
"""Tests the whole audio service with packaging/ears/sconce-ears: speech in every container, and
silence.

The recordings are sentences that the model was not trained on (tests/golden/make_ears.py). The
tests require only a share of correct words, so that a retrained model may get a word wrong.
"""
import array
import concurrent.futures
import importlib.util
import json
import os
import random
import re
import shutil
import struct

import pytest

from conftest import DATA, ROOT, Suite, check_log
from test_audio import error, post
from test_audio_decoder import CONTAINERS, FILES, ffmpeg


def module(name, path):
    """Loads a script under a unique module name: other tests also have a module `corpus`."""
    spec = importlib.util.spec_from_file_location(name, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


corpus = module("ears_corpus", ROOT / "packaging/ears/corpus.py")
SPEECH = ROOT / "tests/golden/audio/ears"
TEXTS = json.loads((SPEECH / "texts.json").read_text())
NAMES = sorted(TEXTS)
RATE = 16000
VAD = DATA / "vad/silero_vad_16k.safetensors"
pytestmark = [pytest.mark.long,
              pytest.mark.skipif(not FILES.exists(), reason="a build without libav")]


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    models = tmp_path_factory.mktemp("ears")
    shutil.copytree(ROOT / "packaging/ears/sconce-ears", models / "sconce-ears")
    if VAD.exists():
        shutil.copy(VAD, models)
    suite = Suite(models)
    yield suite
    check_log(suite.close())


def ask(suite, data, *fields, path="/v1/audio/transcriptions"):
    status, _, body = post(suite, [("file", ("sound", data)), *fields], path)
    assert status == 200, body
    return body.decode()


def verbose(suite, data, *fields):
    told = json.loads(ask(suite, data, ("response_format", "verbose_json"),
                          ("timestamp_granularities[]", "segment"),
                          ("timestamp_granularities[]", "word"), *fields))
    told.pop("usage")
    return told


def misses(said, want):
    return corpus.distance(corpus.plain(said), corpus.plain(want))


def samples(name):
    return array.array("f", ffmpeg("-i", SPEECH / name, "-f", "f32le", "-ar", RATE, "-ac", 1, "-"))


def noise(seconds, loudness=0.01):
    rng = random.Random(1)
    return array.array("f", (rng.gauss(0, loudness) for _ in range(int(seconds * RATE))))


def silence(seconds):
    return array.array("f", bytes(4 * int(seconds * RATE)))


def wav(*parts):
    data = b"".join(p.tobytes() for p in parts)
    return (b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " +
            struct.pack("<IHHIIHH", 16, 3, 1, RATE, 4 * RATE, 4, 32) + b"data" +
            struct.pack("<I", len(data)) + data)


def test_words_are_heard_in_every_container(suite, tmp_path, capsys):
    wrong, total = {}, 0
    for i, (container, (options, _, _)) in enumerate(CONTAINERS.items()):
        wrong[container] = 0
        for name in (NAMES[i % len(NAMES)], NAMES[(i + 3) % len(NAMES)]):
            ffmpeg("-i", SPEECH / name, *options.split(), tmp_path / container)
            text = json.loads(ask(suite, (tmp_path / container).read_bytes()))["text"]
            wrong[container] += misses(text, TEXTS[name])
            total += len(corpus.plain(TEXTS[name]))
    with capsys.disabled():
        print("\n%d of %d words wrong: %s" % (sum(wrong.values()), total,
                                              {k: n for k, n in wrong.items() if n}), end=" ")
    assert sum(wrong.values()) < 0.05 * total
    assert max(wrong.values()) <= 4


def test_parallel_requests_give_the_same_words_as_one(suite):
    files = [(SPEECH / name).read_bytes() for name in NAMES]
    alone = [verbose(suite, data) for data in files]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda data: verbose(suite, data), files * 2))
    assert together == alone * 2
    assert sum(misses(t["text"], TEXTS[n]) for t, n in zip(alone, NAMES)) < 5


def test_times_of_segments_and_words(suite):
    for name in NAMES[:3]:
        told = verbose(suite, (SPEECH / name).read_bytes())
        assert told["language"] == "english" and told["segments"]
        assert [w["word"] for w in told["words"]] == told["text"].split()
        at = 0
        for word in told["words"]:
            assert at <= word["start"] <= word["end"] <= told["duration"] + 0.1
            at = word["start"]
        # The recording ends with a quarter of a second of silence.
        told = json.loads(ask(suite, (SPEECH / name).read_bytes(), ("response_format", "verbose_json")))
        assert "words" not in told
        assert 0.15 < told["duration"] - told["segments"][-1]["end"] < 0.35
        assert all(s["no_speech_prob"] < 0.2 for s in told["segments"])


def test_a_stream_and_subtitles_have_the_same_words(suite):
    data = (SPEECH / NAMES[0]).read_bytes()
    text = json.loads(ask(suite, data))["text"]
    lines = ask(suite, data, ("stream", "true")).splitlines()
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    assert "".join(e.get("delta", "") for e in events) == events[-1]["text"] == text
    assert ask(suite, data, ("response_format", "text")) == text + "\n"
    for form, head, point in (("srt", "1\n", ","), ("vtt", "WEBVTT\n\n", ".")):
        answer = ask(suite, data, ("response_format", form))
        assert answer.startswith(head)
        assert re.search(r"^00:00:00\%s\d{3} --> 00:00:0\d\%s\d{3}$" % (point, point), answer, re.M)
        assert " ".join(line for line in answer.splitlines()
                        if line and not re.search(r"-->|^\d+$|WEBVTT", line)) == text


@pytest.mark.parametrize("sound", [silence(3), silence(40), noise(8), noise(35, 0.1),
                                   noise(10, 0.0003)],
                         ids=["silence", "long-silence", "noise", "long-noise", "faint-noise"])
def test_silence_and_noise_have_no_text(suite, sound):
    data = wav(sound)
    ways = [[], [("chunking_strategy", "auto")]] + ([[("vad_filter", "true")]] if VAD.exists() else [])
    for fields in ways:
        told = verbose(suite, data, *fields)
        assert (told["text"], told["segments"], told["words"]) == ("", [], [])
        assert told["duration"] == round(len(sound) / RATE, 3)
    assert ask(suite, data, ("response_format", "srt")) == ""
    assert ask(suite, data, ("response_format", "vtt")) == "WEBVTT\n\n"
    assert ask(suite, data, ("response_format", "text")) == "\n"
    events = ask(suite, data, ("stream", "true"))
    assert "delta" not in events and events.endswith("data: [DONE]\n\n")


def test_silence_is_skipped_and_times_stay(suite):
    """Tests speech after half a minute of silence, and speech after noise."""
    if not VAD.exists():
        assert "Silero" in error(post(suite, [("file", ("a", wav(noise(1)))), ("vad_filter", "true")]),
                                 400, "no_vad_model")
        pytest.skip("no weights of Silero VAD (SCONCE_DATA)")
    first, second = samples(NAMES[0]), samples(NAMES[3])
    data = wav(silence(33), first, noise(31, 0.003), second, silence(5))
    at = [33 + 0.25, 33 + len(first) / RATE + 31 + 0.25]
    for fields in ([("vad_filter", "true")], [("chunking_strategy", "auto")],
                   [("chunking_strategy", '{"type": "server_vad", "silence_duration_ms": 500}')]):
        windows = suite.audio_metrics()['sconce_audio_windows_total{model_name="sconce-ears"}']
        told = verbose(suite, data, *fields)
        heard = suite.audio_metrics()['sconce_audio_windows_total{model_name="sconce-ears"}'] - windows
        assert misses(told["text"], TEXTS[NAMES[0]] + " " + TEXTS[NAMES[3]]) <= 3, told["text"]
        assert abs(told["duration"] - len(data) / 4 / RATE) < 0.01
        assert heard <= 2, "the service did not skip more than a minute of silence and noise"
        starts = [s["start"] for s in told["segments"]]
        assert abs(starts[0] - at[0]) < 0.5 and abs(starts[-1] - at[1]) < 0.5, starts
        assert abs(told["words"][0]["start"] - at[0]) < 0.5
        assert told["words"][-1]["end"] < at[1] + len(second) / RATE


def test_a_person_s_voice_is_found_by_real_weights(suite):
    """The model does not know the words of this recording, but its segment times show when the
    person speaks."""
    speech = DATA / "speech/jfk.wav"
    if not VAD.exists() or not speech.exists():
        pytest.skip("no weights of Silero VAD, or no speech (SCONCE_DATA)")
    voice = array.array("f", ffmpeg("-i", speech, "-f", "f32le", "-ar", RATE, "-ac", 1, "-"))
    data = wav(silence(40), voice, noise(40, 0.003))
    told = verbose(suite, data, ("vad_filter", "true"))
    assert all(39 < s["start"] <= s["end"] < 40 + len(voice) / RATE + 1 for s in told["segments"])


def test_whisper_cpp_weights_of_silero_serve_as_well(tmp_path):
    weights = DATA / "vad/for-tests-silero-v6.2.0-ggml.bin"
    if not weights.exists():
        pytest.skip("no weights of Silero VAD (SCONCE_DATA)")
    shutil.copytree(ROOT / "packaging/ears/sconce-ears", tmp_path / "sconce-ears")
    shutil.copy(weights, tmp_path / "ggml-silero-v6.2.0.bin")
    suite = Suite(tmp_path, audio="  vad_model: ggml-silero-v6.2.0.bin\n")
    try:
        told = verbose(suite, wav(silence(35), samples(NAMES[0])))
        assert misses(told["text"], TEXTS[NAMES[0]]) <= 2
        assert abs(told["segments"][0]["start"] - 35.25) < 0.5
        os.truncate(tmp_path / "ggml-silero-v6.2.0.bin", 5000)
    finally:
        check_log(suite.close())
    suite = Suite(tmp_path, audio="  vad_model: ggml-silero-v6.2.0.bin\n")
    try:
        assert "ggml-silero" in error(post(suite, [("file", ("a", wav(noise(1))))]), 500,
                                      "model_load_failed")
    finally:
        suite.close()


def q8_0(data):
    """Converts blocks of 32 F16 numbers to a scale and integers (Q8_0)."""
    out = []
    for block in struct.iter_unpack("<32e", data):
        scale = max(map(abs, block)) / 127
        out.append(struct.pack("<e32b", scale, *(round(x / scale) if scale else 0 for x in block)))
    return b"".join(out)


def as_gguf(path):
    """Returns the weights of a directory by Hugging Face names, without the biases of keys, and
    with matrices as Q8_0."""
    data = path.read_bytes()
    size = struct.unpack_from("<Q", data)[0]
    head, infos, body = json.loads(data[8:8 + size]), b"", b""
    head.pop("__metadata__", None)
    for name, t in head.items():
        assert t["dtype"] == "F16"
        weights = data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]
        matrix = len(t["shape"]) == 2
        infos += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(t["shape"]))
        infos += struct.pack("<%dQ" % len(t["shape"]), *reversed(t["shape"]))
        infos += struct.pack("<IQ", 8 if matrix else 1, len(body))
        body += q8_0(weights) if matrix else weights
        body += bytes(-len(body) % 32)
    infos = b"GGUF" + struct.pack("<IQQ", 3, len(head), 0) + infos
    return infos + bytes(-len(infos) % 32) + body


def test_weights_of_candle_need_their_configuration(tmp_path):
    ears = ROOT / "packaging/ears/sconce-ears"
    for name in ("with", "without"):
        (tmp_path / name).mkdir()
    (tmp_path / "with/q80.gguf").write_bytes(as_gguf(ears / "model.safetensors"))
    shutil.copy(tmp_path / "with/q80.gguf", tmp_path / "without")
    for name in ("config.json", "generation_config.json", "tokenizer.json"):
        shutil.copy(ears / name, tmp_path / "with")
    suite = Suite(tmp_path)
    try:
        wrong = 0
        for name in NAMES[:4]:
            told = verbose(suite, (SPEECH / name).read_bytes(), ("model", "with/q80"))
            wrong += misses(told["text"], TEXTS[name])
        assert wrong <= 2
        answer = post(suite, [("file", ("a", wav(noise(1)))), ("model", "without/q80")])
        assert "config.json" in error(answer, 400, "unsupported_model")
    finally:
        check_log(suite.close())
