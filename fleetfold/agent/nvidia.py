"""NVIDIA cards through NVML, where the driver is there; no card otherwise (floor 4)."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card. `busy` is how much of the last sample it worked, 0 to 1; None: the card cannot tell."""

    uuid: str
    model: str
    memory_bytes: int | None
    busy: float | None


def gpus() -> tuple[Gpu, ...] | None:
    """Return the cards of this machine, by UUID: none where there is no driver, None where it fails now.

    A driver that fails has not taken the cards away, so the two must not look alike.
    """
    nvml = importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError_LibraryNotFound, nvml.NVMLError_DriverNotLoaded):
        return ()
    except nvml.NVMLError as err:
        log.warning("the GPU driver does not answer: %s", err)
        return None
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(n) for n in range(nvml.nvmlDeviceGetCount())]
        cards = [
            Gpu(
                uuid=str(nvml.nvmlDeviceGetUUID(handle)),
                model=str(nvml.nvmlDeviceGetName(handle)),
                memory_bytes=_if_known(nvml, partial(_memory_bytes, nvml, handle)),
                busy=_if_known(nvml, partial(_busy, nvml, handle)),
            )
            for handle in handles
        ]
    except nvml.NVMLError as err:
        log.warning("the GPUs could not be read: %s", err)
        return None
    finally:
        nvml.nvmlShutdown()
    return tuple(sorted(cards, key=lambda card: card.uuid))


def _memory_bytes(nvml: ModuleType, handle: object) -> int:
    return int(nvml.nvmlDeviceGetMemoryInfo(handle).total)


def _busy(nvml: ModuleType, handle: object) -> float:
    return float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100)


def _if_known(nvml: ModuleType, read: Callable[[], T]) -> T | None:
    """Return a reading, or None for a card without it: shared memory has no size, a slice no load."""
    try:
        return read()
    except nvml.NVMLError_NotSupported:
        return None
