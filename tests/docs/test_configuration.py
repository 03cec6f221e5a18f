# SPDX-License-Identifier: Apache-2.0
"""Checks that the documents describe the configuration keys as the table in services/common
does."""
import re
import subprocess

import pytest
from blocks import TREE, manual_text

yaml = pytest.importorskip("yaml")

SIZES = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
TIMES = {"": 10**6, "ms": 10**3, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6,
         "d": 86400 * 10**6}


class Key:
    """Holds one row of the key table, as `config-keys` prints it."""

    def __init__(self, row):
        self.name, self.type, self.least, self.most, self.default = row.split("\t")

    def number(self, text):
        """Converts a value of this key to a number in the unit of the table."""
        units = {"size": SIZES, "time": TIMES, "number": {"": 1}}[self.type]
        digits, unit = re.fullmatch(r"([\d,]+) ?(\w*)", str(text)).groups()
        return int(digits.replace(",", "")) * units[unit]

    def is_number(self):
        return self.type in ("size", "time", "number")


@pytest.fixture(scope="module")
def keys(build, user):
    out = subprocess.run([build / "tests/docs/config-keys"], env={"HOME": "~"}, check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    return [Key(row) for row in out.splitlines()]


def data_directories(text):
    """Returns the model directories. The directory of this build is replaced by the directory that
    packages use."""
    return [re.sub(r".*/share/sconce/models$", "/usr/share/sconce/models", d)
            if not d.startswith("~") else d for d in text]


def check_default(key, words):
    if key.type == "list" and key.name == "models.directories":
        # The user's own directory is not in the table, because HOME is not an absolute path here.
        assert [w for w in words if not w.startswith("~")] == data_directories(key.default.split())
        assert words[0] == "~/.local/share/sconce/models"
    elif key.is_number():
        assert key.number(words[0]) == int(key.default)
    else:
        assert words in ([key.default], ["none"], ["the best"])
        assert key.default or words[0] in ("none", "the best")


def check_range(key, text):
    if key.type == "choice":
        assert re.findall(r"[\w-]+", text) == key.least.split()
    elif key.type == "real":
        found = re.fullmatch(r"(\S+) to (\S+)", text)
        assert [float(x) for x in found.groups()] == [float(key.least), float(key.most)]
    elif not key.is_number():
        assert text == ""
    else:
        found = re.fullmatch(r"from (\S+)|(\S+) to (\S+)", text)
        assert key.number(found.group(1) or found.group(2)) == int(key.least)
        if found.group(3):
            assert key.number(found.group(3)) == int(key.most)
        else:
            assert int(key.most) >= 1 << 62


def document_rows():
    rows = {}
    for line in (TREE / "docs/configuration.md").read_text().split("\n"):
        if re.match(r"\| `\w+\.\w+` \|", line):
            cells = [c.strip() for c in line.strip().strip("|").split("|")]
            assert cells[0].strip("`") not in rows, "%s is described twice" % cells[0]
            rows[cells[0].strip("`")] = cells[1:]
    return rows


def test_the_document_has_the_keys_of_the_table(keys):
    rows = document_rows()
    assert set(rows) == {k.name for k in keys}
    for key in keys:
        kind, default, limits, effect = rows[key.name]
        assert kind == key.type, key.name
        check_default(key, re.findall(r"`([^`]*)`", default) or [default])
        check_range(key, limits.replace("`", ""))
        assert len(effect) > 10


def manual_rows():
    text = "\n".join(manual_text(line)
                     for line in (TREE / "docs/man/sconce.yaml.5").read_text().split("\n"))
    return {m.group(1): (m.group(2), " ".join(m.group(3).split())) for m in re.finditer(
        r'^\.IR (\w+\.\w+) "? ?\(([^)]*)\)"\n(.*?)(?=^\.)', text, re.M | re.S)}


def test_the_manual_page_has_the_keys_of_the_table(keys):
    rows = manual_rows()
    assert set(rows) == {k.name for k in keys}
    for key in keys:
        head, body = rows[key.name]
        kind, _, limits = head.partition(": " if key.type == "choice" else ", ")
        assert kind == key.type, key.name
        check_range(key, limits)
        check_default(key, re.search(r"Default: (.*)\.$", body).group(1).split(", "))


def shipped():
    return (TREE / "packaging/sconce.yaml").read_text()


def test_the_shipped_file_sets_nothing():
    assert yaml.safe_load(shipped()) is None


def uncommented():
    """Returns the shipped file with every key enabled. A line with one space after the # is a
    comment."""
    return re.sub(r"^#(?=\w|  )", "", shipped(), flags=re.M)


def test_the_shipped_file_has_each_key_with_its_default(keys):
    sections = yaml.safe_load(uncommented())
    flat = {"%s.%s" % (s, k): v for s, pairs in sections.items() for k, v in pairs.items()}
    assert set(flat) == {k.name for k in keys}
    for key in keys:
        value = flat[key.name]
        if key.type == "list":
            assert value == data_directories(key.default.split()), key.name
        elif key.is_number():
            assert key.number(value) == int(key.default), key.name
        elif isinstance(value, bool):
            assert str(value).lower() == key.default, key.name
        else:
            assert (value or "") == key.default, key.name


def test_the_shipped_file_is_accepted_with_every_key_in_force(user, tmp_path):
    file = tmp_path / "sconce.yaml"
    file.write_text(uncommented())
    result = user.run(["sconce", "list", "--config", str(file)])
    assert result.returncode == 0, result.stderr


def tries(key):
    """Returns values at and beyond the limits of a key, each as (text, whether it is valid)."""
    if key.type == "choice":
        return [(w, True) for w in key.least.split()] + [("other", False)]
    if not key.is_number():
        return []
    unit = {"time": "us"}.get(key.type, "")
    found = [(key.least + unit, True), (key.most + unit, True)]
    found.append(("%d%s" % (int(key.most) + 1, unit), False))
    if int(key.least) > 0:
        found.append(("%d%s" % (int(key.least) - 1, unit), False))
    return found


def test_ranges_hold(keys, user, tmp_path):
    file = tmp_path / "sconce.yaml"
    for key in keys:
        for text, taken in tries(key):
            file.write_text("%s:\n  %s: %s\n" % (*key.name.split("."), text))
            result = user.run(["sconce", "list", "--config", str(file)])
            assert (result.returncode == 0) == taken, (key.name, text, result.stderr)
            assert taken or "sconce.yaml:2:" in result.stderr
