"""EXPLAIN: the plan of a query, as data and as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from spojoin.evaluation.choices import stand_in
from spojoin.explain.footprint import (
    TEXT_MEAN_BYTES,
    WORKER_BYTES_MAX,
    PayloadColumn,
    ServiceState,
    SetupSizes,
    expected_state,
    held_bytes,
    indexed_bytes,
    is_cut_short,
    payload_columns,
    version_bytes,
    window_tuples,
    window_tuples_of_column,
)
from spojoin.explain.selectivity import Selectivity, measure
from spojoin.explain.topic_bytes import TopicBytes, topic_bytes
from spojoin.index.composite import keyed_search, searches_by_key
from spojoin.model import Direction, Domain, EmitOn, Order, Query, Stream
from spojoin.protocol.key_columns import key_predicate, without_key
from spojoin.protocol.packing import BLOCK_TOPICS
from spojoin.protocol.topology import TOPOLOGY, Role, Topic, dead_letter_topic, partitions, source_topic, topic_name
from spojoin.search_plan import SearchPlan
from spojoin.suggest import span
from spojoin.windows import Window

_DOMAINS = {Domain.FLOAT: "double", Domain.INTEGER: "int64", Domain.ASSIGNED: "numbers of values"}


@dataclass(frozen=True, slots=True)
class ConditionPlan:
    """A condition as written, and where it is evaluated.

    compared: how an index compares it; selectivity: the fraction of pairs, or of a filter's rows, if it is measured
    """

    text: str
    where: str
    compared: str = ""
    selectivity: float | None = None


@dataclass(frozen=True, slots=True)
class RowPlan:
    """The bytes that a row of a stream's window takes: in the index, and `held` for results.

    payload: the columns that travel with the row, which are part of `held`
    """

    stream: str
    indexed: float
    held: float
    payload: tuple[PayloadColumn, ...]


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """A key column: its stream and slot, its expression, and how its order is encoded."""

    stream: str
    slot: int
    text: str
    encoding: str


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """How one direction is searched."""

    probe: str
    target: str
    direction: str
    intervals: int
    structure: str


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """An internal or input topic, the services at its ends, and its bytes per row, if its size depends on rows.

    full, single: the bytes with full frames, and with frames of one row
    """

    name: str
    partitions: int | None
    written_by: tuple[str, ...]
    read_by: tuple[str, ...]
    full: TopicBytes | None = None
    single: TopicBytes | None = None


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """Everything that EXPLAIN shows; `selectivity` only with samples.

    conditions: the conditions, and where they are evaluated; rows: what a row of each stream's window takes
    batch_tuples: delta; batches: those of a full window; matches_per_probe: as expected from the sample
    columns_rule: whether columns of workers may be by key; memory_rule: how many of them the window needs
    """

    query: Query
    conditions: tuple[ConditionPlan, ...]
    rows: tuple[RowPlan, ...]
    keys: tuple[KeyPlan, ...]
    indexes: tuple[IndexPlan, ...]
    batch_tuples: int
    batches: int
    window_rules: tuple[str, ...]
    columns_rule: str
    memory_rule: str
    topics: tuple[TopicPlan, ...]
    state: tuple[ServiceState, ...]
    selectivity: Selectivity | None
    matches_per_probe: float | None


def explain(query: Query, samples: Mapping[str, pa.Table] | None = None, sizes: SetupSizes | None = None) -> QueryPlan:
    """The plan of a query; `samples`, a table for each stream, add measured selectivities.

    Raises ConfigurationError or BadData if a sample doesn't fit the query.
    """
    sizes = sizes or SetupSizes()
    delta = batch_tuples(query.window, sizes)
    selectivity = measure(query, samples, sizes.columns) if samples else None
    window = window_tuples(query, sizes)
    return QueryPlan(
        query=query,
        conditions=tuple(_conditions(query, selectivity)),
        rows=_rows(query, sizes, samples or {}),
        keys=tuple(_keys(query)),
        indexes=tuple(_index(query, direction) for direction in query.directions),
        batch_tuples=delta,
        batches=-(-window // delta),
        window_rules=_window_rules(query, sizes),
        columns_rule=_columns_rule(query, sizes, selectivity),
        memory_rule=_memory_rule(query, sizes),
        topics=_topics(query, sizes),
        state=expected_state(query, sizes),
        selectivity=selectivity,
        matches_per_probe=selectivity.whole * window * (2 if query.is_of_one_input else 1) if selectivity else None,
    )


def _conditions(query: Query, measured: Selectivity | None) -> Iterator[ConditionPlan]:
    """The conditions in the order of evaluation: filters, index conditions, then residual conditions."""
    for side, stream in enumerate((query.streams[0], query.streams[-1])):
        if stream.filter is not None:
            where = f"filter of the {('left', 'right')[side]} side: other rows take no number"
            yield ConditionPlan(stream.filter.text, where, selectivity=measured.passing[side] if measured else None)
    each = measured.each if measured else [None] * len(query.predicates)
    for predicate, fraction in zip(query.predicates, each, strict=True):
        yield ConditionPlan(predicate.text, "index", _DOMAINS[predicate.domain], fraction)
    for text in query.window.expressed:
        yield ConditionPlan(text, "held by the windows: evaluated by no service")
    for residual in query.residuals:
        yield ConditionPlan(residual.text, "residual: pairs are listed and filtered")
    if query.answers.where is not None:
        yield ConditionPlan(query.answers.where.text, "of the nearest row, once it is chosen")


def _rows(query: Query, sizes: SetupSizes, samples: Mapping[str, pa.Table]) -> tuple[RowPlan, ...]:
    return tuple(
        RowPlan(
            stream.name,
            indexed_bytes(query, number, sizes),
            held_bytes(query, stream, samples.get(stream.name)),
            payload_columns(stream, samples.get(stream.name)),
        )
        for number, stream in enumerate(query.streams)
    )


def batch_tuples(window: Window, sizes: SetupSizes) -> int:
    """Delta: a batch is sealed at this size, and at the end of a slide that is larger than it."""
    return min(window.batch_tuples(sizes.batch_tuples), window.rows or sizes.batch_tuples)


def _keys(query: Query) -> list[KeyPlan]:
    return [
        KeyPlan(stream.name, slot, key.text, _encoding(key.domain, key.scale))
        for stream in query.streams
        for slot, key in enumerate(stream.keys)
    ]


def _encoding(domain: Domain, scale: int) -> str:
    if domain is Domain.FLOAT:
        return "IEEE double, bits folded to int64"
    if domain is Domain.ASSIGNED:
        return "none: the router numbers the values"
    return f"int64, times 10^{scale}" if scale else "int64"


def _index(query: Query, direction: Direction) -> IndexPlan:
    count = SearchPlan(query).interval_count(direction)
    return IndexPlan(
        query.streams[direction.probe].name,
        query.streams[direction.target].name,
        "as left" if direction.as_left else "as right",
        count,
        _structure(count, query, direction) + _beside(query),
    )


def _beside(query: Query) -> str:
    """What the index computes from matches besides their number."""
    plan = SearchPlan(query)
    sums = sum(measure.is_summed for measure in plan.measures)
    found = [f"sums of {sums} {'value' if sums == 1 else 'values'}"] if sums else []
    if plan.choices:
        each = f"the first {plan.chosen_count}" if plan.chosen_count > 1 else "the first"
        orders = len(plan.choices)
        found.append(f"{each} in {orders} {'order' if orders == 1 else 'orders'} of values")
    return "".join(f"; {each}" for each in found)


def _structure(intervals: int, query: Query, direction: Direction) -> str:
    lists = SearchPlan(query).lists_matches(direction)
    if is_cut_short(query, direction):
        return "sorted ranks and prefix bitmaps in arrival order"
    if searches_by_key(direction):
        within = len(keyed_search(direction).conditions) - query.both_ask
        return f"{_few(within, lists=lists)}, within equal keys" if within else _few(1, lists=lists)
    if intervals == 3 and not lists:
        return "wavelet matrices in the blocks of one column's ranks: box counts"
    if intervals > 2:
        return "permutation and wavelet matrix for two intervals, prefix bitmaps for the rest"
    return _few(intervals, lists=lists)


def _few(intervals: int, *, lists: bool) -> str:
    if lists:
        return f"sorted ranks: partners of {'one interval' if intervals == 1 else 'the narrower interval, checked'}"
    return (
        "sorted ranks: two binary searches" if intervals == 1 else "permutation as a wavelet matrix: rectangle counts"
    )


def _window_rules(query: Query, sizes: SetupSizes) -> tuple[str, ...]:
    if query.has_table:
        return (*_table_rules(query, sizes), *_nearest_rules(query))
    constant = query.window.has_slides_of(sizes.batch_tuples)
    bound = "the bound is constant in a frame" if constant else "the bound is a column of the frame"
    rules = (*query.window.rules([stream.name for stream in query.streams]), bound)
    rules = (*rules, *_self_rules(query), *_nearest_rules(query))
    if query.answers.emit is not EmitOn.CLOSE:
        return rules
    return (*rules, *(_closing_rule(query, number) for number, stream in enumerate(query.streams) if stream.asks))


def _columns_rule(query: Query, sizes: SetupSizes, measured: Selectivity | None) -> str:
    """A sentence on whether columns of workers may be by key, and on the share of hot searches then."""
    number = key_predicate(query)
    if number is None:
        return f"columns of workers are by batch: {without_key(query)}"
    rule = f"columns of workers may be by key, that of {query.predicates[number].text} (columns_by: key)"
    if measured is None or sizes.columns == 1:
        return rule
    hot = f"{measured.hot_probes:.1%} of the sample's searches are for hot keys, and every column is asked for these"
    return f"{rule}; with {sizes.columns} columns {hot}"


def _memory_rule(query: Query, sizes: SetupSizes) -> str:
    """A sentence on how large a window one column may have, and how many columns this one needs."""
    most, window = window_tuples_of_column(query, sizes), window_tuples(query, sizes)
    most -= most % 10 ** max(len(str(most)) - 2, 0)
    columns = -(-window // most)
    held = "table" if query.has_table else "window"
    needs = f"this {held} needs no more" if columns == 1 else f"{window:,} need {columns} columns"
    allowed = f"a worker may have {WORKER_BYTES_MAX >> 30} GiB in the chart"
    return f"{allowed}: enough for a {held} of about {most:,} tuples in one column; {needs}"


def _nearest_rules(query: Query) -> Iterator[str]:
    best = query.answers.best
    if best is None or not best.nearest:
        return
    key, number = best.order
    which = "greatest" if key.is_descending else "least"
    ties = "last" if number.is_descending else "first"
    by = f"by the {which} {key.expression.text}, of equal ones the {ties}"
    yield f"{best.nearest} says which row is nearest: {by}"


def _self_rules(query: Query) -> Iterator[str]:
    if query.is_of_one_input:
        yield "a row is never paired with itself, as it would be with its own in a table"


def _table_rules(query: Query, sizes: SetupSizes) -> tuple[str, ...]:
    """Sentences on how left rows are answered about the table, and on the cost of a version."""
    left, table, rows = query.streams[0].name, query.streams[-1].name, window_tuples(query, sizes)
    return (
        f"a row of {left} answers once, as it comes, about all rows of the table {table}",
        f"a version is the whole table: {version_bytes(query, sizes):,} bytes in the log, and as many in batches, "
        f"where it has {rows:,} rows; while it replaces another, both are held",
    )


def _closing_rule(query: Query, number: int) -> str:
    """A sentence on when a side's row is answered, and what is held for it."""
    side, other = ("left", "right") if number == 0 else ("right", "left")
    when, name = query.window_over(number).passing, query.streams[number].name
    alone = " if no left row is its partner" if number else ""
    held = query.window.held_by_open
    return f"a {side} row, of {name}, answers once {when}{alone}; until then {held} {other} rows are held"


