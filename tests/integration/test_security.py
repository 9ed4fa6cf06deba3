"""Kafka over SASL_SSL with one user per role, and Redis over TLS with users; none has more rights than the table.

All services join real rows with these; the output equals a nested loop's. The broker refuses each role every topic that
isn't its own, and no password is in anything that services write, serve or store.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import orjson
import psutil
import pytest
import redis
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from spojoin.local.net import LOOPBACK, free_port
from spojoin.local.services import Deployment
from spojoin.local.supervise import Service, Supervisor
from spojoin.local.users import add_users
from spojoin.ports.credentials import with_login
from spojoin.ports.interfaces import AmbiguousAppend, LogPartition, LogUnavailable, StoreUnavailable, SystemClock
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.ports.kafka_reader import KafkaReader
from spojoin.ports.redis_store import RedisStore
from spojoin.ports.shared_state import key
from spojoin.protocol.access import Person, Principal, consumer_group, names, seen_by, transactional_id
from spojoin.protocol.packing import with_standbys
from spojoin.protocol.topology import MACHINE_ROLES, SHARED, TOPOLOGY, Edge, Role, Topic, topic_name
from spojoin.query.load import load_query
from spojoin.roles.controller.control_topic import ControlTopic
from spojoin.runtime.service import create_topics
from spojoin.runtime.topics import Topics
from tests.support.certificates import make_certificates
from tests.support.nested_loop import counts
from tests.support.predictors import services_and_predictor
from tests.support.readings import joins, query_text
from tests.support.secured import INPUT, JOINED, STORE_ADMIN, TOUCHED, Secured, new_password, secured, user_of
from tests.support.warm import never_forked

pytestmark = pytest.mark.integration

TUPLES, WINDOW, SLIDE = 6_000, 2_000, 200
DOMAIN = 40
WORKERS = 2
#: How many rows may flow while passwords change, how slowly, and how often passwords change.
MORE, PAUSE_S, ROTATIONS = 60_000, 0.004, range(1)
PATIENCE_S = 120.0
EDGES = {edge.role: edge for edge in TOPOLOGY}

QUERY = query_text(JOINED, WINDOW, SLIDE)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(tmp_path_factory.mktemp("secured")) as running:
        running.admin.create_topics({INPUT: 1})
        create_topics(running.log(TOUCHED, Person.TOPICS), Topics(TOUCHED, (INPUT,), 2, WORKERS))
        yield running


# -- the join


def rows(count: int = TUPLES, seed: int = 11) -> list[tuple[float, int]]:
    rng = np.random.default_rng(seed)
    draw, cooling = rng.integers(0, DOMAIN, count) / 4, rng.integers(0, DOMAIN, count)
    return list(zip(draw.tolist(), cooling.tolist(), strict=True))


def expected(joined_rows: Sequence[tuple[float, int]]) -> list[tuple[int, str, int, int]]:
    """(seq, key, as_left, as_right) of each tuple, by the definition: every earlier tuple of the window counts."""
    columns = [np.array(column) for column in zip(*joined_rows, strict=True)]
    return [(seq, f"r{seq}", *found) for seq, *found in counts(columns, joins, WINDOW, SLIDE)]


@dataclass(frozen=True, slots=True)
class Joined:
    """The services' results, and everything that they printed while they ran."""

    results: list[tuple[int, str, int, int]]
    said: dict[str, str]
    listening: dict[str, set[tuple[str, int]]]
    served: dict[str, int]


@pytest.fixture(scope="module")
def joined(closed: Secured, tmp_path_factory: pytest.TempPathFactory) -> Joined:
    folder = tmp_path_factory.mktemp("joined")
    query_file, table = folder / "query.yaml", folder / "readings.jsonl"
    query_file.write_text(QUERY)
    table.write_bytes(b"\n".join(messages(rows())))
    said = {"topics": command(closed, folder, Person.TOPICS, "topics", query_file, "--workers-max", str(WORKERS))}
    services = [*services_with_users(closed, folder, query_file), page_service(closed, folder, query_file)]
    with Supervisor(closed.children, folder / "logs") as supervisor:
        supervisor.start(services)
        supervisor.wait_ready()
        said["send"] = command(closed, folder, Person.FEED, "send", query_file, "-i", f"readings={table}")
        ask_as_controller(closed)
        results = all_results(closed, folder, query_file, supervisor, TUPLES)
        said |= outputs(closed, folder, query_file, services, supervisor)
        listening = {name: listened(pid) for name, pid in supervisor.pids().items()}
    said |= {f"log of {each.name}": (folder / "logs" / f"{each.name}.log").read_text() for each in services}
    said["log of the broker"] = closed.broker.log.read_text()
    return Joined(results, said, listening, {each.name: each.port for each in services})


