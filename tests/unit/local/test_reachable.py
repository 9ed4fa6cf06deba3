"""A wrong address of Kafka or Redis is named in plain words, within three seconds."""

import socket
import subprocess
import sys
import threading
import time

import pytest

from spojoin.cli.up import ServerLost, ServersWatch
from spojoin.errors import ConfigurationError
from spojoin.local.net import free_port
from spojoin.local.reachable import check_kafka, check_redis


@pytest.fixture
def listening():
    """Starts listeners that answer each connection with the given bytes."""
    sockets = []

    def start(answer):
        server = socket.create_server(("127.0.0.1", 0))
        sockets.append(server)

        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(64)
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        return server.getsockname()[1]

    yield start
    for each in sockets:
        each.close()


KAFKA = b"\0\0\0\x0a\0\0\0\x07\0\0\0\0\0\0"


@pytest.mark.parametrize(
    ("bootstrap", "part"),
    [
        (
            "http://localhost:9092",
            "Kafka isn't reached by HTTP or the like: expected HOST:PORT, such as localhost:9092",
        ),
        ("localhost", "expected HOST:PORT, such as localhost:9092"),
        ("localhost:99999", "expected HOST:PORT"),
        ("localhost:kafka", "expected HOST:PORT"),
        ("", "expected HOST:PORT"),
        ("no-such-host.invalid:9092", "no host is called 'no-such-host.invalid'"),
    ],
)
def test_an_address_that_is_none_is_named(bootstrap, part):
    begin = time.process_time()
    with pytest.raises(ConfigurationError) as caught:
        check_kafka(bootstrap)
    assert part in str(caught.value)
    assert "--bootstrap" in str(caught.value)
    assert time.process_time() - begin < 3


def test_nobody_listens():
    port = free_port()
    with pytest.raises(ConfigurationError, match=f"no Kafka answers at 127.0.0.1:{port}: connection refused; start it"):
        check_kafka(f"127.0.0.1:{port}")
    with pytest.raises(ConfigurationError, match=f"no Redis answers at 127.0.0.1:{port}: connection refused"):
        check_redis(f"redis://127.0.0.1:{port}/0")


def test_something_else_listens(listening):
    port = listening(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(ConfigurationError, match="what listens there isn't Kafka, or expects TLS"):
        check_kafka(f"127.0.0.1:{port}")
    check_kafka(f"127.0.0.1:{port}", {"security.protocol": "SSL"})  # the client says what is wrong there


def test_one_broker_of_several_is_enough(listening):
    check_kafka(f"127.0.0.1:{free_port()},127.0.0.1:{listening(KAFKA)}")
    check_redis(f"redis://127.0.0.1:{listening(b'+PONG')}/0")


@pytest.mark.parametrize("url", ["127.0.0.1:6379", "redis://host:port/0", "http://127.0.0.1:6379", "redis:///0", ""])
def test_an_address_that_is_none_of_redis_is_named(url):
    with pytest.raises(ConfigurationError, match=r"--redis: expected an address such as redis://127.0.0.1:6379/0"):
        check_redis(url)


def test_something_else_listens_in_place_of_redis(listening):
    with pytest.raises(ConfigurationError, match="what listens there isn't Redis, or expects TLS"):
        check_redis(f"redis://127.0.0.1:{listening(b'HTTP/1.1 400')}/0")


@pytest.mark.parametrize("name", ["Kafka", "Redis"])
def test_a_server_that_stands_still_is_named(name, listening):
    """It listens, as the system does that for it, and says nothing; at a start it may be busy."""
    said = []
    with socket.create_server(("127.0.0.1", 0)) as still:
        port = still.getsockname()[1]
        kafka, redis = f"127.0.0.1:{listening(KAFKA)}", f"redis://127.0.0.1:{listening(b'+PONG')}/0"
        if name == "Kafka":
            kafka = f"127.0.0.1:{port}"
            check_kafka(kafka)
        else:
            redis = f"redis://127.0.0.1:{port}/0"
            check_redis(redis)
        ServersWatch(kafka, redis, said.append).look()
    (sentence,) = said
    assert sentence.startswith(f"no {name} answers at 127.0.0.1:{port}: it is silent; ")


def test_what_goes_away_and_comes_back_is_said_once(listening):
    said, port = [], free_port()
    watch = ServersWatch(f"127.0.0.1:{port}", f"redis://127.0.0.1:{listening(b'+PONG')}/0", said.append)
    watch.look()
    watch.look()
    assert said == [f"no Kafka answers at 127.0.0.1:{port}: connection refused; services wait for it"]
    assert watch.is_kafka_away
    watch.bootstrap = f"127.0.0.1:{listening(KAFKA)}"
    watch.look()
    assert said[1:] == ["Kafka answers again"]
    assert not watch.is_kafka_away


class Broker:
    """A broker of this machine that has ended, or whose disk is full."""

    def __init__(self, folder, why=None):
        self.folder, self.why = folder, why

    def lost(self):
        return self.why


def test_a_broker_that_has_ended_ends_the_command(tmp_path):
    watch = ServersWatch("127.0.0.1:1", "unix://", print, Broker(tmp_path, "Kafka has ended: Killed"))
    with pytest.raises(ServerLost, match="Kafka has ended: Killed; its rows and results are gone: start again"):
        watch.look()
    assert watch.is_kafka_away


def test_a_broker_that_ends_on_a_full_disk_says_so(tmp_path, monkeypatch):
    watch = ServersWatch("127.0.0.1:1", "unix://", print, Broker(tmp_path, "Kafka has ended without a word"))
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1_000})())
    with pytest.raises(ServerLost, match=f"the disk is full, {tmp_path}: Kafka has ended .*: make room, and start"):
        watch.look()


def test_a_full_disk_is_named_once(tmp_path, listening, monkeypatch):
    said = []
    watch = ServersWatch(f"127.0.0.1:{listening(KAFKA)}", "unix://", said.append, Broker(tmp_path))
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1_000})())
    watch.look()
    watch.look()
    assert said == [f"the disk is full: Kafka needs room in {tmp_path}; rows and results wait for it"]


def test_the_sender_checks_its_files_before_it_asks_for_kafka(tmp_path):
    query = tmp_path / "q.yaml"
    query.write_text(
        "name: q\nstreams: {t: {schema: {a: int}}}\n"
        "sql: SELECT l.a FROM t AS l JOIN t AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '10')\n"
    )
    for wrong, part in ((f"t={tmp_path}/none.csv", "none.csv: no such file"), ("s=none.csv", "'s'")):
        command = ["spojoin.cli.main", "send", str(query), "-i", wrong, "--bootstrap", "127.0.0.1:1"]
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
        assert part in done.stderr
        assert done.returncode == 2
        assert "Kafka" not in done.stderr
