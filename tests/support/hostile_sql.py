# ruff: noqa: E501 (a statement on one line is found and copied more easily)
"""Statements that an analyst may run, and statements that nobody may, each with what it tries.

`HOSTILE` are to be refused by the guard alone, before the engine's own walls. `BOMBS` pass the guard, because
no list can tell them from an honest question: limits of time and memory end them. `LEGITIMATE` are to be run.
"""

from __future__ import annotations

HOSTILE: dict[str, str] = {
    # files
    "copy to a file": "COPY (SELECT 1) TO '/tmp/fleetfold-stolen.csv'",
    "copy from a file": "COPY fact FROM '/etc/passwd'",
    "export the database": "EXPORT DATABASE '/tmp/fleetfold-stolen'",
    "import a database": "IMPORT DATABASE '/tmp/fleetfold-stolen'",
    "read_text": "SELECT content FROM read_text('/etc/passwd')",
    "read_text as a scalar": "SELECT read_text('/etc/passwd')",
    "read_blob of the database": "SELECT * FROM read_blob('replica.duckdb')",
    "read_csv": "SELECT * FROM read_csv('/etc/passwd', header := false)",
    "read_csv_auto": "SELECT * FROM read_csv_auto('/etc/passwd')",
    "read_json": "FROM read_json('/etc/passwd')",
    "read_json_objects": "FROM read_json_objects('/etc/hosts')",
    "read_ndjson": "FROM read_ndjson('/etc/hosts')",
    "read_parquet": "FROM read_parquet('/tmp/x.parquet')",
    "parquet_scan": "FROM parquet_scan('/tmp/x.parquet')",
    "parquet_metadata": "FROM parquet_metadata('/tmp/x.parquet')",
    "read_duckdb": "FROM read_duckdb('replica.duckdb')",
    "glob": "SELECT * FROM glob('/etc/*')",
    "sniff_csv": "FROM sniff_csv('/etc/passwd')",
    "a file as a table": "SELECT * FROM '/etc/passwd'",
    "a csv file as a table": "FROM 'x.csv'",
    "a quoted file as a table": 'SELECT * FROM "/etc/passwd"',
    "a url as a table": "FROM 'https://example.com/x.parquet'",
    "a url in a function": "FROM read_text('http://169.254.169.254/latest/meta-data/')",
    "a file named like a view": "FROM fleet.'nodes.csv'",
    "a file named by a CTE": "SELECT (WITH \"/etc/passwd\" AS (SELECT 1) SELECT 1), * FROM '/etc/passwd'",
    "a function behind quotes": "FROM \"read_text\"('/etc/passwd')",
    "a function in mixed case": "FROM ReAd_TeXt('/etc/passwd')",
    "a function behind a schema": "FROM main.read_text('/etc/passwd')",
    "a function behind a catalog": "FROM system.main.read_text('/etc/passwd')",
    "a function behind comments": "FROM /* x */ read_text /* y */ ('/etc/passwd') -- z",
    "a function after a line comment": "SELECT 1 -- \n, content FROM read_text('/etc/passwd')",
    "a function in a subquery": "SELECT (SELECT content FROM read_text('/etc/passwd'))",
    "a function in WHERE": "FROM fleet.nodes WHERE state = (FROM read_text('/etc/passwd') SELECT content)",
    "a function in a CTE": "WITH a AS (FROM read_text('/etc/passwd')) FROM a",
    "a function in a join": "FROM fleet.nodes JOIN read_text('/etc/passwd') ON true",
    "a function in a lateral join": "FROM fleet.nodes n, LATERAL (FROM read_text(n.node_id))",
    "a function in ORDER BY": "FROM fleet.nodes ORDER BY (FROM read_text('/etc/passwd') SELECT size)",
    "a function in LIMIT": "FROM fleet.nodes LIMIT (FROM read_text('/etc/passwd') SELECT size)",
    "a function in QUALIFY": "FROM fleet.nodes QUALIFY (FROM read_text('/etc/passwd') SELECT size) > 1",
    "a function in a window": "SELECT sum(1) OVER (ORDER BY (FROM read_text('/x') SELECT size)) FROM fleet.nodes",
    "a function in FILTER": "SELECT count(*) FILTER (WHERE getenv('HOME') = '') FROM fleet.nodes",
    "a function in a lambda": "SELECT list_transform([1], lambda x: getenv('HOME'))",
    "a function in a list comprehension": "SELECT [getenv('HOME') for x in [1]]",
    "a function in a struct": "SELECT {'a': getenv('HOME')}",
    "a function in VALUES": "VALUES (getenv('HOME'))",
    "a function in a set operation": "SELECT 1 UNION ALL SELECT getenv('HOME')",
    "a function in PIVOT": "FROM (PIVOT fleet.nodes ON state IN ('ready') USING max(getenv('HOME')))",
    "a table in PIVOT": "FROM (PIVOT duckdb_tables() ON schema_name IN ('main') USING count(*))",
    "a function in a macro's argument": "FROM fleet.nodes_at((FROM read_text('/x') SELECT last_modified))",
    "a function in a series": "FROM range((FROM read_text('/x') SELECT size))",
    "a function in unnest": "FROM unnest([getenv('HOME')])",
    "a function in COLUMNS": "SELECT COLUMNS(lambda c: c = getenv('HOME')) FROM fleet.nodes",
    "a function in CASE": "SELECT CASE WHEN true THEN getenv('HOME') END",
    "a function by its method": "SELECT 'HOME'::VARCHAR.getenv()",
    "a function by its method on a column": "SELECT node_id.getenv() FROM fleet.nodes",
    # text run as SQL
    "query": "FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
    "query_table": "FROM query_table('fact')",
    "query_table of a list": "FROM query_table(['fact', 'checkpoint'])",
    "json_execute_serialized_sql": "FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "json_serialize_sql": "SELECT json_serialize_sql('SELECT 1')",
    "json_deserialize_sql": "SELECT json_deserialize_sql('{}')",
    "histogram of any table": "FROM histogram('fact', seq)",
    "histogram_values": "FROM histogram_values('fact', seq)",
    # other tables, the catalog and the process
    "a table of the store": "SELECT * FROM fact",
    "a table of the store by schema": "SELECT * FROM main.fact",
    "a view of another catalog": "SELECT * FROM other.fleet.nodes",
    "the catalog's tables": "FROM duckdb_tables()",
    "the settings": "FROM duckdb_settings()",
    "the secrets": "FROM duckdb_secrets()",
    "the logs": "FROM duckdb_logs",
    "the parsed logs": "FROM duckdb_logs_parsed('QueryLog')",
    "the databases": "FROM duckdb_databases()",
    "the extensions": "FROM duckdb_extensions()",
    "the temporary files": "FROM duckdb_temporary_files()",
    "the memory": "FROM duckdb_memory()",
    "the variables": "FROM duckdb_variables()",
    "the prepared statements": "FROM duckdb_prepared_statements()",
    "information_schema": "FROM information_schema.tables",
    "pg_catalog": "FROM pg_catalog.pg_class",
    "sqlite_master": "FROM sqlite_master",
    "pragma as a function": "FROM pragma_database_size()",
    "storage_info": "FROM pragma_storage_info('fact')",
    "seq_scan": "FROM seq_scan('fact')",
    "which_secret": "FROM which_secret('s3://x', 's3')",
    "a variable of the process": "FROM sql",
    "python_map_function": "FROM python_map_function()",
    "pandas_scan": "FROM pandas_scan(0)",
    "arrow_scan": "FROM arrow_scan(0, 0, 0)",
    "current_setting": "SELECT current_setting('temp_directory')",
    "getvariable": "SELECT getvariable('x')",
    "getenv": "SELECT getenv('HOME')",
    "current_query": "SELECT current_query()",
    "version": "SELECT version()",
    "txid_current": "SELECT txid_current()",
    "pg_get_viewdef": "SELECT pg_get_viewdef(0)",
    "stats": "SELECT stats(node_id) FROM fleet.nodes",
    "a shadowed table in an outer scope": "SELECT (WITH fact AS (SELECT 1) SELECT 1), t.* FROM fact t",
    "a shadowed table in mixed case": "SELECT (WITH FACT AS (SELECT 1) SELECT 1), t.* FROM fAcT t",
    "a shadowed system view": "SELECT (WITH duckdb_logs AS (SELECT 1) SELECT 1), t.* FROM duckdb_logs t",
    "a recursive CTE named like a table": "WITH RECURSIVE fact AS (SELECT 1) FROM fact",
    "a table in a recursive CTE": "WITH RECURSIVE a AS (SELECT 1 UNION SELECT seq FROM fact) FROM a",
    "time travel": "FROM fleet.nodes AT (VERSION => 1)",
    "DESCRIBE": "DESCRIBE fleet.nodes",
    "DESCRIBE in a subquery": "FROM (DESCRIBE fact)",
    "SHOW": "SHOW TABLES",
    "SHOW ALL TABLES": "FROM (SHOW ALL TABLES)",
    "SUMMARIZE": "SUMMARIZE fact",
    "SUMMARIZE in a subquery": "FROM (SUMMARIZE fact)",
    # statements
    "ATTACH": "ATTACH 'x.db' AS x",
    "ATTACH in memory": "ATTACH ':memory:' AS x",
    "DETACH": "DETACH replica",
    "USE": "USE main",
    "PRAGMA": "PRAGMA database_list",
    "PRAGMA that is rewritten to SELECT": "PRAGMA show_tables",
    "PRAGMA with an argument": "PRAGMA storage_info('fact')",
    "SET": "SET threads = 1",
    "SET GLOBAL": "SET GLOBAL memory_limit = '100GB'",
    "SET VARIABLE": "SET VARIABLE x = 1",
    "RESET": "RESET memory_limit",
    "INSTALL": "INSTALL httpfs",
    "LOAD": "LOAD '/tmp/x.duckdb_extension'",
    "INSERT": "INSERT INTO fact VALUES (1)",
    "UPDATE": "UPDATE fact SET seq = 0",
    "DELETE": "DELETE FROM fact",
    "TRUNCATE": "TRUNCATE fact",
    "MERGE": "MERGE INTO fact USING fleet.nodes ON false WHEN NOT MATCHED THEN INSERT DEFAULT VALUES",
    "DROP": "DROP TABLE fact",
    "CREATE TABLE": "CREATE TABLE t AS SELECT 1",
    "CREATE TEMP TABLE": "CREATE TEMP TABLE t AS SELECT 1",
    "CREATE VIEW": "CREATE OR REPLACE VIEW fleet.nodes AS SELECT 1",
    "CREATE MACRO": "CREATE MACRO f(x) AS x",
    "CREATE SECRET": "CREATE SECRET s (TYPE http)",
    "CREATE SEQUENCE": "CREATE SEQUENCE s",
    "CREATE TYPE": "CREATE TYPE t AS ENUM ('a')",
    "ALTER": "ALTER TABLE fact ADD COLUMN x INT",
    "COMMENT ON": "COMMENT ON TABLE fact IS 'x'",
    "BEGIN": "BEGIN",
    "COMMIT": "COMMIT",
    "ROLLBACK": "ROLLBACK",
    "CHECKPOINT": "CHECKPOINT",
    "FORCE CHECKPOINT": "FORCE CHECKPOINT",
    "VACUUM": "VACUUM",
    "ANALYZE": "ANALYZE",
    "CALL": "CALL pragma_version()",
    "PREPARE": "PREPARE p AS SELECT 1",
    "EXECUTE": "EXECUTE p",
    "EXPLAIN": "EXPLAIN SELECT 1",
    "EXPLAIN ANALYZE": "EXPLAIN ANALYZE SELECT 1",
    "EXPLAIN ANALYZE of a write": "EXPLAIN ANALYZE INSERT INTO fact VALUES (1)",
    "two statements": "SELECT 1; DROP TABLE fact",
    "two selects": "SELECT 1; SELECT 2",
    "a second statement behind a comment": "SELECT 1 /* ; */ ; -- \n DELETE FROM fact",
    "a second statement behind a dollar quote": "SELECT $$;$$; DROP TABLE fact",
    "WITH … INSERT": "WITH a AS (SELECT 1) INSERT INTO fact FROM a",
    "WITH … DELETE": "WITH a AS (SELECT 1) DELETE FROM fact WHERE seq IN (FROM a)",
    "a deleting CTE": "WITH a AS (DELETE FROM fact RETURNING *) FROM a",
    "an inserting CTE": "WITH a AS (INSERT INTO fact VALUES (1) RETURNING *) FROM a",
    "an updating CTE": "WITH a AS (UPDATE fact SET seq = 0 RETURNING *) FROM a",
    "SELECT INTO": "SELECT * INTO t FROM fleet.nodes",
    "SELECT FOR UPDATE": "SELECT * FROM fleet.nodes FOR UPDATE",
    "PIVOT that makes a type": "PIVOT fleet.nodes ON state USING count(*)",
    "PIVOT over an enum": "FROM fleet.nodes PIVOT (count(*) FOR state IN my_enum)",
    "nothing": "",
    "only a comment": "-- nothing",
    "only a semicolon": ";",
    "no SQL": "give me the nodes",
    "a NUL": "SELECT 1\0; DROP TABLE fact",
    "a lone surrogate": "SELECT '\ud800'",
    "a byte order mark and a file": "\ufeffFROM '/etc/passwd'",
    "a full-width name": "FROM ｆact",
    "a Kelvin sign": "SELECT (WITH nodes\u212a AS (SELECT 1) SELECT 1) FROM nodesK",
    "a zero-width space": "FROM\u200b fact",
    # what changes something, or waits
    "nextval": "SELECT nextval('s')",
    "currval": "SELECT currval('s')",
    "setseed": "SELECT setseed(0.5)",
    "write_log": "SELECT write_log('x')",
    "checkpoint as a function": "FROM checkpoint()",
    "force_checkpoint as a function": "FROM force_checkpoint()",
    "enable_logging": "FROM enable_logging()",
    "enable_profiling": "FROM enable_profiling()",
    "truncate_duckdb_logs": "FROM truncate_duckdb_logs()",
    "sleep_ms": "SELECT sleep_ms(100000)",
    "pg_sleep": "SELECT pg_sleep(100)",
    # sizes that no limit of the engine bounds
    "a huge list": "SELECT len(range(1000000000))",
    "a huge list by its method": "SELECT (1000000000).range().len()",
    "a list of unknown length": "SELECT range(version) FROM fleet.nodes",
    "a list of computed length": "SELECT range(1000 * 1000 * 1000)",
    "a huge series": "SELECT unnest(generate_series(1, 1000000000))",
    "a backward series": "SELECT range(0, -1000000000, -1)",
    "a series of 128 bits": "SELECT range(170141183460469231731687303715884105727)",
    "a huge text": "SELECT length(repeat('x', 2000000000))",
    "a text of unknown length": "SELECT repeat('x', version) FROM fleet.nodes",
    "lpad": "SELECT lpad('x', 2000000000, 'y')",
    "rpad": "SELECT rpad('x', 2000000000, 'y')",
    "list_resize": "SELECT list_resize([1], 2000000000)",
    "array_resize": "SELECT array_resize([1], 2000000000, 0)",
    "format with a width": "SELECT format('{:2000000000}', 1)",
    "format with a width from an argument": "SELECT format('{:{}}', 1, 2000000000)",
    "format with a template from a column": "SELECT format(node_id, 1) FROM fleet.nodes",
    "printf with a width": "SELECT printf('%2000000000d', 1)",
    "printf with a width from an argument": "SELECT printf('%*d', 2000000000, 1)",
    "bitstring": "SELECT bitstring('1', 2000000000)",
    "bitstring_agg": "SELECT bitstring_agg(1, 0, 2000000000)",
    "reservoir_quantile": "SELECT reservoir_quantile(1, 0.5, 1000000000)",
    "reservoir_quantile by its name": "SELECT list_aggregate([1], 'reservoir_quantile', 0.5, 1000000000)",
    "an aggregate named by a column": "SELECT list_aggregate([1], node_id) FROM fleet.nodes",
    "a series of a trillion rows": "FROM range(1000000000000)",
    "repeat_row": "FROM repeat_row(1, num_rows := 1000000000000)",
    "test_all_types": "FROM test_all_types()",
    "a long text": "SELECT '" + "x" * 20_000 + "'",
    "deep parentheses around lists": "SELECT " + "[" * 900 + "]" * 900,
    "a thousand additions": "SELECT " + "+".join("1" * 2_000),
    "nested comments": "SELECT " + "/*" * 4_000 + "*/" * 4_000 + " 1",
}