def _waiting_rules(query: Query) -> Iterator[str]:
    """Sentences on the inputs for which event time waits, and for how long."""
    if query.order.by is not Order.EVENT_TIME:
        return
    if query.order.idle_timeout_us is None:
        yield "event time waits for every input: for a row or a heartbeat of each partition (no idle_timeout)"
    else:
        silence = span(query.order.idle_timeout_us)
        yield f"event time waits for every input, but not for one without records for {silence} (idle_timeout)"


#: A release has intakes only where it asks for them.
_WITHOUT_INTAKES = [edge for edge in TOPOLOGY if edge.role is not Role.INTAKE]


def _topics(query: Query, sizes: SetupSizes) -> tuple[TopicPlan, ...]:
    read = [stream for stream in query.inputs if stream.table is None or stream.table.topic is not None]
    inputs = [TopicPlan(source_topic(s), None, (_writer(s),), ("router",)) for s in read]
    dead = [TopicPlan(dead_letter_topic(source_topic(s)), None, ("router",), ("you",)) for s in read]
    inner = [_topic(query, topic, sizes) for topic in Topic if topic not in (Topic.INPUT, Topic.DEAD, *BLOCK_TOPICS)]
    return (*inputs, *inner, *dead)


def _writer(stream: Stream) -> str:
    return "you" if stream.query is None else f"query {stream.query}"


