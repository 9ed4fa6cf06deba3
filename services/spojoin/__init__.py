"""spojoin: exact stream inequality joins, embedded in one process or as services over Kafka."""

__version__ = "0.1.0"
