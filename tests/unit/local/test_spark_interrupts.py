"""Ctrl-C while Spark runs is what it was before Spark started."""

from __future__ import annotations

import signal

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from spojoin.local.spark import started


def test_ctrl_c_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def starts(conf: object) -> None:
        signal.signal(signal.SIGINT, lambda number, frame: None)

    monkeypatch.setattr(SparkContext, "getOrCreate", starts)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda builder: builder)
    before = signal.getsignal(signal.SIGINT)
    started("any", "local[1]", {})
    assert signal.getsignal(signal.SIGINT) is before
