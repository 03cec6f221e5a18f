# SPDX-License-Identifier: Apache-2.0
"""Tests transcriptions over HTTP, with the official client where it is installed.

The transcriber is a stand-in that reports the length of the sound (tests/audio/fake-transcriber.c),
so tests know the exact text of each segment. The decoder is the real one.
"""
import array
import concurrent.futures
import http.client
import io
import json
import math
import os
import shutil
import socket
import struct
import threading
import time

import pytest

from conftest import BUILD, ROOT, SLOW, Suite, check_log

FAKE = BUILD / "services/audio/sconce-audio-fake"
CORPUS = ROOT / "tests/fuzz/corpus/decode"
PATH = "/v1/audio/transcriptions"
pytestmark = [pytest.mark.sanitize,
              pytest.mark.skipif(not FAKE.exists(), reason="a build without libav")]


def wav(seconds, rate=16000):
    n = int(seconds * rate)
    data = array.array("h", (int(9000 * math.sin(i / 20)) for i in range(n))).tobytes()
    return (b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " +
            struct.pack("<IHHIIHH", 16, 1, 1, rate, 2 * rate, 2, 16) + b"data" +
            struct.pack("<I", len(data)) + data)


@pytest.fixture(scope="module")
def audio_suite(model_dir):
    suite = Suite(model_dir, audio="  default_model: tiny\n  max_seconds: 60\n  max_queue: 8\n",
                  audio_program=FAKE)
    yield suite
    check_log(suite.close())


@pytest.fixture(scope="module")
def client(audio_suite):
    openai = pytest.importorskip("openai")
    return openai.OpenAI(base_url=audio_suite.url + "/v1", api_key="none", max_retries=0, timeout=60)


def form(fields, boundary="XyZ"):
    out = b""
    for name, value in fields:
        extra = ""
        if isinstance(value, tuple):
            extra = '; filename="%s"' % value[0]
            value = value[1]
        out += b"--%s\r\nContent-Disposition: form-data; name=\"%s\"%s\r\n\r\n%s\r\n" % (
            boundary.encode(), name.encode(), extra.encode(),
            value.encode() if isinstance(value, str) else value)
    return out + b"--%s--\r\n" % boundary.encode()


def post(suite, fields, path=PATH, timeout=60, headers=None, unix=False):
    """Returns (status, content type, body)."""
    body = fields if isinstance(fields, bytes) else form(fields)
    c = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=timeout * SLOW)
    if unix:
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.settimeout(timeout * SLOW)
        c.sock.connect(suite.audio_sock)
    try:
        c.request("POST", path, body, headers or {
            "Content-Type": "multipart/form-data; boundary=XyZ"})
        r = c.getresponse()
        return r.status, r.getheader("content-type"), r.read()
    finally:
        c.close()


def file(seconds=12):
    return ("file", ("a.wav", wav(seconds)))


def error(answer, status, code, param=None):
    assert answer[0] == status, answer
    told = json.loads(answer[2])["error"]
    assert told["code"] == code, told
    if param:
        assert told["param"] == param, told
    return told["message"]


