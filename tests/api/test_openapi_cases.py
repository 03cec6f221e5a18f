# SPDX-License-Identifier: Apache-2.0
"""Sends valid and invalid requests, which schemathesis makes from the description of the routes. No
answer may be an internal error of the server, and the description must contain every answer.

SCONCE_OPENAPI_CASES is the number of random requests (default: 20,000). About 9,000 others cover
the limits of each field. The PyPI package schemathesis must be installed; its reports are in the
directory SCONCE_OPENAPI_REPORTS, if this is set.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request

import pytest

from conftest import ROOT, check_log, Suite

GOLDEN = ROOT / "tests/golden/embed"
CASES = int(os.environ.get("SCONCE_OPENAPI_CASES", 20000))
REPORTS = os.environ.get("SCONCE_OPENAPI_REPORTS")
# These routes always refuse with 501, or take sound files and are tested elsewhere.
LEFT_OUT = r"^/slots/\{|^/api/(pull|push|create|copy|delete|blobs)|/audio/"
CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,"
          "response_headers_conformance,response_schema_conformance")


@pytest.fixture(scope="module")
def suite(model_dir, tmp_path_factory):
    models = tmp_path_factory.mktemp("models")
    for file in model_dir.iterdir():
        shutil.copy(file, models / file.name)
    for name in ("bert-mean", "bert-rank"):
        shutil.copytree(GOLDEN / name, models / name)
    suite = Suite(models, chat="  most_tokens: 4\n  context: 512\n",
                  embed="  default_model: bert-mean\n  default_reranker: bert-rank\n",
                  keep="  max_bytes: 1MiB\n")
    yield suite
    check_log(suite.close())


def operations(url):
    """Returns how many operations the description has, without those that are left out."""
    with urllib.request.urlopen(url) as r:
        paths = json.load(r)["paths"]
    return sum(len(item) for path, item in paths.items() if not re.search(LEFT_OUT, path))


@pytest.mark.full
def test_cases(suite, tmp_path):
    pytest.importorskip("schemathesis")
    url = suite.url + "/openapi.json"
    each = -(-CASES // operations(url))
    options = ["--report", "junit", "--report-dir", REPORTS] if REPORTS else []
    done = subprocess.run(
        [os.path.join(os.path.dirname(sys.executable), "st"), "run", url, "--checks", CHECKS,
         "--exclude-path-regex", LEFT_OUT, "--phases", "coverage,fuzzing",
         "--max-examples", str(each), "--seed", "1", "--request-timeout", "60", "--no-shrink",
         "--workers", "1", "--suppress-health-check", "all", "--continue-on-failure", *options],
        capture_output=True, text=True, cwd=tmp_path)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr
