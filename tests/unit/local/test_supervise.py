import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from spojoin.errors import ConfigurationError
from spojoin.local import supervise
from spojoin.local.children import Children
from spojoin.local.net import free_port
from spojoin.local.supervise import STATUS_FENCED, Service, ServiceError, Supervisor, ending_on_signals
from spojoin.runtime.process import EXIT_FENCED

READY_AFTER_START = """
import http.server, sys
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Ready).serve_forever()
"""
NEVER_READY = READY_AFTER_START.replace("200 if", "503 if")
ENDS = "print('the reason'); raise SystemExit(3)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"


def stub(name, code):
    port = free_port()
    return Service(name, [sys.executable, "-c", code, str(port)], port)


@pytest.fixture
def children():
    with Children() as children:
        yield children


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(condition, timeout_s=20.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)


def test_the_status_is_that_of_services():
    assert STATUS_FENCED == EXIT_FENCED


def test_a_service_whose_place_is_taken_again_and_again_ends_all(children, tmp_path):
    seen = []
    with Supervisor(children, tmp_path, restarts_max=5, notice=lambda *change: seen.append(change)) as supervisor:
        supervisor.start([stub("router", f"raise SystemExit({STATUS_FENCED})")])
        with pytest.raises(ServiceError, match="another process serves the same query on this Kafka"):
            supervisor.wait_ready()
    restarted = ("router", f"ended with status {STATUS_FENCED}, restarted")
    assert seen == [("router", "started"), restarted, ("router", "started")]


def test_a_service_that_was_fenced_long_ago_is_started_again(children, tmp_path, monkeypatch):
    monkeypatch.setattr(supervise, "FENCED_AGAIN_S", 0.0)
    with Supervisor(children, tmp_path, restarts_max=2) as supervisor:
        supervisor.start([stub("router", f"raise SystemExit({STATUS_FENCED})")])
        with pytest.raises(ServiceError, match=f"router ended with status {STATUS_FENCED}"):
            supervisor.wait_ready()


def test_all_services_become_ready_and_end_together(children, tmp_path):
    seen = []
    with Supervisor(children, tmp_path, notice=lambda *change: seen.append(change)) as supervisor:
        supervisor.start([stub("one", READY_AFTER_START), stub("two", READY_AFTER_START)])
        supervisor.wait_ready()
        pids = supervisor.pids().values()
        assert all(is_alive(pid) for pid in pids)
    assert not any(is_alive(pid) for pid in pids)
    assert {("one", "ready"), ("two", "ready")} <= set(seen)


def test_a_service_that_ends_fails_the_start_with_its_log(children, tmp_path):
    with Supervisor(children, tmp_path) as supervisor:
        supervisor.start([stub("good", READY_AFTER_START), stub("bad", ENDS)])
        with pytest.raises(ServiceError, match=r"bad ended with status 3(?s:.)*the reason"):
            supervisor.wait_ready()


def test_a_service_that_is_never_ready_is_named(children, tmp_path):
    with Supervisor(children, tmp_path) as supervisor:
        supervisor.start([stub("slow", NEVER_READY)])
        with pytest.raises(ConfigurationError, match="slow not ready after 1 s"):
            supervisor.wait_ready(timeout_s=1.0)


def test_a_killed_service_restarts_a_limited_number_of_times(children, tmp_path):
    with Supervisor(children, tmp_path, restarts_max=1) as supervisor:
        supervisor.start([stub("one", READY_AFTER_START)])
        first = kill(supervisor)
        supervisor.tend()
        assert supervisor.pids()["one"] != first
        supervisor.wait_ready()
        kill(supervisor)
        with pytest.raises(ServiceError, match="one ended with SIGKILL"):
            supervisor.tend()


def tended(supervisor, condition):
    wait_until(lambda: (supervisor.tend(), condition())[1])


def test_a_new_process_takes_the_place_when_it_is_ready_and_the_old_one_ends_then(children, tmp_path):
    with Supervisor(children, tmp_path) as supervisor:
        supervisor.start([stub("one", READY_AFTER_START)])
        supervisor.wait_ready()
        old = supervisor.pids()["one"]
        supervisor.renew([stub("one", NEVER_READY)])
        supervisor.tend()
        assert not supervisor.is_renewed
        assert supervisor.pids()["one"] == old
        coming = stub("one", READY_AFTER_START)
        supervisor.renew([coming])
        tended(supervisor, lambda: supervisor.is_renewed)
        assert supervisor.services() == {"one": coming}
        assert not is_alive(old)


def test_a_new_process_that_is_killed_before_it_is_ready_is_started_again(children, tmp_path):
    with Supervisor(children, tmp_path, restarts_max=1) as supervisor:
        supervisor.start([stub("one", READY_AFTER_START)])
        supervisor.wait_ready()
        old = supervisor.pids()["one"]
        supervisor.renew([stub("one", READY_AFTER_START)])
        supervisor._coming["one"].process.kill()
        supervisor._coming["one"].process.wait()
        tended(supervisor, lambda: supervisor.is_renewed)
        assert supervisor.pids()["one"] != old


def kill(supervisor):
    (running,) = supervisor._running.values()
    running.process.kill()
    running.process.wait()
    return running.process.pid


def test_a_service_that_ignores_sigterm_is_killed(children, tmp_path, monkeypatch):
    monkeypatch.setattr(supervise, "STOP_TIMEOUT_S", 0.5)
    with Supervisor(children, tmp_path) as supervisor:
        supervisor.start([stub("deaf", DEAF)])
        wait_until(lambda: "deaf" in (tmp_path / "deaf.log").read_text())
        pid = supervisor.pids()["deaf"]
    assert not is_alive(pid)


def test_sigterm_ends_the_block_as_ctrl_c_does():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), ending_on_signals():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ending_on_signals():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("end_by", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_supervising_process(tmp_path, end_by):
    code = textwrap.dedent("""
        import sys, time
        from pathlib import Path
        from spojoin.local.supervise import STATUS_FENCED, Service, Supervisor, ending_on_signals
        from spojoin.local.children import Children
        with ending_on_signals(), Children() as children, Supervisor(children, Path(sys.argv[1])) as supervisor:
            supervisor.start([Service("one", [sys.executable, "-c", "import time; time.sleep(60)"], 1)])
            print(*supervisor.pids().values(), flush=True)
            time.sleep(60)
    """)
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    assert is_alive(pid)
    parent.send_signal(end_by)
    parent.wait()
    wait_until(lambda: not is_alive(pid))
    parent.stdout.close()
