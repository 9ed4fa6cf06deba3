"""The Compose file, started: needs Docker and the images that `make images` builds."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import yaml

FILE = Path(__file__).parents[2] / "docker/compose.yaml"
#: The default ports may be in use on this machine.
NO_PORTS = "services: {page: {ports: !reset []}}\n"
#: Third-party images, only for people to look at.
OTHERS = ("prometheus", "grafana")
QUERY = "/etc/spojoin/query.yaml"
ROWS = 10_000
TIMEOUT_S = 300


def docker(*arguments):
    return subprocess.run(["docker", *map(str, arguments)], capture_output=True, text=True, check=False)


IMAGES = ("spojoin:dev", "spojoin-dev:dev", "spojoin-spark:dev")


def has_images():
    return bool(shutil.which("docker")) and docker("image", "inspect", *IMAGES).returncode == 0


@pytest.fixture
def compose(tmp_path):
    (tmp_path / "no-ports.yaml").write_text(NO_PORTS)
    files = ["--file", FILE, "--file", tmp_path / "no-ports.yaml", "--project-name", "spojoin-test"]

    def run(*arguments):
        done = docker("compose", *files, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    yield run
    run("--profile", "load", "down", "--volumes")


@pytest.mark.integration
@pytest.mark.skipif(not has_images(), reason=f"Docker isn't here, or lacks {', '.join(IMAGES)} (make images)")
def test_all_services_come_up_and_answer_every_row(compose):
    services = {name for name, about in yaml.safe_load(FILE.read_text())["services"].items() if "profiles" not in about}
    compose("up", "--detach", "--no-build", *sorted(services - set(OTHERS)))
    # The first rows create the input topic; until then the router isn't ready.
    compose("run", "--rm", "load", "produce", "--workload", "q3", "--rate", 2_000, "--duration", f"{ROWS // 2_000}s")
    wait_until_healthy(compose)
    found, deadline = 0, time.monotonic() + TIMEOUT_S
    while found < ROWS and time.monotonic() < deadline:
        said = compose("exec", "-T", "sink", "/opt/spojoin/bin/spojoin", "results", QUERY, "--bootstrap", "broker:9092")
        found = len(said.splitlines())
    assert found == ROWS


def wait_until_healthy(compose):
    deadline = time.monotonic() + TIMEOUT_S
    while unhealthy := [each["Service"] for each in states(compose) if each["Health"] not in ("", "healthy")]:
        assert time.monotonic() < deadline, f"{unhealthy}: {compose('logs', '--tail', '5', *unhealthy)}"
        time.sleep(1)


def states(compose):
    return [json.loads(line) for line in compose("ps", "--format", "json").splitlines()]
