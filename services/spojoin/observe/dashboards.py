"""All dashboards."""

from __future__ import annotations

from spojoin.observe.capacity import CAPACITY
from spojoin.observe.overview import OVERVIEW
from spojoin.observe.role import ROLE

DASHBOARDS = (OVERVIEW, ROLE, CAPACITY)