def messages(sent: Sequence[tuple[float, int]], first: int = 0) -> list[bytes]:
    return [orjson.dumps({"draw": d, "cooling": c, "id": f"r{i}"}) for i, (d, c) in enumerate(sent, first)]


def services_with_users(closed: Secured, folder: Path, query_file: Path) -> list[Service]:
    """All services, each with its own user."""
    extra = {"frame_tuples": "256", "batch_tuples": "500", "log_level": "debug"}
    deployment = Deployment(load_query(query_file), query_file, "", "", WORKERS, extra)
    return [
        replace(each, environment={**each.environment, **closed.environment(JOINED, role_of(each.name), folder)})
        for each in services_and_predictor(deployment)
    ]


def role_of(service: str) -> Role:
    return Role(service.rstrip("-0123456789"))


def page_service(closed: Secured, folder: Path, query_file: Path) -> Service:
    port = free_port()
    environment = {
        **closed.environment(JOINED, Person.PAGE, folder),
        "SPOJOIN_QUERY_FILE": str(query_file),
        "SPOJOIN_WORKERS": str(WORKERS),
        "SPOJOIN_PAGE_PORT": str(port),
    }
    return Service("page", [sys.executable, "-m", "spojoin.page"], port, environment)


def command(closed: Secured, folder: Path, principal: Principal, *arguments: object) -> str:
    """The output of `spojoin`, run as a principal whose password is only in the environment's file."""
    words = [sys.executable, "-m", "spojoin.cli.main", *map(str, arguments)]
    environment = {**os.environ, **closed.environment(JOINED, principal, folder)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def ask_as_controller(closed: Secured) -> None:
    """Request one worker fewer, then one more, which only the controller may do."""
    log = closed.log(JOINED, Role.CONTROLLER)
    assert log.topic_id(topic_name(JOINED, Topic.FRAMES))
    control = ControlTopic(log, LogPartition(topic_name(JOINED, Topic.CONTROL), 0), SystemClock())
    for workers in (WORKERS, WORKERS - 1, WORKERS):  # the topic keeps two records: the third trims the first
        control.refresh()
        control.request(workers)
    assert control.refresh().version == 3
    control.close()


def all_results(
    closed: Secured, folder: Path, query_file: Path, supervisor: Supervisor, tuples: int
) -> list[tuple[int, str, int, int]]:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        supervisor.tend()
        lines = command(closed, folder, Person.RESULTS, "results", query_file).splitlines()
        if len(lines) >= tuples:
            found = [orjson.loads(line) for line in lines]
            return [(row["seq"], row["key"], row["as_left"], row["as_right"]) for row in found]
        assert time.monotonic() < deadline, f"{len(lines)} of {tuples} results"


@pytest.fixture(scope="module", autouse=True)
def _command_lines_are_their_own() -> Iterator[None]:
    with never_forked():
        yield


def outputs(
    closed: Secured, folder: Path, query_file: Path, services: list[Service], supervisor: Supervisor
) -> dict[str, str]:
    """Everything that running services expose."""
    said = {f"metrics of {each.name}": fetch(each.port, "/metrics") for each in services}
    said |= {f"page {path}": fetch(services[-1].port, path) for path in ("/", "/state.json", "/healthz", "/readyz")}
    said["status"] = command(closed, folder, Person.PAGE, "status", "--once")
    said["status of the query"] = command(closed, folder, Person.PAGE, "status", query_file, "--once")
    said["command lines"] = str([psutil.Process(pid).cmdline() for pid in supervisor.pids().values()])
    said["command line of the broker"] = str(psutil.Process(closed.broker.pid).cmdline())
    store = RedisStore(closed.store_url(STORE_ADMIN), timeout_s=5)
    said["store"] = str(store.scan(""))
    store.close()
    return said


def fetch(port: int, path: str) -> str:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    assert answer.status == 200, body
    return body


def listened(pid: int) -> set[tuple[str, int]]:
    """The ports that a process and its children listen on, TCP and UDP."""
    process = psutil.Process(pid)
    found = [c for each in (process, *process.children(recursive=True)) for c in each.net_connections("inet")]
    return {(c.laddr.ip, c.laddr.port) for c in found if c.status == psutil.CONN_LISTEN or not c.raddr}


def test_services_with_the_least_rights_join_rows(joined: Joined) -> None:
    assert joined.results == expected(rows())


def test_no_password_appears_in_anything_written_served_or_stored(closed: Secured, joined: Joined) -> None:
    assert set(EDGES) - {Role.INTAKE, Role.CONTROLLER} == {role_of(name) for name in joined.listening if name != "page"}
    assert "spojoin_" in joined.said["metrics of router"]
    assert f"{TUPLES:,}" in joined.said["status"]
    for where, text in joined.said.items():
        for password in closed.secrets():
            assert password not in text, f"a password is in {where}"


def test_services_listen_only_where_they_serve(joined: Joined) -> None:
    assert joined.listening == {name: {(LOOPBACK, port)} for name, port in joined.served.items()}


def test_no_service_was_refused_anything(joined: Joined) -> None:
    for where, text in joined.said.items():
        assert "AUTHORIZATION_FAILED" not in text, where
        assert "NOPERM" not in text, where


# -- Kafka refuses


def require_refusal(error: BaseException) -> None:
    """Check that an error is a refusal; a user without the right to write can't even get a producer id."""
    signs = ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "Kafka refuses this user the topic")
    if not any(sign in str(error) for sign in signs):
        raise error


