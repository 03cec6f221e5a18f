# SPDX-License-Identifier: Apache-2.0
"""Installs a release in bare roots: from the signed repository as root, and from the tarball as a user without rights.

No systemd runs there. One root imitates a distribution that is not like Debian: it has a C library in /usr/lib64,
BusyBox, and nothing else.
"""
import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tarfile
import time
import urllib.request

import hub as hubs
import pytest
import roots
from conftest import Chroot

pytestmark = pytest.mark.full
USER = 1000
REPOSITORY = "people/first-GGUF"
QUESTION = "What is sconce?"
EMULATOR = "qemu-aarch64"


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    certificate = hubs.make_certificate(tmp_path_factory.mktemp("tls"))
    server = hubs.Hub(*certificate)
    server.certificate = certificate[0]
    server.put_repository(REPOSITORY, {
        "first-Q8_0.gguf": (roots.TREE / "packaging/guide/sconce-guide.gguf").read_bytes()})
    yield server
    server.close()


def own_architecture():
    return subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True).stdout.strip()


def tarball(release, arch):
    found = list(release.glob(f"sconce-*-linux-{arch}.tar.gz"))
    if not found:
        pytest.skip(f"the release has no tarball for {arch}")
    return found[0]


def test_the_lists_of_libraries_follow_their_schema(release):
    validation = pytest.importorskip("cyclonedx.validation.json")
    schema = pytest.importorskip("cyclonedx.schema")
    check = validation.JsonStrictValidator(schema.SchemaVersion.V1_5)
    bills = list(release.glob("*.cdx.json"))
    assert len(bills) == len(list(release.glob("sconce-*-linux-*.tar.gz"))) > 0
    for bill in bills:
        assert check.validate_str(bill.read_text()) is None
        components = {c["name"]: c for c in json.loads(bill.read_text())["components"]}
        assert {"libcurl4", "libsqlite3-0", "sconce-guide"} <= {name.removesuffix("t64") for name in components}
        # The list has the checksums of the libraries in the tarball.
        with tarfile.open(bill.parent / bill.name.replace(".cdx.json", ".tar.gz")) as tar:
            carried = {pathlib.Path(name).name for name in tar.getnames() if "/lib/lib" in name} - {"libinfer.so.0"}
        listed = {file["name"] for c in components.values() for file in c.get("components", ())}
        assert listed == carried


# From the signed repository

@pytest.fixture
def bare(release):
    """Provides a root with the essential packages alone, in which apt knows the repository of the release."""
    root = roots.Root(roots.make_base(include=()))
    path = root.path
    shutil.copytree(release / "apt", path / "srv/apt")
    shutil.copy("/etc/resolv.conf", path / "etc/resolv.conf")
    suite = next((release / "apt/dists").iterdir()).name
    (path / "etc/apt/sources.list.d/sconce.sources").write_text(
        f"Types: deb\nURIs: file:/srv/apt\nSuites: {suite}\nComponents: main\nSigned-By: /srv/apt/sconce.gpg\n")
    yield Chroot(root)
    root.free()


UPDATE = ("apt-get -q update -o Dir::Etc::sourcelist=sources.list.d/sconce.sources -o Dir::Etc::sourceparts=- "
          "-o APT::Get::List-Cleanup=0 -o APT::Update::Error-Mode=any")


def test_apt_installs_from_the_signed_repository(bare):
    assert "sconce" not in bare.run("dpkg-query -W")
    bare.run(UPDATE)
    out = bare.run("apt-get -q -y install --no-install-recommends sconce")
    assert "Setting up sconce " in out and "cannot be authenticated" not in out
    assert bare.run("sconce --version").startswith("sconce ")
    assert len(bare.run(f"sconce run sconce-guide '{QUESTION}'").split()) > 3
    assert bare.run("dpkg --verify sconce libinfer0") == ""
    bare.run("apt-get -q -y purge sconce libinfer0")
    assert "sconce" not in bare.run("dpkg-query -W")


