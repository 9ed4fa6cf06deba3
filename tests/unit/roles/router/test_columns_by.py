"""The setting `columns_by`: it reaches the frames, or is refused where columns can't be by key."""

from __future__ import annotations

import pytest

from spojoin.errors import ConfigurationError
from spojoin.query.load import parse_query
from spojoin.roles.router.__main__ import router_config
from spojoin.runtime.settings import Settings

QUERY = (
    "name: q\nstreams:\n  s: {schema: {a: int}}\n"
    "sql: SELECT * FROM s AS l JOIN s AS r ON l.a SIGN r.a WINDOW AS (SLIDE INTERVAL '1' ON '40')\n"
)


def config(sign, columns_by, tmp_path):
    settings = Settings(query_file=tmp_path / "q.yaml", columns_by=columns_by)
    return router_config(parse_query(QUERY.replace("SIGN", sign)), settings)


def test_columns_are_by_key_if_the_setting_says_so(tmp_path):
    assert config("=", "key", tmp_path).columns_by_key
    assert not config("=", "batch", tmp_path).columns_by_key


def test_without_an_equality_the_setting_is_refused_with_a_way_out(tmp_path):
    with pytest.raises(ConfigurationError, match="no equality of two columns: set it to batch"):
        config("<", "key", tmp_path)
    assert not config("<", "batch", tmp_path).columns_by_key
