"""Structured log lines: JSON, or coloured text for people at a terminal."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import MutableMapping
from types import TracebackType
from typing import Any, TextIO

import structlog

from spojoin.ports.kafka_client import ToStructlog

_log = structlog.get_logger(__name__)


def configure(level: str, service: str, query: str | None = None) -> None:
    """Send all log lines of this process to stderr, each with the service's name and the query's."""
    known = {"service": service} if query is None else {"service": service, "query": query}

    def name(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return {**known, **event}  # callbacks and threads lack the context

    is_terminal = sys.stderr.isatty()
    renderer = structlog.dev.ConsoleRenderer() if is_terminal else structlog.processors.JSONRenderer(default=str)
    structlog.configure(
        processors=[
            name,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if is_terminal else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),  # each line is one write, from any thread
        cache_logger_on_first_use=False,
    )


def begin_process(service: str) -> None:
    """Also make log lines of other output on stderr: other packages' lines, warnings, crashes."""
    configure("info", service)
    root = logging.getLogger()
    root.handlers, root.level = [ToStructlog()], logging.WARNING
    warnings.showwarning = _warn
    sys.excepthook = _crash
    threading.excepthook = _crash_of_thread
    sys.unraisablehook = _crash_in_passing


def _warn(  # has the standard library's signature
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    _log.warning(str(message), warning=category.__name__, where=f"{filename}:{lineno}")


def _crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _log.critical("crashed", reason=f"{kind.__name__}: {error}", exc_info=(kind, error, trace))


def _crash_of_thread(ended: threading.ExceptHookArgs) -> None:
    name = ended.thread.name if ended.thread is not None else "unknown"
    info = (ended.exc_type, ended.exc_value, ended.exc_traceback)
    _log.critical(
        "a thread crashed", thread=name, reason=f"{ended.exc_type.__name__}: {ended.exc_value}", exc_info=info
    )


def _crash_in_passing(ended: sys.UnraisableHookArgs) -> None:
    info = (ended.exc_type, ended.exc_value, ended.exc_traceback)
    reason = f"{ended.exc_type.__name__}: {ended.exc_value}"
    _log.error("an error where nobody hears of it", where=repr(ended.object), reason=reason, exc_info=info)
