"""The dashboard of one query as a whole."""

from __future__ import annotations

from helm.tables.charts import (
    BY_SERVICE,
    CPU,
    CREDITS,
    FRAME_READERS,
    HEAD,
    HOP,
    LATENCY,
    LOOPS,
    MATCHES,
    SCOPE_VARIABLES,
    SERVICE,
    TUPLES_IN,
    TUPLES_OUT,
    imbalance,
    lines,
    number,
    seconds_each,
)
from helm.tables.expressions import pick, quantile, rate, total
from helm.tables.panels import Dashboard, DashboardPanel, MetricSeries, PanelKind, Row
from spojoin.protocol.topology import Hop
from spojoin.telemetry.hop import IN_TURN

_GLANCE = Row(
    "At a glance",
    (
        number("Tuples in /s", "Tuples that the router puts into frames.", TUPLES_IN),
        number("Results /s", "Tuples that the sink answers. If fewer than come in, they pile up.", TUPLES_OUT),
        number("Matches /s", "Matches in the results.", MATCHES),
        number("Latency p99", "Time from production to result, for 99 of 100 tuples.", quantile(0.99, LATENCY), "s"),
        number(
            "Oldest unanswered",
            "Age of the oldest row without a result, including rows that wait in the inputs; 0 if none waits.",
            f"max({pick('spojoin_oldest_unanswered_seconds')})",
            "s",
        ),
        number(
            "Frames under way",
            "Frames in the log without results. They never exceed the credits.",
            f"{HEAD} - max({pick('spojoin_result_frames', role='sink')})",
        ),
        number(
            "Services ready",
            "Share of the services that have caught up with the log.",
            f"avg({pick('spojoin_caught_up')})",
            "percentunit",
            alarm_below=1,
        ),
        number(
            "Completeness",
            "Right result rows / expected rows, by the last check; empty before the first check.",
            f"min({pick('spojoin_completeness_ratio', role='sink')})",
            "percentunit",
            alarm_below=1,
        ),
        number(
            "Results exact",
            "1 if the last check found nothing missing, wrong, doubled or out of order.",
            f"min({pick('spojoin_results_exact', role='sink')})",
            alarm_below=1,
        ),
        number(
            "Since the last check",
            "Age of the last check.",
            f"time() - max({pick('spojoin_completeness_check_timestamp_seconds', role='sink')})",
            "s",
        ),
        number(
            "Dead letters",
            "Rows refused within the dashboard's time range.",
            f"sum(increase({pick('spojoin_dead_letters_total', role='router')}[$__range]))",
        ),
        number(
            "Epoch", "Claims of routers to the log; each router start adds one.", f"max({pick('spojoin_log_epochs')})"
        ),
        number("Credits left", "Frames that the router may still write ahead of the results.", CREDITS),
    ),
)

_RATES = Row(
    "Rates and latency",
    (
        lines("Tuples /s", "In: tuples put into frames. Out: tuples answered.", (TUPLES_IN, "in"), (TUPLES_OUT, "out")),
        lines("Matches /s", "Matches in the results.", (MATCHES, "matches")),
        lines(
            "Latency",
            "Time from a tuple's production until its result is readable (bucket bounds are a quarter apart). While no "
            "results come, only the age of the oldest tuple without a result grows.",
            *((quantile(share, LATENCY), f"p{100 * share:g}") for share in (0.5, 0.9, 0.99)),
            (f"max({pick('spojoin_oldest_unanswered_seconds')})", "oldest unanswered"),
            unit="s",
        ),
        lines(
            "Open rows",
            "Left rows that wait for later partners, in a query that answers on close.",
            (f"max({pick('spojoin_open_tuples')})", "open"),
        ),
        lines(
            "Oldest open row",
            "How long the oldest open row has waited.",
            (f"max({pick('spojoin_oldest_open_seconds')})", "oldest open"),
            unit="s",
        ),
        lines(
            "Event time held",
            "How long rows have waited for a silent input, and for which one; 0 if none waits.",
            (
                f"max by (stream, partition) ({pick('spojoin_event_time_held_seconds')}) or vector(0)",
                "{{stream}} {{partition}}",
            ),
            unit="s",
        ),
        DashboardPanel(
            "Latency, all tuples",
            "The number of tuples answered, by latency.",
            (MetricSeries(total(rate(f"{LATENCY}_bucket", role="sink"), "le"), "{{le}}"),),
            "s",
            PanelKind.HEAT,
            16,
        ),
        lines(
            "Records read /s by topic",
            "Records that all services read from Kafka.",
            (total(rate("spojoin_records_read_total"), "topic"), "{{topic}}"),
        ),
    ),
)