def may_read(log: KafkaLog, topic: str) -> bool:
    reader = log.reader()
    try:
        assert log.partitions(topic)
        reader.open(LogPartition(topic, 0), 0)
        deadline = time.monotonic() + PATIENCE_S
        while not polled(reader) and not reader.at_end(LogPartition(topic, 0)):
            assert time.monotonic() < deadline
    except LogUnavailable as error:
        require_refusal(error)
        return False
    finally:
        reader.close()
    return True


def polled(reader: KafkaReader) -> bool:
    """Whether a record came. Kafka refuses the unused consumer group, which must not stop the read."""
    try:
        return bool(reader.poll(1, 0.1))
    except LogUnavailable as error:
        if "GROUP_AUTHORIZATION_FAILED" not in str(error):
            raise
        return False


def may_write(log: KafkaLog, topic: str) -> bool:
    writer = log.writer()
    try:
        writer.append(LogPartition(topic, 0), b"x")
        writer.flush(PATIENCE_S)
    except AmbiguousAppend as error:
        require_refusal(error)
        return False
    finally:
        writer.close()
    return True


def may_trim(log: KafkaLog, topic: str) -> bool:
    try:
        assert log.partitions(topic)
        (done,) = log._admin.delete_records([TopicPartition(topic, 0, 0)]).values()
        done.result()
    except (LogUnavailable, KafkaException) as error:
        require_refusal(error)
        return False
    return True


@pytest.mark.parametrize("edge", TOPOLOGY, ids=lambda edge: edge.role.value)
def test_a_role_reads_writes_and_trims_only_its_row_of_the_table(closed: Secured, edge: Edge) -> None:
    log = closed.log(TOUCHED, edge.role)
    for topic in Topic:
        (name,) = names(topic, TOUCHED, [INPUT])
        has_beats = topic is Topic.PRESENCE and edge.role in MACHINE_ROLES
        assert may_read(log, name) == (topic in with_standbys(edge).reads or has_beats), name
        assert may_write(log, name) == (topic in edge.writes or has_beats), name
        is_removed = edge.role is Role.ROUTER and topic not in SHARED  # deleting records needs the same right
        assert may_trim(log, name) == (topic in edge.trims or is_removed or has_beats), name


@pytest.mark.parametrize("role", list(Role))
def test_a_role_may_not_touch_another_querys_topics(closed: Secured, joined: Joined, role: Role) -> None:
    log = closed.log(TOUCHED, role)
    for topic in Topic:
        if topic not in (Topic.INPUT, Topic.DEAD):  # both queries share these
            name = topic_name(JOINED, topic)
            assert not may_read(log, name)
            assert not may_write(log, name)
            assert not may_trim(log, name)


