# SPDX-License-Identifier: Apache-2.0
"""Tests packages from installation to purge, in a root without a running systemd.
test_package_upgrade.py tests them under a running systemd."""
import stat

import pytest

import packages
from conftest import LATER, find
from services import SERVICES

TCP_LINK = "/etc/systemd/system/sconce.target.wants/sconce-gateway-tcp.socket"
OLLAMA = "sconce-gateway-ollama.socket"
KEYS = "/etc/sconce/api-keys"
CONFIG = "/etc/sconce/sconce.yaml"


def enabled(chroot, unit):
    return chroot.run("systemctl is-enabled " + unit, check=False).strip()


def test_installation_opens_the_default_endpoints(installed_chroot):
    root = installed_chroot
    assert enabled(root, "sconce.target") == "enabled"
    for row in SERVICES:
        for unit in row.socket_units:
            assert enabled(root, unit) == ("disabled" if unit == OLLAMA else "enabled")
        assert enabled(root, row.unit) == "static"
    assert root.run("systemctl --global is-enabled sconce.target", check=False).strip() != "enabled"
    keys = root.file(KEYS)
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    assert len([line for line in keys.read_text().splitlines()
                if line and not line.startswith("#")]) == 1
    for group in ("sconce", "sconce-services", "sconce-kv", "sconce-kept", "sconce-store"):
        assert root.run("getent group " + group).startswith(group + ":")
    store = root.file("/var/lib/sconce/models").stat()
    assert (stat.S_IMODE(store.st_mode), store.st_uid) == (0o755, int(root.run("id -u sconce-store")))


def test_installation_says_what_to_type_and_does_not_show_the_key(chroot, debs):
    out = chroot.install(packages.runtime(debs))
    line = next(line for line in out.splitlines() if line.startswith("sconce is installed"))
    assert chroot.run(line.partition(": ")[2]).strip()
    for line in chroot.file(KEYS).read_text().splitlines():
        if line and not line.startswith("#"):
            assert line.split()[0] not in out


def test_the_command_works_without_systemd(installed_chroot):
    root = installed_chroot
    assert LATER not in root.run("sconce --version")
    assert "sconce-guide" in root.run("sconce list")
    answer = root.run("sconce run sconce-guide 'What is sconce?'")
    assert len(answer.split()) > 3
    assert root.run("man -w sconce 2>/dev/null || ls /usr/share/man/man1/sconce.1.gz")


@pytest.mark.parametrize("access,tcp,text", [
    ("keys", "enabled", "tcp_access: key"), ("open", "enabled", "tcp_access: open"),
    ("group", "disabled", None)])
def test_the_answer_is_obeyed(chroot, debs, access, tcp, text):
    chroot.run("echo sconce sconce/access select %s | debconf-set-selections" % access)
    chroot.install(packages.runtime(debs))
    assert enabled(chroot, "sconce-gateway-tcp.socket") == tcp
    file = chroot.file("/etc/sconce/sconce.d/50-access.yaml")
    if text:
        assert text in file.read_text()
    else:
        assert not file.exists() or "open" not in file.read_text()


def test_reconfiguring_starts_from_what_is_there(installed_chroot):
    root = installed_chroot
    root.run("sconce setup access open")
    root.run("dpkg-reconfigure sconce")
    assert "open" in root.file("/etc/sconce/sconce.d/50-access.yaml").read_text()
    assert "open" in root.run("debconf-show sconce")
    root.run("sconce setup access group")
    root.run("dpkg-reconfigure sconce")
    assert enabled(root, "sconce-gateway-tcp.socket") == "disabled"


def test_an_upgrade_keeps_what_is_configured(installed_chroot, later):
    root = installed_chroot
    root.run("sconce setup access group; sconce setup key laptop")
    keys = root.file(KEYS).read_text()
    root.file("/etc/sconce/sconce.d/90-own.yaml").write_text("chat:\n  threads: 1\n")
    root.file("/var/lib/sconce/models/own.gguf").write_text("a model")
    root.install(later)
    assert LATER in root.run("dpkg-query -W sconce libinfer0")
    # A default that the administrator did not change is replaced by the new version's.
    assert "later version" in root.file(CONFIG).read_text()
    assert root.file(KEYS).read_text() == keys
    assert enabled(root, "sconce-gateway-tcp.socket") == "disabled"
    assert root.file("/etc/sconce/sconce.d/90-own.yaml").exists()
    assert root.file("/var/lib/sconce/models/own.gguf").read_text() == "a model"


