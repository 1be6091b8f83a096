"""The functions that analysts' SQL may call: a reviewed allow-list (floor 3, pure).

What is not named here is refused, so a new version of the engine brings nothing in by itself. Left out on
purpose: whatever reads files, settings, variables, secrets, logs, the catalog or the statement itself, runs
text as SQL, writes (`nextval`, `write_log`), waits (`sleep_ms`, `pg_sleep`) or takes a size that no limit
of the engine bounds (`reservoir_quantile` with a huge sample ends the whole database; `bitstring`,
`bitstring_agg`). Reviewed against `duckdb_functions()` of 1.5.5 and 2.0.1; a test compares the names with
the installed engine.
"""

from __future__ import annotations

_OPERATORS = """
    + - * / // % ** ^ & | ~ << >> !__postfix @ || ^@ && @> <@ <-> <=> ~~ !~~ ~~* !~~* ~~~ -> ->> like_escape
    not_like_escape ilike_escape not_ilike_escape add subtract multiply divide mod xor power pow
"""

_NUMBERS = """
    abs acos acosh asin asinh atan atan2 atanh cbrt ceil ceiling cos cosh cot degrees even exp factorial
    fdiv fmod floor gamma gcd greatest_common_divisor isfinite isinf isnan lcm least_common_multiple lgamma
    ln log log10 log2 nextafter pi radians random round round_even roundbankers sign signbit sin sinh sqrt
    tan tanh trunc bit_count equi_width_bins to_base bin to_binary
"""

_TEXT = """
    ascii bar base64 bit_length char_length character_length chr concat concat_ws contains
    damerau_levenshtein decode editdist3 encode ends_with format_bytes formatReadableDecimalSize
    formatReadableSize from_base64 from_binary from_hex hamming hash hex instr jaccard jaro_similarity
    jaro_winkler_similarity lcase left left_grapheme len length length_grapheme levenshtein lower ltrim md5
    md5_number md5_number_lower md5_number_upper mismatches nfc_normalize octet_length ord overlay
    parse_dirname parse_dirpath parse_filename parse_formatted_bytes parse_path pg_size_pretty position
    prefix regexp_escape regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace
    regexp_split_to_array regexp_split_to_table replace reverse right right_grapheme rtrim sha1 sha256 split
    split_part starts_with str_split str_split_regex string_split string_split_regex string_to_array
    strip_accents strlen strpos substr substring substring_grapheme suffix to_base64 to_hex translate trim
    ucase unbin unhex unicode upper url_decode url_encode
"""

_TIME = """
    age ago century current_date current_localtime current_localtimestamp current_time current_timestamp
    date_add date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc day dayname
    dayofmonth dayofweek dayofyear days_in_month decade epoch epoch_ms epoch_ns epoch_us era
    get_current_time get_current_timestamp hour isodow isoyear julian last_day make_date make_time
    make_timestamp make_timestamp_ms make_timestamp_ns make_timestamptz microsecond millennium millisecond
    minute month monthname nanosecond normalized_interval now quarter second strftime strptime time_bucket
    timezone timezone_hour timezone_minute to_centuries to_days to_decades to_hours to_microseconds
    to_millennia to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp to_weeks to_years
    today transaction_timestamp try_strptime week weekday weekofyear year yearweek
"""

_LISTS = """
    apply array_append array_apply array_cat array_concat array_contains array_cosine_distance
    array_cosine_similarity array_cross_product array_distance array_distinct array_dot_product
    array_extract array_filter array_grade_up array_has array_has_all array_has_any array_indexof
    array_inner_product array_intersect array_length array_negative_dot_product array_negative_inner_product
    array_pop_back array_pop_front array_position array_prepend array_push_back array_push_front
    array_reduce array_reverse array_reverse_sort array_select array_slice array_sort array_to_string
    array_to_string_comma_default array_transform array_unique array_value array_where array_zip cardinality
    element_at filter flatten generate_subscripts grade_up list_any_value list_append list_apply
    list_approx_count_distinct list_avg list_bit_and list_bit_or list_bit_xor list_bool_and list_bool_or
    list_cat list_concat list_contains list_cosine_distance list_cosine_similarity list_count list_distance
    list_distinct list_dot_product list_element list_entropy list_extract list_filter list_first
    list_grade_up list_has list_has_all list_has_any list_histogram list_indexof list_inner_product
    list_intersect list_kurtosis list_kurtosis_pop list_last list_mad list_max list_median list_min
    list_mode list_negative_dot_product list_negative_inner_product list_pack list_position list_prepend
    list_product list_reduce list_reverse list_reverse_sort list_select list_sem list_skewness list_slice
    list_sort list_stddev_pop list_stddev_samp list_string_agg list_sum list_transform list_unique
    list_value list_var_pop list_var_samp list_where list_zip reduce unnest
"""

