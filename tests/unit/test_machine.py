"""What this machine says about itself."""

from __future__ import annotations

import re
from pathlib import Path

import psutil
import pytest

from fleetfold.agent.machine import BOOT_ID_FILE, Placement, boot_id, inventory, machine_id, usage


def _write(root: Path, file: str, text: str) -> None:
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_machine_id_is_stable_and_does_not_give_the_secret_one_away(tmp_path: Path) -> None:
    _write(tmp_path, "etc/machine-id", "3d1219c7c4c5404aaa1f6d2a48adfda4\n")

    told = machine_id(tmp_path)

    assert told == machine_id(tmp_path)
    assert told is not None
    assert re.fullmatch("[0-9a-f]{32}", told)
    assert told != "3d1219c7c4c5404aaa1f6d2a48adfda4"


def test_another_installation_is_another_machine(tmp_path: Path) -> None:
    _write(tmp_path / "a", "etc/machine-id", "3d1219c7c4c5404aaa1f6d2a48adfda4\n")
    _write(tmp_path / "b", "etc/machine-id", "3d1219c7c4c5404aaa1f6d2a48adfda5\n")

    assert machine_id(tmp_path / "a") != machine_id(tmp_path / "b")


def test_the_hardware_id_is_asked_where_the_installation_has_none(tmp_path: Path) -> None:
    _write(tmp_path, "etc/machine-id", "uninitialized\n")
    _write(tmp_path, "sys/class/dmi/id/product_uuid", "4C4C4544-0042-4810-8043-B8C04F4B3332\n")

    assert machine_id(tmp_path) is not None


def test_an_id_that_many_machines_share_is_none(tmp_path: Path) -> None:
    assert machine_id(tmp_path) is None

    _write(tmp_path, "sys/class/dmi/id/product_uuid", "00000000-0000-0000-0000-000000000000\n")
    assert machine_id(tmp_path) is None


def test_each_start_of_an_agent_has_a_boot_id_of_its_own(tmp_path: Path) -> None:
    assert len({boot_id(tmp_path) for _ in range(100)}) == 100

    _write(tmp_path, BOOT_ID_FILE, "374cb140-538b-4eb8-b0c4-e1788a748e0c\n")
    first, second = boot_id(tmp_path), boot_id(tmp_path)
    assert first != second
    assert first.startswith("374cb140-538b-4eb8-b0c4-e1788a748e0c-")


def test_the_inventory_says_what_the_machine_has_and_nothing_that_moves() -> None:
    placement = Placement(zone="eu-1a", labels={"tier": "gold"})

    first = inventory(placement, interval_s=10, version="1")
    second = inventory(placement, interval_s=10, version="1")

    assert first == second
    assert first["resources"]["cpu"]["total"] == psutil.cpu_count()
    assert first["resources"]["memory"]["total"] == psutil.virtual_memory().total
    assert first["resources"]["disk"]["total"] > 0
    assert first["zone"] == "eu-1a"
    assert first["labels"]["tier"] == "gold"
    assert "127.0.0.1" not in first.get("addresses", [])
    assert "region" not in first


def test_a_disk_that_may_not_be_read_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(mount: str) -> None:
        raise PermissionError(mount)

    monkeypatch.setattr(psutil, "disk_usage", refused)

    assert "disk" not in usage()
    assert "disk" not in inventory(Placement(), interval_s=10, version="1")["resources"]


def test_usage_stays_within_what_there_is() -> None:
    usage()
    used = usage()

    assert 0 <= used["cpu"] <= (psutil.cpu_count() or 1)
    assert 0 < used["memory"] <= psutil.virtual_memory().total
    assert used["disk"] > 0