BOMBS: dict[str, str] = {
    "a cross join": "SELECT count(*) FROM range(10000000) a, range(10000000) b, range(10000000) c",
    "an endless recursion": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "a list of a whole table": "SELECT len(list(a.range)) FROM range(10000000) a, range(1000) b",
    "many groups": "SELECT count(*) FROM (SELECT a.range, b.range FROM range(10000000) a, range(1000) b GROUP BY ALL)",
    "a doubling text": "WITH RECURSIVE r AS (SELECT 'x' AS s UNION ALL SELECT s || s FROM r) SELECT max(length(s)) FROM r",
    "wide rows": "SELECT repeat('x', 10000) || repeat('y', 10000) FROM range(10000000) ORDER BY 1",
    "nested replaces": "SELECT length(replace(replace(repeat('x', 9999), 'x', repeat('y', 9999)), 'y', repeat('z', 9999)))",
    "lists in lists": "SELECT len(flatten(list_transform(range(10000), lambda x: range(9999)))) FROM range(1000)",
    "an endless fold": (
        "SELECT length(list_reduce(list_transform(range(40), lambda x: 'aaaa'), lambda a, b: a || a))"
    ),
}

LEGITIMATE: dict[str, str] = {
    "a constant": "SELECT 1",
    "a trailing semicolon": "SELECT 1;",
    "a comment": "SELECT 1 -- one\n/* two */",
    "every view": "SELECT count(*) FROM fleet.nodes",
    "FROM first": "FROM fleet.nodes",
    "mixed case": "select NODE_ID from FLEET.Nodes",
    "quoted names": 'SELECT "node_id" FROM "fleet"."nodes"',
    "TABLE": "TABLE fleet.nodes",
    "VALUES": "VALUES (1, 'a'), (2, 'b')",
    "free capacity by zone": (
        "SELECT n.zone, sum(c.free) AS free FROM fleet.nodes n JOIN fleet.capacity c USING (node_id) "
        "WHERE c.resource = 'cpu' AND n.schedulable GROUP BY ALL ORDER BY ALL"
    ),
    "the fleet at a time": "FROM fleet.nodes_at(now() - INTERVAL 1 DAY)",
    "capacity at a time": "SELECT resource, sum(free) FROM fleet.capacity_at(TIMESTAMPTZ '2026-01-01') GROUP BY 1",
    "a CTE": "WITH ready AS (SELECT * FROM fleet.nodes WHERE state = 'ready') SELECT zone, count(*) FROM ready GROUP BY 1",
    "a materialized CTE": "WITH a AS MATERIALIZED (FROM fleet.nodes), b AS (FROM a) FROM b",
    "a recursive CTE": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 10) SELECT sum(n) FROM r",
    "a window": (
        "SELECT node_id, state, lag(state) OVER (PARTITION BY node_id ORDER BY valid_from) AS before, "
        "row_number() OVER w FROM fleet.node_history WINDOW w AS (ORDER BY valid_from)"
    ),
    "QUALIFY": (
        "SELECT node_id, valid_from FROM fleet.node_history "
        "QUALIFY row_number() OVER (PARTITION BY node_id ORDER BY valid_from DESC) = 1"
    ),
    "a moving average": (
        "SELECT u.at, avg(used) OVER (ORDER BY u.at RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND CURRENT ROW) FROM fleet.usage u"
    ),
    "an ASOF join": (
        "SELECT u.node_id, u.used, c.allocatable FROM fleet.usage u "
        "ASOF JOIN fleet.capacity_history c ON u.node_id = c.node_id AND u.resource = c.resource AND u.at >= c.valid_from"
    ),
    "seconds per state": (
        "SELECT state, sum(epoch(coalesce(valid_to, now()) - valid_from)) AS s FROM fleet.node_history GROUP BY state"
    ),
    "hours as a table": (
        "SELECT h FROM generate_series(now() - INTERVAL 1 DAY, now(), INTERVAL 1 HOUR) t(h) "
        "LEFT JOIN fleet.node_history b ON h >= b.valid_from AND (b.valid_to IS NULL OR h < b.valid_to)"
    ),
    "a lateral series": (
        "SELECT n.node_id, d FROM fleet.nodes n, generate_series(n.changed_at, now(), INTERVAL 1 DAY) s(d)"
    ),
    "unnest": "SELECT node_id, unnest(conditions) FROM fleet.nodes",
    "unnest as a table": "SELECT n.node_id, c.x FROM fleet.nodes n, unnest(n.conditions) c(x)",
    "a short series as a list": "SELECT unnest(range(24)), generate_series(1, 10, 2), range(-5)",
    "a map": "SELECT labels['pool'], map_keys(labels), cardinality(labels) FROM fleet.nodes",
    "map entries": "SELECT node_id, e.key, e.value FROM fleet.nodes, unnest(map_entries(labels)) u(e)",
    "JSON": (
        "SELECT data->>'$.hostname', json_extract(data, '$.resources.cpu.total')::DECIMAL(38, 9), "
        "json_extract_string(data, '$.boot_id'), json_keys(data), data->'resources' FROM fleet.facts"
    ),
    "JSON into a struct": 'SELECT from_json(data, \'{"boot_id": "VARCHAR"}\').boot_id FROM fleet.facts',
    "lists": (
        "SELECT list_transform([1, 2], lambda x: x + 1), [x * 2 for x in [1, 2] if x > 1], [1, 2][1], [1, 2, 3][2:], "
        "list_sort([2, 1]), list_aggregate([1, 2], 'sum'), list_contains(conditions, 'flapping'), len(conditions) "
        "FROM fleet.nodes"
    ),
    "structs": "SELECT {'a': 1, 'b': 'x'} AS s, s['a'], row(1, 2), struct_pack(k := 1)",
    "text": (
        "SELECT upper(node_id), node_id || '!', node_id LIKE 'n%', node_id ILIKE 'N%', regexp_matches(node_id, '^n'), "
        "node_id SIMILAR TO 'n.*', split_part(node_id, ':', 1), concat_ws('-', zone, pool), substring(node_id, 1, 2), "
        "trim(node_id), replace(node_id, 'n', 'm'), node_id.lower(), printf('%5.2f', 1.5), format('{:>8}', node_id), "
        "lpad(node_id, 20, ' '), repeat('x', 10), position('n' IN node_id), left(node_id, 1) FROM fleet.nodes"
    ),
    "a bar": "SELECT zone, bar(count(*), 0, 100, 40) FROM fleet.nodes GROUP BY zone",
    "times": (
        "SELECT date_trunc('hour', stored_at), time_bucket(INTERVAL 15 MINUTE, stored_at), extract(dow FROM stored_at), "
        "stored_at AT TIME ZONE 'Europe/Berlin', strftime(stored_at, '%Y-%m'), epoch_ms(stored_at), "
        "date_diff('minute', stored_at, now()), age(stored_at), stored_at::DATE, INTERVAL 90 DAY, DATE '2026-01-01', "
        "current_date, current_timestamp, today(), make_timestamp(2026, 1, 1, 0, 0, 0) FROM fleet.facts"
    ),
    "aggregates": (
        "SELECT resource, count(*), count(DISTINCT node_id), sum(free), avg(free), min(free), max(free), median(free), "
        "quantile_cont(free, [0.5, 0.95]), approx_quantile(free, 0.9), stddev(free), mode(status), "
        "arg_max(node_id, free), max_by(node_id, free), string_agg(node_id, ',' ORDER BY node_id), list(node_id), "
        "histogram(status), bool_and(free > 0), count_if(free < 0), any_value(node_id), first(node_id ORDER BY free), "
        "sum(free) FILTER (WHERE status = 'reported'), percentile_cont(0.5) WITHIN GROUP (ORDER BY free) "
        "FROM fleet.capacity GROUP BY resource"
    ),
    "ROLLUP": "SELECT region, zone, grouping(zone), count(*) FROM fleet.nodes GROUP BY ROLLUP (region, zone)",
    "GROUPING SETS": "SELECT region, zone, count(*) FROM fleet.nodes GROUP BY GROUPING SETS ((region), (zone), ())",
    "PIVOT": "FROM (PIVOT fleet.nodes ON state IN ('ready', 'lost') USING count(*) GROUP BY zone) ORDER BY zone",
    "PIVOT by the standard": (
        "SELECT * FROM (SELECT zone, state FROM fleet.nodes) PIVOT (count(*) FOR state IN ('ready', 'lost'))"
    ),
    "PIVOT as a statement": "PIVOT fleet.nodes ON state IN ('ready', 'lost') USING count(*) GROUP BY zone",
    "UNPIVOT": "UNPIVOT (SELECT node_id, total, free FROM fleet.capacity) ON total, free INTO NAME what VALUE amount",
    "set operations": "SELECT node_id FROM fleet.nodes EXCEPT SELECT node_id FROM fleet.devices UNION ALL SELECT 'x'",
    "UNION BY NAME": "SELECT 1 AS a UNION ALL BY NAME SELECT 2 AS b",
    "joins": (
        "SELECT n.node_id FROM fleet.nodes n LEFT JOIN fleet.devices d USING (node_id) "
        "SEMI JOIN fleet.capacity c ON c.node_id = n.node_id ANTI JOIN fleet.allocations a ON a.node_id = n.node_id"
    ),
    "a lateral join": "SELECT n.node_id, l.c FROM fleet.nodes n, LATERAL (SELECT count(*) AS c FROM fleet.facts f WHERE f.node_id = n.node_id) l",
    "subqueries": (
        "SELECT (SELECT count(*) FROM fleet.devices d WHERE d.node_id = n.node_id), EXISTS (FROM fleet.allocations), "
        "node_id IN (SELECT node_id FROM fleet.capacity), ARRAY(SELECT resource FROM fleet.capacity) FROM fleet.nodes n"
    ),
    "COLUMNS": "SELECT COLUMNS('.*_at') FROM fleet.nodes",
    "stars": "SELECT * EXCLUDE (labels) REPLACE (upper(zone) AS zone) RENAME (state AS now_state) FROM fleet.nodes",
    "DISTINCT ON": "SELECT DISTINCT ON (zone) zone, node_id FROM fleet.nodes ORDER BY zone, node_id",
    "LIMIT": "SELECT node_id FROM fleet.nodes ORDER BY 1 LIMIT 10 OFFSET 5",
    "LIMIT of a share": "SELECT node_id FROM fleet.nodes LIMIT 10%",
    "a sample": "SELECT node_id FROM fleet.nodes USING SAMPLE 10%",
    "casts": "SELECT '1'::INT, CAST('2026-01-01' AS TIMESTAMPTZ), TRY_CAST('x' AS INT), 1::DECIMAL(18, 3), NULL::VARCHAR[]",
    "choices": "SELECT CASE WHEN true THEN 1 ELSE 2 END, coalesce(NULL, 1), nullif(1, 1), ifnull(NULL, 2), greatest(1, 2), if(true, 1, 2)",
    "TRY": "SELECT TRY(1 / 0)",
    "collation": "SELECT node_id FROM fleet.nodes ORDER BY node_id COLLATE NOCASE",
    "numbers": "SELECT 7 // 2, 7 % 2, 2 ** 3, -5, 1e3, 0.1 + 0.2, round(1.25, 1), floor(1.5), 5!, @ -3, ln(2), random() < 1",
    "hugeint": "SELECT sum(seq) FROM fleet.facts",
    "a series as a table": "SELECT count(*) FROM range(1000000)",
    "a CTE named like a view": "WITH usage AS (FROM fleet.usage) FROM usage",
    "nested CTEs": "WITH a AS (WITH b AS (SELECT 1 AS x) FROM b) SELECT x FROM a",
    "a dollar-quoted text": "SELECT $$it's; a -- text$$",
    "Unicode": "SELECT 'Zürich' AS ünïcode, '🚀'",
    "a text that looks hostile": "SELECT 'DROP TABLE facts; read_text(''/etc/passwd'')'",
}
