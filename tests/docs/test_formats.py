# SPDX-License-Identifier: Apache-2.0
"""Checks that docs/formats.md has the table of number formats that `weight-formats` prints."""
import subprocess

from blocks import TREE


def test_the_table_of_formats_is_that_of_the_library(build):
    rows = subprocess.run([build / "tests/docs/weight-formats"], check=True, stdout=subprocess.PIPE,
                          text=True).stdout
    assert rows.count("\n") > 10
    assert rows in (TREE / "docs/formats.md").read_text(), "the table should be:\n" + rows
