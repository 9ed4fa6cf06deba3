"""Alerts on synthetic series, judged by promtool: they fire when they should and only then; absences have a file of
their own.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from helm.tables.alerts import ALERTS
from helm.tables.files import files

CHART = Path(__file__).parents[4] / "helm" / "spojoin"

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool isn't on PATH (Debian: apt-get install prometheus)"
)

#: Seconds between the values of a series.
STEP_S = 30
LAG, HEAD, DONE = "spojoin_input_lag_records", "spojoin_head_frames", "spojoin_result_frames"
BUSY = "spojoin_step_seconds_sum"
NOWHERE = "_x120"
#: how alerts end that test_absence_rules.py tries, but for Redis, of which no process is missed
ABSENCES = ("QueryGone", "NeverSeen", "ServiceGone", "StandbyGone", "PredictorGone", "ControllerGone")


class Case(NamedTuple):
    """Series by (metric, labels) in promtool's notation, and whether the alert fires after `minutes`.

    A series that ends is held for five minutes; `stale` ends it at once, as a scrape does that finds nothing.
    """

    alert: str
    about: str
    series: dict[str, str]
    minutes: int
    fires: bool


def one(metric: str, role: str, **labels: str) -> str:
    wanted = {"query": "q", "role": role, "service_name": role, **labels}
    matchers = ", ".join(f'{name}="{value}"' for name, value in wanted.items())
    return f"{metric}{{{matchers}}}"


def progress(lag: str, head: str, done: str) -> dict[str, str]:
    return {one(LAG, "router"): lag, one(HEAD, "router"): head, one(DONE, "sink"): done}


REPLACED = one("spojoin_scale_steps_total", "controller", kind="replace")
PACKED = one(LAG, "router+sink"), one(HEAD, "router+sink"), one(DONE, "router+sink")
LETTERS = one("spojoin_dead_letters_total", "router", reason="null")
RATIO, EXACT = one("spojoin_completeness_ratio", "sink"), one("spojoin_results_exact", "sink")
REDIS = one("spojoin_store_errors_total", "sink")
CASES = [
    Case("SpojoinLagGrows", "grows", {one(LAG, "router"): "100+10x120"}, 30, True),
    Case("SpojoinLagGrows", "grows, but not for long", {one(LAG, "router"): "100+10x120"}, 8, False),
    Case("SpojoinLagGrows", "large but steady", {one(LAG, "router"): "90000x120"}, 30, False),
    Case("SpojoinLagGrows", "shrinks", {one(LAG, "router"): "90000-100x120"}, 30, False),
    Case("SpojoinLagGrows", "is worked off now and then", {one(LAG, "router"): "0 50 100 " * 40}, 30, False),
    Case("SpojoinServiceBusy", "near its limit", {one(BUSY, "pojoin"): "0+28.5x120"}, 30, True),
    Case("SpojoinServiceBusy", "for a while", {one(BUSY, "pojoin"): "0+28.5x30 855x90"}, 30, False),
    Case("SpojoinServiceBusy", "has time", {one(BUSY, "pojoin"): "0+24x120"}, 30, False),
    Case("SpojoinNoProgress", "rows wait, nothing comes", progress("5x120", "9x120", "9x120"), 10, True),
    Case("SpojoinNoProgress", "frames wait, nothing comes", progress("0x120", "9x120", "8x120"), 10, True),
    Case("SpojoinNoProgress", "the sink is gone", progress("5x120", "9x120", NOWHERE), 10, True),
    Case("SpojoinNoProgress", "results come", progress("5x120", "9+1x120", "8+1x120"), 10, False),
    Case("SpojoinNoProgress", "nothing to do", progress("0x120", "9x120", "9x120"), 10, False),
    Case("SpojoinNoProgress", "work has just come", progress("0x10 5x110", "9x120", "9x120"), 6, False),
    Case(
        "SpojoinNoProgress",
        "in a shared process",
        dict(zip(PACKED, ("5x120", "9x120", "9x120"), strict=True)),
        10,
        True,
    ),
    Case("SpojoinNoProgress", "flows", dict(zip(PACKED, ("5x120", "9+1x120", "8+1x120"), strict=True)), 10, False),
    Case("SpojoinPodReplaced", "a pod was held", {REPLACED: "0x10 1x110"}, 6, True),
    Case("SpojoinPodReplaced", "long ago", {REPLACED: "0x10 1x110"}, 30, False),
    Case("SpojoinDeadLetters", "rows are refused", {LETTERS: "0x10 3x110"}, 6, True),
    Case("SpojoinDeadLetters", "rows were refused long ago", {LETTERS: "0x10 3x110"}, 30, False),
    Case("SpojoinCompletenessBelowOne", "rows are missing", {RATIO: "0.99x120", EXACT: "0x120"}, 1, True),
    Case("SpojoinCompletenessBelowOne", "rows are wrong", {RATIO: "1x120", EXACT: "0x120"}, 1, True),
    Case("SpojoinCompletenessBelowOne", "exact", {RATIO: "1x120", EXACT: "1x120"}, 1, False),
    Case("SpojoinCompletenessBelowOne", "never checked", {RATIO: "NaN " * 60, EXACT: "NaN " * 60}, 1, False),
    Case("SpojoinRedisGone", "no answer", {REDIS: "0+30x120"}, 10, True),
    Case("SpojoinRedisGone", "answers late now and then", {REDIS: "0+1x120"}, 10, False),
]


def as_test(case: Case) -> dict[str, object]:
    return {
        "name": f"{case.alert}: {case.about}",
        "interval": f"{STEP_S}s",
        "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{case.alert}", alertstate="firing", query="q"}}) or vector(0)',
                "eval_time": f"{case.minutes}m",
                "exp_samples": [{"labels": "{}", "value": int(case.fires)}],
            }
        ],
    }


def test_alerts_fire_when_they_should_and_only_then(tmp_path) -> None:
    (tmp_path / "rules.yaml").write_text(files(CHART)["alerts/rules.yaml"])
    suite = {"rule_files": ["rules.yaml"], "evaluation_interval": "15s", "tests": [as_test(case) for case in CASES]}
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(suite))
    done = subprocess.run(["promtool", "test", "rules", "suite.yaml"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()


def test_every_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    cases = {(case.alert, case.fires) for case in CASES}
    assert cases == {(a.name, fires) for a in ALERTS if not a.name.endswith(ABSENCES) for fires in (True, False)}


def test_promtool_finds_nothing_wrong_with_the_rules(tmp_path) -> None:
    (tmp_path / "rules.yaml").write_text(files(CHART)["alerts/rules.yaml"])
    done = subprocess.run(["promtool", "check", "rules", "rules.yaml"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert f"{len([alert for alert in ALERTS if alert.expression])} rules found" in done.stdout.decode()