_IN_TURN = "~" + "|".join(IN_TURN)
_MEANWHILE = "~" + "|".join(hop for hop in Hop if hop not in IN_TURN)

_HOPS = Row(
    "Where a frame's time goes",
    (
        DashboardPanel(
            "Where a frame's time goes",
            "Mean time of each hop from production to result. The sum is the latency of a frame's oldest row.",
            (
                MetricSeries(
                    f"{total(rate(f'{HOP}_sum', hop=_IN_TURN), 'hop')} / "
                    f"{total(rate(f'{HOP}_count', hop=_IN_TURN), 'hop')}",
                    "{{hop}}",
                ),
            ),
            "s",
            width=12,
            is_stacked=True,
        ),
        lines(
            "Meanwhile, by service",
            "For 99 of 100 frames: the time until a service takes an appended frame, and the time of its own answer. "
            "Evaluation waits for the slowest service.",
            (quantile(0.99, HOP, "hop, service_name", hop=_MEANWHILE), "{{hop}} {{service_name}}"),
            unit="s",
            width=12,
        ),
    ),
)

_PROGRESS = Row(
    "Progress by role",
    (
        lines(
            "Lag",
            "Records in Kafka that a role has yet to read, over all inputs. The router also reads the users' inputs.",
            (total(pick("spojoin_input_lag_records"), "role"), "{{role}}"),
        ),
        lines(
            "Frames behind the head",
            "Frames from each role's position in the log to the router's latest frame.",
            (
                f"{HEAD} - on () group_right () min by (role) ({pick('spojoin_head_frames', role=FRAME_READERS)})",
                "{{role}}",
            ),
        ),
        lines(
            "Result position behind the head",
            "Frames without results, as each role knows them. A role that learns late trims and paces late.",
            (
                f"{HEAD} - on () group_right () min by (role) ({pick('spojoin_result_frames', role=LOOPS)})",
                "{{role}}",
            ),
        ),
    ),
)

_WINDOWS = Row(
    "Windows, predicates, keys",
    (
        lines(
            "Window fill",
            "Tuples in the window / its length. A window of time shows 1 once a tuple has left it.",
            (f"max by (stream) ({pick('spojoin_window_fill_ratio', role='router')})", "{{stream}}"),
            unit="percentunit",
        ),
        lines(
            "Window",
            "Tuples of each stream in the window.",
            (f"max by (stream) ({pick('spojoin_window_tuples', role='router')})", "{{stream}}"),
        ),
        lines(
            "Selectivity",
            "Matches / pairs of a tuple and an earlier tuple in its window. A pair of a self join may match twice.",
            (f"{MATCHES} / {total(rate('spojoin_candidate_pairs_total', role='router'))}", "matches / pairs"),
            unit="percentunit",
        ),
        lines(
            "Selectivity of each predicate",
            "An estimate: the share of pairs that satisfy it, in a small sample of recent tuples.",
            (
                f"max by (predicate) ({pick('spojoin_predicate_selectivity_ratio', role='predictor')})",
                "{{predicate}}",
            ),
            unit="percentunit",
        ),
        lines(
            "Hot values",
            "Values that the predictor's latest plan calls hot.",
            (f"max by (stream, column) ({pick('spojoin_hot_keys', role='predictor')})", "{{stream}} {{column}}"),
        ),
        lines(
            "Share of hot tuples",
            "Tuples with a hot value / all tuples.",
            (f"{total(rate('spojoin_hot_tuples_total', role='router'))} / {TUPLES_IN}", "hot"),
            unit="percentunit",
        ),
    ),
)

