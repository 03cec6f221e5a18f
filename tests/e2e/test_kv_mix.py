# SPDX-License-Identifier: Apache-2.0
"""Tests `sconce bench --kv-mix`, which finds number formats of keys and values for each layer."""

import json
import shutil
import subprocess

import pytest


def run(*args):
    return subprocess.run(args, capture_output=True, text=True, timeout=120)


@pytest.fixture
def installed(home, guide):
    store = home / "data/sconce/models"
    store.mkdir(parents=True)
    shutil.copy(guide, store / "sconce-guide.gguf")
    return home


def test_bench_mixes_kv_formats(sconce, installed, tmp_path):
    text = tmp_path / "text"
    text.write_text("sconce runs models on your own machine. Which models are there?\n" * 60)
    args = ("bench", "-m", "sconce-guide", "--text", str(text), "-p", "128", "-n", "1", "-t", "1", "--device", "cpu")
    mix = {}
    for bits in ("5", "7.5"):
        mix[bits] = json.loads(run(sconce, *args, "--kv-mix", bits, "--json").stdout)
        assert 4 < mix[bits]["bits"] <= float(bits) and mix[bits]["tokens"] == 128
        assert len(mix[bits]["layers"]) == 4
        for row in mix[bits]["layers"]:
            assert row["keys"] in ("turbo4", "q4_0", "q8_0") and row["keys_kld"] >= 0 and row["values_kld"] >= 0
    assert mix["7.5"]["kld"]["value"] < mix["5"]["kld"]["value"]
    # The printed name is one that other commands take.
    out = run(sconce, "ppl", "sconce-guide", str(text), "-c", "128", "--chunks", "1", "-t", "1", "--device", "cpu",
              "--kv-type", mix["5"]["kv_type"])
    assert "PPL" in out.stdout, out.stderr
    shown = run(sconce, *args, "--kv-mix", "6").stdout
    assert "kv_type: q4_0/" in shown and "predicted" in shown
    # With room for them, the newest tokens are kept in more bits.
    more = json.loads(run(sconce, *args, "-d", "8000", "--kv-mix", "6", "--json").stdout)
    assert more["kv_type"].startswith("q4_0+recent/") and more["tokens"] == 8128
    for words, message in (
        (("--kv-mix", "5"), "--kv-mix needs one MODEL and --text FILE"),
        (("--kv-mix", "5", "--text", str(text), "--kv-type", "q8_0"), "leave out --kv-type"),
        (("--kv-mix", "5", "--text", str(text), "--membw"), "leave out the other options"),
        (("--kv-mix", "0", "--text", str(text)), "a number from 1 to 16"),
        (("--kv-mix", "2", "--text", str(text)), "the smallest mix has"),
    ):
        out = run(sconce, "bench", "-m", "sconce-guide", *words)
        assert out.returncode != 0 and message in out.stderr, out.stderr