def test_official_client(client):
    t = client.audio.transcriptions.create(model="tiny", file=("a.wav", wav(12)))
    assert t.text == "Segment 0. Segment 1. Segment 2."
    assert t.usage.type == "duration" and t.usage.seconds == 12
    t = client.audio.transcriptions.create(
        model="tiny", file=io.BytesIO(wav(7)), response_format="verbose_json", language="de",
        timestamp_granularities=["word", "segment"], temperature=0.5, prompt="Hello")
    assert (t.language, t.duration, t.text) == ("german", 7.0, "Segment 0. Segment 1.")
    assert [(s.id, s.seek, s.start, s.end, s.text) for s in t.segments] == [
        (0, 0, 0.0, 5.0, " Segment 0."), (1, 500, 5.0, 7.0, " Segment 1.")]
    assert t.segments[0].tokens == [50364, 0] and t.segments[0].temperature == 0.5
    assert [(w.word, w.start, w.end) for w in t.words] == [
        ("Segment", 0.0, 2.5), ("0.", 2.5, 5.0), ("Segment", 5.0, 6.0), ("1.", 6.0, 7.0)]
    t = client.audio.transcriptions.create(model="tiny", file=("a.wav", wav(1)),
                                           response_format="verbose_json",
                                           timestamp_granularities=["word"])
    assert t.segments is None and len(t.words) == 2 and t.language == "english"
    t = client.audio.translations.create(model="tiny", file=("a.wav", wav(6)))
    assert t.text == "Part 0. Part 1."
    t = client.audio.translations.create(model="tiny", file=("a.wav", wav(6)),
                                         response_format="verbose_json")
    assert t.language == "english" and t.segments[1].text == " Part 1."
    srt = client.audio.transcriptions.create(model="tiny", file=("a.wav", wav(6)),
                                             response_format="srt")
    assert srt.startswith("1\n00:00:00,000 --> 00:00:05,000\nSegment 0.\n\n2\n")
    openai = pytest.importorskip("openai")
    with pytest.raises(openai.BadRequestError) as e:
        client.audio.transcriptions.create(model="tiny", file=("a.wav", b"no sound"))
    assert e.value.code == "audio_unknown_format"


def test_official_client_streams(client):
    stream = client.audio.transcriptions.create(model="tiny", file=("a.wav", wav(12)), stream=True)
    events = list(stream)
    assert [e.type for e in events] == ["transcript.text.delta"] * 3 + ["transcript.text.done"]
    assert "".join(e.delta for e in events[:-1]) == events[-1].text
    assert events[-1].text == "Segment 0. Segment 1. Segment 2."


def test_formats(audio_suite):
    texts = {}
    for name, kind in (("json", "application/json"), ("text", "text/plain; charset=utf-8"),
                       ("srt", "application/x-subrip; charset=utf-8"),
                       ("vtt", "text/vtt; charset=utf-8")):
        status, content, body = post(audio_suite, [file(3700 / 500), ("response_format", name)])
        assert (status, content) == (200, kind)
        texts[name] = body.decode()
    assert json.loads(texts["json"]) == {"text": "Segment 0. Segment 1.",
                                         "usage": {"type": "duration", "seconds": 8}}
    assert texts["text"] == "Segment 0. Segment 1.\n"
    assert texts["srt"] == ("1\n00:00:00,000 --> 00:00:05,000\nSegment 0.\n\n"
                            "2\n00:00:05,000 --> 00:00:07,400\nSegment 1.\n\n")
    assert texts["vtt"] == ("WEBVTT\n\n00:00:00.000 --> 00:00:05.000\nSegment 0.\n\n"
                            "00:00:05.000 --> 00:00:07.400\nSegment 1.\n\n")


def test_every_container_is_accepted(audio_suite):
    for path in sorted(CORPUS.iterdir()):
        answer = post(audio_suite, [("file", (path.name, path.read_bytes()))])
        if path.name == "text":
            error(answer, 400, "audio_unknown_format")
        else:
            assert answer[0] == 200, (path.name, answer)
            assert json.loads(answer[2])["text"] == "Segment 0."


