"""The Compose file: valid, accepted by Compose where that is installed, and consistent with the repository."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from spojoin.protocol.topology import Role

DOCKER = Path(__file__).parents[3] / "docker"
COMPOSE = DOCKER / "compose.yaml"
#: The controller scales pods; Compose has none. Its columns aren't by key, so nothing needs a predictor.
NOT_NEEDED = {Role.CONTROLLER, Role.PREDICTOR, Role.INTAKE}


@pytest.fixture(scope="module")
def services():
    return yaml.safe_load(COMPOSE.read_text())["services"]


def ran(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)


def test_it_conforms_to_the_specification():
    checker = Path(sys.executable).parent / "check-jsonschema"
    done = ran(checker, "--builtin-schema", "vendor.compose-spec", COMPOSE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_mistake_would_be_found(tmp_path):
    (tmp_path / "compose.yaml").write_text(COMPOSE.read_text().replace("cap_drop:", "cap_dorp:"))
    checker = Path(sys.executable).parent / "check-jsonschema"
    assert ran(checker, "--builtin-schema", "vendor.compose-spec", tmp_path / "compose.yaml").returncode != 0


@pytest.mark.skipif(
    not shutil.which("docker") or ran("docker", "compose", "version").returncode != 0,
    reason="docker compose is not installed",
)
def test_compose_itself_accepts_it():
    done = ran("docker", "compose", "--file", COMPOSE, "--profile", "load", "config", "--quiet")
    assert done.returncode == 0, done.stderr


def test_every_role_that_is_needed_runs(services):
    roles = {service["command"][1] for service in services.values() if service.get("command", [])[:1] == ["service"]}
    assert roles == {str(role) for role in Role if role not in NOT_NEEDED}


def test_the_modules_that_run_exist(services):
    entrypoints = [service["entrypoint"] for service in services.values() if "entrypoint" in service]
    modules = [entrypoint[entrypoint.index("-m") + 1] for entrypoint in entrypoints]
    assert sorted(modules) == ["loadgen", "spojoin.page"]
    assert all(find_spec(f"{module}.__main__") for module in modules)


def test_mounted_files_exist(services):
    sources = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])]
    files = [source for source in sources if source.startswith(".")]
    assert files
    assert [source for source in files if not (DOCKER / source).exists()] == []


def test_ports_are_open_to_this_machine_only(services):
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_dockerfiles_are_where_the_services_look(services):
    builds = [service["build"] for service in services.values() if "build" in service]
    assert builds
    assert all(os.path.exists(COMPOSE.parent / each["context"] / each["dockerfile"]) for each in builds)
