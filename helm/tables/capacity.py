"""The dashboard of what a query costs and how much capacity its machines have left."""

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
        number("Results /s", "Tuples answered.", TUPLES_OUT),
        number("Cores used", "By all services of the query; Kafka and Redis come on top.", _CORES),
        number("Results /s and core", "What a core of the services answers.", f"{TUPLES_OUT} / {_CORES}"),
        number("Memory", "Resident, of all services.", total(pick("process_resident_memory_bytes")), "bytes"),
        number(
            "Index bytes a tuple",
            "Of the PO-Join workers' indexes.",
            f"{total(pick('spojoin_state_bytes', role='pojoin'))} / "
            f"{total(pick('spojoin_state_tuples', role='pojoin'))}",
            "bytes",
        ),
        number("Credits left", "Near 0: the services are slower than the inputs.", CREDITS),
    ),
)

_LEFT = Row(
    "What is left",
    (
        lines(
            "Busy",
            "Share of time in steps of the loop: the service nearest to 1 is the bottleneck.",
            (total(rate(f"{STEP}_sum", role=LOOPS), SERVICE), BY_SERVICE),
            unit="percentunit",
        ),
        lines(
            "Input lag in seconds",
            "Messages that the router has not read / messages that it reads a second.",
            (f"{INPUT_LAG} / {total(rate('spojoin_records_read_total', role='router', topic='input'))}", "lag"),
            unit="s",
        ),
        lines(
            "Growth of the input lag",
            "Messages a second; above 0 for long: more comes in than is joined.",
            (f"deriv({INPUT_LAG}[5m:])", "growth"),
        ),
        lines(
            "Open files",
            "Share of what the process may open.",
            (f"max by ({SERVICE}) ({pick('process_open_fds')} / {pick('process_max_fds')})", BY_SERVICE),
            unit="percentunit",
        ),
        lines(
            "Replay",
            "How long a service was away at its last restart.",
            (f"max by (role) ({pick('spojoin_replay_seconds')})", "{{role}}"),
            unit="s",
        ),
        lines("Services", "Processes by role.", (f"count by (role) ({pick('spojoin_build_info')})", "{{role}}")),
    ),
)

_COST = Row(
    "What it costs",
    (
        lines("Processor", "Cores used.", (total(rate(CPU), SERVICE), BY_SERVICE)),
        lines(
            "Processor time a tuple",
            "By role.",
            (f"{total(rate(CPU), 'role')} / on () group_left () {TUPLES_OUT}", "{{role}}"),
            unit="s",
        ),
        lines(
            "Memory",
            "Resident.",
            (f"max by ({SERVICE}) ({pick('process_resident_memory_bytes')})", BY_SERVICE),
            unit="bytes",
        ),
        lines(
            "Bytes written to Kafka",
            "By topic.",
            (total(rate("spojoin_written_bytes_total"), "topic"), "{{topic}}"),
            unit="Bps",
        ),
        lines(
            "Bytes read from Kafka",
            "By topic; frames are read by nearly every service.",
            (total(rate("spojoin_read_bytes_total"), "topic"), "{{topic}}"),
            unit="Bps",
        ),
        lines(
            "Tuples held",
            "By role.",
            (total(pick("spojoin_state_tuples"), "role"), "{{role}}"),
        ),
    ),
)

_WORKERS = Row(
    "Workers",
    (
        lines(
            "PO-Join workers",
            "By the worker count of the latest frame, and running.",
            (f"max({pick('spojoin_layout_workers', role='router')})", "worker count"),
            (f"count({pick('spojoin_build_info', role='pojoin')})", "running"),
        ),
        lines(
            "Scale",
            "The controller's view: workers that the cluster should run, those ready, and the worker count requested.",
            *(
                (f"max({pick(f'spojoin_scale_{what}_workers')})", legend)
                for what, legend in (("wanted", "wanted"), ("ready", "ready"), ("layout", "worker count"))
            ),
        ),
        lines(
            "Steps of the controller",
            "Worker counts requested, numbers of replicas set and events reported, within the interval.",
            (
                f"sum by (kind) (increase({pick('spojoin_scale_steps_total')}[$__rate_interval]))",
                "{{kind}}",
            ),
        ),
        lines(
            "Load imbalance",
            "The busiest worker / the mean: by pairs answered for, and by processor time. 1 is even.",
            (imbalance(total(rate(_WORK, role="pojoin"), SERVICE)), "pairs"),
            (imbalance(total(rate(CPU, role="pojoin"), SERVICE)), "processor"),
        ),
        lines(
            "Pairs answered for /s",
            "Pairs of a tuple and a stored one.",
            (total(rate(_WORK, role="pojoin"), SERVICE), BY_SERVICE),
        ),
        lines(
            "Merging and building",
            "Share of time that the indexes spend on themselves.",
            (total(rate("spojoin_index_merge_seconds_total", role="pojoin"), SERVICE), f"{BY_SERVICE} merging"),
            (total(rate("spojoin_index_build_seconds_total", role="pojoin"), SERVICE), f"{BY_SERVICE} building"),
            unit="percentunit",
        ),
    ),
)

CAPACITY = Dashboard(
    "spojoin-capacity",
    "spojoin / capacity",
    "What a query costs, which service is the bottleneck, and how much is left.",
    SCOPE_VARIABLES,
    (_GLANCE, _LEFT, _COST, _WORKERS),
)
