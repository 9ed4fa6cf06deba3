"""METRICS.md, made from the registry of metrics, the dashboards and the alerts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from helm.tables.alerts import ALERTS, Alert
from helm.tables.dashboards import DASHBOARDS
from helm.tables.expressions import names
from helm.tables.panels import Dashboard
from spojoin.telemetry.metrics import SERVICE_LABELS, Described, Metrics

_HEAD = """# Metrics, dashboards, alerts

Made by `python -m helm.tables --write`; do not edit. [The runbook](RUNBOOK.md) explains how to handle each alert.

Every service serves `/metrics`. The chart installs alerts for Prometheus' operator and dashboards for Grafana:

    helm upgrade joins helm/spojoin --reuse-values --set serviceMonitor.enabled=true \\
        --set prometheusRule.enabled=true --set dashboards.enabled=true

All metrics carry these labels:
"""
_PROCESS = """
The usual metrics of the process (`process_*`) and of Python (`python_gc_*`) have the same labels. Dashboards and alerts
also use the labels `namespace` and `release`, which Prometheus adds in Kubernetes. Without these labels they show all
releases together.
"""
_OWN = ", ".join(alert.name for alert in ALERTS if not alert.expression)
_RULES = f"""
`prometheusRule.enabled` installs rules for the release. They read only its series, and an uninstall removes
them. A Prometheus without the operator reads [alerts/rules.yaml](alerts/rules.yaml): these rules cover all queries that
it sees. They lack {_OWN}, and SpojoinQueryGone fires for up to a day after an uninstall. Each alert's
`runbook` names its section of the runbook; `prometheusRule.runbookUrl` adds a `runbook_url`.
"""


def page() -> str:
    """The page as Markdown."""
    return "\n".join(
        [
            _HEAD,
            *_table(("label", "content"), [(f"`{label}`", about) for label, about in SERVICE_LABELS.items()]),
            _PROCESS,
            "## Metrics\n",
            *_table(
                ("metric", "type", "labels", "meaning", "shown in"),
                [_row(metric) for metric in sorted(Metrics().described)],
            ),
            "\n## Dashboards\n",
            *_table(("dashboard", "panels"), [_dashboard(each) for each in DASHBOARDS]),
            "\n## Alerts",
            _RULES,
            *_table(("alert", "severity", "after", "fires when"), [_alert(alert) for alert in ALERTS]),
            "",
        ]
    )


def users(metric: Described) -> list[str]:
    """The dashboards and alerts whose expressions read a metric."""
    boards = [(board.uid, expressions_of(board)) for board in DASHBOARDS]
    readers = [*boards, *((alert.name, [alert.expression, alert.of_release]) for alert in ALERTS)]
    return [name for name, expressions in readers if any(names(e) & exposed(metric) for e in expressions)]


def expressions_of(board: Dashboard) -> list[str]:
    """All expressions of a dashboard and its variables."""
    asked = [series.expression for panel in board.panels for series in panel.series]
    return [*asked, *(variable.series for variable in board.variables)]


def exposed(metric: Described) -> set[str]:
    """The names of a metric's series."""
    if metric.kind == "histogram":
        return {f"{metric.name}_{part}" for part in ("bucket", "sum", "count")}
    return {metric.name}


def _row(metric: Described) -> tuple[str, ...]:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    seen = ", ".join(name.removeprefix("spojoin-") for name in users(metric))
    return f"`{metric.name}`", metric.kind, labels, metric.help_text, seen


def _dashboard(board: Dashboard) -> tuple[str, str]:
    titles = ", ".join(dict.fromkeys(panel.title for panel in board.panels))
    return f"[{board.title}](dashboards/{board.uid}.json)", titles


def _alert(alert: Alert) -> tuple[str, ...]:
    return (
        f"[{alert.name}]({alert.runbook})",
        alert.severity,
        alert.lasting,
        f"`{alert.expression or alert.of_release}`",
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_line(head), _line(["---"] * len(head)), *(_line(row) for row in rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
