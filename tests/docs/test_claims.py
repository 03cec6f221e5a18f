# SPDX-License-Identifier: Apache-2.0
"""Checks that claims in the documents name existing tests, as FILE::TEST, that prove them."""
import re
import sys

import pytest
from blocks import TREE, documents

sys.path.insert(0, str(TREE / "tests/lib"))
import walls  # noqa: E402

CLAIM = re.compile(r"`(tests/[\w./-]+)::(\w+)`")
SECURITY = (TREE / "docs/security.md").read_text()


def claims():
    return sorted({(path, name) for document in documents()
                   for path, name in CLAIM.findall(document.read_text())})


def has_test(path, name):
    file = TREE / path
    if not file.is_file():
        return False
    form = r"(?m)^TEST\(%s\)$" if file.suffix == ".c" else r"(?m)^def %s\("
    return re.search(form % re.escape(name), file.read_text()) is not None


@pytest.mark.parametrize("path, name", claims(), ids=map("::".join, claims()))
def test_exists(path, name):
    assert has_test(path, name)


def test_missing_tests_are_found():
    assert len(claims()) > 50
    assert not has_test("tests/docs/test_claims.py", "test_that_nobody_wrote")
    assert not has_test("tests/docs/nothing.py", "test_exists")
    assert not has_test("tests/policy/test-confine.c", "conditions")


def sections(text):
    """Returns (title, text) of each section of a document."""
    parts = re.split(r"(?m)^## (.*)$", text)
    return list(zip(parts[1::2], parts[2::2]))


def rows(text):
    """Yields the rows of tables as dictionaries, with the column headings as keys."""
    head = None
    for line in text.split("\n"):
        cells = [c.strip() for c in line.strip().strip("|").split("|")] if line[:1] == "|" else None
        if not cells:
            head = None
        elif head is None:
            head = cells
        elif not set(line) <= set("|-: "):
            yield dict(zip(head, cells, strict=True))


def test_every_section_on_security_names_tests():
    bare = [title for title, text in sections(SECURITY)
            if not CLAIM.search(text) and title != "How to check"]
    assert bare == []


@pytest.mark.parametrize("document", ["security.md", "dataflow.md"])
def test_no_row_is_without_its_test(document):
    found = [row for row in rows((TREE / "docs" / document).read_text()) if "test" in row]
    assert all(CLAIM.search(row["test"]) or row["test"] == "the same" for row in found), found
    assert len(found) > 20 or document != "security.md"


def test_the_tables_name_the_attacks_that_are_made():
    """The tables name the attacks of tests/attack, and the promises of tests/lib/walls.py."""
    promised, fewer = set(), set()
    for row in rows(SECURITY):
        (fewer if "meets" in row else promised).update(re.findall(r"`([\w-]+)`",
                                                                  row.get("named", "")))
    assert promised == set(walls.PROMISED)
    assert fewer == {*walls.TWO_FILTERS, *walls.ONE_WALL, *walls.CONNECTING, *walls.HANDING,
                     *walls.KEEPING}
    sources = "".join(p.read_text() for p in (TREE / "tests/attack").glob("attacks-*.c"))
    attempts = set(re.findall(r'(?m)^ +\{"([a-z0-9-]+)", "', sources))
    assert promised | fewer <= attempts and len(attempts) > 50