def test_an_upgrade_keeps_a_changed_configuration_file(installed_chroot, later):
    root = installed_chroot
    own = root.file(CONFIG).read_text() + "chat:\n  threads: 1\n"
    root.file(CONFIG).write_text(own)
    root.install(later, "-o Dpkg::Options::=--force-confold")
    assert root.file(CONFIG).read_text() == own
    assert "later version" in root.file(CONFIG + ".dpkg-dist").read_text()


def test_an_upgrade_enables_nothing_that_was_disabled(installed_chroot, later):
    root = installed_chroot
    root.run("systemctl disable sconce.target sconce-gateway-tcp.socket")
    root.install(later)
    assert enabled(root, "sconce.target") == "disabled"
    assert enabled(root, "sconce-gateway-tcp.socket") == "disabled"


def owners(root, path):
    return root.run("dpkg-query -S %s" % path).partition(":")[0]


def test_the_audio_service_moves_to_a_package_of_its_own(chroot, single, debs):
    chroot.install(single)
    assert enabled(chroot, "sconce-audio.socket") == "enabled"
    profile = "/etc/apparmor.d/sconce-audio"
    chroot.file(profile).write_text(chroot.file(profile).read_text() + "# Mine.\n")
    chroot.install(packages.runtime(debs), "-o Dpkg::Options::=--force-confold")
    for path in ("/usr/libexec/sconce/sconce-audio", "/usr/lib/systemd/user/sconce-audio.socket",
                 "/usr/share/man/man8/sconce-audio.8.gz"):
        assert chroot.file(path).exists() and owners(chroot, path) == "sconce-audio"
    assert chroot.file(profile).read_text().endswith("# Mine.\n")
    assert enabled(chroot, "sconce-audio.socket") == "enabled"
    chroot.run("apt-get -y remove sconce-audio")
    assert chroot.file("/usr/libexec/sconce/sconce-chat").exists()


def test_the_audio_service_can_be_left_out(chroot, single, debs):
    chroot.install(single)
    chroot.install([find(debs, "libinfer0"), find(debs, "sconce")])
    assert not chroot.file("/usr/libexec/sconce/sconce-audio").exists()
    assert not chroot.file("/etc/systemd/system/sconce.target.wants/sconce-audio.socket").is_symlink()
    assert "it is in the package sconce-audio" in chroot.run("sconce doctor", check=False)
    said = chroot.run("sconce run sconce-guide 'What is sconce?'")
    assert len(said.split()) > 3
    chroot.install([find(debs, "sconce-audio")])
    assert enabled(chroot, "sconce-audio.socket") == "enabled"


def test_removal_keeps_configuration_and_another_installation_finds_it(installed_chroot, debs):
    root = installed_chroot
    root.run("sconce setup access open")
    keys = root.file(KEYS).read_text() if root.file(KEYS).exists() else None
    root.run("apt-get -y remove sconce")
    left = root.snapshot()
    assert CONFIG in left and not any(path.startswith(("/usr/bin", "/usr/libexec", "/usr/share",
                                                       "/usr/lib")) for path in left
                                      if "libinfer" not in path)
    root.install(packages.runtime(debs))
    assert "open" in root.file("/etc/sconce/sconce.d/50-access.yaml").read_text()
    if keys:
        assert root.file(KEYS).read_text() == keys


def test_purge_leaves_nothing(chroot, debs):
    before = chroot.snapshot()
    chroot.install(packages.runtime(debs))
    chroot.run("sconce setup tcp --port 7300; sconce setup access open; sconce setup key one;"
               "sconce setup models /srv; mkdir -p /dev/dri; sconce setup gpu || true",
               check=False)
    out = chroot.run("apt-get -y purge sconce sconce-audio libinfer0")
    assert "models" not in out
    assert chroot.snapshot() == before
    for group in ("sconce", "sconce-services", "sconce-kv", "sconce-kept", "sconce-store"):
        assert chroot.run("getent group " + group, check=False) == ""
    assert chroot.run("getent passwd sconce-store", check=False) == ""


def test_purge_keeps_models_and_says_so(installed_chroot):
    root = installed_chroot
    root.file("/var/lib/sconce/models/own.gguf").write_text("a model")
    out = root.run("apt-get -y purge sconce sconce-audio libinfer0")
    assert "models in /var/lib/sconce are kept" in out
    assert root.snapshot() == {"/var/lib/sconce", "/var/lib/sconce/models",
                               "/var/lib/sconce/models/own.gguf"}


def test_purge_leaves_what_the_administrator_wrote(installed_chroot):
    root = installed_chroot
    own = "/etc/systemd/system/sconce-chat.service.d/override.conf"
    root.file(own).parent.mkdir(parents=True, exist_ok=True)
    root.file(own).write_text("[Service]\nNice=5\n")
    root.run("apt-get -y purge sconce sconce-audio libinfer0")
    assert root.file(own).exists()
