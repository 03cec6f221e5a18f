# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the package tests, in addition to those of machines (booted containers):

files      what each package installs: {package: {path: Entry}}
unpacked   a directory with all packages unpacked over each other
chroot     a root without a running systemd, in which only the packages are missing
later      the packages as a later version, with a different default configuration
single     the packages as before the split, with the audio service in the package sconce
"""
import dataclasses
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

SYSTEMD = pathlib.Path(__file__).resolve().parents[1] / "systemd"
spec = importlib.util.spec_from_file_location("machine_fixtures", SYSTEMD / "conftest.py")
machine_fixtures = importlib.util.module_from_spec(spec)
sys.modules["machine_fixtures"] = machine_fixtures
spec.loader.exec_module(machine_fixtures)

import packages  # noqa: E402
import roots  # noqa: E402
from machine_fixtures import base, make_machine, possible, ready, release  # noqa: E402,F401

NAMES = ("sconce", "sconce-audio", "libinfer0", "libinfer-dev", "sconce-doc")
LATER = "99.0-1"
SINGLE = "0.1.0-1"


@pytest.fixture(scope="session")
def debs():
    if not shutil.which("dpkg-deb"):
        pytest.skip("no dpkg-deb: these are tests of Debian packages")
    return packages.built()


@dataclasses.dataclass(frozen=True)
class Entry:
    mode: str  # in the notation of ls
    owner: str
    target: str  # of a symbolic link


def read_entries(deb):
    out = subprocess.run(["dpkg-deb", "-c", str(deb)], check=True, capture_output=True,
                         text=True).stdout
    entries = {}
    for line in out.splitlines():
        mode, owner, _, _, _, name = line.split(None, 5)
        name, _, target = name.partition(" -> ")
        entries[name[1:].rstrip("/") or "/"] = Entry(mode, owner, target)
    return entries


def find(debs, name):
    return next(iter(sorted(debs.glob(name + "_*.deb"))))


@pytest.fixture(scope="session")
def files(debs):
    return {name: read_entries(find(debs, name)) for name in NAMES}


@pytest.fixture(scope="session")
def unpacked(debs, tmp_path_factory):
    root = tmp_path_factory.mktemp("unpacked")
    for name in NAMES:
        subprocess.run(["dpkg-deb", "-x", str(find(debs, name)), str(root)], check=True)
    return root


@pytest.fixture(scope="session")
def controls(debs, tmp_path_factory):
    """Provides the control files of each package."""
    path = tmp_path_factory.mktemp("control")
    for name in NAMES:
        subprocess.run(["dpkg-deb", "-e", str(find(debs, name)), str(path / name)], check=True)
    return {name: path / name for name in NAMES}


@pytest.fixture(scope="session")
def control(controls):
    return controls["sconce"]


def pack(tree, deb):
    subprocess.run(["dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "-b", str(tree), str(deb)],
                   check=True, stdout=subprocess.DEVNULL)
    return deb


@pytest.fixture(scope="session")
def later(debs, tmp_path_factory):
    work = tmp_path_factory.mktemp("later")
    made = []
    for deb in packages.runtime(debs):
        tree = work / deb.name.partition("_")[0]
        subprocess.run(["dpkg-deb", "-R", str(deb), str(tree)], check=True)
        file = tree / "DEBIAN/control"
        text = re.sub(r"(?m)^Version: .*", "Version: " + LATER, file.read_text())
        file.write_text(re.sub(r"sconce \(= [^)]*\)", "sconce (= %s)" % LATER, text))
        config = tree / "etc/sconce/sconce.yaml"
        if config.exists():
            config.write_text(config.read_text() + "# Of a later version.\n")
        made.append(pack(tree, work / ("%s_%s_%s" % (tree.name, LATER, deb.name.rpartition("_")[2]))))
    return made


def field(text, name):
    found = re.search("(?m)^%s: (.*)$" % name, text)
    return found.group(1) if found else ""


@pytest.fixture(scope="session")
def single(debs, tmp_path_factory):
    tree = tmp_path_factory.mktemp("single") / "sconce"
    audio = tree.with_name("audio")
    subprocess.run(["dpkg-deb", "-R", str(find(debs, "sconce")), str(tree)], check=True)
    subprocess.run(["dpkg-deb", "-R", str(find(debs, "sconce-audio")), str(audio)], check=True)
    control = tree / "DEBIAN/control"
    text, theirs = control.read_text(), (audio / "DEBIAN/control").read_text()
    depends = [d for d in field(theirs, "Depends").split(", ") if not d.startswith("sconce ")]
    text = re.sub(r"(?m)^Version: .*", "Version: " + SINGLE, text)
    control.write_text(re.sub(r"(?m)^Depends: (.*)", r"Depends: \1, " + ", ".join(depends), text))
    conffiles = tree / "DEBIAN/conffiles"
    conffiles.write_text(conffiles.read_text() + (audio / "DEBIAN/conffiles").read_text())
    file = tree / "DEBIAN/postinst"
    file.write_text(file.read_text().replace(
        "\nexit 0\n", "\ndeb-systemd-helper enable sconce-audio.socket >/dev/null\nexit 0\n"))
    shutil.rmtree(audio / "DEBIAN")
    shutil.copytree(audio, tree, dirs_exist_ok=True, symlinks=True)
    return [find(debs, "libinfer0"), pack(tree, tree.with_name("sconce_%s_all.deb" % SINGLE))]


class Chroot:
    """Runs commands in a root in which no systemd runs. They run as root, or with the number of a
    user, whose home directory is /home/NUMBER. Mounts are seen by the commands alone."""

    def __init__(self, root, user=0):
        self.path = root.path
        self.user = user
        self.env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
        if user:
            home = "/home/%d" % user
            self.env.update(HOME=home, XDG_RUNTIME_DIR=home + "/run")
            self.file(home + "/run").mkdir(parents=True, exist_ok=True)
            for place in (home, home + "/run"):
                os.chown(self.file(place), user, user)

    def popen(self, command, env=(), **options):
        return subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
             'mount -t proc proc "$1/proc" && exec chroot --userspec="$3:$3" "$1" sh -c "$2"', "sh", str(self.path),
             command, str(self.user)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, env={**self.env, **dict(env)}, **options)

    def run(self, command, check=True, **env):
        r = self.popen(command, {"DEBIAN_FRONTEND": "noninteractive", **env})
        out = r.communicate()[0]
        if check and r.returncode:
            raise AssertionError("%s: status %d\n%s" % (command, r.returncode, out[-3000:]))
        return out

    def install(self, debs, *options):
        for deb in debs:
            shutil.copy(deb, self.path / "root")
        return self.run("cd /root && apt-get -y --no-install-recommends "
                        "-o Dpkg::Options::=--force-unsafe-io %s install %s" % (
            " ".join(options), " ".join("./" + deb.name for deb in debs)))

    def file(self, name):
        return self.path / name.lstrip("/")

    def snapshot(self):
        """Returns the paths with sconce in their name, except logs and the files of apt and
        dpkg."""
        out = self.run("find / -xdev ( -path /proc -o -path /root -o -path /var/log "
                       "-o -path /var/cache/apt -o -path /tmp ) -prune -o -print"
                       .replace("(", "\\(").replace(")", "\\)"))
        return {line for line in out.splitlines()
                if re.search("sconce|libinfer", line, re.IGNORECASE)}


@pytest.fixture
def chroot(ready):  # noqa: F811
    root = roots.Root(ready)
    yield Chroot(root)
    root.free()


@pytest.fixture(scope="session")
def installed_base(base, debs):  # noqa: F811
    """Provides a base in which the packages and their dependencies are installed."""
    root = roots.Root(base)
    layer = root.place.with_name(root.name + "-installed")
    try:
        Chroot(root).install(packages.runtime(debs))
        root.keep(layer)
    finally:
        root.free()
    yield (layer, *base)
    shutil.rmtree(layer)


@pytest.fixture
def installed_chroot(installed_base):
    root = roots.Root(installed_base)
    yield Chroot(root)
    root.free()
