"""The chart's generated files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from helm.tables.alerts import release_rules, rules
from helm.tables.dashboards import DASHBOARDS
from helm.tables.page import page
from helm.tables.panels import as_json
from helm.tables.rights_page import with_rights
from helm.tables.topology_file import packable_file, topology_file
from helm.tables.values_page import with_values

_RULES_HEAD = "# Made by `python -m helm.tables --write`; do not edit.\n"


def files(chart: Path) -> dict[str, str]:
    """The content of each file, by path within the chart."""
    boards = {f"dashboards/{each.uid}.json": json.dumps(as_json(each), indent=1) + "\n" for each in DASHBOARDS}
    values = (chart / "values.yaml").read_text()
    return {
        **boards,
        "alerts/rules.yaml": _as_yaml(rules()),
        "files/release-rules.yaml": _as_yaml(release_rules()),
        "files/packable.yaml": packable_file(),
        "files/topology.yaml": topology_file(),
        "METRICS.md": page(),
        "README.md": with_values((chart / "README.md").read_text(), values),
        "SECURITY.md": with_rights((chart / "SECURITY.md").read_text()),
    }


def stale(chart: Path) -> list[str]:
    """Files that are missing or out of date, and dashboards that no code makes any more."""
    made = files(chart)
    differing = [name for name, text in made.items() if _text(chart / name) != text]
    left_over = [f"dashboards/{path.name}" for path in sorted((chart / "dashboards").glob("*.json"))]
    return [*differing, *(name for name in left_over if name not in made)]


def write(chart: Path) -> None:
    """Write stale files, and remove dashboards that no code makes any more."""
    made = files(chart)
    for name in stale(chart):
        path = chart / name
        if name not in made:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made[name])


def _as_yaml(content: dict[str, Any]) -> str:
    return _RULES_HEAD + yaml.safe_dump(content, sort_keys=False, width=2**16)


def _text(path: Path) -> str | None:
    return path.read_text() if path.is_file() else None
