# SPDX-License-Identifier: Apache-2.0
"""The services under test, one row each.

The tests of policies (what a service calls), of attacks (what it may not do) and of units (how it
lives under systemd) all go by this table, so that a new service joins them by one row.
"""
import dataclasses
import socket


@dataclasses.dataclass(frozen=True)
class ServiceRow:
    name: str  # SCONCE_SERVICE in the journal, and the name of its policy files
    sockets: tuple  # FileDescriptorName= of each socket that it inherits
    phases: tuple = ("start", "serve")  # its seccomp filters, in policy/seccomp/NAME.yaml
    max_calls: int = 70  # distinct system calls that the last filter may allow
    needs_models: bool = False  # reads the model store, and nothing else of the machine's data
    may_connect: tuple = ()  # the services whose unix sockets it opens
    socket_type: int = socket.SOCK_STREAM  # of its unix socket
    keeps_files: bool = False  # writes a directory of its own
    may_network: bool = False  # whether it may open a connection that leaves the machine
    makes_memory: bool = False  # with a descriptor, to hand it to others
    answers: bool = True  # whether questions to a chat model pass through it
    # It tells the users of the machine apart, so that its unit of the system has no user namespace.
    sees_users: bool = False

    @property
    def unit(self):
        return "sconce-%s.service" % self.name

    @property
    def socket_units(self):
        return tuple("sconce-%s.socket" % socket for socket in self.sockets)

    @property
    def units(self):
        return (self.unit, *self.socket_units)

    def exposure(self, user):
        """What `systemd-analyze security` may find, in tenths, in the unit of a user or of the
        system."""
        return 7 if user else 4 if self.sees_users else 2

    def namespaces(self, user):
        """The kinds of namespaces of its own, as /proc/PID/ns calls them."""
        return ("net", "mnt", "ipc") + (() if self.sees_users and not user else ("user",))

    @property
    def binary(self):
        return "/usr/libexec/sconce/sconce-%s" % self.name

    @property
    def build_path(self):
        """Where its program lies in a build directory."""
        return "services/%s/sconce-%s" % (self.name, self.name)

    @property
    def socket_file(self):
        """The name of its unix socket in /run/sconce, or in the user's %t/sconce."""
        return "%s.sock" % self.name


SERVICES = (
    ServiceRow("gateway", ("gateway", "gateway-tcp"), may_connect=("chat", "embed", "audio"),
               sees_users=True),
    ServiceRow("chat", ("chat",), needs_models=True, may_connect=("cache",),
               makes_memory=True),
    ServiceRow("embed", ("embed",), needs_models=True, answers=False),
    ServiceRow("audio", ("audio",), needs_models=True, makes_memory=True, answers=False),
    ServiceRow("cache", ("cache",), socket_type=socket.SOCK_SEQPACKET, keeps_files=True,
               answers=False),
)

# Socket units that nothing enables unless it is asked for.
OPTIONAL_SOCKETS = ("sconce-gateway-tcp.socket",)
# Units that are no service's own.
COMMON_UNITS = ("sconce.target", "sconce.slice")


def service(name):
    return next(row for row in SERVICES if row.name == name)


def all_units():
    return (*COMMON_UNITS, *(unit for row in SERVICES for unit in row.units))
