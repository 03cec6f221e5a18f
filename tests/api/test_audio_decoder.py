# SPDX-License-Identifier: Apache-2.0
"""Tests the decoder process of the audio service. The service's own code starts the process, and
confines it as in production.

The decoder's samples are compared with ffmpeg's output in the format that Whisper's reference
implementation uses: 16 kHz, mono, 16 bits.
"""
import array
import concurrent.futures
import math
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import time

import pytest

from conftest import BUILD, DATA, SLOW

DECODER = BUILD / "services/audio/sconce-audio-decoder"
FILES = BUILD / "tests/audio/decode-files"
TOLERANCE = 1e-3
pytestmark = [pytest.mark.long, pytest.mark.sanitize,
              pytest.mark.skipif(not FILES.exists(), reason="a build without libav")]

# Name: encoder and muxer options of ffmpeg, then the format and codec that decode-files prints.
CONTAINERS = {
    "aac.aac": ("-c:a aac -b:a 64k", "aac", "aac"),
    "aac.m4a": ("-c:a aac -b:a 64k", "mov", "aac"),
    "aac.mp4": ("-c:a aac -ar 48000 -ac 2 -movflags +faststart", "mov", "aac"),
    "fragments.mp4": ("-c:a aac -ar 44100 -movflags frag_keyframe+empty_moov", "mov", "aac"),
    "alac.m4a": ("-c:a alac", "mov", "alac"),
    "pcm.mov": ("-c:a pcm_s16be -ar 44100 -ac 2", "mov", "pcm_s16be"),
    "opus.ogg": ("-c:a libopus -b:a 32k", "ogg", "opus"),
    "vorbis.ogg": ("-c:a libvorbis -ar 44100 -ac 2", "ogg", "vorbis"),
    "flac.ogg": ("-c:a flac", "ogg", "flac"),
    "opus.webm": ("-c:a libopus -ar 48000 -ac 2", "matroska", "opus"),
    "vorbis.mka": ("-c:a libvorbis -ar 22050", "matroska", "vorbis"),
    "mp3.mp3": ("-c:a libmp3lame -ar 44100 -ac 2 -b:a 128k", "mp3", "mp3"),
    "low.mp3": ("-c:a libmp3lame -ar 16000 -b:a 32k -id3v2_version 4 -metadata title=t", "mp3", "mp3"),
    "mp2.mp3": ("-f mp2 -c:a mp2 -ar 32000", "mp3", "mp3"),
    "flac.flac": ("-c:a flac -ar 48000 -sample_fmt s32", "flac", "flac"),
    "pcm.wav": ("-c:a pcm_s16le", "wav", "pcm_s16le"),
    "float.wav": ("-c:a pcm_f32le -ar 8000", "wav", "pcm_f32le"),
    "wide.wav": ("-c:a pcm_s24le -ar 96000 -ac 6", "wav", "pcm_s24le"),
    "alaw.wav": ("-c:a pcm_alaw -ar 8000", "wav", "pcm_alaw"),
    "adpcm.wav": ("-c:a adpcm_ms -ar 22050 -ac 2", "wav", "adpcm_ms"),
    "u8.wav": ("-c:a pcm_u8 -ar 11025", "wav", "pcm_u8"),
    "wmav2.wma": ("-c:a wmav2 -ar 44100 -ac 2", "asf", "wmav2"),
    "pcm.aiff": ("-c:a pcm_s16be -ar 44100", "aiff", "pcm_s16be"),
    "alac.caf": ("-c:a alac", "caf", "alac"),
}


def ffmpeg(*args):
    if not shutil.which("ffmpeg"):
        pytest.skip("no ffmpeg")
    return subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-y", *map(str, args)],
                          check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def speech(tmp_path_factory):
    """Provides a few seconds of speech, or a synthetic signal if there is no recording."""
    source = DATA / "speech/jfk.wav"
    path = tmp_path_factory.mktemp("speech") / "speech.wav"
    if source.exists():
        ffmpeg("-ss", 3, "-t", 4, "-i", source, "-c:a", "pcm_s16le", path)
        return path
    n = 16000 * 4
    samples = (int(9000 * math.sin(i * (0.05 + 0.00001 * (i % 4000))) * math.sin(i / 2500))
               for i in range(n))
    path.write_bytes(b"RIFF" + struct.pack("<I", 36 + 2 * n) + b"WAVEfmt " +
                     struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16) +
                     b"data" + struct.pack("<I", 2 * n) + array.array("h", samples).tobytes())
    return path


