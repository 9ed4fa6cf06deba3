import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from spojoin.cli.options import UpOptions
from spojoin.cli.up import ending
from spojoin.local.services import Deployment, page_of, services_of
from spojoin.local.usage import family_cpu_s, usage_of
from spojoin.page.settings import load_page_settings
from spojoin.protocol.topology import LONE_ROLES, Role
from spojoin.query.load import parse_query
from spojoin.runtime.settings import load_settings

QUERY = """
name: q
streams:
  s: {schema: {a: int, b: int}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a AND l.b > r.b WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""


def test_every_role_has_its_processes():
    services = services_of(Deployment(parse_query(QUERY), Path("q.yaml"), "k:1", "redis://r", workers=3))
    names = [service.name for service in services]
    counted = [*(f"mutable-{p}" for p in range(2)), *(f"pojoin-{w}" for w in range(3))]
    assert sorted(names) == sorted(["router", "permutation", "logical-and", "sink", *counted])
    assert {name.split("-")[0] for name in names} == {role.value.split("-")[0] for role in set(Role) - {*LONE_ROLES}}
    assert len({service.port for service in services}) == len(services)


def test_each_service_accepts_its_environment(monkeypatch):
    deployment = Deployment(parse_query(QUERY), Path("q.yaml"), "k:1", "redis://r", 3, {"credits_frames": "77"})
    for service in services_of(deployment):
        with monkeypatch.context() as patch:
            for name, value in service.environment.items():
                patch.setenv(name, value)
            settings = load_settings()
        assert settings.query_file == Path("q.yaml").resolve()
        assert (settings.bootstrap_servers, settings.workers_max) == ("k:1", 3)
        assert settings.credits_frames == (77 if service.name == "router" else 256)
        assert settings.metrics_port == service.port
        assert settings.worker == (int(service.name[-1]) if "pojoin" in service.name else None)
        assert settings.joiner == (int(service.name[-1]) if "mutable" in service.name else None)
        assert settings.joiners == (2 if "mutable" in service.name else None)


def test_roles_that_share_a_process_are_one_service_and_further_workers_run_beside():
    deployment = Deployment(parse_query(QUERY), Path("q.yaml"), "k:1", "redis://r", 3, packing="together")
    services = services_of(deployment)
    assert [service.name for service in services] == ["together", "pojoin-1", "pojoin-2"]
    assert services[0].command[1:] == ["-m", "spojoin.runtime", "together"]
    assert {service.environment["SPOJOIN_PACKING"] for service in services} == {"together"}


def test_a_group_leaves_the_other_roles_alone():
    deployment = Deployment(parse_query(QUERY), Path("q.yaml"), "k:1", "redis://r", 1, packing="router+sink")
    names = {service.name for service in services_of(deployment)}
    assert names == {"router+sink", "mutable-0", "mutable-1", "permutation", "pojoin-0", "logical-and"}


@pytest.mark.parametrize("packing", ["apart", "together"])
def test_a_predictor_runs_where_columns_are_by_key_and_once(packing):
    text = QUERY.replace("ON l.a < r.a", "ON l.a = r.a")
    deployment = Deployment(parse_query(text), Path("q.yaml"), "k:1", "redis://r", 1, packing=packing, standbys=True)
    assert not {"predictor"} & {service.name for service in services_of(deployment)}
    by_key = services_of(replace(deployment, extra={"columns_by": "key"}))
    assert [service.name for service in by_key if "predictor" in service.name] == ["predictor"]


def test_answerers_have_the_names_and_numbers_of_workers():
    deployment = Deployment(parse_query(QUERY), Path("q.yaml"), "k:1", "redis://r", 2, packing="answerer")
    services = {service.name: service for service in services_of(deployment)}
    assert services.keys() == {"router", "permutation", "pojoin-0", "pojoin-1", "sink"}
    for number in range(2):
        answerer = services[f"pojoin-{number}"]
        assert answerer.command[1:] == ["-m", "spojoin.runtime", "mutable+pojoin+logical-and"]
        assert answerer.environment["SPOJOIN_WORKER"] == str(number)


def test_a_standby_is_a_second_instance_of_each_service():
    deployment = Deployment(parse_query(QUERY), Path("q.yaml"), "k:1", "redis://r", 1, packing="together")
    services = services_of(replace(deployment, standbys=True))
    assert [service.name for service in services] == ["together", "together.b"]
    assert [service.environment["SPOJOIN_INSTANCE"] for service in services] == ["a", "b"]
    assert {service.environment["SPOJOIN_STANDBYS"] for service in services} == {"true"}


def test_usage_of_this_process_and_of_none():
    used = usage_of(os.getpid())
    assert used is None or (used.cpu_s > 0 and used.peak_rss_bytes > 1 << 20)
    assert usage_of(2**22 + 1) is None


BUSY = "import time\nwhile time.process_time() < 0.3: pass\n"


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the system doesn't report children")
def test_what_a_family_uses_has_children_that_have_ended_and_those_that_have_not():
    """Of two busy grandchildren, whose parent uses next to nothing, one has ended."""
    parent = (
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BUSY!r}])\n"
        f"other = subprocess.Popen([sys.executable, '-c', {BUSY + 'print(flush=True); input()'!r}], "
        "stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "other.stdout.readline(); print(flush=True); input()\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        own, family = usage_of(process.pid).cpu_s, family_cpu_s(process.pid)
        process.stdin.close()
    assert family >= own + 0.55  # the kernel counts in hundredths of a second
    assert family_cpu_s(2**22 + 1) is None


def test_the_page_has_a_process_too(monkeypatch):
    service = page_of(Deployment(parse_query(QUERY), Path("q.yaml"), "k:1", "redis://r", 3, {"credits_frames": "77"}))
    for name, value in service.environment.items():
        monkeypatch.setenv(name, value)
    page = load_page_settings()
    assert (page.address.host, page.address.port) == ("127.0.0.1", service.port)
    assert (page.service.bootstrap_servers, page.service.redis_url, page.service.workers) == ("k:1", "redis://r", 3)
    assert service.command[1:] == ["-m", "spojoin.page"]


def test_up_states_what_happens_to_its_data():
    assert "discards" in ending(UpOptions(query=Path("q.yaml")))
    kept = ending(UpOptions(query=Path("q.yaml"), bootstrap="kafka:9092"))
    assert "discards" not in kept
    assert "stay in the Kafka at kafka:9092" in kept


def test_the_requested_number_of_joiners_runs():
    deployment = Deployment(parse_query(QUERY), Path("q.yaml"), "k:1", "redis://r", joiners=3)
    joiners = [service for service in services_of(deployment) if service.name.startswith("mutable")]
    assert [service.environment["SPOJOIN_JOINER"] for service in joiners] == ["0", "1", "2"]
    assert {service.environment["SPOJOIN_JOINERS"] for service in joiners} == {"3"}


def test_the_requested_number_of_logical_ands_runs():
    deployment = Deployment(parse_query(QUERY), Path("q.yaml"), "k:1", "redis://r", extra={"logical_ands": "2"})
    found = {service.name: service.environment for service in services_of(deployment)}
    ands = {name: found[name] for name in found if "logical" in name}
    assert {name: environment["SPOJOIN_LOGICAL_AND"] for name, environment in ands.items()} == {
        "logical-and-0": "0",
        "logical-and-1": "1",
    }
    assert {environment["SPOJOIN_LOGICAL_ANDS"] for environment in ands.values()} == {"2"}
    assert found["router"]["SPOJOIN_LOGICAL_ANDS"] == "2"
    assert "SPOJOIN_LOGICAL_ANDS" not in found["sink"]
