"""`spojoin.connect`, which checks for packages before it loads Kafka's client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spojoin.errors import ConfigurationError

if TYPE_CHECKING:
    from spojoin.client.results import ServedQueries


def connect(
    bootstrap: str = "127.0.0.1:9092", *, kafka: Mapping[str, str | int | float | bool] | None = None
) -> ServedQueries:
    """Connect to a Kafka cluster, to read the results of served queries.

        for batch in spojoin.connect("localhost:9092").results("trades"):
            print(batch.to_pandas())

    Args:
        bootstrap: Kafka's brokers.
        kafka: further properties of librdkafka. User, password and the like also come from SPOJOIN_KAFKA_USERNAME and
            the other variables that the command line reads.

    Raises ConfigurationError if packages are missing or settings are wrong.

    """
    try:
        from spojoin.client.results import ServedQueries  # noqa: PLC0415  (most users need nothing of Kafka)
        from spojoin.runtime.settings import load_settings  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("spojoin"):
            raise
        raise ConfigurationError(
            f"spojoin.connect needs {error.name}, which this installation lacks: pip install 'spojoin[services]'"
        ) from error
    properties = None if kafka is None else dict(kafka)
    return ServedQueries(load_settings(query_file="-", bootstrap_servers=bootstrap, kafka=properties))
