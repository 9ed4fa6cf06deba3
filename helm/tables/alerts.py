"""Alert rules for Prometheus. The chart's RUNBOOK.md has a section for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from helm.tables.expressions import TENANT, scoped, serving
from spojoin.protocol.services import NEEDED
from spojoin.protocol.topology import Role
from spojoin.telemetry.expected_services import AWAY_MS

#: How long a needed service must be gone; the page and the controller wait equally long.
AWAY = f"{AWAY_MS / 1000:.0f}s"
#: In a release's own rules, the placeholder for the labels of its series.
RELEASE = "$release"
#: The share of its time from which on a service is near its limit.
BUSY = 0.9
#: How long a stopped service counts as missing if nothing defines the services that should run.
REMEMBERED = "1d"
_LAG = f"sum by ({TENANT}, role) (spojoin_input_lag_records)"
_ROUTER, _SINK = (f"{{role{serving([role])}}}" for role in (Role.ROUTER, Role.SINK))
_MOVES = f"max by ({TENANT}) (changes(spojoin_result_frames{_SINK}[5m]))"
_INPUTS_WAIT = f"sum by ({TENANT}) (spojoin_input_lag_records{_ROUTER})"
_HEAD = f"max by ({TENANT}) (spojoin_head_frames{_ROUTER})"
_DONE = f"max by ({TENANT}) (spojoin_result_frames{_SINK})"

#: Processes that results need.
_SERVING = f"spojoin_build_info{{role{serving(NEEDED)}}}"
_RUNNING = f"count by ({TENANT}) ({_SERVING})"


def _lately(series: str, span: str = REMEMBERED) -> str:
    return f"count by ({TENANT}) (last_over_time({series}[{span}]))"


#: The instances that should run, and the running ones, by service. Only routers write worker counts, so a router's
#: value takes precedence. The joiners report their own number.
_BY_SERVICE = f"by ({TENANT}, needed)"
_NEEDED = (
    f"(max {_BY_SERVICE} (spojoin_needed_instances{_ROUTER})"
    f" or on ({TENANT}) max {_BY_SERVICE} (spojoin_needed_instances)"
    f' or max {_BY_SERVICE} (spojoin_needed_instances{{role="{Role.MUTABLE}",needed=~"{Role.MUTABLE}-.+"}}))'
)
_INSTANCES = f'count {_BY_SERVICE} (label_replace({_SERVING}, "needed", "$1", "service_name", "([^.]+)([.].+)?"))'


@dataclass(frozen=True, slots=True)
class Alert:
    """A rule that fires once `expression` has returned a series for the time `lasting`.

    severity: `critical` if results stop or are wrong
    summary: one line, with the labels of the series
    of_release: the expression in a release's own rules, which exist only while the release is installed
    """

    name: str
    expression: str
    lasting: str
    severity: str
    summary: str
    of_release: str = ""

    @property
    def runbook(self) -> str:
        """The address of the alert's section in the runbook, relative to the chart's folder."""
        return f"RUNBOOK.md#{self.name.lower()}"


def _optional(name: str, role: Role, summary: str) -> Alert:
    """An alert that fires if an optional role is gone while results flow."""
    series = f'spojoin_build_info{{role="{role}"}}'
    is_there = f"count by ({TENANT}) ({series})"
    expression = f"({_RUNNING} and on ({TENANT}) {_lately(series)}) unless {is_there}"
    return Alert(name, expression, "5m", "warning", summary, of_release=f"{_RUNNING} unless {is_there}")


ALERTS = (
    Alert(
        "SpojoinLagGrows",
        f"min_over_time({_LAG}[10m:30s]) > 0 and deriv({_LAG}[10m:30s]) > 0",
        "10m",
        "warning",
        "{{ $labels.role }} of {{ $labels.query }} reads more slowly than its inputs grow: {{ $value }} records wait.",
    ),
    Alert(
        "SpojoinServiceBusy",
        f"sum by ({TENANT}, role, service_name) (rate(spojoin_step_seconds_sum[10m])) > {BUSY}",
        "10m",
        "warning",
        "{{ $labels.service_name }} of {{ $labels.query }} is busy for {{ $value | humanizePercentage }} of its time: "
        "results come later once more rows arrive.",
    ),
    Alert(
        "SpojoinNoProgress",
        f"(({_INPUTS_WAIT} > 0) or ({_HEAD} - {_DONE} > 0)) unless ({_MOVES} > 0)",
        "2m",
        "critical",
        "{{ $labels.query }} has work but has given no result for five minutes.",
    ),
    Alert(
        "SpojoinQueryGone",
        f"{_lately(_SERVING)} unless {_RUNNING}",
        AWAY,
        "critical",
        "{{ $labels.query }} ran within the last day, but Prometheus sees none of its services: results have stopped.",
    ),
    Alert(
        "SpojoinNeverSeen",
        "",
        "10m",
        "critical",
        "The release of {{ $labels.query }} is installed, but Prometheus has seen none of its services within a day.",
        of_release=f"absent({_SERVING}) unless on () {_lately(_SERVING, '23h')}",
    ),
    Alert(
        "SpojoinServiceGone",
        f"({_NEEDED} unless {_INSTANCES}) and on ({TENANT}) {_RUNNING}",
        AWAY,
        "critical",
        "{{ $labels.needed }} of {{ $labels.query }} is gone: results wait for it.",
    ),
    Alert(
        "SpojoinStandbyGone",
        f"{_INSTANCES} < {_NEEDED}",
        AWAY,
        "warning",
        "One instance of {{ $labels.needed }} of {{ $labels.query }} is gone: the other works without a standby.",
    ),
    Alert(
        "SpojoinPodReplaced",
        f'sum by ({TENANT}) (increase(spojoin_scale_steps_total{{kind="replace"}}[5m])) > 0',
        "0m",
        "warning",
        "The controller of {{ $labels.query }} has replaced a pod that a lost node held.",
    ),
    Alert(
        "SpojoinDeadLetters",
        f"sum by ({TENANT}, reason) (increase(spojoin_dead_letters_total{_ROUTER}[5m])) > 0",
        "0m",
        "warning",
        "{{ $labels.query }} has refused rows in the last five minutes: {{ $labels.reason }}.",
    ),
    Alert(
        "SpojoinCompletenessBelowOne",
        f"min by ({TENANT}) (spojoin_completeness_ratio{_SINK}) < 1"
        f" or min by ({TENANT}) (spojoin_results_exact{_SINK}) < 1",
        "0m",
        "critical",
        "The last check of {{ $labels.query }} found missing or wrong results.",
    ),
    _optional(
        "SpojoinPredictorGone",
        Role.PREDICTOR,
        "{{ $labels.query }} had a predictor within the last day but has none now: its plan grows old.",
    ),
    _optional(
        "SpojoinControllerGone",
        Role.CONTROLLER,
        "{{ $labels.query }} had a controller within the last day but has none now: the join ignores changed pods.",
    ),
    Alert(
        "SpojoinRedisGone",
        f"sum by ({TENANT}) (rate(spojoin_store_errors_total[1m])) > 0.5",
        "1m",
        "warning",
        "Services of {{ $labels.query }} get no answer from Redis.",
    ),
)


def rules() -> dict[str, Any]:
    """The content of the rule file, which covers all queries that Prometheus sees."""
    return _group([_rule(alert, alert.expression) for alert in ALERTS if alert.expression])


def release_rules() -> dict[str, Any]:
    """The `spec` of a release's PrometheusRule, with RELEASE for the labels of its series."""
    return _group([_rule(alert, scoped(alert.of_release or alert.expression, RELEASE)) for alert in ALERTS])


def _group(of_group: list[dict[str, Any]]) -> dict[str, Any]:
    return {"groups": [{"name": "spojoin", "rules": of_group}]}


def _rule(alert: Alert, expression: str) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": expression,
        "for": alert.lasting,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "runbook": alert.runbook},
    }