@pytest.fixture(scope="module")
def containers(speech, tmp_path_factory):
    path = tmp_path_factory.mktemp("containers")
    for name, (options, _, _) in CONTAINERS.items():
        ffmpeg("-i", speech, *options.split(), path / name)
    return path


def decode(files, *options, limit=60):
    """Returns the results of decode-files for each file: outcome, result, format, codec,
    samples."""
    out = subprocess.run([str(FILES), *map(str, options), str(DECODER), *map(str, files)],
                         capture_output=True, text=True, timeout=limit * SLOW)
    assert out.returncode == 0, out.stderr
    lines = sorted((line.split() for line in out.stdout.splitlines()), key=lambda w: int(w[0]))
    assert [int(words[0]) for words in lines] == list(range(len(files)))
    return [(*words[1:5], int(words[5])) for words in lines]


def test_every_container_sounds_as_ffmpeg_has_it(containers, tmp_path, capsys):
    files = [containers / name for name in CONTAINERS]
    said = decode(files, "-o", tmp_path, "-j", 4)
    worst = {}
    for i, (path, result) in enumerate(zip(files, said)):
        _, form, codec = CONTAINERS[path.name]
        assert result[:4] == ("told", "ok", form, codec), path.name
        ours = array.array("f", (tmp_path / ("%d.f32" % i)).read_bytes())
        theirs = array.array("h", ffmpeg("-i", path, "-f", "s16le", "-ac", 1, "-ar", 16000, "-"))
        assert len(ours) == len(theirs) == result[4], path.name
        worst[path.name] = max(abs(a - b / 32768) for a, b in zip(ours, theirs))
    with capsys.disabled():
        print("\nfarthest from ffmpeg: %.1e (%s)" %
              max((v, k) for k, v in worst.items()), end=" ")
    assert {k: v for k, v in worst.items() if v > TOLERANCE} == {}


def test_pictures_and_films_beside_the_sound_are_ignored(speech, tmp_path):
    film = tmp_path / "film.mkv"
    ffmpeg("-f", "lavfi", "-i", "testsrc=d=1:s=64x64:r=5", "-i", speech, "-c:v", "mpeg4", "-c:a",
           "flac", film)
    cover = tmp_path / "cover.png"
    ffmpeg("-f", "lavfi", "-i", "testsrc=d=1:s=64x64:r=1", "-frames:v", 1, cover)
    song = tmp_path / "song.mp3"
    ffmpeg("-i", speech, "-i", cover, "-map", 0, "-map", 1, "-c:a", "libmp3lame", "-c:v", "copy",
           song)
    silent = tmp_path / "silent.mp4"
    ffmpeg("-f", "lavfi", "-i", "testsrc=d=1:s=64x64:r=5", "-c:v", "mpeg4", silent)
    said = decode([film, song, silent])
    assert said[0][:4] == ("told", "ok", "matroska", "flac")
    assert said[1][:4] == ("told", "ok", "mp3", "mp3")
    assert said[2] == ("told", "no-audio", "mov", "-", 0)


def test_files_without_sound_are_named(speech, tmp_path):
    files = {"empty": b"", "text": b"Hello, this is not sound at all.\n" * 99,
             "playlist": b"#EXTM3U\n#EXTINF:1\nfile:///etc/passwd\n",
             "concat": b"ffconcat version 1.0\nfile /etc/passwd\n",
             "zip": b"PK\x03\x04" + bytes(1000), "zeros": bytes(100000),
             "head": b"RIFF\xff\xff\xff\xffWAVE", "moov": b"\0\0\0\x08moov"}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    codec = tmp_path / "tta.mka"
    ffmpeg("-i", speech, "-c:a", "tta", codec)
    said = decode([tmp_path / name for name in files] + [codec])
    # An empty file cannot be mapped. The service itself rejects empty files, without the decoder.
    assert said[0][0] == "crashed"
    for name, result in list(zip(files, said))[1:6]:
        assert result == ("told", "unknown", "-", "-", 0), name
    assert said[6][:3] in (("told", "broken", "wav"), ("told", "no-audio", "wav"))
    assert said[7][:3] in (("told", "broken", "mov"), ("told", "no-audio", "mov"))
    assert said[8] == ("told", "codec", "matroska", "tta", 0)


