"""The dashboard of a query's cost and its remaining capacity."""

from __future__ import annotations

from helm.tables.charts import (
    BY_SERVICE,
    CPU,
    CREDITS,
    INPUT_LAG,
    LOOPS,
    SCOPE_VARIABLES,
    SERVICE,
    STEP,
    TUPLES_OUT,
    imbalance,
    lines,
    number,
)
from helm.tables.expressions import pick, rate, total
from helm.tables.panels import Dashboard, Row

_CORES = total(rate(CPU))
_WORK = "spojoin_compared_pairs_total"

_GLANCE = Row(
    "At a glance",
    (
        number("Results /s", "Tuples that the sink answers.", TUPLES_OUT),
        number("Cores used", "Cores that all services of the query use, without Kafka and Redis.", _CORES),
        number("Results /s per core", "Tuples that a core of the services answers.", f"{TUPLES_OUT} / {_CORES}"),
        number("Memory", "Resident memory of all services.", total(pick("process_resident_memory_bytes")), "bytes"),
        number(
            "Index bytes per tuple",
            "Bytes of the PO-Join workers' indexes per tuple held.",
            f"{total(pick('spojoin_state_bytes', role='pojoin'))} / "
            f"{total(pick('spojoin_state_tuples', role='pojoin'))}",
            "bytes",
        ),
        number("Credits left", "A number near 0 means that the services are slower than the inputs.", CREDITS),
    ),
)

_LEFT = Row(
    "Remaining capacity",
    (
        lines(
            "Busy",
            "Share of time that a service spends in steps of its loop. The service nearest to 1 is the bottleneck.",
            (total(rate(f"{STEP}_sum", role=LOOPS), SERVICE), BY_SERVICE),
            unit="percentunit",
        ),
        lines(
            "Input lag in seconds",
            "Messages that the router has yet to read / messages that it reads a second.",
            (f"{INPUT_LAG} / {total(rate('spojoin_records_read_total', role='router', topic='input'))}", "lag"),
            unit="s",
        ),
        lines(
            "Growth of the input lag",
            "Messages a second. If it stays above 0, the inputs are faster than the join.",
            (f"deriv({INPUT_LAG}[5m:])", "growth"),
        ),
        lines(
            "Open files",
            "Share of the files that the process may open.",
            (f"max by ({SERVICE}) ({pick('process_open_fds')} / {pick('process_max_fds')})", BY_SERVICE),
            unit="percentunit",
        ),
        lines(
            "Replay",
            "How long the last restart of a service took.",
            (f"max by (role) ({pick('spojoin_replay_seconds')})", "{{role}}"),
            unit="s",
        ),
        lines("Services", "Processes by role.", (f"count by (role) ({pick('spojoin_build_info')})", "{{role}}")),
    ),
)

_COST = Row(
    "Cost",
    (
        lines("Processor", "Cores that each service uses.", (total(rate(CPU), SERVICE), BY_SERVICE)),
        lines(
            "Processor time per tuple",
            "Processor time of each role per tuple answered.",
            (f"{total(rate(CPU), 'role')} / on () group_left () {TUPLES_OUT}", "{{role}}"),
            unit="s",
        ),
        lines(
            "Memory",
            "Resident memory.",
            (f"max by ({SERVICE}) ({pick('process_resident_memory_bytes')})", BY_SERVICE),
            unit="bytes",
        ),
        lines(
            "Bytes written to Kafka",
            "Bytes a second, by topic.",
            (total(rate("spojoin_written_bytes_total"), "topic"), "{{topic}}"),
            unit="Bps",
        ),
        lines(
            "Bytes read from Kafka",
            "Bytes a second, by topic. Nearly every service reads the frames.",
            (total(rate("spojoin_read_bytes_total"), "topic"), "{{topic}}"),
            unit="Bps",
        ),
        lines(
            "Tuples held",
            "Tuples in memory, by role.",
            (total(pick("spojoin_state_tuples"), "role"), "{{role}}"),
        ),
    ),
)

_WORKERS = Row(
    "Workers",
    (
        lines(
            "PO-Join workers",
            "The worker count of the latest frame, and the workers that run.",
            (f"max({pick('spojoin_layout_workers', role='router')})", "worker count"),
            (f"max({pick('spojoin_grid_rows', role='router')})", "rows"),
            (f"max({pick('spojoin_grid_columns', role='router')})", "columns"),
            (f"count({pick('spojoin_build_info', role='pojoin')})", "running"),
        ),
        lines(
            "Scale",
            "The controller's view: workers that should run, workers that are ready, and the requested worker count.",
            *(
                (f"max({pick(f'spojoin_scale_{what}_workers')})", legend)
                for what, legend in (("wanted", "wanted"), ("ready", "ready"), ("layout", "worker count"))
            ),
        ),
        lines(
            "Steps of the controller",
            "Worker counts that the controller requested, replicas that it set, and events that it reported.",
            (
                f"sum by (kind) (increase({pick('spojoin_scale_steps_total')}[$__rate_interval]))",
                "{{kind}}",
            ),
        ),
        lines(
            "Load imbalance",
            "The busiest worker / the mean, by covered pairs and by processor time. 1 means an even load.",
            (imbalance(total(rate(_WORK, role="pojoin"), SERVICE)), "pairs"),
            (imbalance(total(rate(CPU, role="pojoin"), SERVICE)), "processor"),
        ),
        lines(
            "Pairs covered /s",
            "Pairs of a tuple and a stored tuple that a worker's answers cover.",
            (total(rate(_WORK, role="pojoin"), SERVICE), BY_SERVICE),
        ),
        lines(
            "Merging and building",
            "Share of time in which workers merge and build their indexes.",
            (total(rate("spojoin_index_merge_seconds_total", role="pojoin"), SERVICE), f"{BY_SERVICE} merging"),
            (total(rate("spojoin_index_build_seconds_total", role="pojoin"), SERVICE), f"{BY_SERVICE} building"),
            unit="percentunit",
        ),
    ),
)

CAPACITY = Dashboard(
    "spojoin-capacity",
    "spojoin / capacity",
    "The cost of a query, its bottleneck, and its remaining capacity.",
    SCOPE_VARIABLES,
    (_GLANCE, _LEFT, _COST, _WORKERS),
)
