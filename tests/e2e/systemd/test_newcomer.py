# SPDX-License-Identifier: Apache-2.0
"""Takes the steps of a newcomer: five commands from a machine without sconce to an answer in a
browser.

Root installs from the signed repository of a release, and a plain user from its tarball. A server on the machine's
loopback address takes the place of the hub. No step may show nothing new for more than two seconds.
"""
import shutil

import browser as browsers
import hub as hubs
import pytest
import roots
from newcomer import PATIENCE, QUESTION, api_command, watch_command, watch_page
from nspawn import Machine

pytestmark = [pytest.mark.full, pytest.mark.alone]
REPOSITORY = "people/first-GGUF"
# A tarball of this system's Debian release also has to run on the next one, whose libraries are newer.
SUITES = sorted({roots.own_suite(), "trixie"})


class Newcomer:
    """Represents a person at a machine, who is root if there is no user."""

    def __init__(self, machine, user, hub):
        self.machine, self.user, self.hub = machine, user, hub
        self.longest = []

    def does(self, step, command):
        """Runs a command at a terminal, and returns its output."""
        status, output, watch = watch_command(self.machine, command, self.user)
        self.note(step, watch)
        assert status == 0, output
        return output

    def note(self, step, watch):
        self.longest.append((step, watch.silence, watch.before))
        print("%-10s %6.1f s, silent for %4.1f s at most, before %r" % (
            step, watch.seconds, watch.silence, watch.before), flush=True)

    def configures_hub(self, directory):
        """Lets `sconce pull` ask the server of this test instead of the hub."""
        self.machine.write(directory + "/sconce.d/hub.yaml",
                           "pull:\n  mirror: %s\n  certificates: /etc/hub.pem\n" % self.hub.url, user=self.user)

    def was_never_kept_waiting(self):
        slow = [(step, round(silence, 1), before) for step, silence, before in self.longest if silence > PATIENCE]
        assert not slow, slow


@pytest.fixture
def arrives(certificate):
    """Provides a function that lets a newcomer arrive at a machine that has just booted."""
    hubs_made = []

    def arrive(machine, user=None):
        with machine.network():
            hub = hubs.Hub(*certificate)
        hubs_made.append(hub)
        hub.pace = 0.05  # a download at 1.3 MB/s, which takes a few seconds
        hub.put_repository(REPOSITORY, {
            "first-Q8_0.gguf": (roots.TREE / "packaging/guide/sconce-guide.gguf").read_bytes()})
        machine.write("/etc/hub.pem", certificate[0].read_bytes())
        if user:
            machine.add_user(user)
        return Newcomer(machine, user, hub)

    yield arrive
    for hub in hubs_made:
        hub.close()


def use(person, sconce):
    """The newcomer pulls a model, asks it at the terminal, through the API, and on the page."""
    person.does("pull", "%s pull --name first %s" % (sconce, REPOSITORY))
    assert person.does("run", "%s run first '%s'" % (sconce, QUESTION)).strip()
    socket = person.machine.socket_path(user=person.user)
    answer = person.does("API call", api_command(socket))
    assert '"content"' in answer and "[DONE]" in answer, answer
    if browsers.missing():
        print("skipped: the page; " + browsers.missing())
    else:
        shown, watch = watch_page(person.machine.path(socket))
        person.note("page", watch)
        assert shown
    person.was_never_kept_waiting()


def test_root_installs_from_the_signed_repository(release, base, arrives):
    with Machine(roots.Root(base)) as machine:
        machine.boot()
        person = arrives(machine)
        shutil.copytree(release / "apt", machine.path("/srv") / "apt")
        suite = next((release / "apt/dists").iterdir()).name
        machine.write("/etc/apt/sources.list.d/sconce.sources",
                      "Types: deb\nURIs: file:/srv/apt\nSuites: %s\nComponents: main\n"
                      "Signed-By: /srv/apt/sconce.gpg\n" % suite)
        # The machine has no network, and apt's lists of Debian stay.
        machine.run("apt-get -q update -o Dir::Etc::sourcelist=sources.list.d/sconce.sources "
                    "-o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0")
        output = person.does("package",
                             "DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends sconce")
        assert "Setting up sconce " in output and "cannot be authenticated" not in output
        person.configures_hub("/etc/sconce")
        use(person, "sconce")


@pytest.mark.parametrize("suite", SUITES)
def test_a_plain_user_installs_the_tarball(release, arrives, suite):
    with Machine(roots.Root(roots.make_base(suite))) as machine:
        machine.boot()
        person = arrives(machine, "ada")
        tarball = next(release.glob("sconce-*-linux-%s.tar.gz" % machine.run("dpkg --print-architecture").stdout.strip()))
        top = tarball.name.removesuffix(".tar.gz")
        machine.write("/srv/" + tarball.name, tarball.read_bytes())
        person.does("tarball", "cd && tar -xf /srv/%s && sh %s/install.sh --user" % (tarball.name, top))
        person.configures_hub(str(machine.run("echo ~ada").stdout.strip()) + "/.config/sconce")
        use(person, "~/.local/bin/sconce")
        machine.run("rm -rf ~/sconce-* && sh ~/.local/lib/sconce/install.sh --uninstall", user="ada")
        # The user's data stays: models, configuration, and the numbers of requests.
        left = machine.run("find ~/.local ~/.config -not -type d | grep -vE '/sconce(-history)?/'", user="ada",
                           check=False).stdout
        assert left == "", left
        assert machine.programs() == []
