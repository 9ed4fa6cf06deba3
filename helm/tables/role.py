"""The dashboard of one role, by service."""

from __future__ import annotations

from helm.tables.charts import BY_SERVICE, CPU, INFO, SCOPE_VARIABLES, SERVICE, STEP, lines
from helm.tables.expressions import pick, quantile, rate, total
from helm.tables.panels import Dashboard, DashboardPanel, Row, Variable

_ROLE = "$role"


def _of_role(title: str, about: str, name: str, unit: str = "short") -> DashboardPanel:
    """A panel with a gauge of the chosen role, by service."""
    return lines(title, about, (f"max by ({SERVICE}) ({pick(name, role=_ROLE)})", BY_SERVICE), unit=unit)


def _rate_of_role(title: str, about: str, name: str, by: str = SERVICE, unit: str = "short") -> DashboardPanel:
    """A panel with a counter of the chosen role, per second."""
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
    return lines(title, about, (total(rate(name, role=_ROLE), by), legend), unit=unit)


_ROLE_WORK = Row(
    "Work",
    (
        _rate_of_role(
            "Busy",
            "Share of time in steps of the loop. A service at 1 is the bottleneck. The predictor has no loop.",
            f"{STEP}_sum",
            unit="percentunit",
        ),
        lines(
            "Steps",
            "Time of a step of the loop.",
            (quantile(0.5, STEP, SERVICE, role=_ROLE), f"{BY_SERVICE} p50"),
            (quantile(0.99, STEP, SERVICE, role=_ROLE), f"{BY_SERVICE} p99"),
            unit="s",
        ),
        _of_role("Caught up", "1 once the service has read all records from before its start.", "spojoin_caught_up"),
        _rate_of_role("Records read /s", "Records, by topic.", "spojoin_records_read_total", "topic"),
        _rate_of_role("Records written /s", "Records, by topic.", "spojoin_records_written_total", "topic"),
        _rate_of_role("Bytes read", "Bytes a second, by topic.", "spojoin_read_bytes_total", "topic", "Bps"),
        _rate_of_role("Bytes written", "Bytes a second, by topic.", "spojoin_written_bytes_total", "topic", "Bps"),
        lines(
            "Lag",
            "Records of an input that wait in Kafka or in the service.",
            (total(pick("spojoin_input_lag_records", role=_ROLE), "topic, partition"), "{{topic}}[{{partition}}]"),
        ),
        _of_role("Waiting", "Records read that the machine has yet to take.", "spojoin_waiting_records"),
    ),
)

_ROLE_STATE = Row(
    "State",
    (
        _of_role("Tuples held", "Tuples in memory.", "spojoin_state_tuples"),
        _of_role("Index bytes", "Bytes of the PO-Join workers' indexes.", "spojoin_state_bytes", "bytes"),
        _rate_of_role(
            "Pairs covered /s",
            "Pairs of a tuple and a stored tuple that a PO-Join worker's answers cover.",
            "spojoin_compared_pairs_total",
        ),
        _rate_of_role(
            "Merging",
            "Share of time in which a PO-Join worker merges index nodes.",
            "spojoin_index_merge_seconds_total",
            unit="percentunit",
        ),
        _rate_of_role(
            "Building",
            "Share of time in which a PO-Join worker builds search structures.",
            "spojoin_index_build_seconds_total",
            unit="percentunit",
        ),
        lines(
            "Merges and builds /s",
            "Merges and builds in PO-Join workers' indexes.",
            (total(rate("spojoin_index_merges_total", role=_ROLE), SERVICE), f"{BY_SERVICE} merges"),
            (total(rate("spojoin_index_builds_total", role=_ROLE), SERVICE), f"{BY_SERVICE} builds"),
        ),
    ),
)

_ROLE_LIFE = Row(
    "Life",
    (
        _rate_of_role("Retries /s", "Retries, by error.", "spojoin_retries_total", f"{SERVICE}, error"),
        _of_role("Last replay", "Duration of the last rebuild from the log.", "spojoin_replay_seconds", "s"),
        lines(
            "Uptime",
            "Time since the process started.",
            (f"time() - min by ({SERVICE}) ({pick('process_start_time_seconds', role=_ROLE)})", BY_SERVICE),
            unit="s",
        ),
        _rate_of_role("Processor", "Cores that each service uses.", CPU),
        _of_role("Memory", "Resident memory.", "process_resident_memory_bytes", "bytes"),
        _rate_of_role("Garbage collections /s", "By generation.", "python_gc_collections_total", "generation"),
    ),
)

ROLE = Dashboard(
    "spojoin-role",
    "spojoin / role",
    "One role of a query: its work, its state, its life.",
    (*SCOPE_VARIABLES, Variable("role", INFO + '{namespace=~"$namespace", release=~"$release", query="$query"}')),
    (_ROLE_WORK, _ROLE_STATE, _ROLE_LIFE),
)