def _topic(query: Query, topic: Topic, sizes: SetupSizes) -> TopicPlan:
    count = partitions(topic, predicates=len(query.predicates), streams=len(query.streams), workers_max=sizes.workers)
    return TopicPlan(
        topic_name(query.name, topic),
        count,
        tuple(edge.role.value for edge in _WITHOUT_INTAKES if topic in edge.writes),
        tuple(edge.role.value for edge in _WITHOUT_INTAKES if topic in edge.reads),
        topic_bytes(query, topic, sizes, sizes.frame_tuples),
        topic_bytes(query, topic, sizes, 1),
    )


def render(plan: QueryPlan, console: Console, *, is_served: bool = True) -> None:
    """Print a plan as tables; services and topics only if there are any."""
    query, window = plan.query, plan.query.window
    length, slide = (window.size(size) for size in (window.length, window.slide))
    kind = "self join" if query.is_of_one_input else "join"
    console.print(f"[bold]{query.name}[/]: {kind} of {' and '.join(s.name for s in query.inputs)}", highlight=False)
    size = f"the whole table {query.streams[-1].name}" if query.has_table else f"{length}, slide {slide}"
    console.print(f"window {size}; order {query.order.by}; output {query.results.output}", highlight=False)
    own = plan.window_rules[:1] if query.has_table else plan.window_rules
    for rule in (*plan.window_rules, *_waiting_rules(query)) if is_served else own:
        console.print(f"  {escape(rule)}", highlight=False)
    if (other := stand_in(query)) is not None:
        console.print(other.explained(query), highlight=False)
    whole = "such a table" if query.has_table else "a window"
    if is_served:
        batches = f"batches of up to {plan.batch_tuples:,} tuples, about {plan.batches:,} in {whole}"
        console.print(batches, highlight=False)
        console.print(escape(plan.columns_rule), highlight=False)
        console.print(plan.memory_rule, highlight=False)
    for table in (_condition_table(plan), _key_table(plan), _index_table(plan), _row_table(plan)):
        console.print(table)
    for table in (_state_table(plan), _topic_table(plan), _bytes_table(plan)) if is_served else ():
        console.print(table)


