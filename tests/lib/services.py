# SPDX-License-Identifier: Apache-2.0
"""Provides the table of the services under test, with a row for each section of
services/services.ini.

The tests of policies (the system calls of a service), of attacks (actions that the service must not
be able to take) and of units (how the service runs under systemd) all use this table. So one
section of services.ini adds a new service to all these tests.
"""
import dataclasses
import importlib.util
import pathlib
import socket

TABLE = pathlib.Path(__file__).resolve().parents[2] / "services/table.py"
spec = importlib.util.spec_from_file_location("services_table", TABLE)
table = importlib.util.module_from_spec(spec)
spec.loader.exec_module(table)


@dataclasses.dataclass(frozen=True)
class ServiceRow:
    name: str  # SCONCE_SERVICE in the journal, and the name of its policy files
    sockets: tuple  # FileDescriptorName= of each socket that it inherits
    phases: tuple = ("start", "serve")  # its seccomp filters, defined in policy/seccomp/NAME.yaml
    max_calls: int = 70  # distinct system calls that the last filter may allow
    needs_models: bool = False  # it reads the model store, and no other data of the machine
    may_connect: tuple = ()  # the services whose unix sockets it connects to
    socket_type: int = socket.SOCK_STREAM  # the type of its unix socket
    keeps_files: bool = False  # it writes to a directory of its own
    may_network: bool = False  # whether it may connect to other machines
    makes_memory: bool = False  # it creates memory file descriptors and passes them to others
    answers: bool = True  # whether requests to a chat model pass through it
    # It distinguishes the users of the machine by UID, so its system unit has no user namespace.
    sees_users: bool = False
    options: tuple = ()  # its program's own options, besides those of all services; without "--"
    changes_store: bool = False  # it changes the store of models
    # A program of which one process is started for each connection to its socket; "": none.
    starts: str = ""

    def takes(self, option):
        return option in ("--config", "--drain-timeout") or option.removeprefix("--") in self.options

    @property
    def started_units(self):
        return ("sconce-%s.socket" % self.starts, "sconce-%s@.service" % self.starts) if self.starts else ()

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
        """Returns the highest allowed exposure by `systemd-analyze security`, in tenths, of the
        service's unit in the user's or the system's manager."""
        return 7 if user else 4 if self.sees_users else 2

    def namespaces(self, user):
        """Returns the kinds of the service's private namespaces, by their names in /proc/PID/ns."""
        return ("net", "mnt", "ipc") + (() if self.sees_users and not user else ("user",))

    @property
    def binary(self):
        return "/usr/libexec/sconce/sconce-%s" % self.name

    @property
    def build_path(self):
        """Returns the path of the service's program in a build directory."""
        return "services/%s/sconce-%s" % (self.name, self.name)

    @property
    def socket_file(self):
        """Returns the name of the service's unix socket in /run/sconce, or in the user's
        %t/sconce."""
        return "%s.sock" % self.name


def row(service):
    """Returns the row of a section of services.ini."""
    return ServiceRow(
        service.name, service.sockets + service.extra_sockets,
        needs_models="models" in service.options, may_connect=service.connects,
        socket_type=socket.SOCK_SEQPACKET if service.socket == "packets" else socket.SOCK_STREAM,
        keeps_files=service.writes, may_network=service.network, makes_memory=service.memory,
        answers=service.needed, sees_users=service.users, options=service.options,
        changes_store=service.starts == "fetch", starts=service.starts)


SERVICES = tuple(row(service) for service in table.load())

# Socket units that are not enabled by default.
OPTIONAL_SOCKETS = tuple(table.words("extra-sockets"))
# Units that belong to no single service.
COMMON_UNITS = ("sconce.target", "sconce.slice")


def service(name):
    return next(row for row in SERVICES if row.name == name)


def all_units():
    return (*COMMON_UNITS, *(unit for row in SERVICES for unit in (*row.units, *row.started_units)))
