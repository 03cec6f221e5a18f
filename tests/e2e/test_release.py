# SPDX-License-Identifier: Apache-2.0
"""Tests the parts of packaging/release.sh: versions, installer, repository, list of libraries, and weaknesses.

tests/e2e/systemd/test_newcomer.py tests a whole release, as a part of `tests/run.sh full`.
"""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASE = ROOT / "packaging/release"
LIBRARY = b"the bytes of a library"


def run(*argv, **options):
    return subprocess.run(argv, capture_output=True, text=True, **options)


# The version

def versions(tree):
    return run(sys.executable, str(RELEASE / "version.py"), "check", cwd=tree)


@pytest.fixture
def copy(tmp_path):
    """Provides a copy of the files that have a version."""
    for name in ("meson.build", "packaging/debian/changelog", "packaging/rpm/sconce.spec.in",
                 "packaging/arch/PKGBUILD"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "docs/man", tmp_path / "docs/man")
    return tmp_path


def test_all_files_have_the_same_version():
    r = versions(ROOT)
    assert r.returncode == 0, r.stdout


@pytest.mark.parametrize("name, old, new", [
    ("meson.build", "version: '", "version: '9"),
    ("packaging/debian/changelog", "sconce (", "sconce (9"),
    ("packaging/rpm/sconce.spec.in", "Version:        ", "Version:        9"),
    ("packaging/rpm/sconce.spec.in", "Release:        ", "Release:        9"),
    ("packaging/arch/PKGBUILD", "pkgver=", "pkgver=9"),
    ("packaging/arch/PKGBUILD", "pkgrel=", "pkgrel=9"),
    ("docs/man/sconce.1", ' sconce "', ' "sconce 9.9" "'),
])
def test_another_version_is_found(copy, name, old, new):
    text = (copy / name).read_text()
    (copy / name).write_text(text.replace(old, new, 1))
    r = versions(copy)
    assert r.returncode == 1
    assert name in r.stdout or name == "meson.build" and "changelog" in r.stdout


def test_the_changelog_has_a_section_for_each_version():
    text = run(sys.executable, str(RELEASE / "version.py"), "changelog", cwd=ROOT).stdout
    changelog = (ROOT / "packaging/debian/changelog").read_text()
    assert text.startswith("# Changes\n\n## ")
    assert text.count("\n## ") == changelog.count("\nsconce (") + 1
    assert text.count("\n- ") == changelog.count("\n  * ")


# The arguments

@pytest.mark.parametrize("args, problem", [
    (["v1"], "exactly one of --key FILE"),
    (["--unsigned", "--key-id", "A", "v1"], "exactly one of --key FILE"),
    (["--key", "/nonexistent", "v1"], "the key /nonexistent cannot be read"),
    (["--unsigned", "--cve-list", "/nonexistent", "v1"], "the list of weaknesses /nonexistent"),
    (["--unsigned", "--debs", "/nonexistent", "v1"], "no directory /nonexistent"),
    (["--unsigned", "no-such-tag"], "there is no tag no-such-tag"),
    (["--unsigned", "v1", "v2"], "two tags"),
    (["--unsigned", "--out"], "--out needs an argument"),
    (["--unsigned"], "Usage:"),
    (["--colour", "v1"], "Usage:"),
])
def test_wrong_arguments_are_refused(args, problem):
    r = run("sh", str(ROOT / "packaging/release.sh"), *args)
    assert r.returncode != 0 and problem in r.stderr


# The whole script, with parts of the release that are made up

BUILD = """set -eu
umask 022
arch=$(dpkg --print-architecture)
[ "$1" != --arch ] || { arch=$2; shift 2; }
for name in libinfer0 sconce sconce-audio; do
    mkdir -p "$1/$name/DEBIAN"
    cat >"$1/$name/DEBIAN/control" <<END
Package: $name
Version: VERSION
Architecture: $arch
Maintainer: a <a@sconce.example>
Description: a test
END
    dpkg-deb --root-owner-group --build "$1/$name" "$1/${name}_VERSION_$arch.deb"
    rm -r "$1/$name"
done
"""
LIBRARIES = """import pathlib, sys
out = pathlib.Path(sys.argv[3])
(out / "own").mkdir(parents=True)
(out / "libraries.json").write_text("[]")
assert len(list(pathlib.Path(sys.argv[2]).glob(f"*_{sys.argv[1]}.deb"))) == 3
"""
CHANGELOGS = "import os, sys\nsys.exit(int(os.environ.get('STATUS', '0')))\n"
BUNDLE = "import sys\nopen(f'{sys.argv[3]}/{sys.argv[1]}.tar.gz', 'w')\n"


