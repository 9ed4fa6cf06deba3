"""Formats of rows in messages and files."""

from __future__ import annotations

from enum import StrEnum


class MessageFormat(StrEnum):
    """The content of a Kafka message: a row as JSON, a row as CSV, or many rows as an Arrow IPC stream."""

    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"


class FileFormat(StrEnum):
    """The format of a source folder's files."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"