_MAPS_AND_STRUCTS = """
    map map_concat map_contains map_contains_entry map_contains_value map_entries map_extract
    map_extract_value map_from_entries map_keys map_values row struct_concat struct_contains struct_extract
    struct_extract_at struct_has struct_indexof struct_insert struct_keys struct_pack struct_position
    struct_update struct_values union_extract union_tag union_value enum_code enum_first enum_last
    enum_range enum_range_boundary
"""

_JSON = """
    array_to_json from_json from_json_strict json json_array json_array_length json_contains json_exists
    json_extract json_extract_path json_extract_path_text json_extract_string json_group_array
    json_group_object json_group_structure json_keys json_merge_patch json_object json_pretty json_quote
    json_structure json_transform json_transform_strict json_type json_valid json_value row_to_json to_json
"""

_CHOICES = """
    alias coalesce constant_or_null error greatest if ifnull is_histogram_other_bin least nullif pg_typeof
    switch typeof gen_random_uuid uuid uuidv4 uuidv7 uuid_extract_timestamp uuid_extract_version
"""

_AGGREGATES = """
    any_value approx_count_distinct approx_quantile approx_top_k arbitrary arg_max arg_max_null
    arg_max_nulls_last arg_min arg_min_null arg_min_nulls_last argmax argmin array_agg avg bit_and bit_or
    bit_xor bool_and bool_or corr count count_if count_star countif covar_pop covar_samp entropy favg first
    fsum geomean geometric_mean group_concat histogram histogram_exact kahan_sum kurtosis kurtosis_pop last
    list listagg mad max max_by mean median min min_by mode product quantile quantile_cont quantile_disc
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy sem skewness
    stddev stddev_pop stddev_samp string_agg sum sumkahan var_pop var_samp variance wavg weighted_avg
"""

_WINDOWS = """
    cume_dist dense_rank fill first_value lag last_value lead nth_value ntile percent_rank rank rank_dense
    row_number
"""

FREE = frozenset(
    name.lower()
    for names in (
        _OPERATORS,
        _NUMBERS,
        _TEXT,
        _TIME,
        _LISTS,
        _MAPS_AND_STRUCTS,
        _JSON,
        _CHOICES,
        _AGGREGATES,
        _WINDOWS,
    )
    for name in names.split()
)
"""Functions without a condition: what they make is bounded by what they are given, or by the engine."""

AGGREGATES = frozenset(_AGGREGATES.split())

SERIES = frozenset({"range", "generate_series"})
"""As a table (`FROM range(…)`) streamed and interruptible; as a scalar one list, made whole at once."""

SIZED = frozenset({"repeat", "lpad", "rpad", "list_resize", "array_resize"})
"""Functions whose second argument is the size of what they make."""

TEMPLATES = frozenset({"format", "printf"})
"""Functions whose first argument may hold widths, which are sizes."""

BY_NAME = frozenset({"list_aggregate", "list_aggr", "array_aggregate", "array_aggr", "aggregate"})
"""Functions whose second argument names an aggregate, which must be one of `AGGREGATES`."""

TABLES = SERIES | {"unnest"}
"""Table functions besides the macros of schema `fleet`."""

ALLOWED = FREE | SERIES | SIZED | TEMPLATES | BY_NAME

WHY_REFUSED = {
    **dict.fromkeys(
        ("nextval", "currval", "setval", "setseed", "write_log", "checkpoint", "force_checkpoint"),
        "it changes or reads state outside the fleet views",
    ),
    **dict.fromkeys(
        ("getenv", "getvariable", "current_setting", "current_user", "user", "version", "current_schema"),
        "settings and variables of the server are not served",
    ),
    **dict.fromkeys(
        ("query", "query_table", "json_execute_serialized_sql", "histogram_values"),
        "names of tables and statements cannot be given as text",
    ),
    **dict.fromkeys(("sleep_ms", "pg_sleep"), "a statement may not wait"),
    **dict.fromkeys(
        ("reservoir_quantile", "bitstring", "bitstring_agg"), "nothing bounds the memory that it takes"
    ),
    **dict.fromkeys(
        ("glob", "seq_scan", "sniff_csv"), "files and tables outside the fleet views are not served"
    ),
}
"""A reason for the functions that people (or attackers) try most; any other one is just not on the list."""

WHY_PREFIX_REFUSED = (
    ("read_", "files are not served"),
    ("parquet_", "files are not served"),
    ("arrow_", "data of the server's process is not served"),
    ("pandas_", "data of the server's process is not served"),
    ("python_", "data of the server's process is not served"),
    ("duckdb_", "the catalog is served by GET /fleet/v1/sql/schema"),
    ("pragma_", "the catalog is served by GET /fleet/v1/sql/schema"),
    ("pg_", "the catalog is served by GET /fleet/v1/sql/schema"),
    ("has_", "the catalog is served by GET /fleet/v1/sql/schema"),
)


def why_refused(name: str) -> str:
    """Return why a function (in lower case) is not on the list."""
    if name in WHY_REFUSED:
        return WHY_REFUSED[name]
    return next(
        (why for prefix, why in WHY_PREFIX_REFUSED if name.startswith(prefix)), "it is not on the list"
    )
