# SPDX-License-Identifier: Apache-2.0
"""Checks that links in the documents have targets, and that the files that they name exist."""
import re

import pytest
from blocks import TREE, documents

FOLDERS = sorted(p.name for p in TREE.iterdir() if p.is_dir() and not p.name.startswith("."))
PAGES = pytest.mark.parametrize("page", documents(), ids=lambda p: str(p.relative_to(TREE)))


def prose(page):
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)


def anchors(page):
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in heads}


@PAGES
def test_links(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"\w+://", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def candidates(page):
    """Yields words in backticks that are paths in the tree. Words in capitals are placeholders."""
    for word in re.findall(r"`([\w./-]+/[\w./-]*)`", prose(page)):
        if word.split("/")[0] in FOLDERS and not re.search("[A-Z]{4}", word):
            yield word


@PAGES
def test_files(page):
    for word in candidates(page):
        assert (TREE / word).exists() or list(TREE.glob(word + ".*")), word
