"""What the views and macros of schema `fleet` select (floor 2, pure); `projections.views` explains them."""

NODES = """
    SELECT
        n.node_id, n.state, n.liveness, n.intent, n.schedulable, n.reasons, n.region, n.zone, n.pool, n.role,
        n.hostname, n.display_name, n.architecture, n.labels, n.annotations, n.addresses,
        list_concat(
            n.conditions,
            s.conditions,
            CASE WHEN h.skewed_since IS NOT NULL AND n.retired_at IS NULL THEN ['clock_skew'] END
        ) AS conditions,
        n.boot_id, n.machine_id, n.incarnation, n.dialect, n.native_id, n.interval_s, n.first_registered_at,
        n.registered_at, h.last_heartbeat_at, n.liveness_since, n.changed_at, n.retired_at, n.version
    FROM main.node AS n
    LEFT JOIN main.heartbeat AS h ON h.number = n.number
    LEFT JOIN main.shared AS s ON s.number = n.number
"""

NODE_HISTORY = """
    SELECT
        node_id, state, liveness, intent, schedulable, region, zone, pool, incarnation, valid_from,
        lead(valid_from) OVER (PARTITION BY node_id ORDER BY cause_seq) AS valid_to,
        cause_seq, cause_type, actor, reason
    FROM main.node_history
"""

CAPACITY = """
    SELECT
        node_id, resource, status, total, reserved, ratio, allocatable, allocated, free, since, cause_seq
    FROM main.capacity
"""

CAPACITY_HISTORY = """
    SELECT
        node_id, resource, status, total, reserved, ratio, allocatable, allocated, free, valid_from,
        lead(valid_from) OVER (PARTITION BY node_id, resource ORDER BY cause_seq) AS valid_to,
        cause_seq
    FROM main.capacity_history
"""

LABELS_HISTORY = """
    SELECT
        node_id, "key", "value", owner, valid_from,
        lead(valid_from) OVER (PARTITION BY node_id, "key" ORDER BY cause_seq) AS valid_to,
        cause_seq
    FROM main.label_history
"""

DEVICES = """
    SELECT node_id, device_id, kind, model, memory, healthy, reason, since
    FROM main.device
"""

ALLOCATIONS = """
    SELECT node_id, workload, resource, amount, since
    FROM main.allocation
"""

USAGE = """
    SELECT n.node_id, r.resource, u."at", u.used
    FROM main.usage_sample AS u
    JOIN main.node_number AS n ON n.number = u.number
    JOIN main.resource_number AS r ON r.number = u.resource
"""

USAGE_1H = """
    SELECT
        n.node_id, r.resource, s.hour, s."avg", s."min", s."max", s."last", s.samples
    FROM (
        SELECT
            number, resource, date_trunc('hour', "at") AS hour, avg(used) AS "avg", min(used) AS "min",
            max(used) AS "max", arg_max(used, "at") AS "last", count(used) AS samples
        FROM main.usage_sample
        GROUP BY number, resource, hour
    ) AS s
    JOIN main.node_number AS n ON n.number = s.number
    JOIN main.resource_number AS r ON r.number = s.resource
"""

HEARTBEATS = """
    SELECT
        n.node_id, b.boot_id, h.last_heartbeat_at, h.last_seq, h.beat_seq, h.missed, h.duplicates,
        h.reordered, h.other_boot, h.skew_ms, h.skewed_since, b.inventory
    FROM main.heartbeat AS h
    JOIN main.node_number AS n ON n.number = h.number
    JOIN main.heartbeat_boot AS b ON b.number = h.number
"""

FACTS = """
    SELECT seq, stored_at, sent_at, subject, node_id, "type", source, event_id, "data"::JSON AS "data"
    FROM main.fact
"""

CHANGES = """
    SELECT
        seq, "at", node_id, kind, detail, "before"::JSON AS "before", "after"::JSON AS "after", cause_seq, n,
        actor, reason
    FROM main.announcement
    WHERE NOT damped
"""

QUARANTINE = """
    SELECT stream, seq, stored_at, subject, node_id, reason, field, detail, body
    FROM main.quarantine
"""