def test_apt_refuses_a_changed_repository(bare):
    bare.run(UPDATE)
    dist = next(bare.file("srv/apt/dists").iterdir())
    for deb in bare.file("srv/apt").rglob("sconce_*.deb"):
        with open(deb, "r+b") as file:
            file.seek(-100, os.SEEK_END)
            file.write(b"changed")
    out = bare.run("apt-get -q -y install --no-install-recommends sconce", check=False)
    assert "Hash Sum mismatch" in out or "unexpected size" in out, out
    assert "sconce" not in bare.run("dpkg-query -W").split()
    text = (dist / "InRelease").read_text()
    (dist / "InRelease").write_text(text.replace("Label: sconce", "Label: Sconce"))
    for name in ("Release", "Release.gpg"):
        (dist / name).unlink()
    out = bare.run(UPDATE, check=False)
    assert "BADSIG" in out or "invalid signature" in out, out


def test_apt_refuses_a_repository_without_a_key(bare):
    bare.run("rm /srv/apt/dists/*/InRelease /srv/apt/dists/*/Release.gpg")
    assert "is not signed" in bare.run(UPDATE, check=False)


# From the tarball

def make_foreign(arch, suite, place):
    """Makes a root that has the C library and BusyBox of a Debian release, and no file that is typical of Debian."""
    source = place / "source"
    subprocess.run(["mmdebstrap", "--quiet", "--variant=extract", f"--architectures={arch}",
                    "--include=libc6,busybox-static", suite, str(source),
                    *os.environ.get("SCONCE_MIRROR", "").split()], check=True, capture_output=True)
    root = place / "root"
    for name in ("usr/bin", "usr/lib64", "etc", "proc", "dev", "tmp", "srv", "home"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib64"):
        (root / name).symlink_to("usr/" + name)
    (root / "lib").symlink_to("usr/lib64")
    (root / "tmp").chmod(0o1777)
    # Newer Debian releases have no files in /lib and /bin.
    for path in (*source.glob("lib/*-linux-gnu/*.so*"), *source.glob("usr/lib/*-linux-gnu/*.so*")):
        if not path.name.startswith("libgcc"):
            shutil.copy(path, root / "usr/lib64")
    for path in (source / "bin/busybox", source / "usr/bin/busybox"):
        if path.exists():
            shutil.copy(path, root / "usr/bin")
    for name, minor in (("null", 3), ("zero", 5), ("urandom", 9)):
        os.mknod(root / "dev" / name, 0o20666, os.makedev(1, minor))
        (root / "dev" / name).chmod(0o666)
    (root / "etc/os-release").write_text("ID=foreign\nPRETTY_NAME='A distribution of this test'\n")
    (root / "etc/passwd").write_text(f"root:x:0:0::/root:/bin/sh\nada:x:{USER}:{USER}::/home/{USER}:/bin/sh\n")
    (root / "etc/group").write_text(f"root:x:0:\nada:x:{USER}:\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    # The loader of this C library searches the directories of Debian, unless this file names another one.
    (root / "etc/ld.so.conf").write_text("/usr/lib64\n")
    subprocess.run(["ldconfig", "-r", str(root)], check=True)
    shutil.rmtree(source)
    return root


class Plain:
    """Represents a root in a plain directory, as Chroot expects it."""

    def __init__(self, path):
        self.path = path


@pytest.fixture(params=["bookworm", "trixie"])
def foreign(request, tmp_path):
    path = make_foreign(own_architecture(), request.param, tmp_path)
    subprocess.run(["chroot", str(path), "/bin/busybox", "--install", "-s", "/usr/bin"], check=True)
    yield Chroot(Plain(path), USER)


@pytest.fixture
def debian():
    root = roots.Root(roots.make_base(include=()))
    yield Chroot(root, USER)
    root.free()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def serving(person):
    """Runs `sconce serve` as the user; provides the port."""
    port = free_port()
    process = person.popen(f"exec ~/.local/bin/sconce serve --port {port}")
    try:
        end = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < end, process.communicate()[0]
                time.sleep(0.05)
        yield port
    finally:
        process.kill()
        process.wait()


def ask(port):
    body = {"model": "first", "max_tokens": 20, "messages": [{"role": "user", "content": QUESTION}]}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as r:
        return json.load(r)["choices"][0]["message"]["content"]


def trust(person, hub, name):
    """Makes the certificate of the hub the only one that the root trusts."""
    person.file(name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(hub.certificate, person.file(name))


def install_and_use(person, release, hub):
    """Installs the tarball as the user, pulls a model, asks it at the terminal and through the API, and removes all."""
    file = tarball(release, own_architecture())
    shutil.copy(file, person.file("srv"))
    top = file.name.removesuffix(".tar.gz")
    out = person.run(f"cd && tar -xzf /srv/{file.name} && sh {top}/install.sh --user && rm -r {top}")
    assert "Installed sconce " in out
    config = person.file(f"home/{USER}/.config/sconce/sconce.d")
    config.mkdir(parents=True)
    (config / "hub.yaml").write_text(f"pull:\n  mirror: {hub.url}\n")
    person.run(f"~/.local/bin/sconce pull --name first {REPOSITORY}")
    assert person.run(f"~/.local/bin/sconce run first '{QUESTION}'").strip()
    with serving(person) as port:
        assert ask(port)
    person.run("sh ~/.local/lib/sconce/install.sh --uninstall")
    left = person.run("find ~/.local ~/.config -type f -o -type l").split()
    assert all("/sconce/" in path for path in left), left
    assert not person.file(f"home/{USER}/.local/bin/sconce").exists()


def test_a_user_without_rights_installs_the_tarball(debian, release, hub):
    trust(debian, hub, "etc/ssl/certs/ca-certificates.crt")
    install_and_use(debian, release, hub)


def test_a_distribution_that_is_not_like_debian(foreign, release, hub):
    """The installer finds the certificates of authorities where other distributions have them."""
    trust(foreign, hub, "etc/pki/tls/certs/ca-bundle.crt")
    install_and_use(foreign, release, hub)


def test_the_programs_for_arm64_find_their_libraries(release, tmp_path):
    """Runs them in an emulator, which cannot run services: it cannot set filters of system calls."""
    file = tarball(release, "arm64")
    if not shutil.which(EMULATOR):
        pytest.skip(f"{EMULATOR} is not installed (the package qemu-user)")
    root = make_foreign("arm64", roots.own_suite(), tmp_path)
    subprocess.run(["tar", "-xf", str(file), "-C", str(tmp_path)], check=True)
    top = tmp_path / file.name.removesuffix(".tar.gz")
    emulator = [EMULATOR, "-cpu", "max,pauth-impdef=on", "-L", str(root), "-E", "LD_LIBRARY_PATH=/usr/lib64",
                "-E", "LD_BIND_NOW=1"]
    loader = root / "usr/lib64/ld-linux-aarch64.so.1"
    programs = [path for path in (*top.glob("bin/*"), *top.glob("libexec/sconce/*"))
                if path.read_bytes()[:4] == b"\x7fELF"]
    assert len(programs) > 5
    for path in (*programs, *top.glob("lib/*.so*")):
        out = subprocess.run([*emulator, str(loader), "--list", str(path)], capture_output=True, text=True,
                             check=True).stdout
        assert "not found" not in out and "undefined" not in out, (path, out)
        for line in out.splitlines():
            where = line.partition(" => ")[2].partition(" ")[0]
            # The emulator shows paths of the root as the programs see them.
            in_root = where.startswith("/usr/lib64/") and (root / where[1:]).exists()
            assert not where or in_root or pathlib.Path(where).resolve().is_relative_to(tmp_path), line
    sconce = [*emulator, str(top / "bin/sconce")]
    version = subprocess.run([*sconce, "--version"], capture_output=True, text=True, check=True).stdout
    assert version.startswith("sconce ")
    text = tmp_path / "text"
    text.write_text("sconce is local AI for Linux. " * 8)
    r = subprocess.run([*sconce, "ppl", "-c", "32", str(top / "share/sconce/models/sconce-guide.gguf"), str(text)],
                       capture_output=True, text=True, check=False)
    assert r.returncode == 0, r.stdout + r.stderr
