"""Settings: their places, their weight, their rules, and what is said when one is wrong."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import pytest

from events.errors import SettingsError
from fleetfold.addresses import host_and_port, is_loopback
from fleetfold.dialect_settings import dialect_rules
from fleetfold.settings import ENV_PREFIX, leaves
from fleetfold.settings_sources import load
from fleetfold.settings_table import settings_table, shown
from projections.silence import LivenessRules, Pace


@pytest.fixture(autouse=True)
def _an_empty_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(ENV_PREFIX):
            monkeypatch.delenv(name)


def test_with_nothing_given_every_setting_has_its_default() -> None:
    loaded = load()

    assert loaded.settings.http == "127.0.0.1:8470"
    assert loaded.settings.nats.url is None
    assert loaded.settings.data == Path("fleetfold-data")
    assert (loaded.settings.liveness.interval_s, loaded.settings.liveness.grace_s) == (10, 30)
    assert set(loaded.origins.values()) == {"default"}


def test_a_flag_outweighs_the_environment_and_that_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("fleetfold.toml").write_text(
        'http = "127.0.0.1:1"\ndata = "from-file"\n[liveness]\ninterval_s = 2\ngrace_s = 6\n'
    )
    monkeypatch.setenv("FLEETFOLD_HTTP", "127.0.0.1:2")
    monkeypatch.setenv("FLEETFOLD_LIVENESS__INTERVAL_S", "1.5")

    loaded = load({"http": "127.0.0.1:3", "data": None})

    assert loaded.settings.http == "127.0.0.1:3"
    assert loaded.settings.data == Path("from-file")
    assert (loaded.settings.liveness.interval_s, loaded.settings.liveness.grace_s) == (1.5, 6)
    assert loaded.origins["http"] == "flag --http"
    assert loaded.origins["data"] == "fleetfold.toml"
    assert loaded.origins["liveness.interval_s"] == "environment FLEETFOLD_LIVENESS__INTERVAL_S"
    assert loaded.origins["liveness.grace_s"] == "fleetfold.toml"


def test_the_dialects_beat_in_intervals_of_our_own_unless_they_are_pinned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert dialect_rules(load().settings).intervals_s == {
        "smolfleet": 15,
        "caravanserai": 30,
        "aria-pin": 30,
        "stratum": 60,
    }

    monkeypatch.setenv("FLEETFOLD_LIVENESS__INTERVAL_S", "0.5")
    monkeypatch.setenv("FLEETFOLD_LIVENESS__GRACE_S", "1.5")
    monkeypatch.setenv("FLEETFOLD_LIVENESS__DIALECT_INTERVALS_S", '{"stratum": 60}')

    assert dialect_rules(load().settings).intervals_s == {
        "smolfleet": 0.75,
        "caravanserai": 1.5,
        "aria-pin": 1.5,
        "stratum": 60,
    }


def test_what_is_set_about_the_dialects_reaches_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "FUSE__MASTER_TOKEN": "master",
        "FUSE__API_KEYS": '["k1", "k2"]',
        "FUSE__REGISTRATION": "disabled",
        "ARIA__AGENT_TOKENS": '["aria"]',
        "STRATUM__AGENT_TOKENS": '["agent"]',
        "STRATUM__TOPOLOGY": "single-node",
        "STRATUM__HOST_RESERVATION": '{"vcpus": 2.5, "memory_bytes": 4294967296}',
    }.items():
        monkeypatch.setenv(f"FLEETFOLD_{name}", text)

    rules = dialect_rules(load().settings)

    assert (rules.fuse.master_token, rules.fuse.api_keys) == ("master", ("k1", "k2"))
    assert (rules.fuse.may_register, rules.fuse.reregister) == (False, "safe")
    assert (rules.aria_pin.agent_tokens, rules.stratum.agent_tokens) == (("aria",), ("agent",))
    assert rules.stratum.is_single_node
    assert rules.stratum.host_reservation == (Decimal("2.5"), 2**32)
    assert "master" not in repr(rules)


def test_the_switch_of_all_dialects_is_fuses_unless_one_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETFOLD_FUSE__REREGISTER", "documented")
    followed = dialect_rules(load().settings).caravanserai.heartbeat_state
    monkeypatch.setenv("FLEETFOLD_CARAVANSERAI__HEARTBEAT_STATE", "safe")
    own = dialect_rules(load().settings).caravanserai.heartbeat_state

    assert (followed, own) == ("documented", "safe")


def test_an_empty_string_means_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("fleetfold.toml").write_text('[nats]\nurl = ""\n[fuse]\nmaster_token = ""\n')
    monkeypatch.setenv("FLEETFOLD_ADMIN_TOKEN", "")
    monkeypatch.setenv("FLEETFOLD_FUSE__API_KEYS", "")
    monkeypatch.setenv("FLEETFOLD_LIVENESS__GRACE_S", "")

    loaded = load({"http": ""})

    assert loaded.settings.admin_token is None
    assert loaded.settings.fuse.api_keys == ()
    assert loaded.settings.fuse.master_token is None
    assert loaded.settings.nats.url is None
    assert set(loaded.origins.values()) == {"default"}


def test_lists_and_objects_are_json_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETFOLD_ARIA__AGENT_TOKENS", '["one", "two"]')
    monkeypatch.setenv("FLEETFOLD_STRATUM__HOST_RESERVATION", '{"vcpus": 2, "memory_bytes": 4294967296}')

    settings = load().settings

    assert [token.get_secret_value() for token in settings.aria.agent_tokens] == ["one", "two"]
    assert settings.stratum.host_reservation is not None
    assert settings.stratum.host_reservation.memory_bytes == 4_294_967_296


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("FLEETFOLD_LIVENES__INTERVAL_S", "FLEETFOLD_LIVENESS__INTERVAL_S"),
        ("FLEETFOLD_LIVENESS_INTERVAL_S", "FLEETFOLD_LIVENESS__INTERVAL_S"),
        ("FLEETFOLD_HTTPS", "FLEETFOLD_HTTP"),
        ("FLEETFOLD_NATS", "FLEETFOLD_NATS__URL"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest_known_name(
    variable: str, nearest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "1")

    with pytest.raises(SettingsError, match=f"{variable} is not a setting: did you mean {nearest}"):
        load()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("htp = '127.0.0.1:1'\n", "htp in fleetfold.toml is not a setting: did you mean http"),
        (
            "[liveness]\ninterval = 3\n",
            "liveness.interval in fleetfold.toml is not a setting: did you mean liveness.interval_s",
        ),
        ("[strata]\ntopology = 'cluster'\n", "strata in fleetfold.toml is not a setting"),
        ("http = \n", "fleetfold.toml cannot be read"),
    ],
)
def test_an_unknown_member_of_the_file_is_refused(text: str, told: str) -> None:
    Path("fleetfold.toml").write_text(text)

    with pytest.raises(SettingsError, match=told):
        load()


def test_a_grace_below_three_intervals_is_refused_naming_both_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FLEETFOLD_LIVENESS__INTERVAL_S", "20")

    with pytest.raises(
        SettingsError,
        match=r"grace of 30 s is shorter than 3 × the interval of 20 s.*60 s or more.*10 s or less",
    ):
        load()


@pytest.mark.parametrize(
    ("pool", "told"),
    [
        ('{"interval_s": 60}', r"pool 'edge': a grace of 30 s is shorter than 3 × the interval of 60 s"),
        ('{"grace_s": 29}', r"pool 'edge': a grace of 29 s is shorter than 3 × the interval of 10 s"),
        ('{"interval": 5}', r"FLEETFOLD_LIVENESS__POOLS: Extra inputs are not permitted"),
        ("{", r"FLEETFOLD_LIVENESS__POOLS is not JSON"),
    ],
)
def test_a_pool_keeps_the_same_rule(pool: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETFOLD_LIVENESS__POOLS", f'{{"edge": {pool}}}')

    with pytest.raises(SettingsError, match=told):
        load()


def test_what_is_set_about_liveness_is_what_the_evaluator_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("fleetfold.toml").write_text(
        "[liveness]\ninterval_s = 0.2\ngrace_s = 0.6\n[liveness.pools.edge]\ngrace_s = 60\n"
    )
    monkeypatch.setenv("FLEETFOLD_LIVENESS__ZONE_SHARE", "0.8")
    monkeypatch.setenv("FLEETFOLD_LIVENESS__PROBE", "true")

    loaded = load()

    assert loaded.settings.liveness.rules() == LivenessRules(
        interval_s=0.2, grace_s=0.6, pools={"edge": Pace(0.2, 60.0)}, zone_share=0.8, probe=True
    )
    assert loaded.origins["liveness.pools"] == "fleetfold.toml"


@pytest.mark.parametrize("http", ["0.0.0.0:8470", "[::]:8470", "inventory.example:8470", "192.0.2.7:80"])
def test_listening_beyond_this_machine_without_a_token_is_refused(
    http: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingsError, match="FLEETFOLD_ADMIN_TOKEN"):
        load({"http": http})

    monkeypatch.setenv("FLEETFOLD_ADMIN_TOKEN", "s3cret-token")
    assert load({"http": http}).settings.http == http


@pytest.mark.parametrize("token", ["s3cr\u00eat", "s3cret\n", "s3 cret", " s3cret", "s3cret\x7f"])
def test_a_token_that_no_header_can_carry_is_refused(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETFOLD_ADMIN_TOKEN", token)

    with pytest.raises(SettingsError, match=r"FLEETFOLD_ADMIN_TOKEN: .*without spaces") as refused:
        load()
    assert "s3" not in str(refused.value)


def test_a_settings_file_that_is_a_folder_is_refused() -> None:
    Path("fleetfold.toml").mkdir()

    with pytest.raises(SettingsError, match=r"fleetfold\.toml cannot be read"):
        load()


@pytest.mark.parametrize("http", ["127.0.0.1", "127.0.0.1:x", ":80", "127.0.0.1:70000", ""])
def test_an_address_is_host_and_port(http: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        host_and_port(http)


def test_loopback_has_several_spellings() -> None:
    assert host_and_port("[::1]:0") == ("::1", 0)
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "::", "example.org", "10.0.0.1"))


def test_a_secret_is_neither_shown_nor_told_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETFOLD_ADMIN_TOKEN", "s3cret-admin")
    monkeypatch.setenv("FLEETFOLD_STRATUM__USER_TOKENS", '["s3cret-user"]')
    settings = load().settings
    told = " ".join(shown(leaf, settings) for leaf in leaves())
    assert "s3cret" not in told + repr(settings)

    monkeypatch.setenv("FLEETFOLD_STRATUM__USER_TOKENS", "s3cret-user")
    with pytest.raises(SettingsError, match="FLEETFOLD_STRATUM__USER_TOKENS is not JSON") as refused:
        load()
    assert "s3cret" not in str(refused.value)

    monkeypatch.setenv("FLEETFOLD_STRATUM__USER_TOKENS", '{"s3cret": 1}')
    with pytest.raises(SettingsError, match="FLEETFOLD_STRATUM__USER_TOKENS") as refused:
        load()
    assert "s3cret" not in str(refused.value)


def test_the_table_of_settings_names_each_variable_once() -> None:
    table = settings_table()

    for leaf in leaves():
        assert table.count(f"`{leaf.variable}`") == 1
        assert leaf.description in table
    assert "`FLEETFOLD_LIVENESS__GRACE_S` | `grace_s` under `[liveness]` | `30` |" in table
    assert "(`cluster` or `single-node`)" in table
