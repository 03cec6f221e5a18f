# SPDX-License-Identifier: Apache-2.0
"""Compares docs/http-api.md with the services' sources: routes, error codes, metrics, log
fields."""
import re

from blocks import TREE

TEXT = (TREE / "docs/http-api.md").read_text()
SOURCES = {p: p.read_text() for p in (TREE / "services").rglob("*.c")}
ALL = "\n".join(SOURCES.values())


def table(head):
    """Yields the rows below the head of a table, as lists of cells."""
    lines = TEXT[TEXT.index(head):].split("\n")[2:]
    for line in lines:
        if not line.startswith("|"):
            return
        yield [c.strip() for c in line.strip("|").split("|")]


def test_routes():
    source = (TREE / "services/gateway/handler.c").read_text()
    part = re.search(r"struct gw_route own_routes\[\] = \{\n(.*?)^\};", source, re.M | re.S).group(1)
    rows = re.findall(r'\{"([^"]+)", METHOD_(\w+), (\w+),', part)
    assert len(rows) == part.count('{"')
    for file in (TREE / "services").glob("*/routes.h"):
        text = file.read_text()
        found = re.findall(r'\bROUTE\((\w+),\s+"([^"]+)",\s+(\w+),', text)
        assert len(found) == text.count('"/')
        rows += [(path, method, right) for method, path, right in found]
    there = {(re.sub("(?<=.)/$", "/{id}", path), method,
              right.removeprefix("RIGHT_").lower() if right != "0" else "none")
             for path, method, right in rows}
    assert len(there) == len(rows) - part.count(".only_ollama")
    written = {(path, method, right) for paths, method, right, _ in table("| route |")
               for path in re.findall(r"`([^`]+)`", paths)}
    assert written == there


def test_rights():
    rows = re.findall(r'\{RIGHT_\w+, "(\w+)"\}', (TREE / "services/common/config/rights.c").read_text())
    assert sorted(rows) == sorted(right for right, _ in table("| right |"))


def error_codes():
    return {(status, code) for statuses, codes in table("| status |")
            for status in re.findall(r"\d+", statuses)
            for code in re.findall(r"`([a-z_]+)`", codes)}


def test_error_codes_of_the_services_are_written():
    there = set(re.findall(r'(?<![\w.])([45]\d\d),\s*"([a-z_]+)"', ALL))
    assert len(there) > 30
    assert there <= error_codes()


def test_error_codes_that_are_written_exist():
    for _, code in error_codes():
        assert '"%s"' % code in ALL, code


def test_metrics_that_are_written_exist():
    part = TEXT[TEXT.index("## Metrics"):]
    names = re.findall(r"`((?:vllm:|sconce_)[\w:]+)`", part)
    assert len(names) > 5
    # The names of the keep service are made from the rows of KEEP_NUMBERS.
    rows = (TREE / "services/common/wire/keep-protocol.h").read_text()
    for name in names:
        row = f"X({name.removeprefix('sconce_keep_')},"
        assert name in ALL or row in rows, name


def test_log_fields():
    written = set(re.findall(r"`(SCONCE_\w+)`", (TREE / "docs/dataflow.md").read_text()))
    there = set(re.findall(r'"(SCONCE_\w+)=%', (TREE / "services/common/service/log.c").read_text()))
    assert written == there