@pytest.fixture
def tagged(copy):
    """Provides a git repository with the scripts of a release and a tag. Its packages are empty."""
    shutil.copytree(ROOT / "packaging", copy / "packaging", dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("packagecache", "guide", "ears", "__pycache__"))
    changelog = (copy / "packaging/debian/changelog").read_text()
    full = changelog[changelog.index("(") + 1:changelog.index(")")]
    for name, text in (("build-deb.sh", BUILD.replace("VERSION", full)), ("release/libraries.py", LIBRARIES),
                       ("release/bundle.py", BUNDLE), ("release/changelogs.py", CHANGELOGS)):
        (copy / "packaging" / name).write_text(text)
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_DATE": "@1000000000 +0000",
           "GIT_COMMITTER_DATE": "@1000000000 +0000"}
    person = ["-c", "user.name=a", "-c", "user.email=a@sconce.example"]
    for args in (["init", "-q"], ["add", "-A"], [*person, "commit", "-qm", "a"],
                 ["tag", "v" + full.rpartition("-")[0]]):
        run("git", "-c", "safe.directory=*", *args, cwd=copy, env=env, check=True)
    return copy, full.rpartition("-")[0]


def sums(directory):
    r = run("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS", cwd=directory)
    assert r.returncode == 0, r.stdout + r.stderr
    return (directory / "SHA256SUMS").read_text()


needs_packages = pytest.mark.skipif(
    not all(map(shutil.which, ("git", "apt-ftparchive", "dpkg-deb", "patchelf", "readelf", "gpg", "xz"))),
    reason="needs the packages of RELEASE_PACKAGES")


@needs_packages
def test_a_release_from_a_tag_to_its_checksums(tagged, tmp_path):
    """The paths are relative to the directory in which the script is started."""
    tree, version = tagged
    place = tmp_path / "place"
    (place / "keys").mkdir(parents=True, mode=0o700)
    env = {**os.environ, "GNUPGHOME": str(place / "keys")}
    run("gpg", "--batch", "--passphrase", "", "--quick-gen-key", "test@sconce.example", "ed25519", env=env, check=True)
    with open(place / "secret", "wb") as key:
        subprocess.run(["gpg", "--batch", "--export-secret-keys"], env=env, stdout=key, check=True)
    release = ["sh", str(tree / "packaging/release.sh")]
    try:
        r = run(*release, "--key", "secret", "v" + version, cwd=place)
        assert r.returncode == 0, r.stdout + r.stderr
        out = place / f"release-{version}"
        names = {line.split()[1] for line in sums(out).splitlines()}
        assert {f"sconce-{version}.tar.xz", f"sconce-{version}-linux-amd64.tar.gz",
                f"sconce-{version}-linux-arm64.cdx.json", "CHANGELOG.md", "apt/sconce.gpg"} <= names
        assert sum(name.endswith(".deb") for name in names) == 6
        check = run("gpg", "--batch", "--verify", "SHA256SUMS.asc", "SHA256SUMS", cwd=out, env=env)
        assert check.returncode == 0, check.stderr
        # The same tag gives the same files, and the key may also be in a keyring. No directory is overwritten.
        r = run(*release, "--key-id", "test@sconce.example", "--out", "again", "v" + version, cwd=place,
                env={**env, "GNUPGHOME": "keys"})
        assert r.returncode == 0, r.stdout + r.stderr
        unsigned = [[line for line in sums(d).splitlines() if "Release" not in line.split("/")[-1] or
                     line.endswith("/Release")] for d in (out, place / "again")]
        assert unsigned[0] == unsigned[1]
        r = run(*release, "--unsigned", "--out", "again", "v" + version, cwd=place)
        assert r.returncode == 1 and "again is not empty" in r.stderr
        r = run(*release, "--unsigned", "--out", "weak", "v" + version, cwd=place, env={**os.environ, "STATUS": "1"})
        assert r.returncode == 1 and "the libraries lack fixes" in r.stderr
    finally:
        run("gpgconf", "--kill", "all", env=env)


