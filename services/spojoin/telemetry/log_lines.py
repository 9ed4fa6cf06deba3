"""Structured log lines: JSON, or for people at a terminal coloured text."""

from __future__ import annotations

import logging
import sys

import structlog


class _ToStructlog(logging.Handler):
    """Passes on the lines of the standard library's loggers."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        structlog.get_logger(record.name).log(record.levelno, record.getMessage())


#: takes the Kafka client's own lines, which it would otherwise write to stderr in its own form
CLIENT_LOGGER = logging.getLogger("librdkafka")
CLIENT_LOGGER.propagate = False
CLIENT_LOGGER.addHandler(_ToStructlog())


def configure(level: str, service: str) -> None:
    """Send all log lines of this process to stderr, each with the service's name."""
    is_terminal = sys.stderr.isatty()
    renderer = structlog.dev.ConsoleRenderer() if is_terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if is_terminal else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(service=service)
