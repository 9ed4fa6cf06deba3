"""The page over HTTP: one document, no outside assets, escaped, no secrets, honest about what it can't reach."""

import json
import re
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from io import StringIO

import pytest
from rich.console import Console
from structlog.testing import capture_logs
from typer.testing import CliRunner

from spojoin.cli import status
from spojoin.cli.main import app
from spojoin.errors import ConfigurationError
from spojoin.local import reachable
from spojoin.local.net import free_port
from spojoin.page.document import document, policy
from spojoin.page.server import TEXT, PageServer, Response
from spojoin.page.service import answers_of, censor_of, main, open_watches
from spojoin.page.settings import PageAddress, load_page_settings, secrets_of
from spojoin.page.sightings import Observer
from spojoin.page.state import Known
from spojoin.page.terminal import screen
from spojoin.page.watch import LogWatch, StoreWatch, Watches
from spojoin.ports.interfaces import StoreUnavailable
from spojoin.ports.memory import MemoryStore
from spojoin.protocol.topology import TOPOLOGY
from tests.support.page_world import SELF, World, append_letter, append_results, shown

STALL_MS = 30_000
HOSTILE = "</script><img src=x onerror=alert(1)>"


def fetch(port, path, method="GET"):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, dict(answer.headers), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read().decode()


@contextmanager
def serving(world: World, store=None):
    """The page over ports in memory, after both watchers have looked."""
    watches = Watches(
        world.subject,
        StoreWatch(store or world.store, world.subject, world.clock),
        LogWatch(world.log, world.subject, world.clock),
        world.clock,
        STALL_MS,
    )
    with (
        watches,
        PageServer(PageAddress(port=0), answers_of(world.subject, watches, censor_of([])), policy()) as server,
    ):
        deadline = time.monotonic() + 30
        while not watches.ready()[0]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield server.port


def test_the_state_over_http():
    world = World()
    append_results(world.log, 0, 2, keys=["a", HOSTILE])
    append_letter(world.log, HOSTILE.encode())
    world.pass_second()
    with serving(world) as port:
        status, headers, text = fetch(port, "/state.json")
    state = json.loads(text)
    assert status == 200
    assert headers["Content-Type"] == "application/json"
    assert state["roles"]["sink"]["state"] == "ready"
    assert state["results"]["rows"][0][2] == HOSTILE
    assert state["dead_letters"][0]["value"] == HOSTILE


def test_the_page_says_whether_the_query_is_well():
    world = World()
    world.pass_second()
    with serving(world) as port:
        status, _, said = fetch(port, "/well")
        assert status == 200
        assert said.startswith(f"{world.name}: all services run that results need")
    world.gone.add("sink")
    for _ in range(12):
        world.pass_second()
    with serving(world) as port:
        assert fetch(port, "/well")[::2] == (503, f"{world.name}: sink is gone: results wait for it\n")
        assert fetch(port, "/")[0] == 200
    with serving(world, GoneStore()) as port:
        assert fetch(port, "/well")[0] == 200


def test_paths_headers_and_probes():
    world = World()
    with serving(world) as port:
        for path, status in (
            ("/", 200),
            ("/?a=1", 200),
            ("/metrics", 200),
            ("/healthz", 200),
            ("/readyz", 200),
            ("/well", 503),
        ):
            found, headers, _ = fetch(port, path)
            assert (path, found) == (path, status)
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert "default-src 'none'" in headers["Content-Security-Policy"]
            assert "Python" not in headers["Server"]
        assert "process_resident_memory_bytes" in fetch(port, "/metrics")[2]
        assert fetch(port, "/", "HEAD")[2] == ""
        assert fetch(port, "/etc/passwd")[0] == 404
        assert fetch(port, "/state.json", "POST")[0] == 501


