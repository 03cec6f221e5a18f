#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads services.ini, the list of services, and prints parts of it for the build, the packages and the tests.

    table.py words KIND [PACKAGE]  prints the words of one kind, for all services or for those of a package
    table.py fill FILE             prints FILE, with @KIND@ and @KIND:PACKAGE@ replaced by these words
    table.py rows                  prints service-rows.h: the rows of common/config/service-table.c
    table.py routes                prints service-routes.h: the lists of routes for the gateway

A kind is a group of names that each service has, such as "sockets", the names of its socket units. The kinds
are the keys of KINDS below.
"""
import configparser
import dataclasses
import pathlib
import re
import sys

FILE = pathlib.Path(__file__).with_name("services.ini")
OPTIONS = ("models", "device", "tcp-access", "draft")
SOCKETS = ("stream", "packets")
# The package that is always installed.
MAIN_PACKAGE = "sconce"
# The section of the programs that are not services but have policies.
PROGRAMS = "programs"


@dataclasses.dataclass(frozen=True)
class Service:
    name: str
    package: str
    socket: str
    sockets: tuple  # socket units that sconce.target opens, without "sconce-" and ".socket"
    extra_sockets: tuple  # socket units that sconce.target does not open
    routes: bool
    own_body: bool
    connects: tuple
    starts: str  # a program of which one process is started for each connection; "": none
    options: tuple
    policies: tuple
    needed: bool
    optional: bool
    writes: bool
    memory: bool
    network: bool
    users: bool

    @property
    def program(self):
        return "sconce-" + self.name

    @property
    def unit(self):
        return self.program + ".service"

    @property
    def socket_units(self):
        return tuple(f"sconce-{name}.socket" for name in self.sockets)

    @property
    def extra_socket_units(self):
        return tuple(f"sconce-{name}.socket" for name in self.extra_sockets)

    @property
    def started_sockets(self):
        return (f"sconce-{self.starts}.socket",) if self.starts else ()

    @property
    def started_units(self):
        """Returns the units of the program that is started for the service."""
        return (*self.started_sockets, f"sconce-{self.starts}@.service") if self.starts else ()

    @property
    def units(self):
        """Returns all units of the service, in the order in which programs show them."""
        return (*self.socket_units, *self.extra_socket_units, self.unit, *self.started_units)


KEYS = {"package", "socket", "extra-sockets", "routes", "body", "connects", "starts", "options",
        "policies", "needed", "optional", "writes", "memory", "network", "users"}


def fail(name, text):
    raise SystemExit(f"{FILE.name}: [{name}] {text}")


def one_of(section, key, allowed):
    for word in section.get(key, "").split():
        if word not in allowed:
            fail(section.name, f"{key}: {word} is not one of {', '.join(allowed)}")


def flag(section, key):
    if section.get(key, "yes") != "yes":
        fail(section.name, f"{key} is yes or is absent")
    return key in section


def check(section, later, programs):
    """Stops with a message if the section is wrong. @later has the names of the sections that follow it, and
    @programs has the names of the programs that are not services."""
    name = section.name
    for key in section:
        if key not in KEYS:
            fail(name, f"there is no key {key}")
    if not re.fullmatch("[a-z]{1,8}", name):
        fail(name, "the name must be 1 to 8 small letters: the kernel cuts longer names of processes")
    one_of(section, "socket", SOCKETS)
    one_of(section, "body", ("own",))
    one_of(section, "options", OPTIONS)
    one_of(section, "connects", later)
    one_of(section, "starts", programs)
    if section.get("package", MAIN_PACKAGE) == MAIN_PACKAGE and name.startswith("a"):
        fail(name, "the package sconce has the files sconce-[!a]*, so the name cannot begin with a")


def parse(path):
    parser = configparser.ConfigParser(interpolation=None, delimiters="=", comment_prefixes="#")
    with open(path, encoding="utf-8") as file:
        parser.read_file(file)
    return parser


def program_policies(path=FILE):
    """Returns the policies of the programs that are not services."""
    parser = parse(path)
    return tuple(parser[PROGRAMS]) if parser.has_section(PROGRAMS) else ()


def load(path=FILE):
    """Returns all services, in the order of the file."""
    parser = parse(path)
    names = [name for name in parser.sections() if name != PROGRAMS]
    if names[:1] != ["gateway"]:
        raise SystemExit(f"{FILE.name}: the gateway comes first, since it connects to the others")
    with_routes = [name for name in names if "routes" in parser[name]]
    out = []
    for i, name in enumerate(names):
        section = parser[name]
        check(section, names[i + 1:], program_policies(path))
        connects = with_routes if name == "gateway" else section.get("connects", "").split()
        out.append(Service(
            name=name, package=section.get("package", MAIN_PACKAGE),
            socket=section.get("socket", "stream"), sockets=(name,),
            extra_sockets=tuple(section.get("extra-sockets", "").split()),
            routes=flag(section, "routes"), own_body="body" in section, connects=tuple(connects),
            starts=section.get("starts", ""), options=tuple(section.get("options", "").split()),
            policies=tuple(section.get("policies", name).split()), needed=flag(section, "needed"),
            optional=flag(section, "optional"),
            writes=flag(section, "writes"), memory=flag(section, "memory"),
            network=flag(section, "network"), users=flag(section, "users")))
    return tuple(out)


KINDS = {
    "names": lambda s: (s.name,),
    "backends": lambda s: (s.name,) if s.routes else (),
    "services": lambda s: (s.unit,),
    "sockets": lambda s: s.socket_units + s.started_sockets,
    "extra-sockets": lambda s: s.extra_socket_units,
    "all-sockets": lambda s: s.socket_units + s.extra_socket_units + s.started_sockets,
    "units": lambda s: s.units,
    "policies": lambda s: s.policies,
    "packages": lambda s: (s.package,),
}


def words(kind, package=None):
    if kind not in KINDS:
        raise SystemExit(f"table.py: there is no kind {kind}")
    found = [word for s in load() if package in (None, s.package) for word in KINDS[kind](s)]
    if kind == "policies" and package in (None, MAIN_PACKAGE):
        found += program_policies()
    return list(dict.fromkeys(found))


def fill(text):
    def replace(match):
        return " ".join(words(match[1], match[2]))
    return re.sub("@(%s)(?::([a-z-]+))?@" % "|".join(KINDS), replace, text)


def c_strings(items):
    return ", ".join(f'"{item}"' for item in items)


def c_enum(name, prefix, last, items):
    return "enum %s { %s, %s };\n" % (name, ", ".join(prefix + item.upper() for item in items), last)


def c_row(s):
    fields = {
        "name": f'"{s.name}"',
        "program": f'"{s.program}"',
        "package": "NULL" if s.package == MAIN_PACKAGE else f'"{s.package}"',
        "socket": f'"{s.name}.sock"',
        "socket_unit": f'"{s.socket_units[0]}"',
        "unit": f'"{s.unit}"',
        "connects": " | ".join(f"1u << SERVICE_{name.upper()}" for name in s.connects) or "0",
        "options": " | ".join("SERVICE_OPTION_" + o.upper().replace("-", "_")
                              for o in s.options) or "0",
        "starts": f'"{s.starts}"' if s.starts else "NULL",
        "idle_timeout": f"offsetof(struct config, {s.name}.idle_timeout_usec)",
        "max_body": f"offsetof(struct config, {s.name}.max_body)" if s.own_body else "0",
        "has_packets": str(s.socket == "packets").lower(),
        "has_routes": str(s.routes).lower(),
        "is_needed": str(s.needed).lower(),
        "is_optional": str(s.optional).lower(),
    }
    return f"    [SERVICE_{s.name.upper()}] = {{\\\n" + "".join(
        f"        .{field} = {value}, \\\n" for field, value in fields.items()) + "    }, \\\n"


def c_rows():
    services = load()
    units = words("units")
    return ("/* Made of services.ini by services/table.py. */\n#pragma once\n\n" +
            c_enum("service_id", "SERVICE_", "N_SERVICES", [s.name for s in services]) +
            c_enum("service_backend", "BACKEND_", "N_BACKENDS", words("backends")) +
            f"enum {{ N_SERVICE_UNITS = {len(units)} }};\n\n" +
            "#define SERVICE_ROWS \\\n" + "".join(c_row(s) for s in services) + "\n" +
            "#define SERVICE_BACKENDS(ROW) " +
            ", ".join(f"ROW(SERVICE_{name.upper()})" for name in words("backends")) + "\n" +
            f"#define SERVICE_UNITS {c_strings(units)}\n" +
            f"#define SERVICE_POLICIES {c_strings(p for s in services for p in s.policies)}\n"
            f"#define PROGRAM_POLICIES {c_strings(program_policies())}\n")


def c_routes():
    names = words("backends")
    return ("/* Made of services.ini by services/table.py. */\n#pragma once\n\n" +
            "".join(f'#include "{name}/routes.h"\n' for name in names) +
            "\n/* LIST(name, NAME, ROUTES) for each service that has routes. */\n" +
            "#define SERVICE_ROUTES(LIST) \\\n" +
            " \\\n".join(f"    LIST({name}, {name.upper()}, {name.upper()}_ROUTES)" for name in names) +
            "\n")


def main(argv):
    if len(argv) in (3, 4) and argv[1] == "words":
        print(" ".join(words(*argv[2:])))
    elif len(argv) == 3 and argv[1] == "fill":
        sys.stdout.write(fill(pathlib.Path(argv[2]).read_text(encoding="utf-8")))
    elif len(argv) == 2 and argv[1] == "rows":
        sys.stdout.write(c_rows())
    elif len(argv) == 2 and argv[1] == "routes":
        sys.stdout.write(c_routes())
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv)
