# SPDX-License-Identifier: Apache-2.0
"""Tests the contents of the packages, how they were built, and the results of Debian's checkers."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

import conftest
from roots import TREE, own_suite, suite
from services import SERVICES, all_units, table

# The packages of a complete installation.
RUNTIME = ("sconce", "sconce-audio")
MAN = "/usr/share/man/man%s/%s.%s.gz"


def runtime_files(files):
    return {path for name in RUNTIME for path in files[name]}


def command(root, *argv):
    """Runs the unpacked program with the unpacked library."""
    if suite() != own_suite():
        pytest.skip("packages of %s do not run here" % suite())
    library = next(root.glob("usr/lib/*/libinfer.so.0")).parent
    r = subprocess.run([str(root / "usr/bin/sconce"), *argv], capture_output=True, text=True,
                       env={**os.environ, "LD_LIBRARY_PATH": str(library)})
    return r.stdout


def verbs(root):
    text = command(root, "--help")
    return re.findall(r"(?m)^  ([a-z]+) ", text)


def programs(root):
    yield root / "usr/bin/sconce"
    yield from (root / row.binary.lstrip("/") for row in SERVICES)


def objects(root):
    yield from programs(root)
    yield next(p for p in root.glob("usr/lib/*/libinfer.so.*") if not p.is_symlink())


def test_every_unit_is_there_for_the_system_and_for_users(files):
    have = runtime_files(files)
    for directory in ("(/usr)?/lib/systemd/system", "/usr/lib/systemd/user"):
        names = {path.rpartition("/")[2] for path in have
                 if re.fullmatch(directory + "/[^/]+", path)}
        assert names == set(all_units())


def test_every_command_unit_and_file_has_a_manual_page(files, unpacked):
    have = runtime_files(files)
    names = verbs(unpacked)
    assert len(names) > 7
    assert MAN % (1, "sconce", 1) in have
    for verb in names:
        assert MAN % (1, "sconce-" + verb, 1) in have, verb
    for unit in all_units():
        section = 8 if unit.endswith((".service", ".socket")) else 7
        assert MAN % (section, unit, section) in have, unit
    for row in SERVICES:
        assert MAN % (8, "sconce-" + row.name, 8) in have
    for name in ("sconce.yaml", "sconce-api-keys"):
        assert MAN % (5, name, 5) in have, name


def test_completions_lie_where_the_shells_look(files):
    assert {"/usr/share/bash-completion/completions/sconce",
            "/usr/share/fish/vendor_completions.d/sconce.fish",
            "/usr/share/zsh/vendor-completions/_sconce"} <= set(files["sconce"])


def test_users_are_not_enabled_for_all(files, controls):
    for path in runtime_files(files):
        assert not path.startswith("/etc/systemd"), path
        assert not re.search(r"/user/.*\.(wants|requires)/", path), path
    for name in RUNTIME:
        for script in ("preinst", "postinst", "prerm", "postrm"):
            if (controls[name] / script).exists():
                text = (controls[name] / script).read_text()
                assert "--global" not in text
                assert not re.search(r"--user[^\n]*(enable|start|restart)\b", text)


@pytest.mark.parametrize("name", RUNTIME)
def test_sockets_are_never_restarted_by_scripts(controls, name):
    text = (controls[name] / "postinst").read_text()
    restarts = re.findall(r"(?m)^.*\brestart\b.*$", text)
    assert restarts
    for line in restarts:
        assert ".socket" not in line and ".target" not in line, line


def test_configuration_files_are_known(controls):
    def conffiles(name):
        return set((controls[name] / "conffiles").read_text().split())
    profiles = {name: {"/etc/apparmor.d/sconce-" + service for service in table.words("names", name)}
                for name in table.words("packages")}
    profiles["sconce"] |= {"/etc/apparmor.d/sconce-fetch", "/etc/apparmor.d/sconce-pull"}
    assert conffiles("sconce") == profiles["sconce"] | {"/etc/sconce/sconce.yaml"}
    assert conffiles("sconce-audio") == profiles["sconce-audio"]


def test_only_the_audio_service_needs_ffmpeg_and_nothing_recommends_a_desktop(files, controls):
    for name, control in controls.items():
        text = (control / "control").read_text()
        assert ("libavformat" in text) == (name == "sconce-audio"), name
        for field in ("Depends", "Recommends"):
            for word in ("vulkan", "mesa", "x11", "sconce-audio"):
                assert word not in conftest.field(text, field).lower(), (name, field)
    assert "sconce-audio" in conftest.field((controls["sconce"] / "control").read_text(), "Suggests")
    assert sorted(path for path in files["sconce-audio"] if "/libexec/" in path and "-" in path) == [
        "/usr/libexec/sconce/sconce-audio", "/usr/libexec/sconce/sconce-audio-decoder"]
    assert not [path for path in files["sconce"] if "sconce-audio" in path]


def test_the_question_is_asked_in_other_languages(control):
    text = (control / "templates").read_text()
    assert "Template: sconce/access" in text and "Default: keys" in text
    assert "Choices-C: keys, open, group" in text
    assert "Description-de.UTF-8:" in text


def test_default_configuration_changes_nothing(unpacked):
    text = (unpacked / "etc/sconce/sconce.yaml").read_text()
    assert [line for line in text.splitlines() if line and not line.startswith("#")] == []


def test_owners_and_modes(files):
    for package, entries in files.items():
        for path, entry in entries.items():
            assert entry.owner == "root/root", (package, path)
            if entry.mode.startswith("l"):
                continue
            assert not re.search("[sStT]", entry.mode), (package, path)
            assert entry.mode[5] != "w" and entry.mode[8] != "w", (package, path)


def test_the_library_is_split_from_its_headers(files):
    headers = {"/usr/include/infer/" + path.name
               for path in (TREE / "libinfer/include/infer").glob("*.h")}
    dev = set(files["libinfer-dev"])
    assert headers <= dev
    assert any(re.fullmatch(r"/usr/lib/[^/]+/libinfer\.so", path) for path in dev)
    assert any(path.endswith("/pkgconfig/libinfer.pc") for path in dev)
    assert all(".so" not in path or re.search(r"libinfer\.so\.0", path)
               for path in files["libinfer0"])


def test_every_page_of_the_documentation_is_there(files, unpacked):
    have = files["sconce-doc"]
    root = "/usr/share/doc/sconce/html/"
    for page in (TREE / "docs").glob("*.md"):
        assert root + page.stem + ".html" in have, page.name
    index = (unpacked / (root + "index.html").lstrip("/")).read_text()
    for link in re.findall(r'href="([^":#]+)"', index):
        assert root + link in have, link
    assert "/usr/share/doc-base/sconce-doc.sconce" in have


def test_links_between_pages_of_the_documentation_hold(unpacked):
    root = unpacked / "usr/share/doc/sconce/html"
    for page in root.glob("*.html"):
        for link in re.findall(r'href="([^":#]+)(?:#[^"]*)?"', page.read_text()):
            if link.endswith((".html", ".md")):
                assert (page.parent / link).exists() or link.startswith("../"), (page.name, link)


@pytest.mark.parametrize("what", ["relocatable", "bind now", "stack protector", "no RPATH",
                                  "no executable stack"])
def test_hardening(unpacked, what):
    for path in objects(unpacked):
        def readelf(option):
            return subprocess.run(["readelf", "-W", option, str(path)], check=True,
                                  capture_output=True, text=True).stdout
        if what == "relocatable":
            assert "DYN" in readelf("-h"), path
        elif what == "bind now":
            assert re.search("BIND_NOW|Flags:.*NOW", readelf("-d")), path
            assert "GNU_RELRO" in readelf("-l"), path
        elif what == "stack protector":
            assert "__stack_chk_fail" in readelf("--dyn-syms"), path
        elif what == "no RPATH":
            assert not re.search(r"\((RPATH|RUNPATH)\)", readelf("-d")), path
        else:
            stack = next(line for line in readelf("-l").splitlines() if "GNU_STACK" in line)
            assert "RWE" not in stack, path


def test_no_path_of_the_build_is_left(unpacked):
    for path in objects(unpacked):
        data = path.read_bytes()
        for place in (b"/tmp/tmp.", b"/sconce-0", os.fsencode(str(TREE))):
            assert place not in data, (path, place)


def test_apparmor_profiles_are_sound(unpacked):
    if not shutil.which("apparmor_parser"):
        pytest.skip("no apparmor_parser")
    heads = {row.name: "profile sconce-%s %s" % (row.name, row.binary) for row in SERVICES}
    heads["fetch"] = "profile sconce-fetch /usr/libexec/sconce/sconce-fetch"
    heads["pull"] = "profile sconce-pull "
    for name, head in heads.items():
        profile = unpacked / "etc/apparmor.d" / ("sconce-" + name)
        r = subprocess.run(["apparmor_parser", "-Q", "-K", str(profile)], capture_output=True,
                           text=True)
        assert r.returncode == 0, r.stderr
        assert head in profile.read_text()


def test_the_compiler_was_told_to_harden(debs):
    log = debs / "build.log"
    if not shutil.which("blhc") or not log.exists():
        pytest.skip("no blhc, or no build.log beside the packages")
    # test_hardening checks the linker options in the programs themselves.
    r = subprocess.run(["blhc", "--ignore-line", r".*\] \S+  -o .*", str(log)],
                       capture_output=True, text=True)
    assert r.returncode == 0, r.stdout


def test_lintian_has_nothing_to_say(debs):
    """Runs the lintian of Debian 12, because later versions have checks that these packages do not
    meet."""
    if not shutil.which("lintian") or suite() != "bookworm":
        pytest.skip("no lintian of Debian 12")
    changes = next(debs.glob("sconce_*.changes"))
    r = subprocess.run(["lintian", "-E", "-I", "--pedantic", "--no-cfg", str(changes)],
                       capture_output=True, text=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert r.stdout == "" and r.returncode == 0, r.stdout + r.stderr


def test_every_override_says_why():
    for path in pathlib.Path(TREE / "packaging/debian").rglob("*lintian-overrides"):
        reason = False
        for line in path.read_text().splitlines():
            assert line.startswith("#") or reason, (path.name, line)
            reason = True