def test_fields_are_honoured_or_refused_by_name(audio_suite):
    def refused(fields, code, param=None, status=400, path=PATH):
        return error(post(audio_suite, [file(1), *fields], path), status, code, param)

    for name in ("temperatur", "include[]", "known_speaker_names[]", "chunking"):
        assert name in refused([(name, "x")], "unknown_field")
    for fields, param in (
            ([("temperature", "1.5")], "temperature"), ([("temperature", "warm")], "temperature"),
            ([("temperature", "nan")], "temperature"), ([("stream", "maybe")], "stream"),
            ([("response_format", "xml")], "response_format"),
            ([("response_format", "json"), ("response_format", "text")], "response_format"),
            ([("timestamp_granularities[]", "char")], "timestamp_granularities[]"),
            ([("timestamp_granularities[]", "word")], "timestamp_granularities[]"),
            ([("stream", "true"), ("response_format", "srt")], "stream"),
            ([("beam_size", "-1")], "beam_size"), ([("best_of", "100")], "best_of"),
            ([("seed", "x")], "seed"), ([("prompt", b"\xff\xfe")], "prompt"),
            ([file(1)], "file")):
        refused(fields, "invalid_value", param)
    refused([("chunking_strategy", "server_vad")], "unsupported_value", "chunking_strategy")
    chunking = "chunking_strategy"
    for value in ('{"type": "semantic_vad"}', '{"threshold": 0.5}', '{"type": "server_vad"',
                  '{"type": "server_vad", "threshold": 1}', '{"type": "server_vad", "eagerness": 1}',
                  '{"type": "server_vad", "prefix_padding_ms": -1}',
                  '{"type": "server_vad", "silence_duration_ms": "short"}'):
        refused([(chunking, value)], "invalid_value", chunking)
    refused([(chunking + "[threshold]", "0.5")], "missing_field", chunking + "[type]")
    refused([(chunking + "[type]", "x")], "invalid_value", chunking + "[type]")
    refused([(chunking + "[type]", "server_vad"), (chunking + "[threshold]", "high")],
            "invalid_value", chunking + "[threshold]")
    refused([(chunking, "auto"), ("vad_filter", "false")], "invalid_value", "vad_filter")
    refused([("vad_filter", "perhaps")], "invalid_value", "vad_filter")
    refused([("prompt", "x" * 20000)], "value_too_long", "prompt")
    assert "klingonese" in refused([("language", "klingonese")], "invalid_value")
    for name in ("language", "timestamp_granularities[]"):
        refused([(name, "en")], "unknown_field", path="/v1/audio/translations")
    answer = post(audio_suite, [file(1), ("chunking_strategy", "auto"), ("hotwords", "Sconce"),
                                ("beam_size", "2"), ("best_of", "3"), ("seed", "7"),
                                ("model", "TINY"), ("language", ""), ("stream", "false")])
    assert answer[0] == 200


def test_silence_is_skipped_where_that_can_be_done(audio_suite, model_dir, tmp_path):
    """A request for server VAD gets VAD or an error. Chunking "auto" uses VAD if it is
    available."""
    server_vad = ("chunking_strategy", '{"type": "server_vad", "prefix_padding_ms": 0}')
    openai_fields = [("chunking_strategy[type]", "server_vad"), ("chunking_strategy[threshold]", "0.6"),
                     ("chunking_strategy[silence_duration_ms]", "500")]
    asked = [[("vad_filter", "true")], [server_vad], openai_fields, [server_vad, ("vad_filter", "1")]]

    def heard(suite, fields, path=PATH):
        status, _, body = post(suite, [file(1), ("model", "tiny"), *fields], path)
        assert status == 200, body
        return json.loads(body)["text"].split()[0]

    for fields in asked:
        error(post(audio_suite, [file(1), *fields]), 400, "no_vad_model")
    for fields in ([], [("chunking_strategy", "auto")], [("vad_filter", "false")]):
        assert heard(audio_suite, fields) == "Segment"
    shutil.copytree(model_dir, tmp_path / "models")
    for name in ("silero_vad_16k.safetensors", "other.bin"):
        (tmp_path / "models" / name).write_bytes(b"the stand-in does not read it")
    suite = Suite(tmp_path / "models", audio_program=FAKE)
    try:
        for fields in [*asked, [("chunking_strategy", "auto")]]:
            assert heard(suite, fields) == "Speech"
        for fields in ([], [("vad_filter", "false")]):
            assert heard(suite, fields) == "Segment"
    finally:
        check_log(suite.close())
    for name in ("other.bin", tmp_path / "models/other.bin"):
        suite = Suite(tmp_path / "models", audio="  vad_model: %s\n" % name, audio_program=FAKE)
        try:
            assert heard(suite, []) == heard(suite, asked[2]) == "Speech"
            assert heard(suite, [("vad_filter", "false")]) == "Segment"
        finally:
            check_log(suite.close())
    for name in ("absent.bin", "/etc/hostname"):
        suite = Suite(tmp_path / "models", audio="  vad_model: %s\n" % name, audio_program=FAKE)
        try:
            message = error(post(suite, [file(1), ("model", "tiny")]), 500, "model_load_failed")
            assert "audio.vad_model" in message and "the model directories" in message
        finally:
            suite.close()


