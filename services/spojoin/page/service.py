"""The page as a service: from settings to exit status."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import FrameType

import orjson
import structlog
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, GCCollector, ProcessCollector, generate_latest

from spojoin.errors import ConfigurationError
from spojoin.page.document import document, policy
from spojoin.page.latest import AvroResults
from spojoin.page.server import HTML, JSON, TEXT, Answers, PageServer, Response
from spojoin.page.settings import PageSettings, load_page_settings, secrets_of
from spojoin.page.state import Censor, state_of
from spojoin.page.subject import Subject
from spojoin.page.watch import LogWatch, StoreWatch, Watches
from spojoin.ports.interfaces import SystemClock
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.ports.redis_store import RedisStore
from spojoin.query.load import load_query
from spojoin.runtime.process import EXIT_CONFIGURATION, EXIT_DONE, end_when_changed
from spojoin.runtime.registry import RegisteredResults
from spojoin.runtime.settings import Settings
from spojoin.telemetry import log_lines
from spojoin.telemetry.status import without_credentials

SERVICE = "page"
#: nothing waits for the page, so its requests may take longer than a service's
STORE_TIMEOUT_S, LOG_TIMEOUT_S = 1.0, 5.0

_log = structlog.get_logger(__name__)


def main() -> int:
    """Serve the page by the environment's settings; the exit status."""
    log_lines.begin_process(SERVICE)
    try:
        return run(load_page_settings())
    except ConfigurationError as error:
        _log.error("refused", reason=str(error))
        return EXIT_CONFIGURATION


def run(settings: PageSettings, report: Callable[[str], None] = lambda _: None) -> int:
    """Serve until SIGTERM or SIGINT; `report` is called with the page's address. Raises ConfigurationError."""
    query = load_query(settings.service.query_file)
    subject = Subject.served(query, settings.service)
    looking = open_watches(subject, settings.service)
    log_lines.configure(settings.service.log_level, SERVICE, query.name)
    stop = threading.Event()
    _stop_on_signals(stop)
    end_when_changed(settings.service.secrets_folders)
    with ExitStack() as stack:
        watches = stack.enter_context(looking)
        answers = answers_of(subject, watches, censor_of(secrets_of(settings.service)))
        server = stack.enter_context(PageServer(settings.address, answers, policy()))
        address = f"http://{settings.address.host}:{server.port}{settings.address.path}"
        _log.info("started", page=address, query=query.name)
        report(address)
        stop.wait()
    _log.info("ended")
    return EXIT_DONE


def open_watches(subject: Subject, settings: Settings) -> Watches:
    """Watchers of the settings' Redis and Kafka, which may be away."""
    clock = SystemClock()
    try:
        store = RedisStore(settings.store_url() or "", STORE_TIMEOUT_S)
    except ValueError as error:
        raise ConfigurationError(f"setting redis_url can't be read ({error}): give redis://HOST:PORT/0") from error
    kafka = KafkaConfig(settings.bootstrap_servers, settings.kafka_properties(), request_timeout_s=LOG_TIMEOUT_S)
    log = KafkaLog(kafka)
    avro = None if settings.registry_url is None else AvroResults(RegisteredResults(settings), clock)
    looking = StoreWatch(store, subject, clock), LogWatch(log, subject, clock, avro)
    return Watches(subject, *looking, clock, settings.stall_ms_max)


def censor_of(secrets: Sequence[str]) -> Censor:
    """Blanks `secrets`, and the credentials of any address."""

    def censor(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, "***")
        return without_credentials(text)

    return censor


def answers_of(subject: Subject, watches: Watches, censor: Censor) -> Answers:
    """The response to each path."""
    page = Response(200, HTML, document(subject.query.name))
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)

    def said(answer: tuple[bool, str]) -> Response:
        is_good, text = answer
        return Response(200 if is_good else 503, TEXT, f"{censor(text)}\n".encode())

    return {
        "/": lambda: page,
        "/state.json": lambda: Response(200, JSON, orjson.dumps(state_of(watches.known(), censor))),
        "/metrics": lambda: Response(200, CONTENT_TYPE_LATEST, generate_latest(registry)),
        "/healthz": lambda: said(watches.live()),
        "/readyz": lambda: said(watches.ready()),
        "/well": lambda: said(watches.well()),
    }


def _stop_on_signals(stop: threading.Event) -> None:
    """Let SIGTERM and SIGINT ask for the end; a second signal ends the process at once."""

    def ask(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)
