"""A registration in Fuse: the order of its checks, and what counts as not said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from api.dialects.fuse_capacity import Capacity
from api.dialects.fuse_registration import Declared, read_registration
from api.dialects.fuse_url import networks
from api.dialects.reading import read_members
from api.dialects.refusal import Refusal

BODY: dict[str, Any] = {
    "id": "h1",
    "url": "http://10.0.0.1:8090",
    "token": "agent-token",
    "capacity": {"cpus": 8, "ram_mb": 1024, "storage_gb": 10, "vm_count": 2},
}


def _read(body: dict[str, Any], *allowed: str) -> Declared:
    members = read_members(json.dumps(body).encode(), is_null_missing=True)
    return read_registration(members, networks=networks(allowed))


def _detail(body: dict[str, Any], *allowed: str) -> str:
    with pytest.raises(Refusal) as refused:
        _read(body, *allowed)
    assert refused.value.kind == "invalid"
    return refused.value.detail


def test_what_is_empty_zero_negative_or_null_is_not_said() -> None:
    read = _read(
        {
            **BODY,
            "token": None,
            "region": "",
            "backend": "",
            "labels": None,
            "capacity": {
                "cpus": 0, "ram_mb": -5, "storage_gb": None, "vm_count": 20, "arch": "",
                "gpus": 0, "gpu_kind": "",
                "mig_instances": [], "mig_instance_uuids": [], "gpu_devices": [{"uuid": "forged"}],
            },
        }
    )  # fmt: skip

    assert (read.token, read.region, read.backend, read.labels) == ("", "", "firecracker", {})
    assert read.capacity == Capacity(vm_count=20)


def test_checks_come_in_the_order_of_the_dialect_and_the_first_is_told() -> None:
    bad: dict[str, Any] = {
        "id": "",
        "url": "file:///x",
        "backend": "xen",
        "labels": {"a b": "c"},
        "capacity": {"gpus": 1, "arch": "vax", "mig_profiles": {"odd": 1}},
    }
    said = []
    for name, better in (
        ("id", "h1"), ("url", "http://169.254.169.254"), ("url", "http://h"), ("backend", "firecracker"),
        ("gpus", -1), ("gpus", 0), ("arch", "arm64"), ("backend", "qemu"), ("labels", {}),
        ("mig_profiles", {"1g.10gb": 0}), ("mig_profiles", {"1g.10gb": 1, "1G.10GB": 2}),
        ("mig_profiles", {}), ("vm_count", 1),
    ):  # fmt: skip
        said.append(_detail(bad))
        (bad if name in bad else bad["capacity"])[name] = better

    assert [text[:24] for text in said] == [
        "id and url are required", "url must be http or http", "url: 169.254.169.254 is ",
        "backend must be \"firecra",
        "gpus > 0 requires backen",
        "gpus must not be negativ", 'arch must be "amd64" or ', "mig_profiles requires ba",
        "labels: 'a b'='c' does n", "mig_profiles: 'odd' is n", "mig_profiles[1g.10gb]: c",
        "mig_profiles: a profile ",
        "capacity.vm_count must b",
    ]  # fmt: skip
    assert _read(bad).capacity == Capacity(vm_count=1, arch="arm64")


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"id": 7}, "id"), ({"url": ["http://h"]}, "url"), ({"token": 7}, "token"),
        ({"labels": ["a"]}, "labels"),
        ({"labels": {"a": 1}}, "labels.a"), ({"capacity": []}, "capacity"),
        ({"capacity": {"vm_count": "10"}}, "vm_count"),
        ({"capacity": {"vm_count": True}}, "vm_count"), ({"capacity": {"vm_count": 1.5}}, "vm_count"),
        ({"capacity": {"vm_count": 2**63}}, "vm_count"), ({"capacity": {"ram_mb": 2**43}}, "ram_mb"),
        ({"capacity": {"cpus": 10**400}}, "cpus"), ({"capacity": {"gpus": "1"}}, "gpus"),
        ({"capacity": {"mig_profiles": {"1g.10gb": True}}}, "1g.10gb"), ({"backend": 1}, "backend"),
        ({"region": {}}, "region"), ({"capacity": {"gpu_kind": 1}}, "gpu_kind"),
        ({"capacity": {"arch": 1}}, "arch"),
    ],
)  # fmt: skip
def test_another_type_is_told_by_the_path_of_its_member(changed: dict[str, Any], names: str) -> None:
    assert names in _detail({**BODY, **changed}).partition(":")[0]


@pytest.mark.parametrize("token", ["a b", "a\nb", "ü", "a\x00", "x" * 4097])
def test_a_token_that_fits_no_header_is_refused_and_never_repeated(token: str) -> None:
    assert token not in _detail({**BODY, "token": token})


def test_an_address_outside_the_networks_that_are_set_is_refused() -> None:
    assert "none of the networks" in _detail(BODY, "192.168.0.0/16")
    assert _read(BODY, "10.0.0.0/8").url.name == "10.0.0.1"


def test_the_token_is_not_shown_by_accident() -> None:
    assert "agent-token" not in repr(_read(BODY))