@pytest.mark.full
@needs_packages
def test_releases_are_compared(tagged, tmp_path):
    tree, version = tagged
    check = ["sh", str(tree / "packaging/check-reproducible.sh")]
    # Two runs, in different directories.
    r = run(*check, "--release", "v" + version)
    assert r.returncode == 0, r.stdout + r.stderr
    whole = int(re.search(r"^(\d+) files, 0 differ; not compared: 0 files", r.stdout, re.M)[1])
    assert r.stdout.count(".deb\n") == 6 and r.stdout.count(".tar.gz\n") == 2 and r.stdout.count(".cdx.json\n") == 2
    outs = tmp_path / "all", tmp_path / "some"
    for out, options in zip(outs, ([], ["--arch", "arm64"])):
        r = run("sh", str(tree / "packaging/release.sh"), "--unsigned", *options, "--out", str(out), "v" + version)
        assert r.returncode == 0, r.stdout + r.stderr
    compare = [*check, "--compare", *map(str, outs)]
    r = run(*compare)
    # Only the first directory has the 7 files for amd64: packages, lists, a tarball and an SBOM. 3 other lists of the
    # repository are not compared either.
    assert r.returncode == 0, r.stdout + r.stderr
    assert f"\n{whole - 10} files, 0 differ; not compared: 7 files" in r.stdout
    assert len(sums(outs[0]).splitlines()) == whole
    (outs[1] / "CHANGELOG.md").write_text("another")
    r = run(*compare)
    assert r.returncode != 0 and "CHANGELOG.md: FAILED" in r.stdout + r.stderr
    text = "".join(run("sha256sum", line.split()[1], cwd=outs[1]).stdout for line in
                   (outs[1] / "SHA256SUMS").read_text().splitlines())
    (outs[1] / "SHA256SUMS").write_text(text)
    r = run(*compare)
    assert r.returncode != 0 and "the two releases differ" in r.stderr and "CHANGELOG.md" in r.stdout


# The installer of the tarball

@pytest.fixture
def unpacked(tmp_path):
    """Provides a directory like that of the tarball; its program is a script."""
    top = tmp_path / "sconce-1.0-linux-test"
    files = {"bin/sconce": "#!/bin/sh\necho sconce 1.0\n",
             "libexec/sconce/sconce-gateway": "", "lib/libinfer.so.0": "",
             "share/man/man1/sconce.1": "page", "share/bash-completion/completions/sconce": "words",
             "share/zsh/site-functions/_sconce": "words", "share/sconce/models/small.gguf": "model",
             "share/doc/sconce/needs": "Linux on a test machine.\n",
             "share/systemd/user/sconce-gateway.socket": "[Socket]\nListenStream=%t/sconce/gateway.sock\n",
             "share/systemd/user/sconce-gateway.service":
                 "[Service]\nExecStart=/usr/libexec/sconce/sconce-gateway --x\nProtectHome=tmpfs\n"}
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    (top / "bin/sconce").chmod(0o755)
    shutil.copy(RELEASE / "install.sh", top)
    return top


@pytest.fixture
def user(tmp_path):
    """Provides a function that runs an installer as a user with an empty home directory."""
    home = tmp_path / "people/new"
    home.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    systemctl = tmp_path / "bin/systemctl"
    systemctl.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/calls\n')
    systemctl.chmod(0o755)

    def install(top, *args):
        return run("sh", str(top / "install.sh"), *args,
                   env={"HOME": str(home), "PATH": f"{tmp_path}/bin:/usr/bin:/bin"})

    install.home = home
    install.calls = tmp_path / "calls"
    return install