@pytest.mark.parametrize("role", list(Role))
def test_a_role_cannot_make_topics_and_need_not(closed: Secured, role: Role) -> None:
    log = closed.log(TOUCHED, role)
    create_topics(log, Topics(TOUCHED, (INPUT,), 2, WORKERS), among=seen_by(role))
    with pytest.raises(LogUnavailable, match=r"'other' is missing.*`spojoin topics QUERY`"):
        log.create_topics({"other": 1})
    own = topic_name(TOUCHED, next(iter(sorted(seen_by(role) - {Topic.INPUT, Topic.DEAD}))))
    with pytest.raises(LogUnavailable, match=rf"'{own}' is missing or too small.*`spojoin topics QUERY`"):
        log.create_topics({own: 99})


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.ROUTER])
def test_roles_make_the_topics_of_later_generations_and_the_router_deletes_them(closed: Secured, role: Role) -> None:
    """Kafka has one right for deleting records and topics, so a role that trims a topic may also delete it."""
    topics = Topics(TOUCHED, (INPUT,), 2, WORKERS, generation=2)
    create_topics(closed.log(TOUCHED, role), topics, among=seen_by(role))
    made = [topics.name(topic) for topic in sorted(seen_by(role).difference(SHARED))]
    assert made
    assert all(closed.admin.partitions(name) for name in made)
    for topic in seen_by(role).difference(SHARED, EDGES[role].trims):
        with pytest.raises(LogUnavailable, match="AUTHORIZATION"):
            closed.log(TOUCHED, role).delete_topics([topics.name(topic)])
    closed.log(TOUCHED, Role.ROUTER).delete_topics(made)
    gone = time.monotonic() + PATIENCE_S
    while any(closed.admin.partitions(name) for name in made):
        assert time.monotonic() < gone


@pytest.mark.parametrize("role", list(Role))
def test_a_role_makes_no_topics_of_another_querys_generations(closed: Secured, role: Role) -> None:
    name = topic_name(JOINED, Topic.FRAMES, 2)
    with pytest.raises(LogUnavailable):
        closed.log(TOUCHED, role).create_topics({name: 1})
    assert not closed.admin.partitions(name)


