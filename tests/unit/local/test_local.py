"""Starting servers on this machine: children never outlive their parent, and errors are one sentence."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from spojoin.errors import ConfigurationError
from spojoin.local import jars, net
from spojoin.local.broker import LocalBroker
from spojoin.local.broker_config import KafkaNode
from spojoin.local.children import Children
from spojoin.local.net import Server, free_port, listens, require_free, wait_until_up
from spojoin.local.redis import LocalRedis, find_redis_with_tls
from spojoin.local.security import BrokerSecurity, Certificates
from spojoin.local.spark import started

TIMEOUT_S = 60.0

#: a shell starts background jobs with SIGINT ignored
_PARENT = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from spojoin.local.children import Children
children = Children(grace_s=1)
folder = children.scratch_folder("test")
(folder / "x").write_text("x")
log = Path(sys.argv[1])
plain = children.start(["sleep", "600"], log)
stubborn = children.start(["sh", "-c", "trap '' TERM; while :; do sleep 1; done"], log)
ended = children.start(["true"], log)
children.stop(ended)
print(plain.pid, stubborn.pid, folder, flush=True)
time.sleep(600)
"""


def wait_for(condition) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes through /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_children_and_folders_vanish_with_their_parent_however_it_ends(tmp_path, number):
    command = [sys.executable, "-c", _PARENT, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        plain, stubborn, folder = parent.stdout.readline().split()
        assert is_running(int(plain))
        assert is_running(int(stubborn))
        parent.send_signal(number)
        parent.wait(TIMEOUT_S)
    wait_for(lambda: not is_running(int(plain)) and not is_running(int(stubborn)))
    wait_for(lambda: not Path(folder).exists())


def test_closing_ends_everything_and_deletes_folders(tmp_path):
    with Children(grace_s=1) as children:
        folder = children.scratch_folder("test")
        process = children.start(["sleep", "600"], tmp_path / "log")
    assert process.returncode == -signal.SIGTERM
    assert not folder.exists()


def test_output_and_environment_of_a_child(tmp_path):
    with Children(grace_s=1) as children:
        process = children.start(["sh", "-c", "echo $GREETING"], tmp_path / "log", {"GREETING": "hello"})
        assert process.wait(TIMEOUT_S) == 0
    assert (tmp_path / "log").read_text() == "hello\n"


def test_a_hard_stop_kills(tmp_path):
    with Children(grace_s=1) as children:
        process = children.start(["sleep", "600"], tmp_path / "log")
        assert children.stop(process, is_hard=True) == -signal.SIGKILL


def test_a_program_that_cannot_start_is_named(tmp_path):
    with Children(grace_s=1) as children, pytest.raises(ConfigurationError, match="/no/such/program"):
        children.start(["/no/such/program"], tmp_path / "log")


def test_a_port_is_given_once(monkeypatch):
    drawn = iter((20_001, 20_001, 20_002))
    monkeypatch.setattr(net.random, "randrange", lambda *_: next(drawn))
    monkeypatch.setattr(net, "_can_bind", lambda *_: True)
    assert [free_port(), free_port()] == [20_001, 20_002]


def test_a_port_in_use_is_one_sentence():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        assert listens(port)
        with pytest.raises(ConfigurationError, match=f"Redis's port {port} is in use"):
            require_free("Redis", port)
    require_free("Redis", free_port())


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("jars.net.BindException: Address already in use", r"Kafka's port 1 is in use"),
        ("IOException: No space left on device", r"the disk is full: Kafka needs room"),
        ("first\nlast words", r"Kafka ended while it started: last words"),
        ("", r"Kafka ended while it started without a word"),
    ],
)
def test_the_reason_why_a_server_ended_is_reported(tmp_path, said, expected):
    log = tmp_path / "log"
    log.write_text(said)
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(ConfigurationError, match=expected):
        wait_until_up(Server("Kafka", process, 1, log), lambda: False, TIMEOUT_S)


def test_a_server_that_never_answers(tmp_path):
    with Children(grace_s=1) as children:
        process = children.start(["sleep", "600"], tmp_path / "log")
        with pytest.raises(ConfigurationError, match="Kafka did not answer within 0 s: its log is"):
            wait_until_up(Server("Kafka", process, 1, tmp_path / "log"), lambda: False, 0.1)


def fake_java(folder: Path, says: str) -> None:
    binary = folder / "java"
    binary.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    binary.chmod(0o755)


def test_java_missing_too_old_or_mute(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"^Java is missing: install .*17"):
        jars.find_java()
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin{os.pathsep}/usr/bin")
    fake_java(tmp_path, 'openjdk version "11.0.2" 2019-01-15')
    with pytest.raises(ConfigurationError, match="is Java 11, too old"):
        jars.find_java()
    fake_java(tmp_path, 'java version "1.8.0_402"')
    with pytest.raises(ConfigurationError, match="is Java 8, too old"):
        jars.find_java()
    fake_java(tmp_path, "what?")
    with pytest.raises(ConfigurationError, match="says no version"):
        jars.find_java()
    fake_java(tmp_path, 'openjdk version "21" 2023-09-19')
    assert jars.find_java() == str(tmp_path / "java")