def listing(home):
    return sorted(str(p.relative_to(home)) for p in home.rglob("*") if not p.is_dir() or p.is_symlink())


def test_the_installer_installs_for_one_user(unpacked, user):
    r = user(unpacked, "--user")
    assert r.returncode == 0, r.stderr
    app = user.home / ".local/lib/sconce"
    assert run(str(user.home / ".local/bin/sconce")).stdout == "sconce 1.0\n"
    units = user.home / ".local/share/systemd/user"
    service = (units / "sconce-gateway.service").read_text()
    assert f"ExecStart={app}/libexec/sconce/sconce-gateway --x\n" in service
    assert f"ProtectHome=tmpfs\nBindReadOnlyPaths={app}\n" in service
    assert "/usr/libexec" not in service
    assert (units / "sconce-gateway.socket").exists()
    assert (user.home / ".local/share/sconce/models/small.gguf").read_text() == "model"
    assert (user.home / ".local/share/man/man1/sconce.1").read_text() == "page"
    assert "--user daemon-reload" in user.calls.read_text()
    assert "/.local/bin is not in your PATH" in r.stdout


def test_the_installer_removes_what_it_installed(unpacked, user):
    before = listing(user.home)
    user(unpacked, "--user")
    r = user(user.home / ".local/lib/sconce", "--uninstall")
    assert r.returncode == 0, r.stderr
    assert "disable --now" in user.calls.read_text()
    certificates = [".config/sconce/sconce.yaml"] if "sconce.yaml" in str(listing(user.home)) else []
    assert listing(user.home) == before + certificates
    r = user(unpacked, "--uninstall")
    assert r.returncode == 1 and "is not installed" in r.stderr


def test_an_installed_copy_knows_its_prefix(unpacked, user):
    prefix = user.home / "opt"
    assert user(unpacked, "--user", "--prefix", str(prefix), "--no-systemd").returncode == 0
    assert run(str(prefix / "bin/sconce")).stdout == "sconce 1.0\n" and not user.calls.exists()
    r = user(prefix / "lib/sconce", "--uninstall", "--no-systemd")
    assert r.returncode == 0, r.stderr
    assert not prefix.joinpath("lib").exists() and not prefix.joinpath("bin").exists()


def test_another_version_replaces_the_installed_one(unpacked, user):
    user(unpacked, "--user")
    (unpacked / "bin/sconce").write_text("#!/bin/sh\necho sconce 2.0\n")
    (unpacked / "share/systemd/user/sconce-gateway.socket").unlink()
    (unpacked / "share/sconce/models/small.gguf").write_text("newer")
    r = user(unpacked, "--user")
    assert r.returncode == 0, r.stderr
    assert run(str(user.home / ".local/bin/sconce")).stdout == "sconce 2.0\n"
    assert not (user.home / ".local/share/systemd/user/sconce-gateway.socket").exists()
    assert (user.home / ".local/share/sconce/models/small.gguf").read_text() == "newer"
    assert not list(user.home.rglob("sconce.old")) and not list(user.home.rglob("sconce.new"))


def test_files_of_the_user_stay(unpacked, user):
    own = user.home / ".local/share/sconce/models/own.gguf"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    (user.home / ".local/bin").mkdir()
    (user.home / ".local/bin/sconce").write_text("another program")
    r = user(unpacked, "--user")
    assert "exists already and stays" in r.stderr
    (own.parent / "small.gguf").write_text("changed")
    user(unpacked, "--uninstall")
    assert own.read_text() == "mine" and (own.parent / "small.gguf").read_text() == "changed"
    assert (user.home / ".local/bin/sconce").read_text() == "another program"


def test_the_installer_says_why_it_cannot_install(unpacked, user):
    assert "say --user or --uninstall" in user(unpacked).stderr
    assert "no option --colour" in user(unpacked, "--colour").stderr
    r = user(unpacked, "--user", "--prefix", f"{user.home}/a b")
    assert r.returncode == 1 and "choose another --prefix" in r.stderr
    (user.home / ".local/lib/sconce").mkdir(parents=True)
    assert "is no installation of this script" in user(unpacked, "--user").stderr
    (unpacked / "bin/sconce").write_text("#!/bin/sh\necho cannot load >&2; exit 127\n")
    r = user(unpacked, "--user")
    assert "cannot load" in r.stderr and "They need Linux on a test machine." in r.stderr


