"""Generates the chart's dashboards, alert rules, topology and pages from code: `python -m helm.tables --write`."""
