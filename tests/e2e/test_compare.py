# SPDX-License-Identifier: Apache-2.0
"""Tests that tests/bench/compare.sh and gpu.sh run to their end, whatever the figures are, and
write their results."""
import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree

import pytest
from conftest import TREE

SECTIONS = ("machine", "decode", "prefill", "clients", "gaps", "cold", "contexts", "growth")


def test_every_part_prints_its_figures(build, guide, tmp_path):
    shutil.copy(guide, tmp_path / "tiny-Q4_K_M.gguf")
    marks = "".join("<!-- compare: %s -->\nto be replaced\n<!-- end -->\n" % s for s in SECTIONS)
    (tmp_path / "docs.md").write_text(marks)
    result = subprocess.run(
        ["sh", TREE / "tests/bench/compare.sh", "--build", build, "--models", tmp_path, "--shape",
         "tiny", "--format", "Q4_K_M", "-p", "16", "-n", "4", "-r", "1", "--rounds", "1",
         "--cold-rounds", "1", "--growth-rounds", "1", "--max-context", "1", "--gap-seconds", "0.5",
         "--tokens", "4", "--plot", tmp_path / "growth.svg", "--json", tmp_path / "figures.json",
         "--docs", tmp_path / "docs.md"], capture_output=True, text=True, timeout=300)
    assert result.returncode in (0, 1), result.stdout + result.stderr
    figures = json.loads((tmp_path / "figures.json").read_text())
    short = [f for f in figures if f.get("verdict") == "short"]
    assert result.returncode == (1 if short else 0)
    names = " ".join(f["name"] for f in figures)
    for name in ("of the bandwidth bound", "of the int8 peak", "16 clients", "p99 gap",
                 "private memory", "64 clients"):
        assert name in names
    docs = (tmp_path / "docs.md").read_text()
    assert "to be replaced" not in docs and docs.count("<!-- end -->") == len(SECTIONS)
    xml.etree.ElementTree.parse(tmp_path / "growth.svg")
    real = (TREE / "docs/benchmarks.md").read_text()
    for section in SECTIONS:
        assert "<!-- compare: %s -->" % section in real


# Without a GPU both runs use lavapipe, which occupies both processors for half a minute.
@pytest.mark.full
@pytest.mark.parametrize("software", [False, True])
def test_the_gpu_is_judged(build, tmp_path, software):
    """Runs gpu.sh on any Vulkan device that exists."""
    copy = build / "tests/bench/bench-copy"
    if not copy.exists() or subprocess.run([copy], capture_output=True).returncode:
        pytest.skip("no Vulkan device")
    sections = [("lavapipe" if software else "gpu") + part for part in ("-machine", "", "-start")]
    marks = "".join("<!-- compare: %s -->\nto be replaced\n<!-- end -->\n" % s for s in sections)
    (tmp_path / "docs.md").write_text(marks)
    # A script that prints output in the format of llama-bench.
    peer = tmp_path / "llama-bench"
    peer.write_text("#!%s\nprint('[{\"n_prompt\": 16, \"n_gen\": 0, \"avg_ts\": 1},"
                    " {\"n_prompt\": 0, \"n_gen\": 4, \"avg_ts\": 1e9}]')\n" % sys.executable)
    peer.chmod(0o755)
    result = subprocess.run(
        ["sh", TREE / "tests/bench/gpu.sh", "--build", build, "--models", tmp_path, "--shape",
         "tiny", "--preset", "Q4_K_M", "-p", "16", "24", "-n", "4", "-r", "1", "--starts", "1",
         "--llama-bench", peer, "--json", tmp_path / "figures.json", "--docs",
         tmp_path / "docs.md", *(["--lavapipe"] if software else [])],
        capture_output=True, text=True, timeout=300)
    assert result.returncode == 1, result.stdout + result.stderr
    verdicts = {f["name"]: f.get("verdict")
                for f in json.loads((tmp_path / "figures.json").read_text())}
    assert verdicts["tiny Q4_K_M, pp16, beside llama.cpp"] == "ok"
    assert verdicts["tiny Q4_K_M, tg4, beside llama.cpp"] == "short"
    assert not list(tmp_path.glob("*.gguf"))
    docs = (tmp_path / "docs.md").read_text()
    assert "to be replaced" not in docs
    real = (TREE / "docs/benchmarks.md").read_text()
    for section in sections:
        assert "<!-- compare: %s -->" % section in real