# The list of libraries, and weaknesses

@pytest.fixture
def bill(tmp_path):
    """Provides a function that writes a bill of materials for libraries that are made up."""
    work = tmp_path / "work"
    rows = []
    for name, source, version, carried, linked in (
            ("libone1", "one", "1.0-1", True, ["sconce"]), ("libtwo2", "libone-two", "2:2.0+b1", True, []),
            ("libthree3", "three", "3.0", False, ["sconce-audio"])):
        file = {"path": f"{name}/usr/lib/x/{name}.so.1", "soname": f"{name}.so.1",
                "needed": ["libtwo2.so.1", "libc.so.6"] if name == "libone1" else []}
        path = work / "system" / file["path"]
        path.parent.mkdir(parents=True)
        path.write_bytes(LIBRARY)
        rows.append({"package": name, "version": version, "architecture": "amd64", "source": source,
                     "source_version": version.partition("+")[0], "files": [file] if carried else [],
                     "linked_by": linked})
    (work / "libraries.json").write_text(json.dumps(rows))
    (work / "own/usr/share/sconce/models").mkdir(parents=True)
    (work / "own/usr/share/sconce/models/small.gguf").write_bytes(b"model")

    def write(name="bill.json"):
        out = tmp_path / name
        r = run(sys.executable, str(RELEASE / "sbom.py"), "sconce-1.0-linux-amd64", "1.0", "bookworm", str(work),
                str(out), env={**os.environ, "SOURCE_DATE_EPOCH": "1000000000"})
        assert r.returncode == 0, r.stderr
        return out

    return write


def test_the_bill_of_materials_lists_the_libraries(bill):
    found = json.loads(bill().read_text())
    components = {c["name"]: c for c in found["components"]}
    assert set(components) == {"libone1", "libtwo2", "libthree3", "libh2o", "small"}
    assert components["libtwo2"]["purl"] == \
        "pkg:deb/debian/libtwo2@2%3A2.0%2Bb1?arch=amd64&distro=bookworm&upstream=libone-two%402%3A2.0"
    assert components["libone1"]["components"][0]["hashes"][0]["content"] == hashlib.sha256(LIBRARY).hexdigest()
    assert "components" not in components["libthree3"]
    needs = {d["ref"]: d["dependsOn"] for d in found["dependencies"]}
    assert needs[components["libone1"]["purl"]] == [components["libtwo2"]["purl"]]
    assert len(needs["pkg:generic/sconce@1.0"]) == 4
    assert bill().read_bytes() == bill("again.json").read_bytes()


def test_the_bill_of_materials_follows_its_schema(bill):
    validation = pytest.importorskip("cyclonedx.validation.json")
    schema = pytest.importorskip("cyclonedx.schema")
    check = validation.JsonStrictValidator(schema.SchemaVersion.V1_5)
    text = bill().read_text()
    assert check.validate_str(text) is None
    assert check.validate_str(text.replace('"type": "library"', '"type": "shelf"')) is not None


LIST = {
    "one": {
        "CVE-2024-0001": {"releases": {"bookworm": {"status": "open", "urgency": "high"}}},
        "CVE-2024-0002": {"releases": {"bookworm": {"status": "resolved", "fixed_version": "0.9"}}},
        "CVE-2024-0003": {"releases": {"bookworm": {"status": "open", "urgency": "unimportant"}}},
        "CVE-2024-0004": {"releases": {"trixie": {"status": "open", "urgency": "high"}}},
        "CVE-2024-0005": {"releases": {"bookworm": {"status": "resolved", "fixed_version": "0"}}}},
    "libone-two": {
        "CVE-2024-0006": {"releases": {"bookworm": {"status": "resolved", "fixed_version": "2:2.0-2",
                                                    "urgency": "medium"}}}},
    "unrelated": {"CVE-2024-0007": {"releases": {"bookworm": {"status": "open"}}}},
}