@pytest.mark.parametrize("path", ["/joins", "/joins/", "/a/b"])
def test_the_page_is_served_below_its_path_and_without_it_for_proxies_that_strip_it(path):
    root = Response(200, TEXT, b"page")
    answers = {"/": lambda: root, "/state.json": lambda: Response(200, TEXT, b"state")}
    with PageServer(PageAddress(port=0, path=path), answers, "") as server:
        below = path.rstrip("/")
        for asked, said in ((below, "page"), (f"{below}/", "page"), (f"{below}/?a=1", "page"), ("/", "page")):
            assert fetch(server.port, asked)[::2] == (200, said), asked
        for asked in (f"{below}/state.json", "/state.json"):
            assert fetch(server.port, asked)[::2] == (200, "state"), asked
        for asked in (f"{below}x", f"{below}x/state.json", f"/x{below}/", f"{below}{below}/"):
            assert fetch(server.port, asked)[0] == 404, asked


def test_a_path_begins_with_a_slash(monkeypatch, tmp_path):
    (tmp_path / "q.yaml").write_text(SELF)
    monkeypatch.setenv("SPOJOIN_PAGE_PATH", "joins")
    with pytest.raises(ConfigurationError, match="SPOJOIN_PAGE_PATH is 'joins'"):
        load_page_settings(query_file=tmp_path / "q.yaml", redis_url="redis://r", bootstrap_servers="b:1")


def test_watchers_that_hang_are_not_healthy():
    world = World()
    watches = Watches(
        world.subject,
        StoreWatch(world.store, world.subject, world.clock),
        LogWatch(world.log, world.subject, world.clock),
        world.clock,
        STALL_MS,
    )
    assert watches.live()[0]
    assert not watches.ready()[0]
    world.clock.sleep(2 * STALL_MS / 1000)
    assert not watches.live()[0]


class GoneStore(MemoryStore):
    def scan(self, prefix):
        raise StoreUnavailable("Redis does not answer: redis://user:hunter2@redis")


def test_an_unreachable_store_is_reported_and_the_page_goes_on():
    world = World()
    append_results(world.log, 0, 1)
    with serving(world, GoneStore()) as port:
        assert fetch(port, "/readyz")[0] == 200
        text = fetch(port, "/state.json")[2]
    state = json.loads(text)
    assert state["troubles"] == ["Redis does not answer, so the services' state is not known"]
    assert len(state["results"]["rows"]) == 1
    assert "hunter2" not in text


def test_neither_redis_nor_kafka(tmp_path, monkeypatch):
    """With real clients and nothing listening, the page reports both failures and none of its settings."""
    (tmp_path / "q.yaml").write_text(SELF)
    redis, port = f"redis://user:hunter2@127.0.0.1:{free_port()}/0", free_port()
    kafka = {"sasl.password": "s3cret", "sasl.username": "me", "ssl.key.password": "k3y"}
    settings = load_page_settings(
        query_file=tmp_path / "q.yaml", redis_url=redis, bootstrap_servers=f"127.0.0.1:{port}", kafka=kafka
    ).service
    assert secrets_of(settings) == [redis, "hunter2", "s3cret", "k3y"]
    world = World()
    censor = censor_of(secrets_of(settings))
    with (
        open_watches(world.subject, settings.model_copy(update={"kafka": {}})) as watches,
        PageServer(PageAddress(port=0), answers_of(world.subject, watches, censor), policy()) as server,
    ):
        watches.wait_ready()
        served = "".join(fetch(server.port, path)[2] for path in ("/", "/state.json", "/metrics", "/healthz"))
        state = json.loads(fetch(server.port, "/state.json")[2])
    assert len(state["troubles"]) == 2
    assert "Redis does not answer" in state["troubles"][0]
    assert "Kafka does not answer" in state["troubles"][1]
    for secret in ("hunter2", "s3cret", "k3y", redis):
        assert secret not in served


def test_a_port_in_use_is_one_sentence():
    with (
        PageServer(PageAddress(port=0), {}, "") as server,
        pytest.raises(ConfigurationError, match=f"127.0.0.1:{server.port}.*SPOJOIN_PAGE_PORT"),
    ):
        PageServer(PageAddress(port=server.port), {}, "")


def test_a_client_that_leaves_does_no_harm(capsys):
    big = Response(200, TEXT, b"x" * (64 << 20))
    with PageServer(PageAddress(port=0), {"/": lambda: big, "/small": lambda: Response(200, TEXT, b"")}, "") as server:
        client = socket.create_connection(("127.0.0.1", server.port))
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert client.recv(10)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closes by a reset
        client.close()
        assert fetch(server.port, "/small")[0] == 200
        until_no_thread_answers()
    assert capsys.readouterr().err == ""


