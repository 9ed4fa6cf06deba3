"""What other dialects say: accepted where its meaning is certain, else refused with a statement that runs instead."""

import pyarrow as pa
import pytest

import spojoin
from spojoin.errors import QueryError
from tests.support.by_duckdb import by_duckdb

A = pa.table({"id": [1, 2, 3, 4], "k": ["x", "y", "x", "z"], "v": [1, 2, 3, 4], "n": [1, None, 3, 4]})
B = pa.table({"id": [5, 6, 7, 8], "k": ["x", "x", "y", "q"], "v": [0, 2, 2, 9], "w": [1.0, 2.0, None, 4.0]})

ACCEPTED = [
    "SELECT l.id, r.w FROM a AS l FULL OUTER JOIN b AS r ON l.v < r.v WHERE r.w > 1",
    "SELECT l.id, r.w FROM a AS l LEFT JOIN b AS r ON l.v < r.v WHERE r.w > 1",
    "SELECT l.id, r.id AS other FROM a AS l CROSS JOIN b AS r WHERE l.v < r.v AND l.id > 1",
    "SELECT l.id, r.id AS other FROM a AS l, b AS r WHERE l.v < r.v AND l.k = r.k",
    "SELECT l.id, r.w FROM a AS l JOIN b AS r USING (k)",
    "SELECT k, v, l.id, r.w FROM a AS l LEFT JOIN b AS r USING (k, v)",
    "SELECT K, l.n, r.w FROM a AS l RIGHT JOIN b AS r USING (k)",
    "SELECT l.id FROM a AS l ANTI JOIN b AS r USING (k, v)",
    "SELECT l.n, r.w FROM (SELECT k, v, n FROM a) AS l NATURAL JOIN (SELECT k, w FROM b) AS r",
]


def expected(statement):
    return sorted(by_duckdb(statement, a=A, b=B), key=str)


def by_spojoin(statement):
    found = spojoin.sql(statement, a=A, b=B).to_arrow()
    return sorted((tuple(row) for row in zip(*(column.to_pylist() for column in found.columns), strict=True)), key=str)


@pytest.mark.parametrize("statement", ACCEPTED)
def test_what_has_one_meaning_is_accepted(statement):
    assert by_spojoin(statement) == expected(statement)


def test_a_star_gives_a_column_of_using_once():
    statement = "SELECT * FROM a AS l JOIN b AS r USING (k)"
    names = spojoin.sql(statement, a=A, b=B).to_arrow().column_names
    assert names == ["l_id", "k", "l_v", "n", "r_id", "r_v", "w"]
    assert by_spojoin(statement) == expected(statement)


@pytest.mark.parametrize(
    ("star", "names"),
    [
        ("l.* EXCLUDE (k, N)", ["id", "v"]),
        ("r.* REPLACE (r.w * 2 AS w)", ["id", "k", "v", "w"]),
        ("* EXCLUDE (id, v, k)", ["n", "w"]),
        ("* EXCLUDE (l.id, r.id, l.v, k)", ["n", "v", "w"]),
    ],
)
def test_a_star_without_some_columns_or_with_others_values(star, names):
    statement = f"SELECT {star} FROM a AS l JOIN b AS r ON l.v < r.v"
    assert spojoin.sql(statement, a=A, b=B).to_arrow().column_names == names
    assert by_spojoin(statement) == expected(statement)


def test_a_star_names_a_column_that_it_hasnt_got():
    with pytest.raises(QueryError, match=r"unknown column 'kk': .* did you mean 'k'"):
        by_spojoin("SELECT l.* EXCLUDE (kk) FROM a AS l JOIN b AS r ON l.v < r.v")