def weaknesses(tmp_path, bill, accepted="", known=LIST):
    (tmp_path / "list.json").write_text(known if isinstance(known, str) else json.dumps(known))
    (tmp_path / "accepted").write_text("# A comment\n" + accepted)
    return run(sys.executable, str(RELEASE / "weaknesses.py"), str(tmp_path / "list.json"),
               str(tmp_path / "accepted"), str(bill()))


@pytest.mark.skipif(not shutil.which("dpkg"), reason="no dpkg, which compares versions")
def test_known_weaknesses_are_found(tmp_path, bill):
    r = weaknesses(tmp_path, bill)
    assert r.returncode == 1
    assert "CVE-2024-0001 one 1.0-1: not fixed in bookworm, urgency high" in r.stdout
    assert "CVE-2024-0006 libone-two 2:2.0: fixed in 2:2.0-2, urgency medium" in r.stdout
    assert "4 source packages of libraries: 2 known weaknesses, 0 accepted, 1 unimportant" in r.stdout
    assert r.stdout.count("CVE-") == 2
    r = weaknesses(tmp_path, bill, "CVE-2024-0001 one not used\nCVE-2024-0006 libone-two not used either\n")
    assert r.returncode == 0 and "0 known weaknesses, 2 accepted" in r.stdout
    assert "accepted: CVE-2024-0001 one 1.0-1: not used" in r.stdout


def test_a_wrong_list_of_weaknesses_is_refused(tmp_path, bill):
    assert "cannot be read" in weaknesses(tmp_path, bill, known="{").stderr
    assert "is not a list of Debian's security tracker" in weaknesses(tmp_path, bill, known=[1]).stderr
    assert "accepted:2: a line has a CVE" in weaknesses(tmp_path, bill, "CVE-1 one\n").stderr


NEW = """one (1.0-2) bookworm-security; urgency=medium

  * CVE-2024-0011: a fix

 -- a <a@sconce.example>  Sun, 09 Sep 2001 01:46:40 +0000

one (1.0-1) unstable; urgency=medium

  * More about CVE-2023-0001 and CVE-2023-0002.

one (0.9-1) unstable; urgency=medium

  * Fixes CVE-2023-0001.
"""
NEWER = "one (2.0-1) unstable\n  * CVE-2023-0001 CVE-2024-0011 CVE-2024-0012\none (1.9-1) unstable\n  * CVE-2024-0012\n"


def changelog_module():
    sys.path.insert(0, str(RELEASE))
    import changelogs
    return changelogs


@pytest.mark.skipif(not shutil.which("dpkg"), reason="no dpkg, which compares versions")
def test_changelogs_tell_missing_fixes(capsys):
    module = changelog_module()
    assert module.first_fixes(NEW) == {"CVE-2024-0011": "1.0-2", "CVE-2023-0001": "0.9-1", "CVE-2023-0002": "1.0-1"}
    accepted = {("CVE-2024-0013", "two"): "not used"}
    newer = {"stable": {"one": NEWER}, "unstable": {"one": NEWER, "two": "two (5) x\n  * CVE-2024-0013\n"}}
    counts = module.report({("one", "1.0-1"), ("two", "1")}, {"one": NEW}, newer, accepted)
    assert counts == {"fixed": 2, "missing": 1, "unclear": 1, "accepted": 1}
    assert capsys.readouterr().out.splitlines() == [
        "  missing: CVE-2024-0011 one 1.0-1: fixed in 1.0-2",
        "  unclear: CVE-2024-0012 one 1.0-1: 1.9-1 in stable names it",
        "  accepted: CVE-2024-0013 two 1: not used"]
    assert module.report({("one", "1.0-2")}, {"one": NEW}, {}, {})["missing"] == 0


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="no dpkg-deb")
def test_the_end_of_security_support_is_found(tmp_path):
    module = changelog_module()
    files = {"DEBIAN/control": f"Package: {module.SUPPORT}\nVersion: 1\nArchitecture: all\n"
                               "Maintainer: a <a@sconce.example>\nDescription: a test\n",
             "usr/share/debian-security-support/security-support-ended.deb12":
                 "# ended\none 1.0-1 2026-01-01 too old\ntwo.* 0 2026-01-01 all of them\n",
             "usr/share/debian-security-support/security-support-limited": "three only as a client\n",
             "usr/share/doc/debian-security-support/changelog.Debian": NEW}
    for name, text in files.items():
        (tmp_path / "top" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "top" / name).write_text(text)
    run("gzip", str(tmp_path / "top/usr/share/doc/debian-security-support/changelog.Debian"), check=True)
    deb = tmp_path / "support.deb"
    run("dpkg-deb", "--root-owner-group", "--build", str(tmp_path / "top"), str(deb), check=True)
    assert module.read_changelog(deb) == NEW

    class Apt:
        options = ()

        def download(self, _wanted):
            return {module.SUPPORT: deb}

    module.packages = lambda _apt: {module.SUPPORT: [(1, module.SUPPORT, "1")]}
    try:
        found = list(module.support(Apt(), ["one", "two-and-more", "three", "four"], "12"))
    finally:
        del sys.modules["changelogs"]
    assert found == [("ended", "one", "1.0-1 2026-01-01 too old"),
                     ("ended", "two-and-more", "0 2026-01-01 all of them"), ("limited", "three", "only as a client")]


