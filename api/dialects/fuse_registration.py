"""A registration in Fuse, read and checked in the order in which the dialect does it (floor 3, pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from api.dialects.fuse_capacity import (
    ARCHITECTURES,
    BACKENDS,
    FIRECRACKER,
    MAX_TEXT,
    MIG_PROFILE,
    MOST,
    QEMU,
    Capacity,
)
from api.dialects.fuse_url import HostUrl, Network, read_url, refused
from api.dialects.reading import Members
from api.dialects.refusal import Refusal

MAX_TOKEN_CHARS = 4096
# Above every token that a server takes in a header.
_LABEL = re.compile(r"[a-zA-Z0-9]([-._a-zA-Z0-9]{0,61}[a-zA-Z0-9])?")


@dataclass(frozen=True, slots=True)
class Declared:
    """What a registration says."""

    native_id: str
    url: HostUrl
    token: str = field(repr=False)
    region: str
    backend: str
    labels: Mapping[str, str]
    capacity: Capacity


def read_registration(body: Members, *, networks: Sequence[Network]) -> Declared:
    """Return what a body registers; raise Refusal.

    Types first, all faults at once. Then the order in which the dialect checks, which ends at the first.
    """
    native_id, url_text, token = body.text("id"), body.text("url"), body.text("token") or ""
    region, backend = body.text("region") or "", body.text("backend") or FIRECRACKER
    labels = body.texts("labels") or {}
    said = body.inner("capacity") or Members({}, faults=body.faults)
    numbers = {name: said.integer(name, maximum=MOST[name]) or 0 for name in MOST}
    gpus, kind, arch = said.integer("gpus") or 0, said.text("gpu_kind") or "", said.text("arch") or ""
    mig = said.inner("mig_profiles")
    profiles = {} if mig is None else {name: mig.needed_integer(name) for name in mig.names()}
    body.done()
    if not native_id or not url_text:
        raise Refusal("invalid", "id and url are required")
    url = _checked(url_text, networks)
    if backend not in BACKENDS:
        raise Refusal("invalid", f'backend must be "{FIRECRACKER}" or "{QEMU}"')
    if gpus > 0 and backend != QEMU:
        raise Refusal("invalid", f'gpus > 0 requires backend "{QEMU}"')
    if gpus < 0:
        raise Refusal("invalid", "gpus must not be negative")
    if arch and arch.lower() not in ARCHITECTURES:
        raise Refusal("invalid", 'arch must be "amd64" or "arm64"')
    if profiles and backend != QEMU:
        raise Refusal("invalid", f'mig_profiles requires backend "{QEMU}"')
    for key, value in labels.items():
        if not _LABEL.fullmatch(key) or not _LABEL.fullmatch(value):
            raise Refusal("invalid", f"labels: {key[:80]!r}={value[:80]!r} does not fit {_LABEL.pattern}")
    _refuse_profiles(profiles)
    if numbers["vm_count"] <= 0:
        raise Refusal("invalid", "capacity.vm_count must be positive: it is never probed")
    _refuse_texts(token, region, kind)
    return Declared(
        native_id,
        url,
        token,
        region,
        backend,
        labels,
        Capacity(
            **{name: max(0, number) for name, number in numbers.items()},
            gpus=gpus,
            gpu_kind=kind,
            arch=ARCHITECTURES.get(arch.lower(), ""),
            mig_profiles={name.lower(): count for name, count in profiles.items()},
        ),
    )


def _checked(text: str, networks: Sequence[Network]) -> HostUrl:
    try:
        url = read_url(text)
    except ValueError as err:
        raise Refusal("invalid", str(err)) from err
    if url.address is not None and (why := refused(url.address, allowed=networks)):
        raise Refusal("invalid", f"url: {why}")
    return url


def _refuse_profiles(profiles: Mapping[str, int]) -> None:
    for name, count in profiles.items():
        if not MIG_PROFILE.fullmatch(name.lower()):
            raise Refusal(
                "invalid", f'mig_profiles: {name[:80]!r} is no MIG profile, which looks like "1g.10gb"'
            )
        if count <= 0:
            raise Refusal("invalid", f"mig_profiles[{name}]: count must be positive")
    if len({name.lower() for name in profiles}) != len(profiles):
        raise Refusal("invalid", "mig_profiles: a profile stands twice")


def _refuse_texts(token: str, region: str, kind: str) -> None:
    if len(token) > MAX_TOKEN_CHARS or not all("!" <= character <= "~" for character in token):
        raise Refusal(
            "invalid", f"token is printable ASCII without spaces, {MAX_TOKEN_CHARS} characters at most"
        )
    for name, text in (("region", region), ("capacity.gpu_kind", kind)):
        if len(text) > MAX_TEXT:
            raise Refusal("invalid", f"{name} has at most {MAX_TEXT} characters")