def test_mistakes_in_requests_are_named(audio_suite):
    assert "tiny" not in error(post(audio_suite, [file(1), ("model", "whisper-9")]), 404,
                               "model_not_found", "model").split("Installed")[0]
    error(post(audio_suite, [("model", "tiny")]), 400, "missing_field", "file")
    error(post(audio_suite, [("file", ("a.wav", b""))]), 400, "audio_empty", "file")
    error(post(audio_suite, [("file", ("a.wav", b"garbage " * 99))]), 400, "audio_unknown_format")
    error(post(audio_suite, [("file", ("a.wav", b"OggS" + bytes(5000)))]), 400, "audio_broken")
    error(post(audio_suite, [file(61)]), 413, "audio_too_long")
    error(post(audio_suite, [file(1), ("prompt", "fail")]), 500, "model_failed")
    for kind in ("application/json", "multipart/form-data", "text/plain"):
        error(post(audio_suite, b"{}", headers={"Content-Type": kind}), 400, "invalid_form")
    error(post(audio_suite, form([file(1)])[:-9]), 400, "invalid_form")
    error(post(audio_suite, [file(1)], PATH, unix=True, headers={"Accept": "*/*"}), 400, "invalid_form")
    status, _, body = post(audio_suite, bytes(26 << 20))
    assert status == 413 and json.loads(body)["error"]["code"] == "request_too_large"
    # Other routes keep their own limit.
    assert post(audio_suite, bytes(17 << 20), "/v1/completions")[0] == 413


def test_a_large_file(audio_suite):
    status, _, body = post(audio_suite, [("file", ("a.wav", wav(59)))])
    assert status == 200
    assert json.loads(body)["text"].endswith("Segment 11.")


def test_a_stream_that_fails_has_no_end(audio_suite):
    status, kind, body = post(audio_suite, [file(1), ("stream", "true"), ("prompt", "fail")])
    assert status == 500 and json.loads(body)["error"]["code"] == "model_failed"
    status, kind, body = post(audio_suite, [file(1), ("stream", "true")])
    assert status == 200 and kind.startswith("text/event-stream")
    assert body.endswith(b"data: [DONE]\n\n")


def test_a_full_queue_is_reported(audio_suite):
    def ask(_):
        c = http.client.HTTPConnection("127.0.0.1", audio_suite.port, timeout=60 * SLOW)
        c.request("POST", PATH, form([file(1), ("prompt", "wait 300")]),
                  {"Content-Type": "multipart/form-data; boundary=XyZ"})
        r = c.getresponse()
        return r.status, r.getheader("retry-after"), r.read()

    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(ask, range(24)))
    counts = {status: sum(a[0] == status for a in answers) for status in {a[0] for a in answers}}
    assert set(counts) == {200, 429} and counts[200] >= 8
    for status, retry, body in answers:
        if status == 429:
            assert int(retry) >= 1 and json.loads(body)["error"]["code"] == "queue_full"


def wait_metric(suite, name, value):
    deadline = time.monotonic() + 10 * SLOW
    while suite.audio_metrics().get(name) != value:
        assert time.monotonic() < deadline, (name, suite.audio_metrics().get(name))
        time.sleep(0.02)


