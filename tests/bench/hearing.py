# SPDX-License-Identifier: Apache-2.0
"""Checks the correctness of transcription: frames compared with those of the whisper package, tests
that compare with other implementations, and the words that the model of this tree gets right."""
import os
import pathlib
import re
import subprocess
import wave

FRONT_ERROR = 1e-4
SAMPLE_ERROR = 1e-3
NMSE = 1e-7
WORDS = 98.0

HERE = pathlib.Path(__file__).resolve().parent


def run(argv, **more):
    """Returns (exit status, standard output and standard error)"""
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", **more)
    return done.returncode, done.stdout


def last_line(text):
    return (text.strip().splitlines() or ["no word"])[-1][:200]


def recordings(options):
    """Yields the paths of the recordings with 16 kHz, one channel, and 16 bits."""
    for path in sorted((options.data / "speech").glob("*.wav")):
        with wave.open(str(path)) as f:
            if (f.getframerate(), f.getnchannels(), f.getsampwidth()) == (16000, 1, 2):
                yield path


def front(options, figures):
    figures.title("Log-mel frames beside those of the whisper package")
    paths = list(recordings(options))
    if not options.python or not paths:
        figures.skipped("error of frames", "no --python" if paths else "no recordings")
    else:
        for bins in (80, 128):
            status, said = run([options.python, HERE / "audio_peer.py", options.bench / "bench-mel",
                                bins, *paths])
            if status:
                figures.failed("largest error, %d bins" % bins, last_line(said))
                continue
            error, seconds, took = map(float, said.split()[-3:])
            figures.figure("largest error, %d bins, %d recordings" % (bins, len(paths)), error,
                           most=FRONT_ERROR)
            figures.note("%.0f s of sound in %.1f ms" % (seconds, took))
    status, said = run([options.pytest, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k",
                        "every_container_sounds", options.tree / "tests/api/test_audio_decoder.py"],
                       env=dict(os.environ, SCONCE_BUILD=str(options.build)))
    found = re.search(r"farthest from ffmpeg: (\S+) \((\S+)\)", said)
    if status == 0 and found:
        figures.figure("samples of all containers, farthest from ffmpeg", float(found[1]),
                       most=SAMPLE_ERROR)
    elif "No module named pytest" in said or "skipped" in said:
        figures.skipped("samples of all containers", last_line(said))
    else:
        figures.failed("samples of all containers", last_line(said))


# Each row has the name of a test of the build, its subject, and a pattern of the figures that it
# prints.
TESTS = [
    ("transcribe-encode-window", "the encoder's rows beside transformers", r"NMSE (\S+)"),
    ("transcribe-decode-texts", "the decoder's logits beside transformers", r"NMSE (\S+)"),
    ("transcribe-rules", "which tokens may follow, with fixed logits", None),
    ("transcribe-longform", "windows and times of long recordings beside whisper", None),
    ("transcribe-words", "times of words beside whisper", None),
    ("transcribe-transcriber", "requests alone and together", None),
]


def parity(options, figures):
    figures.title("Tests that compare with other implementations")
    for test, what, pattern in TESTS:
        status, said = run(["meson", "test", "-C", options.build, "--no-rebuild", "-v", test])
        values = [float(x) for x in re.findall(pattern, said)] if pattern else []
        if status or (pattern and not values):
            figures.failed(what, last_line(said))
        elif pattern:
            figures.figure(what + ", NMSE", max(values), most=NMSE)
        else:
            figures.figure(what + ", tests that fail", 0, most=0)
    full_shapes(options, figures)


def full_shapes(options, figures):
    shapes = ["tiny", "base"] + ["large-v3"] * options.large
    name = "%s beside transformers and whisper.cpp, short" % ", ".join(shapes)
    speech = next(recordings(options), None)
    if not options.python or not speech:
        figures.skipped(name, "no --python" if not options.python else "no speech")
        return
    argv = [options.python, options.tree / "tests/golden/check_whisper_shapes.py", "--build",
            options.build, "--speech", speech, "--threads", options.threads]
    if options.whisper:
        argv += ["--whisper", options.whisper]
    status, said = run([*argv, *shapes], env={**os.environ, "BENCH_DIR": str(options.models)})
    for line in said.strip().splitlines():
        figures.note(line)
    figures.figure(name, int(status != 0), most=0)


def words(options, figures):
    figures.title("Words of speech that sconce-ears was not trained on")
    if not options.python:
        figures.skipped("held-out sentences", "no --python")
        return
    ears = options.tree / "packaging/ears"
    status, said = run([options.python, ears / "check.py", "--threads", options.threads, "--n",
                        options.sentences, "--show", 0], cwd=ears)
    found = re.findall(r"^(.+?): (\d+\.\d+) % of \d+ words", said, re.M)
    if not found:
        figures.failed("held-out sentences", last_line(said))
        return
    for label, percent in found:
        held_out = label == "held-out sentences"
        figures.figure(label + ", transformers", float(percent), "%",
                       least=WORDS if held_out else None)
    nothing = re.findall(r"^(.*(?:silence|noise at).*): '(.*)', no speech", said, re.M)
    if nothing:
        figures.figure("texts of silence and noise that are not empty",
                       sum(bool(text) for _, text in nothing), most=0)
    elif status:
        figures.failed("texts of silence and noise", last_line(said))
    words_over_http(options, figures)


def words_over_http(options, figures):
    test = options.tree / "tests/api/test_audio_ears.py"
    if not test.exists():
        figures.skipped("words over HTTP, in every container", "there is no such test")
        return
    status, said = run([options.pytest, "-m", "pytest", "-q", "-p", "no:cacheprovider", test],
                       env=dict(os.environ, SCONCE_BUILD=str(options.build)))
    name = "words over HTTP, in every container, tests that fail"
    if "No module named pytest" in said:
        figures.skipped(name, "no pytest in %s" % options.pytest)
        return
    failed = re.search(r"(\d+) failed", said)
    if status and not failed:
        figures.failed(name, last_line(said))
    else:
        figures.figure(name, int(failed[1]) if failed else 0, most=0)
