"""The table of roles: what each reads and writes, and its other properties; code, chart, pages and tests follow it."""

from __future__ import annotations

import enum
import zlib
from dataclasses import dataclass

from spojoin.model import GENERATION_PART, Stream

#: Header of an input message without a value: no row of its partition follows before this event time, in milliseconds.
HEARTBEAT = "spojoin-heartbeat"
#: Next to it, from `spojoin send`: the input has ended, and its promise moves on with those of inputs that end later.
ENDED = "spojoin-ended"

#: Headers of a dead letter after those of its message: the reason, and the source.
LETTER_SAYS = tuple(
    f"spojoin-{name}"
    for name in (
        "reason",
        "detail",
        "source-topic",
        "source-partition",
        "source-offset",
        "source-row",
        "source-timestamp-ms",
    )
)
#: Header of a row that `spojoin replay-dead-letters` sent again: how often it was sent so far.
REPLAYS = "spojoin-replays"
#: Header of a record in the dead letters' topic that is no letter: its value names the offsets of replayed letters.
REPLAYED = "spojoin-replayed"

#: the largest record; brokers need the same (message.max.bytes)
MESSAGE_BYTES_MAX = 64 << 20


class Role(enum.StrEnum):
    """The roles of services; by default each has its own process."""

    INTAKE = "intake"
    ROUTER = "router"
    PREDICTOR = "predictor"
    MUTABLE = "mutable"
    PERMUTATION = "permutation"
    POJOIN = "pojoin"
    LOGICAL_AND = "logical-and"
    SINK = "sink"
    CONTROLLER = "controller"


class Hop(enum.StrEnum):
    """A step of a frame's way, in order; after evaluation come its steps in the services, which overlap it."""

    ARRIVAL = "arrival"
    FRAMING = "framing"
    WRITING = "writing"
    EVALUATION = "evaluation"
    DELIVERY = "delivery"
    RANKING = "ranking"
    COMBINING = "combining"
    SEARCH = "search"
    ASSEMBLY = "assembly"
    SETTLING = "settling"


class Topic(enum.StrEnum):
    """Internal topics of a query; inputs and their dead letters are named by the user's streams."""

    INPUT = "input"
    BLOCKS = "blocks"
    POSITIONS = "positions"
    FRAMES = "frames"
    RUNS = "runs"
    BATCHES = "batches"
    PARTIALS = "partials"
    MATCHES = "matches"
    RESULTS = "results"
    PLAN = "plan"
    CONTROL = "control"
    GENERATIONS = "generations"
    PRESENCE = "presence"
    DEAD = "dlq"


@dataclass(frozen=True, slots=True)
class Edge:
    """A role, the topics that it reads and writes, and those that only it trims behind the recovery point."""

    role: Role
    reads: tuple[Topic, ...]
    writes: tuple[Topic, ...]
    trims: tuple[Topic, ...] = ()


@dataclass(frozen=True, slots=True)
class RoleEntry:
    """The properties of a role outside its room, `spojoin.roles.<package>`; to add a role, add an entry.

    package: its `__main__` defines `wire`, or `serve` if the role has no machine
    has_machine: whether the role is a machine over the log; results wait for such roles
    is_packable: whether it may share a process with others
    needs_mutable_part: whether it has no work if a layout has no mutable part whose tuples are batched
    evaluates_ahead: whether it may get frames before they are in the log, since its answers follow from frames and
        batches alone (P14.4)
    transactional: the topic that it may write in transactions; the transactional id has the role's name
    shared_writer: the topics of one writer: their records stay in one order, and in one transaction if they are
        written in transactions; only one instance may have that writer
    joins_group: whether it reads as a member of a consumer group
    asks_kubernetes: whether it uses the Kubernetes API
    own_hops: the hops of frames that it times, besides the delivery of frames to every machine
    settings: those that not every service reads
    """

    edge: Edge
    package: str
    has_machine: bool = True
    is_packable: bool = True
    needs_mutable_part: bool = False
    evaluates_ahead: bool = False
    transactional: Topic | None = None
    shared_writer: tuple[Topic, ...] = ()
    joins_group: bool = False
    asks_kubernetes: bool = False
    own_hops: tuple[Hop, ...] = ()
    settings: tuple[str, ...] = ()

    @property
    def role(self) -> Role:
        """The role of the entry."""
        return self.edge.role

    @property
    def follows_frames(self) -> bool:
        """Whether it is a machine that reads frames, and so knows the worker count."""
        return self.has_machine and Topic.FRAMES in self.edge.reads


#: Settings of whoever uses the schema registry.
REGISTRY_SETTINGS = (
    "registry_url",
    "registry_username",
    "registry_password",
    "registry_password_file",
    "registry_ca",
)