REFUSED = {
    "SELECT l.id, r.w FROM a AS l JOIN b AS r WHERE l.v < r.v": "SELECT l.id, r.w FROM a AS l JOIN b AS r ON l.v < r.v",
    "SELECT l.id FROM a AS l LEFT SEMI JOIN b AS r ON l.v < r.v": "SELECT l.id FROM a AS l SEMI JOIN b AS r ON l.v < r.v",  # noqa: E501
    "SELECT l.id FROM a AS l left anti JOIN b AS r ON l.v < r.v": "SELECT l.id FROM a AS l anti JOIN b AS r ON l.v < r.v",  # noqa: E501
    "SELECT STRAIGHT_JOIN l.id FROM a AS l JOIN b AS r ON l.v < r.v": "SELECT l.id FROM a AS l JOIN b AS r ON l.v < r.v",  # noqa: E501
    "SELECT l.id FROM a AS l STRAIGHT_JOIN b AS r ON l.v < r.v": "SELECT l.id FROM a AS l JOIN b AS r ON l.v < r.v",
    "SELECT l.id FROM a AS l INNER LOOKUP JOIN b AS r ON l.v < r.v": (
        "SELECT l.id FROM a AS l INNER JOIN b AS r ON l.v < r.v"
    ),
    "SELECT TOP 20 l.id FROM a AS l JOIN b AS r ON l.v < r.v;": "SELECT l.id FROM a AS l JOIN b AS r ON l.v < r.v LIMIT 20;",  # noqa: E501
    "SELECT TOP (3) l.id FROM a AS l JOIN b AS r ON l.v < r.v ORDER BY l.id, r.id": (
        "SELECT l.id FROM a AS l JOIN b AS r ON l.v < r.v ORDER BY l.id, r.id LIMIT 3"
    ),
    "SELECT l.id FROM a AS l JOIN b AS r ON l.v < r.v WHERE ROWNUM <= 9 AND l.id > 1": (
        "SELECT l.id FROM a AS l JOIN b AS r ON l.v < r.v WHERE l.id > 1 LIMIT 9"
    ),
    "SELECT l.id FROM a AS l JOIN b AS r ON l.v < r.v WHERE l.id > 1 AND ROWNUM <= 9;": (
        "SELECT l.id FROM a AS l JOIN b AS r ON l.v < r.v WHERE l.id > 1 LIMIT 9;"
    ),
    "SELECT * EXCEPT (v, k) FROM a AS l JOIN b AS r ON l.v < r.v": (
        "SELECT * EXCLUDE (v, k) FROM a AS l JOIN b AS r ON l.v < r.v"
    ),
    "EXPLAIN ANALYZE SELECT l.id FROM a AS l JOIN b AS r ON l.v < r.v": (
        "SELECT l.id FROM a AS l JOIN b AS r ON l.v < r.v"
    ),
    "COPY (SELECT l.id FROM a AS l JOIN b AS r ON l.v < r.v) TO 'x.parquet'": (
        "SELECT l.id FROM a AS l JOIN b AS r ON l.v < r.v"
    ),
    "CREATE OR REPLACE TABLE c AS SELECT l.id FROM a AS l JOIN b AS r ON l.v < r.v": (
        "SELECT l.id FROM a AS l JOIN b AS r ON l.v < r.v"
    ),
    "SUMMARIZE SELECT l.id FROM a AS l JOIN b AS r ON l.v < r.v": (
        "SELECT * FROM (SUMMARIZE SELECT l.id FROM a AS l JOIN b AS r ON l.v < r.v)"
    ),
}


@pytest.mark.parametrize(("statement", "instead"), REFUSED.items())
def test_a_refusal_gives_the_statement_put_right_which_runs(statement, instead):
    with pytest.raises(QueryError) as refused:
        by_spojoin(statement)
    assert refused.value.instead == instead
    assert str(refused.value).endswith(f"write: {instead}")
    assert by_spojoin(instead) == expected(instead)


