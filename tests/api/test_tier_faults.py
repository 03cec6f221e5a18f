# SPDX-License-Identifier: Apache-2.0
"""Tests damaged stored blocks, and faults of the chat service and the cache service: texts are the
same as without a cache."""
import concurrent.futures
import os
import pathlib
import random
import signal
import subprocess
import time

import pytest

from conftest import SLOW
from test_tier import WORDS, make_kept  # noqa: F401

PROMPTS = [WORDS * 12, WORDS * 8 + "One day she found a shiny stone. ", WORDS * 12 + "Then it rained. ",
           "The end of the story is this. " + WORDS * 10]
BAD = 'sconce_chat_bad_blocks_total{model_name="plain"}'
LOADED = 'sconce_chat_loaded_blocks_total{model_name="plain"}'
pytestmark = pytest.mark.long


def texts_without(kept):
    """Returns the texts of the prompts without a cache."""
    return [kept.ask(p, cache_prompt=False)[0] for p in PROMPTS]


def segments(kept):
    return [p for p in pathlib.Path(kept.directory).rglob("*.kv") if p.stat().st_size > 0]


def flip(f, size, rng):
    f.seek(rng.randrange(size))
    byte = f.read(1)
    f.seek(-1, os.SEEK_CUR)
    f.write(bytes([byte[0] ^ 1 << rng.randrange(8)]))


def tear(f, size, rng):
    f.truncate(rng.randrange(size))


def blank(f, size, rng):
    at = rng.randrange(size)
    f.seek(at)
    f.write(bytes(min(size - at, 1 + rng.randrange(1 << 16))))


def strew(f, size, rng):
    for _ in range(64):
        flip(f, size, rng)


def damage(kept, rng):
    for path in segments(kept):
        with open(path, "r+b") as f:
            rng.choice([flip, tear, blank, strew])(f, path.stat().st_size, rng)


def ask_all(kept, expected):
    """Sends all prompts at once; returns how many of their tokens came from the cache."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(kept.ask, PROMPTS))
    assert [text for text, _ in answers] == expected
    return sum(n for _, n in answers)


@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_files_are_misses(make_kept, seed):  # noqa: F811
    kept, rng = make_kept(), random.Random(seed)
    expected = texts_without(kept)
    ask_all(kept, expected)
    for round_ in range(3):
        kept.restart_chat()
        if round_ % 2:  # the service finds the damage at its next start
            kept.cache.kill(signal.SIGKILL)
            kept.cache.wait_gone(20 * SLOW)
        damage(kept, rng)
        ask_all(kept, expected)
    kept.restart_chat()
    assert ask_all(kept, expected) > 0  # the cache works again


def test_either_side_may_end_at_any_time(make_kept):  # noqa: F811
    kept, rng = make_kept(), random.Random(3)
    expected = texts_without(kept)
    for _ in range(4):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = [pool.submit(kept.ask, p) for p in PROMPTS]
            time.sleep(rng.random() * 0.3)
            kept.cache.kill(signal.SIGKILL)
            assert [a.result()[0] for a in answers] == expected
        time.sleep(rng.random() * 0.4)
        kept.restart_chat(signal.SIGKILL)
    assert ask_all(kept, expected) >= 0
    assert kept.suite.chat_metrics()[BAD] == 0


def test_damage_is_counted_and_mended(make_kept):  # noqa: F811
    kept = make_kept()
    expected = texts_without(kept)
    ask_all(kept, expected)
    kept.restart_chat()
    for path in segments(kept):  # changes some bytes of each block
        with open(path, "r+b") as f:
            for at in range(0, path.stat().st_size, 4096):
                f.seek(at + 2048)
                f.write(b"\xff" * 8)
    ask_all(kept, expected)
    metrics = kept.suite.chat_metrics()
    assert metrics[BAD] > 0 and metrics[LOADED] == 0
    kept.restart_chat()
    assert ask_all(kept, expected) > 0


def test_a_full_disk_is_a_miss(make_kept):  # noqa: F811
    kept = make_kept()
    os.makedirs(kept.directory)
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "sconce-test", kept.directory],
                           capture_output=True)
    if mount.returncode != 0:
        pytest.skip("this user cannot mount a small file system")
    try:
        expected = texts_without(kept)
        for _ in range(3):
            ask_all(kept, expected)
            kept.restart_chat()
        ask_all(kept, expected)
        assert kept.suite.chat_metrics()[BAD] == 0
    finally:
        for service in (kept.suite.chat, kept.cache):
            service.kill(signal.SIGKILL)
            service.wait_gone(20 * SLOW)
        subprocess.run(["umount", kept.directory], check=True)
