"""Dashboards, alert rules and the metrics' page, made from code: `python -m helm.tables --write`."""