#: Every role, in the order of the data flow.
ROLES = (
    RoleEntry(
        Edge(Role.INTAKE, (Topic.INPUT, Topic.POSITIONS, Topic.GENERATIONS), (Topic.BLOCKS,)),
        "intake",
        is_packable=False,  # a router without intakes reads the inputs itself
        settings=("intake", "intakes", *REGISTRY_SETTINGS),
    ),
    RoleEntry(
        Edge(
            Role.ROUTER,
            (
                *(Topic.INPUT, Topic.BLOCKS, Topic.POSITIONS, Topic.FRAMES, Topic.BATCHES),
                *(Topic.PLAN, Topic.CONTROL, Topic.GENERATIONS, Topic.RESULTS),
            ),
            (Topic.POSITIONS, Topic.FRAMES, Topic.DEAD, Topic.GENERATIONS),
            (Topic.BLOCKS, Topic.POSITIONS),
        ),
        "router",
        transactional=Topic.FRAMES,
        shared_writer=(Topic.FRAMES, Topic.DEAD, Topic.GENERATIONS),
        own_hops=(Hop.ARRIVAL, Hop.FRAMING, Hop.WRITING),
        settings=(
            *("intakes", "workers", "columns", "columns_by", "logical_ands", "sinks", "adopt", "replace", "backfill"),
            *("transactions", "router_transactions"),
            *REGISTRY_SETTINGS,
            *("frame_tuples", "linger_ms", "batch_tuples", "batch_frames", "handover_frames", "credits_frames"),
        ),
    ),
    RoleEntry(
        Edge(Role.PREDICTOR, (Topic.FRAMES, Topic.GENERATIONS), (Topic.PLAN,)),
        "predictor",
        has_machine=False,
        is_packable=False,
        joins_group=True,  # Faust's
    ),
    RoleEntry(
        Edge(Role.MUTABLE, (Topic.FRAMES, Topic.GENERATIONS, Topic.RESULTS), (Topic.PARTIALS, Topic.RUNS)),
        "mutable",
        needs_mutable_part=True,
        evaluates_ahead=True,
        own_hops=(Hop.RANKING,),
        settings=("joiner", "joiners"),
    ),
    RoleEntry(
        Edge(
            Role.PERMUTATION,
            (Topic.RUNS, Topic.BATCHES, Topic.GENERATIONS, Topic.RESULTS),
            (Topic.BATCHES,),
            (Topic.RUNS,),
        ),
        "permutation",
        needs_mutable_part=True,
    ),
    RoleEntry(
        Edge(Role.POJOIN, (Topic.FRAMES, Topic.BATCHES, Topic.GENERATIONS, Topic.RESULTS), (Topic.MATCHES,)),
        "pojoin",
        evaluates_ahead=True,
        own_hops=(Hop.SEARCH,),
        settings=("worker", "drain_ms"),
    ),
    RoleEntry(
        Edge(
            Role.LOGICAL_AND,
            (Topic.FRAMES, Topic.PARTIALS, Topic.GENERATIONS, Topic.RESULTS),
            (Topic.MATCHES,),
            (Topic.PARTIALS,),
        ),
        "logical_and",
        needs_mutable_part=True,
        evaluates_ahead=True,
        own_hops=(Hop.COMBINING,),
        settings=("logical_and", "logical_ands"),
    ),
    RoleEntry(
        Edge(
            Role.SINK,
            (Topic.FRAMES, Topic.BATCHES, Topic.MATCHES, Topic.GENERATIONS, Topic.RESULTS),
            (Topic.RESULTS,),
            (Topic.MATCHES, Topic.FRAMES, Topic.BATCHES),
        ),
        "sink",
        transactional=Topic.RESULTS,
        shared_writer=(Topic.RESULTS,),
        own_hops=(Hop.EVALUATION, Hop.ASSEMBLY, Hop.SETTLING),
        settings=("sink", "sinks", "transactions", "results_format", *REGISTRY_SETTINGS),
    ),
    RoleEntry(
        Edge(Role.CONTROLLER, (Topic.CONTROL, Topic.GENERATIONS), (Topic.CONTROL,), (Topic.CONTROL,)),
        "controller",
        has_machine=False,
        is_packable=False,
        asks_kubernetes=True,
        settings=(
            *("intakes", "joiners", "workers", "columns", "logical_ands", "sinks"),
            *("replace", "statefulset", "namespace"),
            *("autoscale", "scale_once"),
            *("scale_min", "scale_max", "scale_cpu_high", "scale_cpu_low", "scale_lag_high", "scale_up_after_s"),
            *("scale_down_after_s", "scale_wait_s_max"),
        ),
    ),
)