def test_a_limit_of_seconds(containers):
    said = decode([containers / "opus.ogg", containers / "mp3.mp3"], "-s", 3)
    for outcome, result, _, _, samples in said:
        assert (outcome, result) == ("told", "too-long") and samples <= 3 * 16000


def test_a_truncated_stream_is_decoded_as_far_as_it_goes(containers, tmp_path):
    whole = [containers / name for name in ("opus.ogg", "mp3.mp3", "aac.aac", "flac.flac", "pcm.wav")]
    cut = []
    for path in whole:
        data = path.read_bytes()
        cut.append(tmp_path / path.name)
        cut[-1].write_bytes(data[:len(data) // 2])
    for before, after, path in zip(decode(whole), decode(cut), whole):
        assert after[:2] == ("told", "ok"), path.name
        assert 0.3 < after[4] / before[4] < 0.7, path.name


def ffmpeg_takes(path):
    """Returns whether ffmpeg decodes a file to sound and reports success."""
    done = subprocess.run(["ffmpeg", "-v", "quiet", "-nostdin", "-i", str(path), "-f", "s16le",
                           "-ac", "1", "-ar", "16000", "-"], capture_output=True)
    return done.returncode == 0 and len(done.stdout) > 0


def test_a_file_is_broken_when_more_than_two_packets_in_three_are(speech, tmp_path):
    """Compares the decoder's decision with ffmpeg's. The files are FLAC, whose packets each begin
    with a sync mark."""
    whole = tmp_path / "whole.mka"
    ffmpeg("-i", speech, "-c:a", "flac", "-frame_size", 576, "-f", "matroska", whole)
    data = whole.read_bytes()
    marks = [m.start() for m in re.finditer(rb"\xff\xf8[\x20-\x2f\x50-\x6f]", data)]
    [(_, _, _, _, n_whole)] = decode([whole])
    assert n_whole == 4 * 16000 and abs(len(marks) - n_whole / 576) < 3
    for share in (0.1, 0.5, 0.64, 0.7, 0.9, 1):
        damaged, path = bytearray(data), tmp_path / ("%d.mka" % (100 * share))
        for i, at in enumerate(marks):
            if int((i + 1) * share) > int(i * share):
                damaged[at:at + 2] = b"\0\0"
        path.write_bytes(damaged)
        [(outcome, result, _, _, n)] = decode([path])
        assert outcome == "told"
        assert (result == "ok") == (share < 2 / 3) == ffmpeg_takes(path), share
        if result == "ok":
            assert abs(n / n_whole - (1 - share)) < 0.03


def broken(rng, data):
    """Damages a file in a random way."""
    data = bytearray(data)
    kind = rng.randrange(5)
    if kind == 0:
        return bytes(data[:rng.randrange(1, 200)])
    if kind == 1:
        for _ in range(rng.randrange(1, 30)):
            data[rng.randrange(min(len(data), 600))] = rng.randrange(256)
    elif kind == 2:
        for _ in range(rng.randrange(1, 200)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 3:
        at = rng.randrange(len(data))
        del data[at:at + rng.randrange(1, 5000)]
    else:
        at, value = rng.randrange(len(data) - 8), rng.choice((0, 255, 127))
        data[at:at + 8] = bytes((value,)) * 8
    return bytes(data)


def test_a_thousand_broken_files(containers, speech, tmp_path, capsys):
    """Each damaged file gets an outcome, and the decoder survives: the last file is valid."""
    rng = random.Random(7)
    short = tmp_path / "short.wav"
    ffmpeg("-i", speech, "-t", 1, "-c:a", "pcm_s16le", short)
    sources = []
    for name in ("aac.m4a", "opus.ogg", "opus.webm", "mp3.mp3", "flac.flac", "float.wav",
                 "wmav2.wma", "aac.aac", "vorbis.ogg", "alac.caf"):
        path = tmp_path / name
        ffmpeg("-i", short, *CONTAINERS[name][0].split(), path)
        sources.append(path.read_bytes())
    files = []
    for i in range(1000):
        files.append(tmp_path / ("broken-%d" % i))
        files[-1].write_bytes(broken(rng, sources[i % len(sources)]))
    begin = time.monotonic()
    said = decode(files + [short], "-j", 4)
    took = time.monotonic() - begin
    counts = {}
    for outcome, result, *_ in said:
        word = result if outcome == "told" else outcome
        counts[word] = counts.get(word, 0) + 1
    with capsys.disabled():
        print("\n%s in %.1f s" % (counts, took), end=" ")
    assert "lost" not in counts and "slow" not in counts
    # Every seventh file is compared with ffmpeg. ffmpeg searches further for the start of a stream
    # and is stricter about headers, so a few results differ.
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        theirs = list(pool.map(ffmpeg_takes, files[::7]))
    differ = sum((s[:2] == ("told", "ok")) != t for s, t in zip(said[:-1:7], theirs))
    with capsys.disabled():
        print("%d of %d results differ from ffmpeg's" % (differ, len(theirs)), end=" ")
    assert differ <= 0.03 * len(theirs)
    assert said[-1] == ("told", "ok", "wav", "pcm_s16le", 16000)


def children(pid):
    return [int(p) for p in pathlib.Path("/proc/%d/task/%d/children" % (pid, pid)).read_text().split()]


@pytest.fixture
def resting(containers):
    """Provides a decoder whose child waits for a reader of its samples: (tool, decoder, child)."""
    tool = subprocess.Popen([str(FILES), "-w", str(DECODER), str(containers / "mp3.mp3"),
                             str(containers / "pcm.wav")], stdout=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 10 * SLOW
        while time.monotonic() < deadline:
            decoders = children(tool.pid)
            child = decoders and children(decoders[0])
            # The child is confined, and blocks on a full pipe.
            if child and "pipe_write" in pathlib.Path("/proc/%d/wchan" % child[0]).read_text():
                break
            time.sleep(0.02)
        else:
            pytest.skip("this system does not show what a process waits for")
        yield tool, decoders[0], child[0]
    finally:
        tool.kill()
        tool.wait()
        tool.stdout.close()


def gone(pid):
    deadline = time.monotonic() + 10 * SLOW
    while os.path.exists("/proc/%d" % pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not os.path.exists("/proc/%d" % pid)


def n_filters(pid):
    status = pathlib.Path("/proc/%d/status" % pid).read_text()
    return int(status.split("Seccomp_filters:")[1].split()[0])


def test_a_child_has_nothing_but_its_pipe(resting):
    _, decoder, child = resting
    try:
        links = os.listdir("/proc/%d/fd" % child)
    except PermissionError:
        pytest.skip("only root may see the descriptors of confined processes")
    targets = [os.readlink("/proc/%d/fd/%s" % (child, fd)) for fd in links]
    assert [t for t in targets if t != "/dev/null"] == [t for t in targets if "pipe:" in t]
    assert sum("pipe:" in t for t in targets) == 1
    # Builds with sanitizers are not confined. For other builds, tests/policy checks the system
    # calls.
    filters = n_filters(child) - n_filters(os.getpid())
    assert filters in (0, 2)
    if filters:
        assert "NoNewPrivs:\t1" in pathlib.Path("/proc/%d/status" % child).read_text()
    environ = pathlib.Path("/proc/%d/environ" % decoder).read_bytes()
    assert environ == b""


def test_a_child_that_is_killed_is_one_failed_file(resting):
    tool, _, child = resting
    os.kill(child, signal.SIGSEGV)
    assert gone(child)
    # The tool blocks at the first file and never reads its end of the pipe.
    assert tool.poll() is None


def test_children_and_decoder_end_with_the_service(resting):
    tool, decoder, child = resting
    # systemd sends SIGTERM to a whole unit, but the decoder ignores it.
    os.kill(decoder, signal.SIGTERM)
    time.sleep(0.1)
    assert os.path.exists("/proc/%d" % decoder)
    tool.kill()
    tool.wait()
    assert gone(child) and gone(decoder)


def test_a_decoder_that_dies_is_reported(resting):
    tool, decoder, _ = resting
    os.kill(decoder, signal.SIGKILL)
    assert tool.stdout.readline().split()[:2] == ["0", "lost"]
