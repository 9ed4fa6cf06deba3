"""Alert rules as Prometheus reads them; each has a section of its name in the chart's RUNBOOK.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from helm.tables.expressions import TENANT, scoped, serving
from spojoin.protocol.services import NEEDED
from spojoin.protocol.topology import Role
from spojoin.telemetry.absences import AWAY_MS

#: How long a service that results need has been away, as in the events of page and controller.
AWAY = f"{AWAY_MS / 1000:.0f}s"
#: Where a release's own rules have the labels of its series.
RELEASE = "$release"
#: How long what has run is missed where nothing says what should run: an uninstalled release is forgotten then.
REMEMBERED = "1d"
_LAG = f"sum by ({TENANT}, role) (spojoin_input_lag_records)"
_ROUTER, _SINK = (f"{{role{serving([role])}}}" for role in (Role.ROUTER, Role.SINK))
_MOVES = f"max by ({TENANT}) (changes(spojoin_result_frames{_SINK}[5m]))"
_INPUTS_WAIT = f"sum by ({TENANT}) (spojoin_input_lag_records{_ROUTER})"
_HEAD = f"max by ({TENANT}) (spojoin_head_frames{_ROUTER})"
_DONE = f"max by ({TENANT}) (spojoin_result_frames{_SINK})"

#: Processes without which there are no results.
_SERVING = f"spojoin_build_info{{role{serving(NEEDED)}}}"
_RUNNING = f"count by ({TENANT}) ({_SERVING})"


def _lately(series: str, span: str = REMEMBERED) -> str:
    return f"count by ({TENANT}) (last_over_time({series}[{span}]))"


#: What should run, and what does, by service. Only routers write worker counts: their word counts, if there is one. How
#: many joiners there are the joiners know.
_BY_SERVICE = f"by ({TENANT}, needed)"
_NEEDED = (
    f"(max {_BY_SERVICE} (spojoin_needed_instances{_ROUTER})"
    f" or on ({TENANT}) max {_BY_SERVICE} (spojoin_needed_instances)"
    f' or max {_BY_SERVICE} (spojoin_needed_instances{{role="{Role.MUTABLE}",needed=~"{Role.MUTABLE}-.+"}}))'
)
_INSTANCES = f'count {_BY_SERVICE} (label_replace({_SERVING}, "needed", "$1", "service_name", "([^.]+)([.].+)?"))'


@dataclass(frozen=True, slots=True)
class Alert:
    """A rule: it fires when `expression` has given a series for as long as `lasting`.

    summary: one line, with the labels of the series; severity: `critical` where results stop or are wrong
    of_release: what a release's own rules ask instead, which end with it, so that they know that it should run
    """

    name: str
    expression: str
    lasting: str
    severity: str
    summary: str
    of_release: str = ""

    @property
    def runbook(self) -> str:
        """Its section of the runbook, relative to the chart's folder."""
        return f"RUNBOOK.md#{self.name.lower()}"


def _optional(name: str, role: Role, summary: str) -> Alert:
    """A role that nothing waits for is gone while results flow."""
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
        "{{ $labels.role }} of {{ $labels.query }} reads slower than its inputs grow: {{ $value }} records wait.",
    ),
    Alert(
        "SpojoinNoProgress",
        f"(({_INPUTS_WAIT} > 0) or ({_HEAD} - {_DONE} > 0)) unless ({_MOVES} > 0)",
        "2m",
        "critical",
        "{{ $labels.query }} has work but no result has come for five minutes.",
    ),
    Alert(
        "SpojoinQueryGone",
        f"{_lately(_SERVING)} unless {_RUNNING}",
        AWAY,
        "critical",
        "{{ $labels.query }} ran within the last day, and Prometheus sees none of its services: there are no results.",
    ),
    Alert(
        "SpojoinNeverSeen",
        "",
        "10m",
        "critical",
        "Prometheus has seen no service of {{ $labels.query }} for a day, or ever, though its release is installed.",
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
        "Of {{ $labels.needed }} of {{ $labels.query }} one instance is gone: the other works, and nothing stands by.",
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
        "The last check of {{ $labels.query }} found results that are missing or wrong.",
    ),
    _optional(
        "SpojoinPredictorGone",
        Role.PREDICTOR,
        "{{ $labels.query }} has had a predictor within the last day, and has none now: its plan is no longer renewed.",
    ),
    _optional(
        "SpojoinControllerGone",
        Role.CONTROLLER,
        "{{ $labels.query }} has had a controller within the last day, and has none now: nobody follows its pods.",
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
    """The rule file's content, for all queries that a Prometheus sees."""
    return _group([_rule(alert, alert.expression) for alert in ALERTS if alert.expression])


def release_rules() -> dict[str, Any]:
    """The `spec` of a release's PrometheusRule: RELEASE stands for the labels of its series."""
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
