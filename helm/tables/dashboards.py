"""All dashboards."""

from __future__ import annotations

from helm.tables.capacity import CAPACITY
from helm.tables.overview import OVERVIEW
from helm.tables.role import ROLE

DASHBOARDS = (OVERVIEW, ROLE, CAPACITY)
