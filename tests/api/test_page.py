# SPDX-License-Identifier: Apache-2.0
"""Tests how the gateway serves the web page: to whom, with which headers, and to which pages it
answers. test_page_browser.py and test_page_reading.py test the page itself."""
import gzip
import http.client
import re
import socket

import pytest

from conftest import ROOT, SLOW

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
FILES = sorted(p.name for p in (ROOT / "services/gateway/page").iterdir() if p.suffix != ".py")

pytestmark = pytest.mark.sanitize


def get(suite, path, headers=None, method="GET", unix=False, body=None):
    """Returns (status, headers, body). The headers have names in small letters."""
    c = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=30 * SLOW)
    if unix:
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.connect(suite.gateway_sock)
    c.request(method, path, body, headers or {})
    r = c.getresponse()
    data = r.read()
    c.close()
    return r.status, {name.lower(): value for name, value in r.getheaders()}, data


def test_browsers_get_the_page_and_other_clients_the_greeting(suite):
    status, headers, body = get(suite, "/", BROWSER)
    assert status == 200 and headers["content-type"] == "text/html; charset=utf-8"
    assert body == (ROOT / "services/gateway/page/index.html").read_bytes()
    assert "accept" in headers["vary"]
    for accept in ({}, {"Accept": "*/*"}, {"Accept": "application/json"},
                   {"Accept": "text/html;q=0, */*"}, {"Accept": "xtext/html"}):
        status, headers, body = get(suite, "/", accept)
        assert (status, body) == (200, b"sconce\n") and headers["content-type"].startswith("text/plain")
    assert get(suite, "/", BROWSER, unix=True)[2].startswith(b"<!doctype html>")


@pytest.mark.parametrize("name", FILES)
def test_each_file_is_served_with_its_type(suite, name):
    kinds = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8",
             "svg": "image/svg+xml", "html": "text/html; charset=utf-8"}
    status, headers, body = get(suite, "/page/" + name)
    assert status == 200 and headers["content-type"] == kinds[name.split(".")[-1]]
    assert body == (ROOT / "services/gateway/page" / name).read_bytes()


def test_nothing_else_is_served(suite):
    for path in ("/page/", "/page/nothing.js", "/page/../page.c", "/page/embed.py", "/page/app.js/",
                 "/page/%2e%2e/page.c", "/page/app.js%00"):
        assert get(suite, path)[0] in (400, 404), path
    assert get(suite, "/page/app.js", method="POST", body=b"{}")[0] == 405


def test_files_are_packed_for_clients_that_accept_it(suite):
    plain = get(suite, "/page/page.css")
    for accept in ("gzip", "gzip, deflate, br", "br;q=1, GZIP;q=0.5", " deflate ,gzip"):
        status, headers, body = get(suite, "/page/page.css", {"Accept-Encoding": accept})
        assert headers["content-encoding"] == "gzip" and gzip.decompress(body) == plain[2]
        assert int(headers["content-length"]) == len(body) < len(plain[2]) / 2
        assert headers["etag"] != plain[1]["etag"]
    for accept in ("", "identity", "gzip;q=0", "gzip; q=0.000", "xgzip"):
        assert "content-encoding" not in get(suite, "/page/page.css", {"Accept-Encoding": accept})[1]


def test_unchanged_files_are_not_sent_again(suite):
    for packing in ({}, {"Accept-Encoding": "gzip"}):
        tag = get(suite, "/", {**BROWSER, **packing})[1]["etag"]
        for known in (tag, "W/" + tag, '"other", ' + tag, "*"):
            status, headers, body = get(suite, "/", {**BROWSER, **packing, "If-None-Match": known})
            assert (status, body) == (304, b"") and headers["etag"] == tag
            assert "content-length" not in headers and "transfer-encoding" not in headers
        assert get(suite, "/", {**BROWSER, **packing, "If-None-Match": '"other"'})[0] == 200
    # The connection stays in use after an answer without content.
    c = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=30 * SLOW)
    for _ in range(3):
        c.request("GET", "/page/app.js", headers={"If-None-Match": "*"})
        assert c.getresponse().read() == b"" and c.sock
    c.close()
    status, headers, body = get(suite, "/page/app.js", method="HEAD")
    assert status == 200 and int(headers["content-length"]) > 1000 and body == b""


def test_the_policy_lets_the_browser_load_only_files_of_the_page(suite):
    for path in ("/", "/page/app.js"):
        headers = get(suite, path, BROWSER)[1]
        policy = dict(part.strip().split(" ", 1)
                      for part in headers["content-security-policy"].split(";"))
        assert policy.pop("default-src") == "'none'"
        for name in ("script-src", "style-src", "img-src", "connect-src"):
            assert policy.pop(name) == "'self'"
        for name in ("base-uri", "form-action", "frame-ancestors", "trusted-types"):
            assert policy.pop(name) == "'none'"
        assert policy == {"require-trusted-types-for": "'script'"}
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == "no-cache"


def test_the_page_has_no_script_in_its_text():
    """Tests that the sources need no exception of the policy, and set no text as HTML."""
    page = ROOT / "services/gateway/page"
    html = (page / "index.html").read_text()
    assert re.findall(r"<script(?![^>]* src=)", html) == [] == re.findall(r"<style|\sstyle=|\son\w+=", html)
    assert re.findall(r"(?:src|href)=\"(?!page/|#)", html) == []
    for path in page.glob("*.js"):
        text = path.read_text()
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                     "new Function", "javascript:"):
            assert word not in text, path


def test_one_switch_turns_the_page_off(make_suite):
    suite = make_suite(gateway="  page: false\n")
    status, headers, body = get(suite, "/", BROWSER)
    assert (status, body) == (200, b"sconce\n") and "content-security-policy" not in headers
    assert get(suite, "/page/app.js")[0] == 404
    own = {"Origin": "http://127.0.0.1:%d" % suite.port}
    assert get(suite, "/v1/models", own)[0] == 403


@pytest.mark.parametrize("unix", [False, True], ids=["tcp", "unix"])
def test_the_gateway_answers_its_own_page_and_no_other(suite, unix):
    """Tests which pages may send requests without a key, over TCP and through a port that leads to
    the unix socket. A browser does not let a page choose its Origin and Host."""
    port = suite.port
    for host in ("127.0.0.1:%d" % port, "localhost:%d" % port, "192.0.2.7", "[::1]:%d" % port):
        headers = {"Host": host, "Origin": "http://" + host}
        assert get(suite, "/v1/models", headers, unix=unix)[0] == 200, host
    for origin, host in (
            ("https://a.example", "127.0.0.1:%d" % port),
            ("http://127.0.0.1:%d" % (port + 1), "127.0.0.1:%d" % port),
            ("http://127.0.0.1", "127.0.0.1:%d" % port),
            ("http://localhost:%d" % port, "127.0.0.1:%d" % port),
            ("null", "127.0.0.1:%d" % port),
            # The owner of a domain makes its name lead to this machine (DNS rebinding).
            ("http://a.example:%d" % port, "a.example:%d" % port),
            ("http://127.0.0.1.a.example", "127.0.0.1.a.example"),
            ("http://localhost.a.example", "localhost.a.example"),
            ("http://a", "a"), ("http://", "")):
        status, _, body = get(suite, "/v1/models", {"Host": host, "Origin": origin}, unix=unix)
        assert status == 403 and b"origin_not_allowed" in body or not host and status == 400, origin
