# SPDX-License-Identifier: Apache-2.0
"""The walls that services give themselves, without systemd: seccomp, Landlock, MDWE.

They run as root here, with all capabilities: what is denied, these walls deny. The walls that units
add are the matter of tests/e2e/systemd/test_attacks.py.
"""
import subprocess

import pytest

import walls
from services import SERVICES

def options(row, serve, scene):
    other = next(r for r in SERVICES if r != row)
    return dict(scene, store=serve.directory / "models", neighbour=serve.pid(other.name))


def test_each_attack_works_without_walls(program, scene, neighbour, tmp_path):
    result = walls.attack(program, neighbour=neighbour, store=tmp_path, break_listener=True,
                          neighbour_socket=None, **scene)
    assert walls.check_without_walls(result) == []
    absent = [name for name in walls.PROMISED if result.outcomes[name]["none"] != "done"]
    assert absent == []


@pytest.mark.parametrize("row", SERVICES, ids=lambda row: row.name)
def test_a_service_alone_denies_each_attack(row, program, serve, scene, capsys):
    result = walls.attack(program, serve.pid(row.name), **options(row, serve, scene))
    table = walls.Table(row.name, result)
    with capsys.disabled():
        print("\n" + table.text())
    assert table.problems(with_unit=False) == []


# Policies of processes that are no services.
@pytest.mark.parametrize("policy", ["decoder"])
def test_a_child_denies_each_attack(policy, program, build, scene, neighbour, tmp_path, capsys):
    confined = build / "tests/attack/confined"
    if not confined.exists():
        pytest.skip("a build without confinement")
    child = subprocess.Popen([str(confined), policy], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
    try:
        assert child.stdout.readline() == b"sealed\n"
        result = walls.attack(program, child.pid, store=tmp_path, neighbour=neighbour, **scene)
    finally:
        child.stdin.close()
        child.wait(10)
    table = walls.Table(policy, result)
    with capsys.disabled():
        print("\n" + table.text())
    assert table.problems(with_unit=False) == []
    # No file, no network, no other process: seccomp and Landlock say so both.
    once = [name for name in walls.PROMISED if table.walls(name) < 2]
    assert once == ["udp"]
