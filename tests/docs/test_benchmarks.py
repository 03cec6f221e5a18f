# SPDX-License-Identifier: Apache-2.0
"""Checks that the tables of docs/benchmarks.md and of the README are those of the kept results, and
that a run replaces only the results of its own machine."""
import json
import sys
import types

from blocks import TREE

sys.path.insert(0, str(TREE / "tests/bench"))
import machines  # noqa: E402
from figures import Figures  # noqa: E402

DOCS = TREE / "docs/benchmarks.md"
HEADER = ["weights", "tok/s", "of the bandwidth bound", "llama.cpp", "ratio"]


def test_the_tables_are_those_of_the_kept_results():
    kept = machines.read(DOCS)
    assert kept
    for path in (DOCS, TREE / "README.md"):
        text = path.read_text()
        assert machines.render(text, kept) == text, (
            "run tests/bench/machines.py docs/benchmarks.md README.md")


def run(docs, readme, threads, speed, value):
    figures = Figures()
    figures.table("decode", HEADER, [["Q4_K_M", speed, "50 %", "20", value]])
    figures.raw("decode", "Q4_K_M", {"sconce": [(float(speed), 0.5, 40.0)], "llama.cpp": [20.0]})
    options = types.SimpleNamespace(docs=docs, readme=readme, threads=threads, rounds=1,
                                    llama_bench=None, ik_bench=None, mistralrs=None)
    machines.keep(options, figures, "avx2")


def test_a_run_replaces_only_its_own_machine(tmp_path):
    docs, readme = tmp_path / "docs.md", tmp_path / "README.md"
    marks = "<!-- compare: %s -->\n<!-- end -->\n"
    docs.write_text(marks % "machine" + marks % "decode")
    readme.write_text(marks % "worst")
    run(docs, readme, 2, "30", "1.50")
    run(docs, readme, 4, "10", "0.50")
    run(docs, readme, 2, "40", "2.00")
    text = docs.read_text()
    assert "| Q4_K_M | 40 |" in text and "| Q4_K_M | 10 |" in text
    assert "| Q4_K_M | 30 |" not in text
    assert text.count("<!-- end -->") == 2
    assert "| 10 tokens/s | 20 tokens/s | 0.50 |" in readme.read_text()
    kept = [json.loads(p.read_text()) for p in sorted((tmp_path / "docs").glob("*.json"))]
    assert [k["machine"]["threads"] for k in kept] == [2, 4]
    part = kept[0]["parts"]["decode"]
    assert part["runs"]["Q4_K_M"]["llama.cpp"] == [20.0] and part["commits"]["sconce"]
    assert kept[0]["machine"]["kernel"] and kept[0]["machine"]["memory_gib"] > 0
