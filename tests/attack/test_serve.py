# SPDX-License-Identifier: Apache-2.0
"""Tests the walls (tests/lib/walls.py) that services set up themselves, without systemd: seccomp,
Landlock, MDWE.

The services run as root in these tests, with all capabilities, so only these walls can deny
anything. tests/e2e/systemd/test_attacks.py tests the walls that units add.
"""
import subprocess

import pytest

import walls
from services import SERVICES
# Landlock restricts only TCP.
UDP = {"udp"}
# Services that read models may open files; Landlock restricts which files.
READS = {"other-file", "home-file", "root-file", "shadow", "cache", "state", "proc-mem"}
# Services that write files may also change some files.
KEEPS = READS | {"write", "store-create", "store-write", "store-unlink"}
# The filter of the service that changes the store also allows renaming.
CHANGES = KEEPS | {"store-rename"}
# The filter of the keep service also denies listing a directory.
OPENS = KEEPS - {"cache", "state"}


def denied_once(table):
    return {name for name in walls.PROMISED
            if table.walls(name) < 2 and not table.is_beyond_kernel(name)}


def options(row, serve, scene):
    other = next(r for r in SERVICES if r != row)
    # The service that changes the store attacks another directory.
    store = serve.directory / ("others" if row.changes_store else "models")
    store.mkdir(exist_ok=True)
    return dict(scene, store=store, neighbor=serve.pid(other.name))


def test_each_attack_works_without_walls(program, scene, neighbor, tmp_path):
    result = walls.attack(program, neighbor=neighbor, store=tmp_path, break_listener=True,
                          neighbor_socket=None, **scene)
    assert walls.check_without_walls(result) == []
    absent = [name for name in walls.PROMISED if result.outcomes[name]["none"] != "done"]
    assert absent == []


@pytest.mark.parametrize("row", SERVICES, ids=lambda row: row.name)
def test_a_service_alone_denies_each_attack(row, program, serve, scene, capsys):
    result = walls.attack(program, serve.pid(row.name), **options(row, serve, scene))
    table = walls.Table(row.name + ", alone", result)
    with capsys.disabled():
        table.show()
    assert table.problems(with_unit=False) == []
    assert denied_once(table) == UDP | (OPENS if row.name == "keep" else
                                        CHANGES if row.changes_store else
                                        KEEPS if row.keeps_files else
                                        READS if row.needs_models else set())


@pytest.mark.parametrize("row", SERVICES, ids=lambda row: row.name)
def test_a_forbidden_call_ends_the_service_and_the_next_client_starts_it(row, program, serve):
    pid = serve.pid(row.name)
    assert walls.run(program, pid, kill_self=True).strip() == "SIGSYS"
    serve.wait(lambda: serve.find(row.name) != pid)
    assert serve.pid(row.name) != pid


# With NVIDIA's driver, which compiles code, memory may become executable. Only the filter denies
# memory that is also writable.
CODE = {"map-rwx", "protect-rx", "read-implies-exec"}


# Policies of processes that are not services, and the policies of chat with a GPU.
@pytest.mark.parametrize("policy", ["decoder", "chat-gpu", "chat-nvidia"])
def test_a_child_denies_each_attack(policy, program, build, scene, neighbor, tmp_path, capsys):
    confined = build / "tests/attack/confined"
    if not confined.exists():
        pytest.skip("a build without confinement")
    child = subprocess.Popen([str(confined), policy], stdout=subprocess.PIPE, bufsize=0)
    try:
        assert child.stdout.readline() == b"sealed\n"
        result = walls.attack(program, child.pid, store=tmp_path, neighbor=neighbor, **scene)
        mdwe = walls.state(program, child.pid)["mdwe"]
    finally:
        child.stdout.close()
        child.wait(10)
    table = walls.Table(policy + ", alone", result)
    with capsys.disabled():
        table.show()
    open_doors = ["dev-gpu"] + ["protect-rx"] * (policy == "chat-nvidia")
    assert [p for p in table.problems(with_unit=False) if p.split(":")[0] not in open_doors] == []
    # GPU device nodes are opened for writing; Landlock allows that for those nodes only.
    opens = READS | {"store-write"} if policy != "decoder" else set()
    compiles = CODE if policy == "chat-nvidia" and table.notes["mdwe"] != "0" else set()
    assert denied_once(table) == UDP | opens | compiles
    assert mdwe in ("-22", "0" if policy == "chat-nvidia" else "1")  # EINVAL: before Linux 6.3
