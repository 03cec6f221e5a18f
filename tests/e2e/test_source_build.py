# SPDX-License-Identifier: Apache-2.0
"""Tests `meson setup` on systems without the optional dependencies, and the messages of the scripts
that install packages. These tests compile nothing."""

import os
import pathlib
import shutil
import subprocess

import pytest

TREE = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def setup(tmp_path):
    """Runs meson setup with a pkg-config that finds neither cmocka nor systemd, as on a minimal
    Debian 12 or 13."""
    if not shutil.which("meson") or not shutil.which("pkg-config"):
        pytest.skip("no meson")
    wrapper = tmp_path / "pkg-config"
    wrapper.write_text("#!/bin/sh\nfor word; do case $word in cmocka | systemd) exit 1 ;; esac; done\n"
                       "exec %s \"$@\"\n" % shutil.which("pkg-config"))
    wrapper.chmod(0o755)

    def run(*options):
        shutil.rmtree(tmp_path / "build", ignore_errors=True)
        return subprocess.run(["meson", "setup", str(tmp_path / "build"), str(TREE), "-Dvulkan=disabled",
                               *options], capture_output=True, text=True,
                              env={**os.environ, "PKG_CONFIG": str(wrapper), "CC": "cc"})
    return run


def test_tests_are_left_out_and_units_are_not(setup, tmp_path):
    out = setup("--prefix=/usr", "--libdir=lib64")
    assert out.returncode == 0, out.stdout + out.stderr
    plan = subprocess.run(["meson", "introspect", "--installed", str(tmp_path / "build")],
                          capture_output=True, text=True, check=True).stdout
    assert "/usr/lib/systemd/system/sconce-chat.service" in plan
    assert "/usr/lib/systemd/user/sconce-chat.service" in plan
    if subprocess.run(["cc", "-print-multiarch"], capture_output=True).stdout.strip():
        assert "does not search /usr/lib64" in out.stdout


def test_a_prefix_where_systemd_finds_no_units_is_refused(setup):
    out = setup("--prefix=/opt/sconce")
    assert out.returncode != 0
    assert "-Dsystemunitdir=DIR" in out.stdout and "-Duserunitdir=DIR" in out.stdout


@pytest.fixture
def debian(tmp_path):
    """Runs shell code with packages.sh and a fake apt-get that installs nothing."""
    (tmp_path / "dpkg-query").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "id").write_text("#!/bin/sh\necho 0\n")
    (tmp_path / "apt-get").write_text(r"""#!/bin/sh
case $* in
*update*) exit 0 ;;
*--assume-no*)
    printf '%s\n' 'Reading package lists...' 'Need to get 147 MB of archives.' 'Abort.'
    exit 1
    ;;
*APT::Status-Fd=3*) ;;
*) exit 1 ;;
esac
printf '%s\n' 'dlstatus:1:0.5:Retrieving file 1 of 2' 'pmstatus:gcc:50.0:Unpacking gcc (amd64)' \
    'pmstatus:libc6:amd64:70.1:Unpacking libc6:amd64' 'pmerror:x:80:a b' \
    'pmstatus:meson:95.5:Configuring meson (all)' >&3
# Scripts of packages do not have the descriptor of the progress, but have a standard output.
sh -c 'echo "a script of a package"' 3>&- || exit 100
case $* in
*strike*)
    echo 'E: dpkg is on strike' >&2
    exit 100
    ;;
esac
""")
    for name in ("dpkg-query", "id", "apt-get"):
        (tmp_path / name).chmod(0o755)

    def run(code):
        return subprocess.run(["sh", "-uc", ". packaging/packages.sh; " + code], cwd=TREE,
                              capture_output=True, text=True,
                              env={**os.environ, "PATH": "%s:%s" % (tmp_path, os.environ["PATH"])})
    return run


def test_packages_are_named_while_they_are_installed(debian):
    out = debian("install_packages gcc meson")
    assert out.returncode == 0 and out.stderr == ""
    assert "  gcc meson" in out.stdout and "147 MB" in out.stdout
    assert "50 % Unpacking gcc" in out.stdout and "70 % Unpacking libc6:amd64\n" in out.stdout
    assert "95 % Configuring meson" in out.stdout
    assert "script" not in out.stdout and "a b" not in out.stdout


def test_what_apt_says_is_shown_when_it_fails(debian):
    out = debian("install_packages strike")
    assert out.returncode == 1
    assert "E: dpkg is on strike" in out.stderr and "could not install: strike" in out.stderr