_WORKERS = Row(
    "Workers",
    (
        lines(
            "Load imbalance",
            "The busiest worker / the mean, by covered pairs and by processor time. 1 means an even load.",
            (imbalance(total(rate("spojoin_compared_pairs_total", role="pojoin"), SERVICE)), "pairs"),
            (imbalance(total(rate(CPU, role="pojoin"), SERVICE)), "processor"),
        ),
        lines(
            "Hot probes",
            "Searched tuples of hot keys / all searched tuples. Every column by key searches for the former.",
            (
                f"{total(rate('spojoin_hot_probes_total', role='pojoin'))} / "
                f"{total(rate('spojoin_searched_probes_total', role='pojoin'))}",
                "hot",
            ),
            unit="percentunit",
        ),
        lines(
            "One merge",
            "Mean time in which a worker merges or splits index nodes.",
            (seconds_each("merge", role="pojoin"), BY_SERVICE),
            unit="s",
        ),
        lines(
            "One build",
            "Mean time in which a worker builds a search structure: a wavelet matrix, bitmaps or ranks.",
            (seconds_each("build", role="pojoin"), BY_SERVICE),
            unit="s",
        ),
    ),
)

_TROUBLE = Row(
    "Trouble",
    (
        lines(
            "Dead letters /s by reason",
            "Refused rows.",
            (total(rate("spojoin_dead_letters_total", role="router"), "reason"), "{{reason}}"),
        ),
        lines(
            "Pairs without a value /s",
            "Pairs for which an expression of both sides failed; its value then counts as NULL.",
            (total(rate("spojoin_pairs_without_value_total", role="sink")), "pairs"),
        ),
        lines(
            "Retries /s by error",
            "Machines that services discard and rebuild from the log.",
            (total(rate("spojoin_retries_total"), "error"), "{{error}}"),
        ),
        lines(
            "Replays and take-overs /s",
            "Rebuilds from the log by role, including starts; services that a newer instance ended; and frames that "
            "one row of workers answered for another.",
            (total(rate("spojoin_replays_total"), "role"), "{{role}}"),
            (total(rate("spojoin_fenced_total")), "fenced"),
            (total(rate("spojoin_stand_in_frames_total")), "frames for another row"),
        ),
        lines(
            "Redis errors /s by role",
            "Operations without an answer. Each service tries a dead Redis once a second.",
            (total(rate("spojoin_store_errors_total"), "role"), "{{role}}"),
        ),
        lines(
            "Kafka errors /s",
            "Errors that the clients report, by librdkafka's names.",
            (total(rate("spojoin_kafka_errors_total"), "error"), "{{error}}"),
        ),
        lines(
            "Requests to Kafka /s by role",
            "What the services' readers and writers ask the brokers, without predictor and administration.",
            (total(rate("spojoin_kafka_requests_total"), "role"), "{{role}}"),
        ),
        lines(
            "Bytes to and from Kafka /s",
            "What the services' readers and writers send to the brokers, and get from them.",
            (total(rate("spojoin_kafka_sent_bytes_total")), "sent"),
            (total(rate("spojoin_kafka_received_bytes_total")), "received"),
            unit="Bps",
        ),
        lines("Credits left", "At 0 the router waits for results.", (CREDITS, "credits")),
        lines(
            "Services whose query was refused",
            "These services continue with the previous query, or wait for the query's name.",
            (f"count({pick('spojoin_query_accepted')} == 0) or vector(0)", "services"),
        ),
    ),
)

OVERVIEW = Dashboard(
    "spojoin-overview",
    "spojoin / overview",
    "One query as a whole: rates, latency, progress, windows, trouble.",
    SCOPE_VARIABLES,
    (_GLANCE, _RATES, _HOPS, _PROGRESS, _WINDOWS, _WORKERS, _TROUBLE),
)
