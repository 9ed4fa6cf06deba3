"""Dashboards, alert rules and the metrics' page, made from code: `python -m spojoin.observe --write`."""
