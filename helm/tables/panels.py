"""Dashboards as data, and as JSON for Grafana."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import Any

Json = dict[str, Any]

#: Grafana arranges panels on this many columns.
COLUMNS = 24
HEIGHTS = {"stat": 4, "timeseries": 8, "heatmap": 8}
#: The version of the JSON here; Grafana updates older versions.
SCHEMA_VERSION = 39
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


class PanelKind(StrEnum):
    """How a panel shows its series: the latest number, lines, or a histogram over time."""

    NUMBER = "stat"
    LINES = "timeseries"
    HEAT = "heatmap"


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """An expression and the legend of its series."""

    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class DashboardPanel:
    """A chart.

    unit: Grafana's name of the unit
    alarm_below: lower values are red
    is_stacked: whether each line stands on the lines before it
    """

    title: str
    about: str
    series: tuple[MetricSeries, ...]
    unit: str = "short"
    kind: PanelKind = PanelKind.LINES
    width: int = 8
    alarm_below: float | None = None
    is_stacked: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[DashboardPanel, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice among a label's values at the dashboard's head; `has_all` offers all, even an absent label."""

    name: str
    series: str
    has_all: bool = False


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A page of panels with the permanent address `uid`."""

    uid: str
    title: str
    about: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]

    @property
    def panels(self) -> list[DashboardPanel]:
        """All panels, in order."""
        return [panel for row in self.rows for panel in row.panels]


def as_json(dashboard: Dashboard) -> Json:
    """The dashboard as JSON for Grafana."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["spojoin"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "links": [
            {"type": "dashboards", "title": "spojoin", "tags": ["spojoin"], "keepTime": True, "includeVars": True}
        ],
        "templating": {"list": [_source_variable(), *(_variable(each) for each in dashboard.variables)]},
        "panels": list(_panels(dashboard.rows)),
    }


def _panels(rows: Sequence[Row]) -> Iterator[Json]:
    """The panels of rows that stand below one another, from left to right."""
    ids, y = count(1), 0
    for row in rows:
        yield {"id": next(ids), "type": "row", "title": row.title, "gridPos": _grid(0, y, COLUMNS, 1), "panels": []}
        x, y, height = 0, y + 1, 0
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                x, y, height = 0, y + height, 0
            height = max(height, HEIGHTS[panel.kind])
            yield {"id": next(ids), "gridPos": _grid(x, y, panel.width, HEIGHTS[panel.kind]), **_panel(panel)}
            x += panel.width
        y += height


def _grid(x: int, y: int, width: int, height: int) -> Json:
    return {"x": x, "y": y, "w": width, "h": height}


def _panel(panel: DashboardPanel) -> Json:
    return {
        "type": panel.kind.value,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "targets": [_target(number, series, panel.kind) for number, series in enumerate(panel.series)],
        "fieldConfig": {"defaults": _field(panel), "overrides": []},
        "options": _OPTIONS[panel.kind],
    }


def _target(number: int, series: MetricSeries, kind: PanelKind) -> Json:
    return {
        "refId": chr(ord("A") + number),
        "datasource": SOURCE,
        "expr": series.expression,
        "legendFormat": series.legend or "__auto",
        "format": "heatmap" if kind is PanelKind.HEAT else "time_series",
    }


def _field(panel: DashboardPanel) -> Json:
    field: Json = {"unit": panel.unit}
    if panel.kind is PanelKind.LINES:
        custom: Json = {"fillOpacity": 10, "showPoints": "never", "spanNulls": False}
        if panel.is_stacked:
            custom |= {"fillOpacity": 60, "stacking": {"mode": "normal"}}
        field |= {"min": 0, "custom": custom}
    if panel.alarm_below is not None:
        steps = [{"color": "red", "value": None}, {"color": "green", "value": panel.alarm_below}]
        field |= {"thresholds": {"mode": "absolute", "steps": steps}, "color": {"mode": "thresholds"}}
    elif panel.kind is PanelKind.NUMBER:
        field |= {"color": {"mode": "fixed", "fixedColor": "text"}}
    return field


_OPTIONS: dict[PanelKind, Json] = {
    PanelKind.NUMBER: {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "area"},
    PanelKind.LINES: {
        "legend": {"displayMode": "list", "placement": "bottom"},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    PanelKind.HEAT: {"calculate": False, "yAxis": {"unit": "s"}, "color": {"mode": "scheme", "scheme": "Oranges"}},
}


def _source_variable() -> Json:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _variable(variable: Variable) -> Json:
    values = f"label_values({variable.series}, {variable.name})"
    chosen = {"includeAll": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"}}
    return {
        "name": variable.name,
        "type": "query",
        "datasource": SOURCE,
        "definition": values,
        "query": {"query": values, "refId": variable.name},
        "refresh": 2,
        "sort": 1,
        **(chosen if variable.has_all else {}),
    }
