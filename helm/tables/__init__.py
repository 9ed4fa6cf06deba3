"""The chart's dashboards, alert rules, topology and pages, made from code: `python -m helm.tables --write`."""
