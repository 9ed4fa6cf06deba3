"""Where the Kafka client's own lines go, which it would else write to stderr in a form of its own."""

from __future__ import annotations

import logging

import structlog


class ToStructlog(logging.Handler):
    """Passes lines of the standard library's loggers on."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        structlog.get_logger(record.name).log(record.levelno, record.getMessage(), exc_info=record.exc_info or None)


CLIENT_LOGGER = logging.getLogger("librdkafka")
CLIENT_LOGGER.propagate = False
CLIENT_LOGGER.addHandler(ToStructlog())