ZONES = """
    SELECT
        url_decode(substr(z.token, 2)) AS zone,
        z.last.kind = 'silent' AS is_silent,
        z.last.stored_at AS since,
        try_cast(z.last.told->>'$.count' AS BIGINT) AS "count",
        try_cast(z.last.told->>'$.members' AS BIGINT) AS members,
        try_cast(z.last.told->>'$.held_until' AS TIMESTAMPTZ) AS held_until,
        z.last.told->>'$.rule' AS rule,
        z.cause_seq
    FROM (
        SELECT
            split_part(subject, '.', 4) AS token,
            arg_max(
                {'kind': split_part("type", '.', 3), 'stored_at': stored_at, 'told': "data"::JSON}, seq
            ) AS last,
            max(seq) AS cause_seq
        FROM main.fact
        WHERE node_id IS NULL
            AND split_part("type", '.', 2) = 'zone'
            AND split_part("type", '.', 3) IN ('silent', 'recovered')
        GROUP BY token
    ) AS z
"""

# A fact is about one node and begins one band at most, and no band begins before an earlier one of its node.
NODES_AT = """
    SELECT
        h.node_id, h.state, h.liveness, h.intent, h.schedulable, h.region, h.zone, h.pool, h.incarnation,
        h.valid_from, h.cause_seq, h.cause_type, h.actor, h.reason
    FROM main.node_history AS h
    WHERE h.cause_seq IN (
        SELECT max(b.cause_seq)
        FROM main.node_history AS b
        WHERE b.valid_from <= t::TIMESTAMPTZ
        GROUP BY b.node_id
    )
"""

CAPACITY_AT = """
    SELECT
        b.node_id, b.resource, b.status, b.total, b.reserved, b.ratio, b.allocatable, b.allocated, b.free,
        b.valid_from, b.cause_seq
    FROM (
        SELECT
            h.node_id, h.resource, h.status, h.total, h.reserved, h.ratio, h.allocatable, h.allocated, h.free,
            h.valid_from, h.cause_seq
        FROM main.capacity_history AS h
        WHERE h.valid_from <= t::TIMESTAMPTZ
        QUALIFY row_number() OVER (PARTITION BY h.node_id, h.resource ORDER BY h.cause_seq DESC) = 1
    ) AS b
    WHERE b.status <> 'absent'
"""

_DIFF_MEMBERS = (
    "state",
    "liveness",
    "intent",
    "schedulable",
    "region",
    "zone",
    "pool",
    "incarnation",
)
FLEET_DIFF = f"""
    SELECT d.node_id, d.change.member, d.change."before", d.change."after"
    FROM (
        SELECT
            c.node_id,
            unnest([
                {{'member': 'node', 'before': NULL, 'after': CASE WHEN c.a IS NULL THEN 'known' END}},
                {
    ", ".join(
        f"{{'member': '{member}', 'before': c.a.{member}::VARCHAR, 'after': c.b.{member}::VARCHAR}}"
        for member in _DIFF_MEMBERS
    )
}
            ]) AS change
        FROM (
            SELECT b.node_id, CASE WHEN a.node_id IS NOT NULL THEN a END AS a, b
            FROM fleet.nodes_at(t2) AS b
            LEFT JOIN fleet.nodes_at(t1) AS a ON a.node_id = b.node_id
        ) AS c
    ) AS d
    WHERE d.change."before" IS DISTINCT FROM d.change."after"
"""

UPTIME = """
    SELECT u.node_id, u.state, sum(u.seconds) AS seconds
    FROM (
        SELECT
            h.node_id, h.state,
            epoch(least(coalesce(h.valid_to, t2::TIMESTAMPTZ), t2::TIMESTAMPTZ, now()))
                - epoch(greatest(h.valid_from, t1::TIMESTAMPTZ)) AS seconds
        FROM fleet.node_history AS h
        WHERE h.node_id = node
            AND greatest(h.valid_from, t1::TIMESTAMPTZ)
                < least(coalesce(h.valid_to, t2::TIMESTAMPTZ), t2::TIMESTAMPTZ, now())
    ) AS u
    GROUP BY u.node_id, u.state
"""