def test_java_home_comes_first(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    fake_java(tmp_path / "bin", 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert jars.find_java() == str(tmp_path / "bin" / "java")


def test_the_cache_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SPOJOIN_CACHE_FOLDER", raising=False)
    assert jars.cache_folder() == tmp_path / "spojoin"
    monkeypatch.setenv("SPOJOIN_CACHE_FOLDER", str(tmp_path / "own"))
    assert jars.cache_folder() == tmp_path / "own"


def test_cached_jars_are_not_fetched_again(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    folder = tmp_path / "jars" / "x+1.0"
    folder.mkdir(parents=True)
    assert jars.fetch("x", ["org:name:1.0"], tmp_path) == folder


@pytest.mark.parametrize(("is_complete", "transitive"), [(True, "false"), (False, "true")])
def test_only_a_complete_list_of_modules_excludes_dependencies(tmp_path, monkeypatch, is_complete, transitive):
    asked = []

    def retrieve(ivy, described, scratch, progress):
        asked.append(described)
        (scratch / "libs").mkdir()

    monkeypatch.setattr(jars, "_ivy_jar", lambda: tmp_path / "ivy.jar")
    monkeypatch.setattr(jars, "_retrieve", retrieve)
    jars.fetch("x", ["org:name:1.0"], tmp_path, progress=lambda _: None, is_complete=is_complete)
    assert f'name="name" rev="1.0" conf="default" transitive="{transitive}"' in asked[0]


@pytest.mark.integration
def test_jars_out_of_reach_are_one_sentence_and_leave_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("SPOJOIN_MAVEN_URL", f"http://127.0.0.1:{free_port()}/")
    with pytest.raises(ConfigurationError, match=r"^jars could not be fetched from http://127[^\n]*SPOJOIN_MAVEN_URL"):
        jars.fetch("x", ["org.nowhere:nothing:1.0"], tmp_path, progress=lambda _: None)
    assert list((tmp_path / "jars").iterdir()) == []


class FlakyRepository(BaseHTTPRequestHandler):
    """A Maven repository with one jar, of which the first download breaks off."""

    broken = 0

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        body = {".pom": POM, ".jar": b"a jar"}.get(Path(self.path).suffix)
        if body is None or not self.path.startswith("/org/name/1.0/name-1.0."):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            breaks = body == b"a jar" and FlakyRepository.broken == 0
            FlakyRepository.broken += breaks
            self.wfile.write(body[:1] if breaks else body)

    def log_message(self, *_: object) -> None:
        pass


POM = b"""<project><modelVersion>4.0.0</modelVersion>
<groupId>org</groupId><artifactId>name</artifactId><version>1.0</version></project>"""


@pytest.mark.integration
def test_a_download_that_breaks_off_is_tried_again(tmp_path, monkeypatch):
    said = []
    with ThreadingHTTPServer(("127.0.0.1", 0), FlakyRepository) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("SPOJOIN_MAVEN_URL", f"http://127.0.0.1:{server.server_port}/")
        folder = jars.fetch("x", ["org:name:1.0"], tmp_path, progress=said.append)
        server.shutdown()
    assert [path.read_bytes() for path in folder.iterdir()] == [b"a jar"]
    (again,) = (line for line in said if "trying again" in line)
    assert "Downloaded file size (1) doesn't match expected Content Length (5)" in again


def test_a_redis_that_runs_elsewhere_is_used_and_not_stopped(monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://elsewhere:1/2")
    with Children(grace_s=1) as children, LocalRedis(children) as redis:
        assert redis.url == "redis://elsewhere:1/2"
        redis.kill()


def test_a_chosen_port_in_use_ends_the_start_at_once(monkeypatch):
    monkeypatch.delenv("REDIS_URL", raising=False)
    monkeypatch.setattr("spojoin.local.broker.kafka_jars", lambda **_: Path("none"))
    monkeypatch.setattr("spojoin.local.broker.find_java", lambda: "java")
    with socket.socket() as holder, Children(grace_s=1) as children:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        for server in (LocalBroker, LocalRedis):
            with pytest.raises(ConfigurationError, match="is in use"):
                server(children, port=holder.getsockname()[1])


def fake_redis(folder: Path, name: str, says: str) -> Path:
    binary = folder / name
    binary.write_text(f"#!/bin/sh\necho '{says}'\nexit 1\n")
    binary.chmod(0o755)
    return binary


def test_a_redis_with_tls_is_searched_for(tmp_path, monkeypatch):
    which = shutil.which
    monkeypatch.setattr("spojoin.local.redis.shutil.which", lambda name: which(name, path=str(tmp_path)))
    with pytest.raises(ConfigurationError, match="no Redis on this machine speaks TLS: install"):
        find_redis_with_tls()
    fake_redis(tmp_path, "redis-server", "Bad directive or wrong number of arguments")
    with pytest.raises(ConfigurationError, match="no Redis on this machine speaks TLS: install"):
        find_redis_with_tls()
    valkey = fake_redis(tmp_path, "valkey-server", "argument could not be parsed into an integer")
    assert find_redis_with_tls() == str(valkey)


def test_a_node_is_open_or_closed(tmp_path):
    certificates = Certificates(*(tmp_path / name for name in ("ca", "key", "chain", "both")))
    plain = KafkaNode("java", tmp_path, tmp_path / "plain", "h", 1, 2, "")
    closed = replace(plain, folder=tmp_path / "closed", security=BrokerSecurity(certificates, "hunter2"))
    for node in (plain, closed):
        node.configure()
    text = (tmp_path / "plain" / "server.properties").read_text()
    assert "PLAINTEXT://h:1" in text
    assert "SASL" not in text
    file = tmp_path / "closed" / "server.properties"
    assert "PLAINTEXT" not in file.read_text()
    assert "StandardAuthorizer" in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    assert "hunter2" not in " ".join([*closed.command(), *closed.format_command(), repr(closed)])


def test_ctrl_c_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def starts(conf: object) -> None:
        signal.signal(signal.SIGINT, lambda number, frame: None)

    monkeypatch.setattr(SparkContext, "getOrCreate", starts)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda builder: builder)
    before = signal.getsignal(signal.SIGINT)
    started("any", "local[1]", {})
    assert signal.getsignal(signal.SIGINT) is before
