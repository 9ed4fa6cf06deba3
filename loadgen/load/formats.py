"""How rows are written: in messages and in files."""

from __future__ import annotations

from enum import StrEnum


class MessageFormat(StrEnum):
    """What one Kafka message holds: a row as JSON, a row as CSV, or many rows as an Arrow IPC stream."""

    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"


class FileFormat(StrEnum):
    """What a source folder's files are."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"
