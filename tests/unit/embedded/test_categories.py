"""Categories are text in every frame; an order of their own is never taken for that of their text."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import spojoin
from spojoin.errors import QueryError

WORDS = ["low", "medium", "high"]
RANKED = {
    "pandas": lambda words: pd.DataFrame({"s": pd.Categorical(words, categories=WORDS, ordered=True)}),
    "polars": lambda words: pl.DataFrame({"s": pl.Series(words, dtype=pl.Enum(WORDS))}),
    "arrow": lambda words: pa.table(
        {"s": pa.DictionaryArray.from_arrays(list(map(WORDS.index, words)), WORDS, ordered=True)}
    ),
}
PLAIN = {
    "pandas": lambda words: pd.DataFrame({"s": pd.Categorical(words, categories=WORDS)}),
    "polars": lambda words: pl.DataFrame({"s": pl.Series(words, dtype=pl.Categorical)}),
    "arrow": lambda words: pa.table({"s": pa.array(words).dictionary_encode()}),
    "text": lambda words: pa.table({"s": words}),
    "view": lambda words: pa.table({"s": pa.array(words, pa.string_view())}),
}
RANK = "CASE {} WHEN 'low' THEN 1 WHEN 'medium' THEN 2 WHEN 'high' THEN 3 END"


@pytest.mark.parametrize("make", [*PLAIN.values(), *RANKED.values()])
def test_they_equal_their_texts(make):
    rows = make(["high", "low", "high"])
    found = spojoin.sql(
        "SELECT l.s FROM rows AS l JOIN TABLE(texts) AS r ON l.s = r.s", rows=rows, texts=pa.table({"s": ["high"]})
    )
    assert found.to_arrow().to_pydict() == {"s": ["high", "high"]}


@pytest.mark.parametrize("make", RANKED.values(), ids=RANKED)
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT r.s FROM a AS l JOIN TABLE(b) AS r ON l.s >= r.s",
        "SELECT r.s FROM a AS l JOIN TABLE(b) AS r ON l.s <> r.s AND l.s >= 'low'",
        "SELECT r.s FROM a AS l JOIN TABLE(b) AS r ON l.s <> r.s AND (l.s > r.s OR r.s = 'x')",
        "SELECT MAX(r.s) AS s FROM a AS l JOIN TABLE(b) AS r ON l.s <> r.s GROUP BY l",
        "SELECT r.s FROM a AS l JOIN TABLE(b) AS r ON l.s <> r.s "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY l ORDER BY r.s) <= 1",
    ],
)
def test_no_statement_orders_them_by_text(make, statement):
    with pytest.raises(QueryError, match=r"categories have another order than their texts.*CASE [lr]\.s WHEN"):
        spojoin.sql(statement, a=make(["medium"]), b=make(["low", "high"]))


@pytest.mark.parametrize("make", RANKED.values(), ids=RANKED)
def test_a_case_says_their_order(make):
    condition = f"{RANK.format('l.s')} >= {RANK.format('r.s')}"
    found = spojoin.sql(
        f"SELECT r.s FROM a AS l JOIN TABLE(b) AS r ON {condition}", a=make(["medium"]), b=make(["low", "high"])
    )
    assert found.to_arrow().to_pydict() == {"s": ["low"]}


def test_files_of_polars_have_them(tmp_path):
    RANKED["polars"](["low", "high"]).write_ipc(tmp_path / "a.arrow")
    found = spojoin.sql(f"SELECT l.s FROM '{tmp_path}/a.arrow' AS l JOIN TABLE('{tmp_path}/a.arrow') AS r ON l.s = r.s")
    assert found.to_arrow()["s"].to_pylist() == ["low", "high"]