@pytest.mark.parametrize("join", ["ASOF RIGHT", "RIGHT ASOF", "ASOF RIGHT OUTER"])
def test_asof_right_may_mean_two_things(join):
    with pytest.raises(QueryError, match="nearest right row, or exchanged sides, FROM b ASOF LEFT JOIN a") as refused:
        by_spojoin(f"SELECT r.id, l.id AS o FROM a AS l {join} JOIN b AS r ON l.v >= r.v")
    assert refused.value.instead is None


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT l.id FROM a AS l JOIN b AS r WITHIN 10 SECONDS ON l.v < r.v", "r.at BETWEEN l.at - INTERVAL"),
        ("SELECT l.id FROM a AS l JOIN b AS r WITHIN (1 HOUR, 2 HOURS) ON l.v < r.v", "r.at BETWEEN l.at - INTERVAL"),
        ("SELECT l.id FROM a AS l JOIN b AS r ON l.v < r.v WINDOW TUMBLING (SIZE 1 HOUR)", "WINDOW AS"),
        ("SELECT l.id FROM a AS l JOIN b AS r ON l.v < r.v WINDOW SESSION (1 HOUR)", "WINDOW AS"),
        (
            "SELECT l.id FROM TABLE(HOP(TABLE a, DESCRIPTOR(at), INTERVAL '1' HOUR)) AS l JOIN b AS r ON l.v < r.v",
            "WINDOW AS",
        ),
    ],
)
def test_windows_of_other_engines_are_named_with_what_is_written_instead(statement, expected):
    with pytest.raises(QueryError, match=r"ksqlDB|of another engine") as caught:
        spojoin.sql(statement, a=A, b=B)
    assert expected in str(caught.value)


def test_columns_may_have_the_names_of_windows_of_other_engines():
    named = A.rename_columns(["session", "hop", "within", "tumble"])
    found = spojoin.sql("SELECT l.session, l.hop FROM a AS l JOIN TABLE(b) AS r ON l.within < r.v", a=named, b=B)
    assert found.to_arrow().num_rows == sum(left < right for left in A["v"].to_pylist() for right in B["v"].to_pylist())


@pytest.mark.parametrize(
    ("join", "condition", "instead"),
    [("LEFT", "r.w > 1", "INNER"), ("FULL OUTER", "r.w > 1", "RIGHT"), ("FULL", "l.v > 1", "LEFT"),
     ("LEFT", "coalesce(r.w, 5) > 1", None)],
)  # fmt: skip
def test_where_that_no_null_passes_makes_less_of_an_outer_join_of_streams(join, condition, instead):
    schema = {"v": "long", "w": "double"}
    statement = f"SELECT l.v, r.w FROM a AS l {{}} JOIN b AS r ON l.v < r.v WHERE {condition} "
    statement += "WINDOW AS (SLIDE INTERVAL '1' ON '9') EMIT ON CLOSE"
    with pytest.raises(QueryError) as refused:
        spojoin.Join(statement.format(join), {"a": schema, "b": schema})
    assert refused.value.instead == (instead and statement.format(instead))


@pytest.mark.parametrize("listed", ["", "SELECT l.v, r.w "])
def test_from_before_select_is_turned_round_for_streams(listed):
    schema = {"v": "long", "w": "double"}
    rest = "WINDOW AS (SLIDE INTERVAL '1' ON '9')"
    with pytest.raises(QueryError, match="FROM stands before SELECT") as refused:
        spojoin.Join(f"FROM a AS l JOIN b AS r ON l.v < r.v {listed}{rest}", {"a": schema, "b": schema})
    assert refused.value.instead == f"{listed or 'SELECT * '}FROM a AS l JOIN b AS r ON l.v < r.v {rest}"
    spojoin.Join(refused.value.instead, {"a": schema, "b": schema}).close()