def test_people_may_do_only_their_part(closed: Secured) -> None:
    results, letters = topic_name(TOUCHED, Topic.RESULTS), f"{INPUT}.dlq"
    people = (Person.FEED, Person.RESULTS, Person.TOPICS, Person.PAGE)
    feed, reader, maker, page = (closed.log(TOUCHED, each) for each in people)
    assert may_write(feed, INPUT)
    assert not may_read(feed, INPUT)
    assert not may_read(feed, results)
    assert may_read(reader, results)
    assert may_read(reader, letters)
    for log in (reader, page, maker):
        for name in (INPUT, results, letters, topic_name(TOUCHED, Topic.CONTROL)):
            assert not may_write(log, name)
            # A user that creates topics may delete the internal ones, for which Kafka has the same right.
            assert may_trim(log, name) == (log is maker and name == topic_name(TOUCHED, Topic.CONTROL))
    assert may_read(page, topic_name(TOUCHED, Topic.CONTROL))
    assert not may_read(maker, results)
    assert may_read(maker, topic_name(TOUCHED, Topic.GENERATIONS))
    assert not may_read(page, topic_name(TOUCHED, Topic.FRAMES))


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.ROUTER])
def test_no_other_role_can_fence_the_router(closed: Secured, role: Role) -> None:
    with pytest.raises(LogUnavailable, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        closed.log(TOUCHED, role).writer(transactional_id(TOUCHED, Role.ROUTER))


def test_no_other_role_can_join_the_predictors_group(closed: Secured) -> None:
    user = user_of(TOUCHED, Role.SINK)
    consumer = Consumer(
        {
            "bootstrap.servers": closed.broker.bootstrap,
            **closed.security.user(user, closed.passwords[user]),
            "group.id": consumer_group(TOUCHED, Role.PREDICTOR),
        }
    )
    consumer.subscribe([topic_name(TOUCHED, Topic.FRAMES)])
    message = None
    deadline = time.monotonic() + PATIENCE_S
    while message is None and time.monotonic() < deadline:
        message = consumer.poll(1)
    consumer.close()
    assert message.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED


def test_servers_answer_nothing_without_the_password_or_tls(closed: Secured, tmp_path: Path) -> None:
    user, wrong = user_of(TOUCHED, Role.SINK), "n0t-the-password"
    stranger = {"ssl.ca.location": str(make_certificates(tmp_path, LOOPBACK).authority)}
    for extra, why in (
        (closed.security.user(user, wrong), "invalid credentials"),
        (closed.security.user(user, closed.passwords[user]) | stranger, "certificate verify failed"),
        ({"security.protocol": "PLAINTEXT"}, "does not answer"),
    ):
        log = KafkaLog(KafkaConfig(closed.broker.bootstrap, extra, request_timeout_s=3))
        with pytest.raises(LogUnavailable, match=why) as raised:
            log.partitions(INPUT)
        assert wrong not in str(raised.value)


# -- passwords that rotate


def test_passwords_that_rotate_while_rows_flow_cost_no_row(closed: Secured, joined: Joined, tmp_path: Path) -> None:
    """Kafka's passwords change first, then the mounted files; each service ends, and a new process uses the new one."""
    query_file = tmp_path / "query.yaml"
    query_file.write_text(QUERY)
    services = [
        watching(each, closed, tmp_path / each.name) for each in services_with_users(closed, tmp_path, query_file)
    ]
    more, is_enough = rows(MORE, seed=12), threading.Event()
    users = {user_of(JOINED, role) for role in Role}
    before = {user: closed.passwords[user] for user in users}
    with (
        ThreadPoolExecutor(1) as pool,
        Supervisor(closed.children, tmp_path / "logs", restarts_max=len(ROTATIONS) + 1) as supervisor,
    ):
        supervisor.start(services)
        supervisor.wait_ready()
        sending = pool.submit(send_slowly, closed, messages(more, TUPLES), is_enough)
        for _ in ROTATIONS:
            rotate(closed, users)
            pids = supervisor.pids()
            for each in services:  # as the kubelet does, at any time afterwards
                closed.environment(JOINED, role_of(each.name), tmp_path / each.name)
            until_replaced(supervisor, pids)
        is_enough.set()
        sent = sending.result()
        assert sent < MORE, "rows ended before the passwords were other ones"
        results = all_results(closed, tmp_path, query_file, supervisor, TUPLES + sent)
    assert results == expected(rows() + more[:sent])
    for user, password in before.items():
        log = KafkaLog(KafkaConfig(closed.broker.bootstrap, closed.security.user(user, password), request_timeout_s=3))
        with pytest.raises(LogUnavailable, match="invalid credentials"):
            log.partitions(INPUT)


def watching(service: Service, closed: Secured, folder: Path) -> Service:
    """The service with its password in its own folder, which it watches."""
    folder.mkdir()
    own = closed.environment(JOINED, role_of(service.name), folder)
    folders = {"SPOJOIN_SECRETS_FOLDERS": orjson.dumps([str(folder)]).decode()}
    return replace(service, environment={**service.environment, **own, **folders})


def rotate(closed: Secured, users: Iterable[str]) -> None:
    fresh = {user: new_password() for user in users}
    add_users(closed.broker, fresh)
    closed.passwords.update(fresh)


def send_slowly(closed: Secured, messages: Sequence[bytes], is_enough: threading.Event) -> int:
    """Send messages slowly; returns how many were sent."""
    writer, sent = closed.admin.writer(), 0
    while sent < len(messages) and not is_enough.wait(PAUSE_S):
        writer.append(LogPartition(INPUT, 0), messages[sent])
        sent += 1
    writer.flush(PATIENCE_S)
    writer.close()
    return sent


def until_replaced(supervisor: Supervisor, before: Mapping[str, int]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while any(supervisor.pids()[name] == pid for name, pid in before.items()):
        supervisor.tend()
        time.sleep(0.05)
        assert time.monotonic() < deadline, "a service still has its old password"
    supervisor.wait_ready()


# -- tokens instead of passwords


def test_services_with_tokens_have_the_same_rights(closed: Secured, joined: Joined, tmp_path: Path) -> None:
    """The router (a librdkafka client) and the predictor (a Faust client) continue where the others ended."""
    query_file = tmp_path / "query.yaml"
    query_file.write_text(QUERY)
    roles = (Role.ROUTER, Role.PREDICTOR, Role.SINK)
    by_token = {"SPOJOIN_KAFKA": orjson.dumps(closed.tokens).decode()}
    services = [
        replace(each, environment={**each.environment, **by_token})
        for each in services_with_users(closed, tmp_path, query_file)
        if role_of(each.name) in roles
    ]
    with Supervisor(closed.children, tmp_path / "logs") as supervisor:
        supervisor.start(services)
        supervisor.wait_ready()
    assert set(closed.issuer.given) == {user_of(JOINED, role) for role in roles}
    for each in services:
        said = (tmp_path / "logs" / f"{each.name}.log").read_text()
        assert "AUTHORIZATION_FAILED" not in said
        for password in (*closed.secrets(), "eyJ"):  # every token begins with this
            assert password not in said


def test_a_token_grants_no_more_than_its_users_rights(closed: Secured) -> None:
    user = user_of(TOUCHED, Role.SINK)
    known = with_login(closed.tokens, user, closed.passwords[user])
    log = KafkaLog(KafkaConfig(closed.broker.bootstrap, known))
    assert may_read(log, topic_name(TOUCHED, Topic.RESULTS))
    assert not may_read(log, topic_name(TOUCHED, Topic.PLAN))
    unknown = with_login(closed.tokens, user, "n0t-the-secret")
    log = KafkaLog(KafkaConfig(closed.broker.bootstrap, unknown, request_timeout_s=3))
    with pytest.raises(LogUnavailable, match="invalid_client") as raised:
        log.partitions(INPUT)
    assert "n0t-the-secret" not in str(raised.value)


# -- Redis refuses


@pytest.fixture
def own_store(closed: Secured) -> Iterator[RedisStore]:
    if closed.why_open:
        pytest.skip(closed.why_open)
    store = RedisStore(closed.store_url(TOUCHED), timeout_s=5)
    yield store
    store.close()


def test_services_share_their_querys_keys_and_no_others(own_store: RedisStore) -> None:
    mine, foreign = key(TOUCHED, "head"), key(JOINED, "head")
    own_store.put({mine: {"a": 1, "b": 2}}, ttl_s=60)
    own_store.put({mine: {"a": 1}})
    own_store.remove(mine, "b")
    assert own_store.get(mine) == {"a": "1"}
    assert own_store.scan(key(TOUCHED, "head")) == {mine: {"a": "1"}}
    own_store.remove(mine)
    for forbidden in (
        lambda: own_store.put({foreign: {"a": 1}}),
        lambda: own_store.get(foreign),
        lambda: own_store.remove(foreign),
        own_store.clear,
        lambda: own_store.put({f"{mine[:-5]}x:head": {"a": 1}}),
    ):
        with pytest.raises(StoreUnavailable, match="permissions"):
            forbidden()


@pytest.mark.parametrize(
    "words", ["CONFIG GET *", "KEYS *", "ACL LIST", "EVAL return(1) 0", "SHUTDOWN", "MONITOR", "FLUSHDB"]
)
def test_services_may_not_administer_the_store(closed: Secured, own_store: RedisStore, words: str) -> None:
    with (
        redis.Redis.from_url(closed.store_url(TOUCHED), retry=None) as client,
        pytest.raises(redis.RedisError, match="permissions"),
    ):
        client.execute_command(*words.split())


def test_the_store_refuses_unknown_users(closed: Secured, own_store: RedisStore) -> None:
    address = closed.store_url(TOUCHED)
    host = f"{LOOPBACK}:{closed.redis.port}/0"
    authority = f"?ssl_ca_certs={closed.security.certificates.authority}"
    wrong = address.replace(closed.store_passwords[TOUCHED], "n0t-the-password")
    for url in (f"redis://{host}", f"rediss://{host}{authority}", f"rediss://{host}", wrong):
        store = RedisStore(url, timeout_s=5)
        with pytest.raises(StoreUnavailable) as raised:
            store.get(key(TOUCHED, "head"))
        assert "n0t-the-password" not in str(raised.value)
        store.close()
