# SPDX-License-Identifier: Apache-2.0
"""Checks the manual pages: they are well formed, each command, unit and file has one, and they name
all existing options."""
import re
import subprocess

import pytest
from blocks import TREE, manual_pages, manual_text
from commands import found_shell, option_values, options, verbs
from services import SERVICES

PAGES = manual_pages()
NAMES = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)


def text(page):
    return "\n".join(manual_text(line) for line in page.read_text().split("\n"))


def aliases():
    """Returns the other names of pages, as docs/meson.build installs them."""
    names = dict(re.findall(r"\['([\w.-]+\.\d)', '([\w.-]+\.\d)'\]",
                            (TREE / "docs/meson.build").read_text()))
    for row in SERVICES:
        names.update({unit + ".8": "sconce-%s.8" % row.name for unit in (*row.units, *row.started_units)})
    return names


def known():
    return {p.name for p in PAGES} | set(aliases())


@NAMES
@pytest.mark.parametrize("argv", [["mandoc", "-T", "lint"],
                                  ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]],
                         ids=["mandoc", "man"])
def test_lint(page, argv):
    if not found_shell(argv[0]):
        pytest.skip("no " + argv[0])
    result = subprocess.run(argv + [page], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = result.stderr if argv[0] == "man" else result.stdout
    # References to our own pages are checked below; other pages may not be installed here.
    said = "\n".join(line for line in said.split("\n") if "referenced manual not found" not in line)
    assert result.returncode <= 1 and not said.strip(), said


@NAMES
def test_is_installed(page):
    assert "'man/%s'" % page.name in (TREE / "docs/meson.build").read_text() or \
        page.name in ["sconce-%s.8" % row.name for row in SERVICES]


@NAMES
def test_refers_to_pages_that_are_there(page):
    for name, section in re.findall(r"(sconce[\w.-]*) \(?\"?\((\d)\)", text(page)):
        assert "%s.%s" % (name, section) in known(), name


def test_aliases_have_pages():
    assert set(aliases().values()) <= {p.name for p in PAGES}


def option_names(page):
    """Returns the options that have an entry in the section OPTIONS."""
    part = re.search(r"^\.SH OPTIONS\n(.*?)(?=^\.SH |\Z)", text(page), re.M | re.S)
    heads = re.findall(r"^\.TP\n((?:\.(?:B|I|BR|BI|RB|IR) .*\n)+?)", part.group(1), re.M) if part else []
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", " ".join(heads))) - {"-h", "--help"}


def test_each_verb_has_a_page_with_its_options(user):
    overview = text(TREE / "docs/man/sconce.1")
    for verb in verbs(user):
        page = TREE / ("docs/man/sconce-%s.1" % verb)
        assert page.exists(), verb
        assert re.search(r"^\.BR %s \" \(\" sconce-%s" % (verb, verb), overview, re.M), verb
        assert option_names(page) == options(user, verb), verb
    listed = set(re.findall(r"^\.BR (\w+) \" \(\" sconce-", overview, re.M))
    assert listed == set(verbs(user))


@pytest.mark.parametrize("service", [row.name for row in SERVICES])
def test_each_service_has_a_page_with_its_options(build, service):
    out = subprocess.run([build / "services" / service / ("sconce-" + service), "--help"],
                         stdout=subprocess.PIPE, text=True).stdout
    said = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", out, re.M)) - {"--help"}
    assert option_names(TREE / ("docs/man/sconce-%s.8" % service)) - {"-h"} == said


def units():
    return sorted(p for d in ("system", "user") for p in (TREE / "units" / d).glob("sconce*")
                  if p.name.removesuffix(".in").split(".")[-1] in
                  ("service", "socket", "target", "slice"))


def test_each_unit_has_a_page():
    assert units()
    names = {name.rpartition(".")[0] for name in known()}
    for unit in units():
        assert unit.name.removesuffix(".in") in names, unit.name


def test_units_refer_to_pages_that_are_there():
    for unit in units():
        found = re.findall(r"man:([\w.-]+)\((\d)\)", unit.read_text())
        assert found, unit
        for name, section in found:
            assert "%s.%s" % (name, section) in known(), unit


def missing(values, words):
    """Returns the values that are not among the words. "x+recent" needs only "x" and "+recent"."""
    return {v for v in values if v not in words and not set(re.findall(r"\+?\w+", v)) <= words}


@pytest.mark.parametrize("option", option_values())
def test_names_the_values_of_options(option):
    takers, values = option_values()[option]
    for verb in takers:
        page = text(TREE / ("docs/man/sconce-%s.1" % verb))
        about = re.search(r'^\.BI .*%s".*?\n(.*?)^\.TP' % (option + " "), page, re.M | re.S)[1]
        assert not missing(values, set(re.findall(r"[\w+-]+", about))), verb


@pytest.mark.parametrize("key, option", [("chat.isa", "--isa"), ("chat.kv_type", "--kv-type")])
def test_names_the_values_of_keys(key, option):
    values = option_values()[option][1]
    page = text(TREE / "docs/man/sconce.yaml.5")
    about = re.search(r"^\.IR %s .*?\n(.*?)^\.TP" % re.escape(key), page, re.M | re.S)[1]
    assert not missing(values, set(re.findall(r"[\w+]+", about)))
    row = re.search(r"^\| `%s` .*" % re.escape(key), (TREE / "docs/configuration.md").read_text(), re.M)
    assert not missing(values, set(re.findall(r"[\w+]+", row[0])))
