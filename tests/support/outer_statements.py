"""Drawn SQL around drawn joins, over finite tables; spojoin must give DuckDB's answer."""

from __future__ import annotations

import random

import pyarrow as pa

#: Tables whose small domains give ties and NULLs.
SYMBOLS = ["A", "B", "C", None]
_LEFT = ("l.id", "l.sym", "l.x", "l.z")
_RIGHT = ("r.id", "r.sym", "r.y", "r.w")
_CONDITIONS = ("l.x > r.y", "l.x <= r.y", "l.z < r.w", "l.x BETWEEN r.y AND r.y + 3", "l.x <> r.y AND l.z >= r.w")


def tables(draw: random.Random) -> dict[str, pa.Table]:
    """Two sides and a small table of names."""

    def number() -> int | None:
        return draw.choice([*range(8), None])

    def side(rows: int, names: tuple[str, str]) -> pa.Table:
        return pa.table(
            {
                "id": pa.array(range(rows), pa.int64()),
                "sym": pa.array([draw.choice(SYMBOLS) for _ in range(rows)], pa.string()),
                names[0]: pa.array([number() for _ in range(rows)], pa.int64()),
                names[1]: pa.array([draw.choice([0.5, 1.5, 2.5, None]) for _ in range(rows)], pa.float64()),
            }
        )

    names = pa.table({"sym": ["A", "B", "D"], "name": ["alpha", "beta", "delta"]})
    return {"a": side(draw.randrange(1, 25), ("x", "z")), "b": side(draw.randrange(1, 25), ("y", "w")), "n": names}


def joined(draw: random.Random) -> tuple[str, bool]:
    """FROM and WHERE of a join, and whether the right side's columns may be named."""
    kind = draw.choice(["JOIN", "JOIN", "JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN"])
    condition = draw.choice(_CONDITIONS) + draw.choice(["", "", " AND l.sym = r.sym"])
    left = draw.choice(["a", "a", "a", "(SELECT * FROM a WHERE id % 2 = 0)"])
    right = draw.choice(["TABLE(b)", "TABLE(b)", "TABLE(SELECT * FROM b WHERE y > 1)"])
    where = draw.choice(["", "", " WHERE l.x > 1", " WHERE l.x > 1 AND l.z IS NOT NULL OR l.sym = 'A'"])
    return f"FROM {left} AS l {kind} {right} AS r ON {condition}{where}", kind in ("JOIN", "LEFT JOIN")


def statement(draw: random.Random) -> str:
    """A statement whose rows have a unique order."""
    source, has_right = joined(draw)
    columns = [*_LEFT, *_RIGHT] if has_right else list(_LEFT)
    drawn = draw.choice([_grouped, _plain, _distinct, _numbered, _within, _united, _further, _counted])
    return drawn(draw, source, columns)


def _aggregates(draw: random.Random, columns: list[str]) -> list[str]:
    number = draw.choice([each for each in columns if not each.endswith("sym")])
    return draw.sample(
        [
            "COUNT(*)",
            f"SUM({number})",
            f"MIN({number})",
            f"COUNT(DISTINCT {draw.choice(columns)})",
            f"COUNT(*) FILTER (WHERE {number} > 1)",
            f"MAX({number}) - MIN({number})",
        ],
        draw.randrange(1, 4),
    )


def _grouped(draw: random.Random, source: str, columns: list[str]) -> str:
    keys = draw.sample(columns, draw.randrange(1, 3))
    listed = [f"{key} AS k{n}" for n, key in enumerate(keys)]
    listed += [f"{each} AS v{n}" for n, each in enumerate(_aggregates(draw, columns))]
    having = draw.choice(["", " HAVING COUNT(*) > 1"])
    group = draw.choice([", ".join(keys), "ALL"])
    return f"SELECT {', '.join(listed)} {source} GROUP BY {group}{having} ORDER BY ALL{_limited(draw)}"


def _counted(draw: random.Random, source: str, columns: list[str]) -> str:
    return f"SELECT {', '.join(f'{each} AS v{n}' for n, each in enumerate(_aggregates(draw, columns)))} {source}"


def _plain(draw: random.Random, source: str, columns: list[str]) -> str:
    order = [draw.choice(columns) + draw.choice(["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]), *_ids(columns)]
    listed = ", ".join(f"{each} AS v{n}" for n, each in enumerate(draw.sample(columns, 3)))
    return f"SELECT {listed} {source} ORDER BY {', '.join(order)}{_limited(draw)}"


def _distinct(draw: random.Random, source: str, columns: list[str]) -> str:
    listed = ", ".join(f"{each} AS v{n}" for n, each in enumerate(draw.sample(columns, 2)))
    return f"SELECT DISTINCT {listed} {source} ORDER BY 1, 2{_limited(draw)}"


def _numbered(draw: random.Random, source: str, columns: list[str]) -> str:
    ids = ", ".join(_ids(columns))
    over = f"OVER (PARTITION BY {draw.choice(columns)} ORDER BY {draw.choice(columns)}, {ids})"
    listed = ", ".join(f"{each} AS i{n}" for n, each in enumerate(_ids(columns)))
    qualify = draw.choice(["", " QUALIFY k <= 2"])
    return f"SELECT {listed}, ROW_NUMBER() {over} AS k {source}{qualify} ORDER BY {ids}{_limited(draw)}"


def _within(draw: random.Random, source: str, columns: list[str]) -> str:
    key, other = draw.sample(columns, 2)
    inner = f"SELECT {key} AS k, {other} AS v {source}"
    outer = "SELECT k, COUNT(*) AS c, COUNT(v) AS d FROM {} AS j GROUP BY k ORDER BY ALL"
    if draw.random() < 0.5:
        return f"WITH q AS ({inner}) {outer.format('q')}"
    return outer.format(f"({inner})")


def _united(draw: random.Random, source: str, columns: list[str]) -> str:
    other, _ = joined(draw)
    first, second = draw.choice(columns[:4]), draw.choice(_LEFT)
    if first.endswith("sym") != second.endswith("sym"):
        second = first
    word = draw.choice(["UNION", "UNION ALL", "EXCEPT", "INTERSECT"])
    return f"SELECT {first} AS k {source} {word} SELECT {second} AS k {other} ORDER BY 1{_limited(draw)}"


def _further(draw: random.Random, source: str, columns: list[str]) -> str:
    begin = source.find(" WHERE ", source.index(" ON "))
    from_, where = (source, "") if begin < 0 else (source[:begin], source[begin:])
    kind = draw.choice(["JOIN", "LEFT JOIN"])
    listed = f"n.name AS name, COUNT(*) AS c, MAX({draw.choice(columns)}) AS m"
    return f"SELECT {listed} {from_} {kind} n ON n.sym = l.sym{where} GROUP BY n.name ORDER BY ALL"


def _ids(columns: list[str]) -> list[str]:
    return [each for each in columns if each.endswith(".id")]


def _limited(draw: random.Random) -> str:
    return draw.choice(["", "", " LIMIT 3", " LIMIT 4 OFFSET 1"])


def as_duckdb(sql: str) -> str:
    """The statement without what DuckDB lacks."""
    return sql.replace("TABLE(SELECT", "(SELECT").replace("TABLE(b)", "b")
