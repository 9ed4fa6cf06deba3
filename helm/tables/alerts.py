"""Alert rules as Prometheus reads them; each has a section of its name in the chart's RUNBOOK.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from helm.tables.expressions import TENANT, serving
from spojoin.protocol.services import NEEDED
from spojoin.protocol.topology import Role
from spojoin.telemetry.absences import AWAY_MS

#: How long a role that results need has been away, as in the events of page and controller.
AWAY = f"{AWAY_MS / 1000:.0f}s"
_LAG = f"sum by ({TENANT}, role) (spojoin_input_lag_records)"
_ROUTER, _SINK, _POJOIN = (f"{{role{serving([role])}}}" for role in (Role.ROUTER, Role.SINK, Role.POJOIN))
_MOVES = f"max by ({TENANT}) (changes(spojoin_result_frames{_SINK}[5m]))"
_INPUTS_WAIT = f"sum by ({TENANT}) (spojoin_input_lag_records{_ROUTER})"
_HEAD = f"max by ({TENANT}) (spojoin_head_frames{_ROUTER})"
_DONE = f"max by ({TENANT}) (spojoin_result_frames{_SINK})"
_PREDICTOR = f'{{role="{Role.PREDICTOR}"}}'
_RUNNING = f"count by ({TENANT}) (spojoin_build_info)"


def _with(role: str) -> str:
    """The processes that have a role, marked with it."""
    return f'label_replace(spojoin_build_info{{role{serving([role])}}}, "part", "{role}", "", "")'


def _process(series: str) -> str:
    """Both instances of a process under one name, where standbys run."""
    return f'label_replace({series}, "process", "$1", "service_name", "(.+?)([.]b)?")'


def _of_hour(matcher: str = "", span: str = "1h") -> str:
    return f"last_over_time(spojoin_build_info{matcher}[{span}])"


#: Roles with several services, each with a part that no other answers for.
_NUMBERED = f'{{role=~"{Role.MUTABLE}|{Role.POJOIN}"}}'
_ONE, _INSTANCE = f"count by ({TENANT}, role, process)", f"count by ({TENANT}, role, service_name)"
#: Fewer PO-Join workers than the worker count are missed; those that a lower count let go are not. What shares a
#: process counts as one worker.
_ENOUGH = (
    f"label_replace(count by ({TENANT}) (count by ({TENANT}, process) "
    f"({_process(f'spojoin_build_info{_POJOIN}')})) >= on ({TENANT}) max by ({TENANT}) "
    f'(spojoin_layout_workers{_ROUTER}), "role", "{Role.POJOIN}", "", "")'
)


@dataclass(frozen=True, slots=True)
class Alert:
    """A rule: it fires when `expression` has given a series for as long as `lasting`.

    summary: one line, with the labels of the series; severity: `critical` where results stop or are wrong
    """

    name: str
    expression: str
    lasting: str
    severity: str
    summary: str

    @property
    def runbook(self) -> str:
        """Its section of the runbook, relative to the chart's folder."""
        return f"RUNBOOK.md#{self.name.lower()}"


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
        "SpojoinServiceGone",
        f"count by ({TENANT}) (count by ({TENANT}, part) ({' or '.join(map(_with, NEEDED))})) < {len(NEEDED)}",
        AWAY,
        "critical",
        f"{{{{ $labels.query }}}} has only {{{{ $value }}}} of {len(NEEDED)} roles running that results need.",
    ),
    Alert(
        "SpojoinWorkerGone",
        f"({_ONE} ({_process(_of_hour(_NUMBERED))}) unless {_ONE} ({_process(f'spojoin_build_info{_NUMBERED}')}))"
        f" unless on ({TENANT}, role) ({_ENOUGH}) and on ({TENANT}) {_RUNNING}",
        AWAY,
        "critical",
        "{{ $labels.process }} of {{ $labels.query }} ran within the last hour and is gone: results wait for it.",
    ),
    Alert(
        "SpojoinStandbyGone",
        f"{_process(f'({_INSTANCE} ({_of_hour()}) unless {_INSTANCE} (spojoin_build_info))')}"
        f" and on ({TENANT}, process) {_process(f'{_INSTANCE} (spojoin_build_info)')}",
        AWAY,
        "warning",
        "{{ $labels.service_name }} of {{ $labels.query }} is gone: its other instance works, and nothing stands by.",
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
    Alert(
        "SpojoinPredictorGone",
        f"({_RUNNING} and on ({TENANT}) count by ({TENANT}) ({_of_hour(_PREDICTOR, '1d')}))"
        f" unless count by ({TENANT}) (spojoin_build_info{_PREDICTOR})",
        "5m",
        "warning",
        "{{ $labels.query }} has had a predictor within the last day, and has none now: its plan is no longer renewed.",
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
    """The rule file's content, also the `spec` of a PrometheusRule."""
    return {"groups": [{"name": "spojoin", "rules": [_rule(alert) for alert in ALERTS]}]}


def _rule(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": alert.lasting,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "runbook_url": alert.runbook},
    }