def test_a_client_that_leaves_is_noticed(audio_suite):
    before = audio_suite.audio_metrics()
    body = form([file(50), ("prompt", "wait 200"), ("stream", "true")])
    s = audio_suite.connect()
    s.sendall(b"POST " + PATH.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data"
              b"; boundary=XyZ\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    data = b""
    while b"Segment 0" not in data:
        data += s.recv(65536)
    s.close()
    wait_metric(audio_suite, "sconce_audio_requests_active", 0)
    after = audio_suite.audio_metrics()
    assert after["sconce_audio_cancelled_total"] == before["sconce_audio_cancelled_total"] + 1
    wait_metric(audio_suite, 'sconce_audio_model_requests_running{model_name="tiny"}', 0)
    assert post(audio_suite, [file(1)])[0] == 200


def test_health_and_metrics(audio_suite):
    assert post(audio_suite, [file(2)])[0] == 200
    metrics = audio_suite.audio_metrics()
    assert metrics["sconce_audio_answered_total"] >= 1
    assert metrics["sconce_audio_seconds_total"] >= 2
    assert metrics["sconce_audio_request_duration_seconds_count"] >= 1
    health = json.loads(audio_suite.observe("/health?deep=1"))
    assert health["services"]["audio"]["models"] == [{"id": "tiny", "status": "loaded"}]
    assert b'sconce_service_up{service="audio"} 1' in audio_suite.observe("/metrics")


def test_a_thousand_broken_files(audio_suite, capsys):
    """Every random body gets an answer, a rejected body gets an error code, and the service
    survives."""
    import random
    rng = random.Random(3)
    whole = [p.read_bytes() for p in sorted(CORPUS.iterdir())]
    starts = audio_suite.audio.starts

    def one(i):
        data = bytearray(rng.choice(whole))
        kind = i % 4
        if kind == 0:
            del data[rng.randrange(len(data)):]
        for _ in range(rng.randrange(1, 40) if kind else 0):
            data[rng.randrange(min(len(data), 200 if kind == 1 else len(data)))] = rng.randrange(256)
        if kind == 3:
            data = data[rng.randrange(len(data)):]
        return bytes(data)

    files = [one(i) for i in range(1000)]

    def ask(data):
        return post(audio_suite, [("file", ("x", data))], unix=True)

    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, files))
    counts = {}
    for status, _, body in answers:
        word = json.loads(body)["error"]["code"] if status != 200 else "200"
        assert status == 200 or 400 <= status < 500, body
        counts[word] = counts.get(word, 0) + 1
    with capsys.disabled():
        print("\n%s in %.1f s" % (counts, time.monotonic() - begin), end=" ")
    assert set(counts) <= {"200", "audio_unknown_format", "audio_broken", "audio_empty",
                           "audio_unsupported_codec", "audio_too_complex", "audio_too_long"}
    assert sum(n for word, n in counts.items() if word != "200") > 400
    assert post(audio_suite, [file(1)])[0] == 200
    assert audio_suite.audio.starts == starts


