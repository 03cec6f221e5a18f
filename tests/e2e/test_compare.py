# SPDX-License-Identifier: Apache-2.0
"""tests/bench/compare.sh runs to its end, whatever the figures are, and writes what it found."""
import json
import shutil
import subprocess
import xml.etree.ElementTree

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
