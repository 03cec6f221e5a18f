# SPDX-License-Identifier: Apache-2.0
"""Measures the private memory of the services, without the mapped pages of the model file."""
import json
import os
import time

import pytest

from conftest import SLOW, Suite, check_log
from test_lifecycle import LONG, SHORT, post

MB = 1e6
# Qwen3-0.6B as Q4_K_M, or random weights of its shapes
LARGE = os.environ.get("SCONCE_LARGE_MODEL")
pytestmark = pytest.mark.skipif(SLOW > 1, reason="sanitizers keep memory of their own")


def private(*services):
    """Returns the bytes of memory that are not file pages, summed over these services."""
    total = 0
    for service in services:
        try:
            with open("/proc/%d/smaps_rollup" % service.wait_pid()) as f:
                total += next(int(line.split()[1]) for line in f if line.startswith("Anonymous:"))
        except PermissionError:
            pytest.skip("only root may read the memory of confined processes")
    return 1024 * total


def text_of(answer):
    return json.loads(answer[1])["choices"][0]["text"]


def wait_below(limit, service):
    end = time.monotonic() + 10
    while private(service) >= limit and time.monotonic() < end:
        time.sleep(0.1)
    return private(service)


def test_a_small_model_takes_little(make_suite):
    suite = make_suite(chat="  context: 512\n")
    assert post(suite, SHORT)[0] == 200
    assert private(suite.gateway, suite.chat) < 8 * MB


@pytest.mark.parametrize("off", ["service", "request"])
def test_memory_goes_back_when_nothing_runs(make_suite, off):
    """The service frees all memory except KV blocks that later prompts may share."""
    suite = make_suite(chat="  context: 512\n  kv_memory: 64M\n  prefix_cache: %s\n" %
                       ("false" if off == "service" else "true"))
    first = text_of(post(suite, SHORT))
    before = private(suite.chat)
    assert post(suite, {**LONG, "max_tokens": 400, "cache_prompt": off == "service"})[0] == 200
    busy = private(suite.chat)
    assert busy > before + 4 * MB
    assert wait_below(before + 2 * MB, suite.chat) < before + 2 * MB
    assert text_of(post(suite, SHORT)) == first


@pytest.mark.skipif(not LARGE, reason="no SCONCE_LARGE_MODEL")
def test_a_model_of_half_a_gigabyte_keeps_to_its_file():
    name = os.path.splitext(os.path.basename(LARGE))[0]
    suite = Suite(os.path.dirname(os.path.abspath(LARGE)), chat="  context: 4096\n")
    try:
        body = {"model": name, "prompt": "Once upon a time", "max_tokens": 32, "ignore_eos": True}
        status, data = post(suite, body)
        assert status == 200 and json.loads(data)["usage"]["completion_tokens"] == 32
        assert private(suite.gateway, suite.chat) < 60 * MB
        # The remaining memory belongs to the vocabulary.
        assert wait_below(20 * MB, suite.chat) < 20 * MB
    finally:
        check_log(suite.close())
