# SPDX-License-Identifier: Apache-2.0
"""Tests the description of routes that the gateway serves, and that answers are as described."""
import json
import re
import urllib.error
import urllib.request

import pytest

from conftest import ROOT

BODIES = [{}, {"nonsense": 1}, {"model": 3}, {"model": "none"}, {"prompt": 1}, {"input": []},
          {"messages": [{"role": "user"}]}, {"tokens": [-1]}, {"temperature": "hot"}]

# This route would publish models, and is refused with 501.
REFUSED = {"/api/push"}


@pytest.fixture(scope="module")
def document(suite):
    with urllib.request.urlopen(suite.url + "/openapi.json") as r:
        assert r.headers["content-type"] == "application/json"
        return json.load(r)


def test_routes(document):
    """Tests that the description has each row of each table of routes, and no other route."""
    assert document["openapi"].startswith("3.1")
    rows = set()
    for file in (ROOT / "services").glob("*/routes.h"):
        rows |= {(path, method.lower()) for method, path in
                 re.findall(r'\bROUTE\((\w+),\s+"([^"]+)"', file.read_text())}
    described = {(path.split("{")[0], method)
                 for path, item in document["paths"].items() for method in item}
    own = {(path, "get") for path in ("/", "/page/", "/health", "/metrics", "/openapi.json", "/api/version",
                                     "/api/ps")}
    own |= {(path, method) for path in REFUSED for method in ("post", "delete")}
    assert described == rows | own


def test_references(document):
    """Tests that all references lead to a component."""
    for kind, name in re.findall(r'"#/components/(\w+)/(\w+)"', json.dumps(document)):
        assert name in document["components"][kind]


def test_fields(document):
    """Tests that the fields of bodies come from the sources, and have types."""
    body = document["components"]["schemas"]["api_llama_completion"]
    assert body["additionalProperties"] is False
    assert {"prompt", "n_probs", "temperature", "grammar"} <= set(body["properties"])
    assert body["properties"]["top_k"]["anyOf"][0] == {"type": "integer"}
    for name, schema in document["components"]["schemas"].items():
        if name.startswith(("api_", "endpoint_")) and "properties" in schema:
            assert "model" in schema["properties"], name


def test_answers(suite, document):
    """Tests that wrong bodies get an answer that the description contains, and no internal
    error."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if "audio" in path:
                continue
            for body in BODIES if method == "post" else [None]:
                data = None if body is None else json.dumps(body).encode()
                request = urllib.request.Request(
                    suite.url + re.sub(r"\{\w+\}", "x", path), data,
                    {"Content-Type": "application/json"}, method=method.upper())
                try:
                    with urllib.request.urlopen(request, timeout=30) as r:
                        status = r.status
                        r.read()
                except urllib.error.HTTPError as e:
                    status = e.code
                    assert "error" in json.load(e)
                assert str(status) in operation["responses"], (path, body)
                refused = path == "/slots/{id}" or path.split("{")[0] in REFUSED
                # The keep service does not run.
                refused |= status == 503 and ("conversations" in path or "/responses/" in path)
                assert status < 500 or refused, (path, body, status)
