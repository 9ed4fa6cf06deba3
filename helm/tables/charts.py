"""Common parts of dashboards: metrics, variables, and functions that make panels."""

from __future__ import annotations

from helm.tables.expressions import pick, rate, total
from helm.tables.panels import DashboardPanel, MetricSeries, PanelKind, Variable
from spojoin.protocol.topology import MACHINE_ROLES, TOPOLOGY, Topic

INFO = "spojoin_build_info"
LATENCY = "spojoin_result_latency_seconds"
HOP = "spojoin_hop_seconds"
STEP = "spojoin_step_seconds"
CPU = "process_cpu_seconds_total"
SERVICE = "service_name"
#: The legend that names a service.
BY_SERVICE = "{{service_name}}"

#: Roles that read frames; and roles that run the loop, which times its steps and follows the result position.
FRAME_READERS = "~" + "|".join(edge.role for edge in TOPOLOGY if Topic.FRAMES in edge.reads)
LOOPS = "~" + "|".join(MACHINE_ROLES)

SCOPE_VARIABLES = (
    Variable("namespace", INFO, has_all=True),
    Variable("release", INFO + '{namespace=~"$namespace"}', has_all=True),
    Variable("query", INFO + '{namespace=~"$namespace", release=~"$release"}'),
)

HEAD = f"max({pick('spojoin_head_frames', role='router')})"
TUPLES_IN = total(rate("spojoin_tuples_total", role="router"))
TUPLES_OUT = total(rate("spojoin_answered_tuples_total", role="sink"))
MATCHES = total(rate("spojoin_matches_total", role="sink"))
CREDITS = f"max({pick('spojoin_credits_frames', role='router')})"
INPUT_LAG = total(pick("spojoin_input_lag_records", role="router"))


def number(
    title: str, about: str, expression: str, unit: str = "short", alarm_below: float | None = None
) -> DashboardPanel:
    """A panel with one number, which is red below `alarm_below`."""
    return DashboardPanel(title, about, (MetricSeries(expression, title),), unit, PanelKind.NUMBER, 4, alarm_below)


def lines(title: str, about: str, *series: tuple[str, str], unit: str = "short", width: int = 8) -> DashboardPanel:
    """A panel with a line for each pair (expression, legend)."""
    return DashboardPanel(title, about, tuple(MetricSeries(*each) for each in series), unit, width=width)


def seconds_each(step: str, **labels: str) -> str:
    """The mean time of an index's merge or build, by service."""
    seconds = total(rate(f"spojoin_index_{step}_seconds_total", **labels), SERVICE)
    return f"{seconds} / {total(rate(f'spojoin_index_{step}s_total', **labels), SERVICE)}"


def imbalance(expression: str) -> str:
    """The busiest worker's value of an expression by service, over the mean; 1 if all are equal."""
    return f"max({expression}) / avg({expression})"
