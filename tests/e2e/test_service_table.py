# SPDX-License-Identifier: Apache-2.0
"""Tests the list of services: what services/table.py refuses, and the options that follow from a
row."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lib"))
from services import SERVICES, table  # noqa: E402

BUILD = pathlib.Path(os.environ.get("SCONCE_BUILD", ROOT / "build"))
EACH = pytest.mark.parametrize("row", SERVICES, ids=lambda row: row.name)


@pytest.mark.parametrize("text, problem", [
    ("[gateway]\ncolour = red\n", "no key colour"),
    ("[chat]\n", "the gateway comes first"),
    ("[gateway]\n[cache]\n[chat]\nconnects = cache\n", "connects: cache is not one of"),
    ("[gateway]\n[agent]\n", "cannot begin with a"),
    ("[gateway]\n[Chat]\n", "small letters"),
    ("[gateway]\n[transcripts]\n", "1 to 8"),
    ("[gateway]\n[chat]\nroutes = no\n", "routes is yes"),
    ("[gateway]\n[chat]\noptions = colour\n", "options: colour is not one of"),
    ("[programs]\nfetch = x\n[gateway]\n[store]\nstarts = cache\n", "starts: cache is not one of"),
])
def test_a_wrong_section_is_refused_by_name(tmp_path, text, problem):
    path = tmp_path / "services.ini"
    path.write_text(text)
    with pytest.raises(SystemExit, match=problem):
        table.load(path)


def test_words_are_of_all_services_or_of_one_package():
    assert table.words("names") == [row.name for row in SERVICES]
    assert set(table.words("units", "sconce-audio")) == {"sconce-audio.service",
                                                         "sconce-audio.socket"}
    assert "sconce-audio.service" not in table.fill("x @services:sconce@ y").split()


@EACH
def test_a_program_takes_the_options_of_its_row(row):
    program = BUILD / row.build_path
    help_text = subprocess.run([program, "--help"], stdout=subprocess.PIPE, text=True).stdout
    said = set(re.findall(r"^  --([a-z-]+)", help_text, re.M))
    own = set(row.options) | {"%s-socket" % name for name in (*row.may_connect, row.starts) if name}
    if "models" in own:
        own.add("model")
    if "draft" in own:
        own.add("draft-kind")
    assert said - {"config", "drain-timeout", "version"} == own
    for option in {"models", "device", "tcp-access", "chat-socket", "cache-socket"} - own:
        r = subprocess.run([program, "--" + option, "x"], capture_output=True, text=True)
        assert r.returncode == 2 and option in r.stderr, (option, r.stderr)


@EACH
def test_a_drain_timeout_is_a_time(row):
    program = BUILD / row.build_path
    for text, status in (("0", 0), ("0.5", 0), ("86400", 0), ("86400.1", 2), ("-1", 2), ("-1e-7", 2),
                         ("nan", 2), ("-nan", 2), ("inf", 2), ("-inf", 2), ("1s", 2), ("", 2)):
        r = subprocess.run([program, "--drain-timeout=" + text, "--version"], capture_output=True,
                           text=True)
        assert r.returncode == status, (text, r)
        assert status == 0 or ("--drain-timeout" in r.stderr and '"%s"' % text in r.stderr), r.stderr
