"""`loadgen silence` and `loadgen soak` on the real broker and Redis, for a few seconds each."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from loadgen.chaos.options import SilenceOptions, SoakOptions
from loadgen.chaos.served import LoadedServices
from loadgen.chaos.silence_session import measure
from loadgen.chaos.soak_session import soak_services
from loadgen.load.formats import MessageFormat
from tests.support.long import long_only

pytestmark = [pytest.mark.integration, pytest.mark.alone]


def test_a_standby_takes_over_servers_are_struck_and_the_silence_is_measured(tmp_path: Path) -> None:
    asked = SilenceOptions(kills=1, stops=1, restarts=1, stopped=2.0, rate=1_000.0, window=2_000, output=tmp_path)
    assert measure(asked) == 0
    found = orjson.loads((tmp_path / "silence.json").read_bytes())
    assert [fault["kind"] for fault in found["faults"]] == ["kill", "stop", "restart", "loss"]
    assert found["usual_gaps"] > 10
    *services, kafka, redis = found["faults"]
    assert all(fault["process"] in ("together", "together.b") for fault in services)
    assert kafka["own_ms"] > 0
    assert redis["process"] == "Redis"
    assert all(fault["gap_ms"] > 0 for fault in found["faults"])


@pytest.mark.parametrize(
    ("packing", "standbys"), [long_only("apart", False), ("together", False), ("router+sink", True)]
)
def test_an_upgrade_of_all_is_exact_also_where_new_processes_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packing: str, standbys: bool
) -> None:
    begin, killed = LoadedServices.upgrade, []

    def upgrade(services: LoadedServices) -> None:
        begin(services)
        for name, coming in services.driver.supervisor._coming.items():
            if name != "sink" or not killed:
                time.sleep(0.3)
                coming.process.kill()
                killed.append(name)

    monkeypatch.setattr(LoadedServices, "upgrade", upgrade)
    asked = SilenceOptions(packing, standbys, 0, 0, upgrades=2, restarts=0, redis=False, rate=500.0, window=2_000)
    assert measure(replace(asked, output=tmp_path)) == 0
    found = orjson.loads((tmp_path / "silence.json").read_bytes())
    assert [fault["kind"] for fault in found["faults"]] == ["upgrade", "upgrade"]
    assert len(killed) > 1


def test_running_processes_serve_another_query_without_a_restart(tmp_path: Path) -> None:
    asked = SilenceOptions("apart", False, 0, 0, replacements=1, restarts=0, redis=False, rate=100.0, window=1_000)
    asked = replace(asked, message=MessageFormat.JSON, output=tmp_path / "report", logs=tmp_path / "logs")
    assert measure(asked) == 0
    found = orjson.loads((tmp_path / "report/silence.json").read_bytes())
    assert [fault["kind"] for fault in found["faults"]] == ["replacement"]
    for service, starts in {"router": 2, "sink": 1, "mutable-0": 1, "pojoin-0": 1}.items():
        assert (tmp_path / f"logs/{service}.log").read_text().count('"event": "started"') == starts


def test_a_short_soak_passes(tmp_path: Path) -> None:
    kinds = "kill,redis,rescale,move"
    asked = SoakOptions(minutes=0.25, seed=3, rate=500.0, every=1.0, sinks=2, kinds=kinds, output=tmp_path)
    assert soak_services(asked) == 0
    assert (tmp_path / "soak.md").read_text().endswith("passed\n")
