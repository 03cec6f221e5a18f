# SPDX-License-Identifier: Apache-2.0
"""The walls that services give themselves, without systemd: seccomp, Landlock, MDWE.

They run as root here, with all capabilities: what is denied, these walls deny. The walls that units
add are the matter of tests/e2e/systemd/test_attacks.py.
"""
import pytest

import walls
from services import SERVICES

# Without a unit Linux has one wall to offer here.
ONE_ALONE = {
    "raw": "Landlock knows TCP alone",
}


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