def until_no_thread_answers():
    deadline = time.monotonic() + 30
    while any("process_request_thread" in thread.name for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_long_absence_is_an_event_on_the_page_and_a_line_in_its_log():
    world = World()
    watches = Watches(
        world.subject,
        StoreWatch(world.store, world.subject, world.clock),
        LogWatch(world.log, world.subject, world.clock),
        world.clock,
        STALL_MS,
    )

    def pass_seconds(count):
        for _ in range(count):
            world.pass_second()
            watches.look_at_store()

    pass_seconds(3)
    world.gone.add("pojoin-1")
    with capture_logs() as lines:
        pass_seconds(29)
        assert lines == []
        pass_seconds(10)
        world.gone.clear()
        pass_seconds(2)
    assert [(line["about"], line["reason"], line["log_level"]) for line in lines] == [
        ("pojoin-1", "ServiceGone", "warning"),
        ("pojoin-1", "ServiceBack", "info"),
    ]
    events = shown(watches.known())["events"]
    assert [one["text"] for one in events] == [
        "pojoin-1 is back after 40 s",
        "pojoin-1 has been away for 30 s: results wait for it",
    ]
    assert events[0]["wall_ms"] - events[1]["wall_ms"] == 10_000
    assert "pojoin-1 is back after 40 s" in text_of(screen(shown(watches.known())))


def test_an_unreachable_store_makes_no_service_absent():
    world = World()
    store = GoneStore(world.clock)
    watch = StoreWatch(store, world.subject, world.clock)
    watches = Watches(world.subject, watch, LogWatch(world.log, world.subject, world.clock), world.clock, STALL_MS)
    for _ in range(100):
        world.pass_second()
        watches.look_at_store()
    assert watches.known().events == ()


def test_the_terminal_truncates_no_number_and_no_topic():
    world = World()
    append_results(world.log, 0, 2)
    append_letter(world.log, b"oops")
    world.put("totals", rows=9_876_543_210, answered=9_876_543_200, matches=123_456_789_012_345, refused=77_777)
    world.fields = {"sink": {"lag": 123_456_789, "retries": 99_999}, "router": {"state": "waiting: " + "x" * 70}}
    observer, log = Observer(world.subject), LogWatch(world.log, world.subject, world.clock)
    for _ in range(3):
        world.pass_second(tuples=1_234_567, records=98_765)
        sighting = observer.take(world.entries(), world.clock.monotonic_ms(), world.clock.wall_ms())
    log.look()
    known = Known(world.subject, 0, sighting, is_store_up=True, results=log.news.results, letters=log.news.letters)
    text = text_of(screen(shown(known)), width=80)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "…" not in text
    for whole in (
        "9,876,543,210",
        "123,456,789,012,345",
        "123,456,789 ",
        "99,999",
        "1,234,567 tuples",
        "in.readings[3]",
    ):
        assert whole in text
    assert "in.readings[3]" in text
    for topic in ("frames", "batches", "partials", "matches"):
        assert f"{topic} 98,765/s" in text


# -- the document


def test_the_document_needs_nothing_from_outside():
    page = document("q").decode()
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+", re.sub(r"// [^\n]*", "", page)))
    assert addresses <= {"http://www.w3.org"}  # the namespace of the icon's SVG
    assert not re.search(r"<link(?![^>]*href=\"data:)|\ssrc=|@import|url\((?!#)", page)
    assert "innerHTML" not in page
    assert not re.search(r"\son\w+=|\sstyle=", page)


def test_only_the_documents_own_style_and_script_may_run():
    page = document("q").decode()
    import base64
    import hashlib

    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy()
    assert "unsafe" not in policy()


def test_a_query_name_is_escaped():
    page = document(HOSTILE).decode()
    assert HOSTILE not in page
    assert "&lt;/script&gt;&lt;img" in page


def test_every_element_that_the_script_names_exists():
    page = document("q").decode()
    script = page[page.index("<script>") :]
    names = set(re.findall(r'(?:byId|say|fill)\("([\w-]+)"', script))
    assert {"results", "letters", "services", "health"} <= names
    for name in names:
        assert f'id="{name}"' in page


# -- settings


def test_settings_come_from_the_environment(tmp_path, monkeypatch):
    (tmp_path / "q.yaml").write_text(SELF)
    monkeypatch.setenv("SPOJOIN_QUERY_FILE", str(tmp_path / "q.yaml"))
    monkeypatch.setenv("SPOJOIN_REDIS_URL", "redis://r")
    monkeypatch.setenv("SPOJOIN_PAGE_PORT", "1234")
    monkeypatch.setenv("SPOJOIN_PAGE_HOST", "0.0.0.0")
    assert load_page_settings().address.port == 1234
    assert load_page_settings(port=5).address.port == 5
    assert load_page_settings().address.host == "0.0.0.0"
    monkeypatch.setenv("SPOJOIN_PAGE_PORT", "eighty")
    with pytest.raises(ConfigurationError, match=r"SPOJOIN_PAGE_PORT is 'eighty'.*integer"):
        load_page_settings()


def test_a_page_without_redis_does_not_start(tmp_path, monkeypatch, capsys):
    (tmp_path / "q.yaml").write_text(SELF)
    monkeypatch.delenv("SPOJOIN_REDIS_URL", raising=False)
    monkeypatch.setenv("SPOJOIN_QUERY_FILE", str(tmp_path / "q.yaml"))
    assert main() == 2
    assert "SPOJOIN_REDIS_URL" in capsys.readouterr().err
    monkeypatch.setenv("SPOJOIN_REDIS_URL", "redis://host:port/0")
    assert main() == 2
    assert "redis_url can't be read" in capsys.readouterr().err


# -- the terminal


def text_of(renderable, width=200) -> str:
    out = StringIO()
    Console(file=out, width=width).print(renderable)
    return out.getvalue()


def test_the_terminal_shows_the_same():
    world = World()
    append_results(world.log, 0, 2, keys=["[bold]a", "b"])
    append_letter(world.log, b"[red]oops")
    world.put("head", frame_id=1, next_seq=500, epoch=4, wall_ms=1)
    world.fields["router"] = {"state": "waiting: its claim to the log", "hop:framing": "4.000,3.1,8.9"}
    world.gone.add("sink")
    observer, log = Observer(world.subject), LogWatch(world.log, world.subject, world.clock)
    for _ in range(3):
        world.pass_second()
        sighting = observer.take(world.entries(), world.clock.monotonic_ms(), world.clock.wall_ms())
    log.look()
    known = Known(world.subject, 0, sighting, is_store_up=True, results=log.news.results, letters=log.news.letters)
    text = text_of(screen(shown(known)))
    for edge in TOPOLOGY:
        assert edge.role.value in text
    assert "in 100 tuples/s" in text
    assert "frames 7.0/s" in text
    assert "500 of 1,000" in text
    assert "epoch 4" in text
    assert " ".join(text.split()).count(f"framing 3.1 ms 8.9 ms 100% {'█' * 20} router") == 1
    assert "waiting: its claim to the log" in text
    assert "gone" in text
    assert "[bold]a" in text
    assert "[red]oops" in text


def test_the_terminal_before_anything_is_known():
    text = text_of(screen(shown(Known(World().subject, 0))))
    assert "results: none yet" in text
    assert "where a frame's time goes: no frame in the last minute" in text


@pytest.fixture
def stores(monkeypatch):
    """The store that `spojoin status` finds in place of Redis."""
    world = World()
    world.pass_second()
    monkeypatch.setattr(status, "RedisStore", lambda url: world.store)
    return world


def test_status_prints_once_where_there_is_no_terminal(stores):
    for arguments in (["status"], ["status", "--once"]):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        assert result.output.count("router") == 1


def test_status_watch_survives_a_store_that_is_briefly_unreachable(stores, monkeypatch):
    looks = iter([None, StoreUnavailable("Redis does not answer"), None, KeyboardInterrupt()])
    scan = stores.store.scan

    def scripted(prefix):
        if (error := next(looks)) is not None:
            raise error
        return scan(prefix)

    monkeypatch.setattr(stores.store, "scan", scripted)
    monkeypatch.setattr(status.time, "sleep", lambda _: None)
    result = CliRunner().invoke(app, ["status", "--watch"])
    assert result.exit_code == 130
    assert "Redis does not answer; trying again" in result.output
    assert result.output.count("router") == 3


def test_status_of_a_query_that_nobody_serves_is_a_mistake(stores, monkeypatch, tmp_path):
    """An empty table would look as if it were served, and had no rows yet."""
    query = tmp_path / "other.yaml"
    query.write_text(
        "name: other\nstreams: {t: {schema: {a: int}}}\n"
        "sql: SELECT l.a FROM t AS l JOIN t AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '10')\n"
    )
    for name in ("check_redis", "check_kafka_takes"):
        monkeypatch.setattr(reachable, name, lambda *_: None)
    result = CliRunner().invoke(app, ["status", str(query)])
    assert result.exit_code == 2
    served = stores.subject.query.name
    assert f"no service of other reports to this Redis, only of {served}: start it with `spojoin up" in result.stderr


@pytest.fixture
def served(stores, monkeypatch, tmp_path):
    """The file of the query whose services report."""
    monkeypatch.setattr(status, "RedisStore", lambda url: stores.store)
    monkeypatch.setattr(status.time, "time_ns", lambda: int(1e6 * stores.clock.wall_ms()))
    file = tmp_path / "query.yaml"
    file.write_text(stores.subject.query.text)
    return file


def test_a_check_says_in_one_sentence_whether_the_query_is_well(stores, served):
    result = CliRunner().invoke(app, ["status", str(served), "--check"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"{stores.name}: all services run that results need")
    assert result.output.count("\n") == 1
    stores.gone.add("sink")
    for _ in range(7):
        stores.pass_second()
    result = CliRunner().invoke(app, ["status", str(served), "--check"])
    assert (result.exit_code, result.output) == (1, f"{stores.name}: sink is gone: results wait for it\n")


def test_a_check_waits_for_what_is_on_its_way(stores, served, monkeypatch):
    stores.fields["router"] = {"state": "waiting: start"}
    stores.pass_second()

    def sleep(_):
        stores.fields.clear()
        stores.pass_second()

    monkeypatch.setattr(status.time, "sleep", sleep)
    assert CliRunner().invoke(app, ["status", str(served), "--check", "--wait", "60"]).exit_code == 0
    assert stores.fields == {}


def test_a_check_of_a_query_that_nobody_serves_fails(stores, served):
    served.write_text(stores.subject.query.text.replace(stores.name, "other"))
    result = CliRunner().invoke(app, ["status", str(served), "--check"])
    assert (result.exit_code, result.output) == (1, "other: no service reports\n")
    refused = CliRunner().invoke(app, ["status", "--check"])
    assert refused.exit_code == 2
    assert "name its file" in refused.stderr


def test_status_shows_no_secret(stores):
    stores.fields["router"] = {"state": "waiting: redis://:hunter2@redis:6379/0 is away"}
    stores.pass_second()
    result = CliRunner().invoke(app, ["status"], env={"COLUMNS": "200"})
    assert "redis://***@redis:6379/0 is away" in result.output
    assert "hunter2" not in result.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["status", "--watch", "--once"], "give one of them"),
        (["status", "--redis", "redis://127.0.0.1:1/0"], "no Redis answers at 127.0.0.1:1: connection refused; start"),
        (["status", "--redis", "127.0.0.1:6379"], "--redis: expected an address such as redis://"),
        (["status", "--redis", "redis://host:port/0"], "--redis: expected an address such as redis://"),
        (["status", "none.yaml"], "none.yaml can't be read"),
        (["page", "none.yaml", "--port", "0"], "none.yaml can't be read"),
        (["page", "none.yaml", "--port", "70000"], "SPOJOIN_PAGE_PORT is 70000"),
    ],
)
def test_a_mistake_is_one_sentence(arguments, sentence):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
