# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests under a real systemd.

installed     (session) a machine in which the packages were installed while it ran; .output is the
              output of apt. Tests may change its configuration if they restore it.
machine       the machine of `installed`, with no sconce service running when the test begins.
release       the directory of a release that packaging/release.sh made
make_machine  makes more machines, with or without the packages, and removes them after the test.
"""
import os
import pathlib
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
import packages  # noqa: E402
import releases  # noqa: E402
import roots  # noqa: E402
from nspawn import Machine  # noqa: E402
from possible import missing  # noqa: E402
from services import SERVICES  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def possible():
    reason = missing()
    if reason:
        pytest.skip("machines: " + reason)


@pytest.fixture(scope="session")
def debs():
    """Provides the directory of the packages; None when a build directory is installed instead."""
    if os.environ.get("SCONCE_BUILD_USR"):
        return None
    return packages.built()


@pytest.fixture(scope="session")
def release(debs):
    """Provides the directory of a release of the last commit."""
    if not debs:
        pytest.skip("no packages: a build directory stands in for them")
    return releases.made(debs)


@pytest.fixture(scope="session")
def base(debs):
    """Provides a root without the packages; their dependencies are in apt's cache."""
    return packages.layers(roots.make_base(), debs)


@pytest.fixture(scope="session")
def ready(base, debs):
    """Provides a root in which the dependencies of the packages are installed."""
    return packages.ready(base) if debs else base


class Installed:
    def __init__(self, machine, output):
        self.machine = machine
        self.output = output


def install(machine, debs):
    """Installs the packages in a running machine, and returns the output of apt."""
    if debs is None:
        packages.install_build(machine, os.environ["SCONCE_BUILD_USR"])
        return ""
    for deb in packages.runtime(debs):
        machine.write("/root/" + deb.name, deb.read_bytes())
    names = ["./" + deb.name for deb in packages.runtime(debs)]
    r = machine.run("cd /root && apt-get -y --no-install-recommends install %s </dev/null 2>&1" %
                    " ".join(names), env={"DEBIAN_FRONTEND": "noninteractive"}, timeout=300)
    return r.stdout


@pytest.fixture(scope="session")
def installed(ready, debs):
    with Machine(roots.Root(ready)) as machine:
        machine.boot()
        yield Installed(machine, install(machine, debs))


def settle(machine):
    """Stops all services and resets failed units, so that a test starts from a clean state."""
    units = [row.unit for row in SERVICES]
    for user in (None, *machine.lingering):
        machine.systemctl("stop", *units, user=user, check=False)
    machine.systemctl("reset-failed", check=False)
    machine.systemctl("start", "sconce.target")


@pytest.fixture
def machine(installed):
    settle(installed.machine)
    return installed.machine


@pytest.fixture(scope="module")
def own_machine(ready, debs):
    """Provides a machine for one file of tests, which may change anything in it."""
    with Machine(roots.Root(ready)) as machine:
        machine.boot()
        install(machine, debs)
        yield machine


@pytest.fixture
def make_machine(base, ready, debs):
    machines = []

    def make(packages=True):
        machines.append(Machine(roots.Root(ready if packages else base)))
        machines[-1].boot()
        if packages:
            install(machines[-1], debs)
        return machines[-1]

    yield make
    for machine in machines:
        machine.stop()


@pytest.fixture
def configure(machine):
    """Provides configure(YAML), which writes a file to /etc/sconce/sconce.d, and stops the services
    so that the next request reads it. "" removes the file, as the end of the test does."""
    name = "/etc/sconce/sconce.d/90-test.yaml"

    def put(text, restart=True):
        if text:
            machine.write(name, text)
        else:
            machine.remove(name)
        if restart:
            for row in SERVICES:
                machine.systemctl("stop", row.unit)

    yield put
    put("")


class DropIn:
    def __init__(self, machine, unit, text, user):
        self.machine = machine
        self.user = user
        where = "/home/%s/.config/systemd/user" % user if user else "/run/systemd/system"
        self.name = "%s/%s.d/90-test.conf" % (where, unit)
        machine.write(self.name, text, user=user)
        machine.systemctl("daemon-reload", user=user)

    def remove(self):
        self.machine.remove(self.name)
        self.machine.systemctl("daemon-reload", user=self.user)


@pytest.fixture
def drop_in(machine):
    """Provides drop_in(UNIT, TEXT, user=None), which adds a drop-in until the test ends or calls
    remove()."""
    made = []

    def add(unit, text, user=None):
        made.append(DropIn(machine, unit, text, user))
        return made[-1]

    yield add
    for d in made:
        d.remove()
    settle(machine)


def pytest_terminal_summary(terminalreporter):
    """Prints the figures that passed tests have reported."""
    lines = [line for report in terminalreporter.getreports("passed")
             for name, text in report.sections if name == "Captured stdout call"
             for line in text.splitlines() if line]
    if lines:
        terminalreporter.section("figures")
        terminalreporter.write("".join(line + "\n" for line in lines))