def role_entry(role: Role) -> RoleEntry:
    """The entry of a role."""
    return next(entry for entry in ROLES if entry.role is role)


TOPOLOGY = tuple(entry.edge for entry in ROLES)

#: Roles that are machines over the log. The predictor and the controller aren't: they use more than the log.
MACHINE_ROLES = tuple(entry.role for entry in ROLES if entry.has_machine)

#: Roles that may share a process, in the order of the data flow, and roles that never do.
PACKABLE = tuple(entry.role for entry in ROLES if entry.is_packable)
LONE_ROLES = tuple(entry.role for entry in ROLES if not entry.is_packable)

#: Roles that only have work if there is a mutable part whose tuples are batched; otherwise they are idle or left out.
BATCH_ROLES = tuple(entry.role for entry in ROLES if entry.needs_mutable_part)

#: Topics that no machine reads as records: the users' rows, the results, and the generations.
NOT_RECORDS = (Topic.INPUT, Topic.RESULTS, Topic.GENERATIONS)


class Size(enum.StrEnum):
    """What determines a topic's number of partitions.

    Blocks have one for each intake; partials one for each predicate; batches one for each stream, so that a slow
    stream's old batches don't keep a fast stream's; matches one for each member that reports (0 the first logical AND,
    1 + w worker w, and behind the workers any further logical ANDs); presence a fixed number, chosen by service;
    results one for each sink. Other topics are logs with one partition.
    """

    ONE = "one"
    INTAKES = "intakes"
    PREDICATES = "predicates"
    STREAMS = "streams"
    PARTS = "parts"
    SERVICES = "services"
    SINKS = "sinks"


_SIZES = {
    Topic.BLOCKS: Size.INTAKES,
    Topic.PARTIALS: Size.PREDICATES,
    Topic.BATCHES: Size.STREAMS,
    Topic.MATCHES: Size.PARTS,
    Topic.PRESENCE: Size.SERVICES,
    Topic.RESULTS: Size.SINKS,
}

#: The number of presence partitions: few services share one.
PRESENCE_PARTITIONS = 16


def size(topic: Topic) -> Size:
    """What determines an internal topic's number of partitions."""
    return _SIZES.get(topic, Size.ONE)


def mutable_partition(logical_and: int, workers_max: int) -> int:  # P22.4
    """The partition of `matches` in which a logical AND reports the mutable part; no other member writes it."""
    return workers_max + logical_and if logical_and else 0


def partitions(
    topic: Topic,
    *,
    predicates: int,
    streams: int,
    workers_max: int,
    logical_ands: int = 1,
    sinks: int = 1,
    intakes: int = 1,
) -> int:
    """How many partitions an internal topic has."""
    counts = {
        Size.ONE: 1,
        Size.INTAKES: max(intakes, 1),
        Size.PREDICATES: predicates,
        Size.STREAMS: streams,
        Size.PARTS: workers_max + logical_ands,
        Size.SERVICES: PRESENCE_PARTITIONS,
        Size.SINKS: sinks,
    }
    return counts[size(topic)]


def presence_partition(service: str) -> int:
    """The partition in which the instances of a service write their beats."""
    return zlib.crc32(service.encode()) % PRESENCE_PARTITIONS


#: Internal topics that no role trims behind the recovery point, since users read them.
KEPT = (Topic.RESULTS, Topic.DEAD)

#: Topics that all generations of a query share (rule P12); each generation has its own other topics.
SHARED = (Topic.INPUT, Topic.RESULTS, Topic.DEAD, Topic.CONTROL, Topic.GENERATIONS, Topic.PRESENCE)

FIRST_GENERATION = 1


def topic_name(query: str, topic: Topic, generation: int = FIRST_GENERATION) -> str:  # P12.6
    """Kafka's name of an internal topic of a query."""
    if topic in SHARED or generation == FIRST_GENERATION:
        return f"{query}.{topic.value}"
    return f"{later_generations(query, topic)}{generation}"


def later_generations(query: str, topic: Topic) -> str:
    """The prefix of a topic's names in a query's second and later generations."""
    return f"{query}.{GENERATION_PART}.{topic.value}."


def input_topic(stream: str) -> str:
    """Kafka's default name of a stream's input topic."""
    return f"in.{stream}"


def source_topic(stream: Stream) -> str:
    """The default topic of a stream's rows: its input topic, or the results of another query.

    For a table, it is the topic that the query names.
    """
    if stream.table is not None and stream.table.topic is not None:
        return stream.table.topic
    return input_topic(stream.name) if stream.query is None else topic_name(stream.query, Topic.RESULTS)


def dead_letter_topic(topic: str) -> str:
    """The topic for dead letters of an input topic."""
    return f"{topic}.dlq"