def _table(title: str, *columns: str, right: tuple[str, ...] = ()) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left")
    return table


def _condition_table(plan: QueryPlan) -> Table:
    table = _table("Conditions", "condition", "evaluated as", "compared as", "selectivity", right=("selectivity",))
    for each in plan.conditions:
        table.add_row(escape(each.text), each.where, each.compared, _percent(each.selectivity))
    if plan.selectivity and plan.matches_per_probe is not None:
        whole = _percent(plan.selectivity.whole)
        table.add_row(f"the index, {plan.matches_per_probe:,.0f} matches a probe", "", "", whole)
        table.caption = f"measured on {' and '.join(f'{rows:,}' for rows in plan.selectivity.rows)} sampled rows"
    return table


def _row_table(plan: QueryPlan) -> Table:
    """The bytes per row of a window; it says which lengths of texts are assumed."""
    right = ("in the index", "beside it", "of it payload")
    table = _table("Bytes a row of window", "stream", *right, "payload", right=right)
    for row in plan.rows:
        payload = sum(column.bytes_row for column in row.payload)
        columns = ", ".join(f"{column.name} {column.bytes_row:.4g}" for column in row.payload) or "-"
        table.add_row(row.stream, f"{row.indexed:.4g}", f"{row.held:.4g}", f"{payload:.4g}", escape(columns))
    sources = {column.source for row in plan.rows for column in row.payload}
    notes = ["a column with NULLs takes one more"] if sources else []
    notes += (
        [f"texts are assumed to have {TEXT_MEAN_BYTES} bytes; --sample measures them"] if "assumed" in sources else []
    )
    notes += ["texts are as long as the sample's"] if "measured" in sources else []
    table.caption = "; ".join(notes)
    return table


def _percent(fraction: float | None) -> str:
    return "-" if fraction is None else f"{100 * fraction:.4g} %"


def _key_table(plan: QueryPlan) -> Table:
    table = _table("Key columns", "stream", "slot", "expression", "order kept as", right=("slot",))
    for key in plan.keys:
        table.add_row(key.stream, str(key.slot), escape(key.text), key.encoding)
    return table


def _index_table(plan: QueryPlan) -> Table:
    table = _table("Index of the immutable part", "probe", "searches", "role", "intervals", "by", right=("intervals",))
    for index in plan.indexes:
        table.add_row(index.probe, index.target, index.direction, str(index.intervals), index.structure)
    return table


def _state_table(plan: QueryPlan) -> Table:
    table = _table("Expected state", "service", "processes", "bytes each", "holds", right=("processes", "bytes each"))
    for state in plan.state:
        table.add_row(state.service, str(state.instances), f"{state.bytes_each:,}", state.holds)
    return table


def _topic_table(plan: QueryPlan) -> Table:
    table = _table("Topics", "topic", "partitions", "written by", "read by", right=("partitions",))
    for topic in plan.topics:
        count = "any" if topic.partitions is None else str(topic.partitions)
        table.add_row(topic.name, count, ", ".join(topic.written_by), ", ".join(topic.read_by))
    return table


def _bytes_table(plan: QueryPlan) -> Table:
    columns = ("a row, of full frames", "a row, alone in its frame", "a match")
    table = _table("Bytes in Kafka", "topic", *columns, right=columns)
    for topic in plan.topics:
        if topic.full is not None and topic.single is not None:
            sizes = (topic.full.row, topic.single.row, topic.full.match)
            table.add_row(topic.name, *(f"{size:,.0f}" if size else "-" for size in sizes))
    table.caption = "estimates, uncompressed, of one replica; results as Arrow; all but results are trimmed"
    return table
