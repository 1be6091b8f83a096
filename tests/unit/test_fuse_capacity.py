"""What a host has: the table of what is declared and what its agent says, and how an answer is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from api.dialects.fuse_capacity import Answered, Capacity, Failed, Outcome, Rejected, read_answer, resolve
from api.dialects.refusal import Refusal
from tests.support.host_agents import PLAIN, WITH_GPUS

URL = "http://10.0.0.1:8090"
FULL = Capacity(cpus=8, ram_mb=1024, storage_gb=10, vm_count=2)
PART = Capacity(cpus=8, vm_count=2)


def _answer(**changed: object) -> Answered:
    found = read_answer(json.dumps({**PLAIN, **changed}).encode(), token="")
    assert isinstance(found, Answered)
    return found


def _refusal(declared: Capacity, outcome: Outcome, backend: str = "firecracker") -> Refusal:
    with pytest.raises(Refusal) as refused:
        resolve(declared, outcome, backend=backend, url=URL)
    return refused.value


@pytest.mark.parametrize("declared", [FULL, PART])
def test_a_rejected_token_fails_whatever_is_declared(declared: Capacity) -> None:
    refusal = _refusal(declared, Rejected())

    assert (refusal.kind, refusal.word) == ("upstream", "unauthorized")


def test_an_agent_that_cannot_be_asked_is_a_warning_where_everything_is_declared() -> None:
    resolved = resolve(FULL, Failed("http 503"), backend="firecracker", url=URL)

    assert resolved.capacity == FULL
    assert resolved.warnings == [
        f"could not verify host agent at {URL} (http 503); registering with declared capacity"
    ]
    refusal = _refusal(PART, Failed("http 503"))
    assert (refusal.kind, refusal.word) == ("upstream", "internal")
    assert "http 503" in refusal.detail


def test_an_answer_fills_gaps_and_more_than_it_is_noted() -> None:
    filled = resolve(PART, _answer(), backend="firecracker", url=URL)
    over = Capacity(cpus=32, ram_mb=65536, storage_gb=501, vm_count=1, gpu_kind="h100")

    assert filled.capacity == Capacity(cpus=8, ram_mb=65536, storage_gb=500, vm_count=2, arch="amd64")
    assert filled.warnings == []
    assert resolve(over, _answer(gpu_kind="a100"), backend="qemu", url=URL).warnings == [
        "declared cpus (32) exceeds probed host capacity (16)",
        "declared storage_gb (501) exceeds probed host capacity (500)",
        'declared gpu_kind ("h100") differs from probed host gpu_kind ("a100")',
    ]


def test_gpus_are_probed_for_qemu_and_set_aside_for_firecracker() -> None:
    answer = read_answer(json.dumps(WITH_GPUS).encode(), token="agent-token")

    qemu = resolve(Capacity(vm_count=1), answer, backend="qemu", url=URL)
    firecracker = resolve(Capacity(vm_count=1), answer, backend="firecracker", url=URL)

    assert (qemu.capacity.gpus, qemu.capacity.gpu_kind, qemu.warnings) == (2, "a100", [])
    assert (firecracker.capacity.gpus, firecracker.capacity.gpu_kind) == (0, "")
    assert firecracker.warnings == ["probed gpus (2) are not used: backend firecracker has none"]


def test_partitions_are_declared_or_probed_and_no_part_of_the_gpus() -> None:
    answer = _answer(gpus=2, mig_profiles={"1G.10GB": 7, "odd": 3, "2g.20gb": 0})

    probed = resolve(Capacity(vm_count=1), answer, backend="qemu", url=URL).capacity
    declared = resolve(Capacity(vm_count=1, mig_profiles={"3g.40gb": 1}), answer, backend="qemu", url=URL)

    assert (probed.gpus, dict(probed.mig_profiles)) == (2, {"1g.10gb": 7})
    assert dict(declared.capacity.mig_profiles) == {"3g.40gb": 1}


def test_an_architecture_that_contradicts_and_a_zero_that_nobody_fills_are_refused() -> None:
    assert _refusal(Capacity(vm_count=1, arch="arm64"), _answer(arch="x86_64")).kind == "invalid"
    refusal = _refusal(Capacity(vm_count=1), _answer(storage_gb=0))
    assert (refusal.kind, "storage_gb" in refusal.detail) == ("invalid", True)


@pytest.mark.parametrize(
    "changed",
    [
        {"cpus": "16"}, {"cpus": True}, {"cpus": -1}, {"ram_mb": 2**63}, {"ram_mb": 2**44}, {"cpus": 1.5},
        {"gpus": []}, {"gpu_kind": 7}, {"gpu_kind": "x" * 257}, {"arch": "riscv64"}, {"gpu_devices": {}},
        {"gpu_devices": [7]}, {"gpu_devices": [{"uuid": 7}]}, {"gpu_devices": [{"mig_capable": "yes"}]},
        {"mig_profiles": {"1g.10gb": "7"}}, {"mig_instances": "x"},
    ],
)  # fmt: skip
def test_an_answer_of_other_types_is_no_answer(changed: dict[str, Any]) -> None:
    assert read_answer(json.dumps({**PLAIN, **changed}).encode(), token="") == Failed(
        "the answer is no capacity"
    )


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"{", b'{"cpus": NaN}', b'"\xff"', b"[" * 9999, b"<html>"]
)
def test_an_answer_that_is_no_object_is_no_answer(body: bytes) -> None:
    assert read_answer(body, token="t") == Failed("the answer is no capacity")


def test_an_answer_keeps_what_is_known_and_null_says_nothing() -> None:
    assert _answer(secret="x", cpus=None, gpu_devices=[{"uuid": "G", "own": 1, "memory_mb": 0}]).members == {
        "ram_mb": 65536,
        "storage_gb": 500,
        "gpus": 0,
        "arch": "amd64",
        "gpu_devices": [{"uuid": "G", "memory_mb": 0}],
    }


@pytest.mark.parametrize(
    "changed", [{"gpu_kind": "a agent-token b"}, {"gpu_devices": [{"uuid": "agent-token"}]}]
)
def test_an_answer_that_repeats_the_token_is_kept_out(changed: dict[str, Any]) -> None:
    answer = read_answer(json.dumps({**PLAIN, **changed}).encode(), token="agent-token")

    assert answer == Failed("the answer repeats the token")