def test_with_a_model(tmp_path):
    """Tests the real service with a tiny random Whisper model, in both file formats of Whisper."""
    golden = ROOT / "tests/golden/audio/whisper"
    shutil.copytree(golden, tmp_path / "models/random")
    shutil.copy(golden / "ggml.bin", tmp_path / "models/ggml-random.bin")
    suite = Suite(tmp_path / "models")
    try:
        assert "random" in error(post(suite, [file(3)]), 400, "missing_field", "model")
        told = []
        for name in ("random", "random", "ggml-random"):
            status, _, body = post(suite, [
                file(40), ("model", name), ("response_format", "verbose_json"), ("seed", "5"),
                ("timestamp_granularities[]", "word"), ("timestamp_granularities[]", "segment"),
                ("language", "en"), ("hotwords", "Sconce"), ("prompt", "Hello.")])
            assert status == 200, body
            told.append(json.loads(body))
            told[-1].pop("usage")
        assert told[0] == told[1]
        for t in told:
            assert t["duration"] == 40 and t["task"] == "transcribe" and t["language"] == "english"
            ends = [s["end"] for s in t["segments"]]
            assert ends and all(0 <= s["start"] <= s["end"] <= 61 for s in t["segments"])
            assert t["text"].split() == "".join(s["text"] for s in t["segments"]).split()
        status, kind, body = post(suite, [file(4), ("model", "random"), ("stream", "true")])
        assert status == 200 and body.endswith(b"data: [DONE]\n\n")
        events = [json.loads(line[6:]) for line in body.splitlines()
                  if line.startswith(b"data: {")]
        assert "".join(e.get("delta", "") for e in events) == events[-1]["text"]
        error(post(suite, [file(1), ("model", "random"), ("language", "klingonese")]), 400,
              "invalid_value")
        # The models of the tree are not speech models.
        shutil.copy(ROOT / "packaging/guide/sconce-guide.gguf", tmp_path / "models/guide.gguf")
        time.sleep(1.1)
        error(post(suite, [file(1), ("model", "guide")]), 400, "unsupported_model")
        c = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=30)
        c.request("GET", "/v1/models")
        listed = {m["id"]: m["task"] for m in json.loads(c.getresponse().read())["data"]}
        assert listed == {"random": "speech", "ggml-random": "speech", "guide": "chat"}
    finally:
        check_log(suite.close())


def test_idle_exit_takes_the_decoder_along(model_dir):
    suite = Suite(model_dir, audio="  idle_timeout: 1s\n", audio_program=FAKE)
    try:
        assert post(suite, [file(1), ("model", "tiny")])[0] == 200
        pid = suite.audio.pid
        decoders = [int(p) for p in open("/proc/%d/task/%d/children" % (pid, pid)).read().split()]
        assert len(decoders) == 1
        suite.audio.wait_gone(20 * SLOW)
        deadline = time.monotonic() + 10 * SLOW
        while os.path.exists("/proc/%d" % decoders[0]) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not os.path.exists("/proc/%d" % decoders[0])
        assert suite.audio.status == 0
        assert post(suite, [file(1), ("model", "tiny")])[0] == 200
    finally:
        check_log(suite.close())


def test_a_dead_decoder_costs_a_request_at_most(model_dir):
    suite = Suite(model_dir, audio_program=FAKE)
    try:
        assert post(suite, [file(1), ("model", "tiny")])[0] == 200
        pid = suite.audio.pid
        [decoder] = open("/proc/%d/task/%d/children" % (pid, pid)).read().split()
        os.kill(int(decoder), 9)
        statuses = [0]
        while statuses[-1] != 200 and len(statuses) < 50:
            statuses.append(post(suite, [file(1), ("model", "tiny")])[0])
            time.sleep(0.05)
        assert set(statuses) <= {0, 200, 503} and statuses[-1] == 200
        assert suite.audio.starts == 2
    finally:
        check_log(suite.close())


def test_without_a_model_it_says_what_to_do(tmp_path):
    suite = Suite(tmp_path, audio_program=FAKE)
    try:
        assert "sconce list" in error(post(suite, [file(1)]), 404, "no_speech_model")
    finally:
        check_log(suite.close())


def test_draining_answers_running_requests(model_dir):
    suite = Suite(model_dir, audio_program=FAKE)
    try:
        assert post(suite, [file(1), ("model", "tiny")])[0] == 200
        answers = []
        thread = threading.Thread(target=lambda: answers.append(post(
            suite, [file(30), ("model", "tiny"), ("prompt", "wait 150")])))
        thread.start()
        time.sleep(0.4)
        pid = suite.audio.pid
        [decoder] = open("/proc/%d/task/%d/children" % (pid, pid)).read().split()
        os.kill(int(decoder), 15)  # as systemd does to all processes of a unit
        os.kill(pid, 15)
        thread.join()
        assert answers[0][0] == 200
        assert json.loads(answers[0][2])["text"].endswith("Segment 5.")
    finally:
        check_log(suite.close())