def test_a_column_may_have_a_name_that_duckdb_reserves():
    at = pa.table({"at": [1, 2], "v": [1, 2]})
    names = {"f": at, "b": B}
    for listed in ("at", "at AS x", "l.* EXCLUDE (at)", "at + 1 AS at", "MAX(l.at) AS at"):
        for around in ("", " ORDER BY 1"):
            assert spojoin.sql(f"SELECT {listed} FROM f AS l JOIN b AS r ON l.v < r.v{around}", **names).to_arrow()
    join = spojoin.Join(
        "SELECT * EXCLUDE (at) FROM a AS l JOIN b AS r ON l.v < r.w AND at > 0 WINDOW AS (SLIDE INTERVAL '1' ON '9')",
        {"a": {"at": "long", "v": "long"}, "b": {"w": "long"}},
    )
    assert join.push({"v": [1], "at": [3]}, "a").schema.names == ["v", "w"]
    join.close()


@pytest.mark.parametrize(
    ("listed", "on", "has_way"),
    [
        ("l.*", "l.v = r.v", True),
        ("l.w, l.v + 1 AS n", "l.v = r.v AND l.w < r.w", True),
        ("l.v, r.w", "l.v = r.v", False),
        ("*", "l.v = r.v", False),
        ("l.v", "l.w < r.w", False),  # r.v of a partner may be NULL
    ],
)
def test_left_rows_without_a_partner_are_those_of_an_anti_join(listed, on, has_way):
    schema = {"v": "long", "w": "double"}
    window = " WINDOW AS (SLIDE INTERVAL '1' ON '9') EMIT ON CLOSE"
    with pytest.raises(QueryError, match="ANTI JOIN") as refused:
        spojoin.Join(
            f"SELECT {listed} FROM a AS l LEFT JOIN b AS r ON {on} WHERE r.v IS NULL{window}",
            dict.fromkeys("ab", schema),
        )
    instead = f"SELECT {listed} FROM a AS l ANTI JOIN b AS r ON {on}{window}"
    assert refused.value.instead == (instead if has_way else None)
    if has_way:
        spojoin.Join(refused.value.instead, dict.fromkeys("ab", schema)).close()


def test_a_group_on_a_stream_is_the_row():
    schema = {"id": "long", "v": "long"}
    statement = "SELECT l.id, COUNT(*) AS n FROM a AS l JOIN TABLE(b) AS r ON l.v < r.v GROUP BY {} HAVING COUNT(*) > 1"
    with pytest.raises(QueryError) as refused:
        spojoin.Join(statement.format("l.id, l.v"), {"a": schema, "b": schema})
    assert refused.value.instead == statement.format("l")
    with spojoin.Join(refused.value.instead, {"a": schema, "b": schema}) as join:
        assert join.query.answers.grouped is not None


@pytest.mark.parametrize(("texts", "cast"), [(["1", "3"], "CAST(r.k AS BIGINT)"), (["x", "y"], None)])
def test_texts_that_are_compared_with_numbers_are_cast_where_they_are_numbers(texts, cast):
    statement = "SELECT l.id FROM a AS l JOIN b AS r ON l.v < r.v AND {} < l.id"
    with pytest.raises(QueryError) as refused:
        spojoin.sql(statement.format("r.k"), a=A, b={"k": texts, "v": [2, 3]})
    assert refused.value.instead == (cast and statement.format(cast))


def test_a_path_without_quotes_is_quoted():
    with pytest.raises(QueryError) as refused:
        by_spojoin("SELECT l.id FROM taxi.csv AS l JOIN b AS r ON l.v < r.v")
    assert refused.value.instead == "SELECT l.id FROM 'taxi.csv' AS l JOIN b AS r ON l.v < r.v"


def test_an_address_is_written_as_a_number():
    with pytest.raises(QueryError, match="INET is an extension") as refused:
        by_spojoin("SELECT l.id FROM a AS l JOIN b AS r ON CAST(l.k AS INET) >= CAST(r.k AS INET)")
    number = str(refused.value).split("as a number: ")[1].replace("l.k", "'10.1.2.3'")
    assert by_duckdb(f"SELECT {number}") == [(10 * 256**3 + 1 * 256**2 + 2 * 256 + 3,)]