def test_accepted_weaknesses_have_a_reason_and_are_documented():
    sys.path.insert(0, str(RELEASE))
    import weaknesses as module
    text = (ROOT / "docs/building.md").read_text()
    for cve, source in module.read_accepted(RELEASE / "accepted"):
        assert source == "h2o" and cve.rpartition("-")[2] in text, cve


# The repository

@pytest.mark.skipif(not all(map(shutil.which, ("apt-ftparchive", "dpkg-deb", "gpg", "gpgv"))),
                    reason="needs apt-utils, dpkg and gnupg")
def test_the_repository_is_signed_and_has_the_packages(tmp_path):
    (tmp_path / "keys").mkdir(mode=0o700)
    env = {**os.environ, "GNUPGHOME": str(tmp_path / "keys"), "SIGN_KEY": "test@sconce.example",
           "SOURCE_DATE_EPOCH": "1000000000"}
    run("gpg", "--batch", "--passphrase", "", "--quick-gen-key", "test@sconce.example", "ed25519", env=env, check=True)
    try:
        make_repository(tmp_path, env)
    finally:
        run("gpgconf", "--kill", "all", env=env)


def make_repository(tmp_path, env):
    debs = []
    for arch in ("amd64", "all"):
        top = tmp_path / arch
        (top / "DEBIAN").mkdir(parents=True)
        (top / "DEBIAN/control").write_text(f"Package: sconce-{arch}\nVersion: 1\nArchitecture: {arch}\n"
                                            "Maintainer: a <a@sconce.example>\nDescription: a test\n")
        debs.append(str(tmp_path / f"sconce-{arch}_1_{arch}.deb"))
        run("dpkg-deb", "--build", str(top), debs[-1], check=True)
    for out in ("one", "two"):
        r = run("sh", str(RELEASE / "repository.sh"), str(tmp_path / out), "bookworm", *debs, env=env)
        assert r.returncode == 0, r.stderr
    dist = tmp_path / "one/dists/bookworm"
    check = run("gpgv", "--keyring", str(tmp_path / "one/sconce.gpg"), str(dist / "InRelease"))
    assert check.returncode == 0, check.stderr
    index = (dist / "main/binary-amd64/Packages").read_text()
    assert index.count("Package: ") == 2
    assert "Filename: pool/bookworm/main/s/sconce/sconce-amd64_1_amd64.deb" in index
    release = (dist / "Release").read_text()
    assert "Date: Sun, 09 Sep 2001 01:46:40 UTC" in release and "Architectures: amd64\n" in release
    assert hashlib.sha256(index.encode()).hexdigest() in release
    assert release == (tmp_path / "two/dists/bookworm/Release").read_text()
