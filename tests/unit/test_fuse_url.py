"""Where a host's agent may be: what a URL may look like, and which addresses are dialled."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from api.dialects.fuse_url import networks, parsed, read_url, refused


@pytest.mark.parametrize(
    ("text", "host", "path"),
    [
        ("http://10.0.0.1:8090", "10.0.0.1:8090", ""),
        ("HTTPS://Agent-1.Example.internal/", "agent-1.example.internal", ""),
        ("http://127.0.0.1:1/fuse/a%2Fb", "127.0.0.1:1", "/fuse/a%2Fb"),
        ("https://[fd00::1]:443/x/", "[fd00::1]", "/x"),
        ("http://agent_1.local.:80", "agent_1.local.", ""),
    ],
)
def test_a_url_is_a_scheme_a_host_a_port_and_a_path(text: str, host: str, path: str) -> None:
    url = read_url(text)

    assert (url.text, url.host, url.path) == (text, host, path)


@pytest.mark.parametrize(
    "text",
    [
        "", "10.0.0.1:8090", "//h:1", "file:///etc/hostname", "ftp://h", "gopher://h:1", "http:/h", "http:h",
        "http://", "http://:80", "http:///p",
        "http://u:p@h:1", "http://u@h", "http://@h", "http://h:1@evil",
        "http://h?x=1", "http://h?", "http://h/p?", "http://h#", "http://h/#f",
        "http://h:0", "http://h:65536", "http://h:", "http://h:abc", "http://h:80:80", "http://h:+80",
        "http://h:８０", "http://höst", "http://h h", " http://h", "http://h\n", "http://h\t/", "http://h\x00",
        "http://h\\@evil", "http://h/a\\b", "http://h/../x", "http://h/%2e%2E/x", "http://h/.",
        "http://h/%zz",
        "http://-h", "http://h-", "http://a..b", "http://.h", "http://" + "a" * 64, "http://h/" + "a" * 2048,
        "http://2130706433", "http://0x7f000001", "http://127.1", "http://0177.0.0.1", "http://127.0.0.01",
        "http://1.2.3", "http://256.1.1.1", "http://1.2.3.4.5", "http://1.2.3.4.",
        "http://[::1", "http://[fe80::1%eth0]", "http://[1.2.3.4]", "http://[::g]", "http://::1", "http://[]",
    ],
)  # fmt: skip
def test_what_is_no_url_of_an_agent_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="url"):
        read_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1",
        "10.0.0.1",
        "172.16.3.4",
        "192.168.1.1",
        "8.8.8.8",
        "100.64.0.1",
        "::1",
        "fd00::1",
        "2001:db8::1",
    ],
)
def test_machines_are_dialled_where_nothing_is_set(text: str) -> None:
    assert refused(ip_address(text), allowed=()) == ""


@pytest.mark.parametrize(
    "text",
    [
        "169.254.169.254", "169.254.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "0.0.0.0",
        "0.1.2.3",
        "224.0.0.1", "255.255.255.255", "240.0.0.1",
        "::", "fe80::1", "ff02::1", "fd00:ec2::254", "fd20:ce::254",
        "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::169.254.169.254",
    ],
)  # fmt: skip
def test_addresses_where_clouds_hand_out_credentials_are_not(text: str) -> None:
    assert refused(ip_address(text), allowed=()) != ""


def test_networks_that_are_set_are_the_only_ones() -> None:
    allowed = networks(["10.0.0.0/8", "fd00::/8", "169.254.7.0/24"])

    assert [bool(refused(ip_address(text), allowed=allowed)) for text in (
        "10.1.2.3", "::ffff:10.1.2.3", "fd12::1", "169.254.7.9", "127.0.0.1", "11.0.0.1", "::1",
        "::ffff:127.0.0.1", "169.254.169.254",
    )] == [False] * 4 + [True] * 5  # fmt: skip
    with pytest.raises(ValueError, match="host bits"):
        networks(["10.0.0.1/8"])


def test_a_zone_behind_an_address_is_cut_off() -> None:
    assert refused(parsed("fe80::1%eth0"), allowed=()) != ""
