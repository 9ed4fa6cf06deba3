"""One table of which role reads and writes which topic; topics, code, docs and tests derive from it."""

from __future__ import annotations

import enum
import zlib
from dataclasses import dataclass

from spojoin.model import GENERATION_PART, Stream

#: Header of an input message without a value: milliseconds of event time up to which its partition promises silence.
HEARTBEAT = "spojoin-heartbeat"
#: Beside it, from `spojoin send`: the input has ended, and the promise moves on with those of inputs that end later.
ENDED = "spojoin-ended"

#: Headers of a dead letter behind those of its message: why, and whence it came.
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
#: Header of a record among dead letters that is none: its value names the offsets of letters that were sent again.
REPLAYED = "spojoin-replayed"

#: the largest record; brokers need the same (message.max.bytes)
MESSAGE_BYTES_MAX = 64 << 20


class Role(enum.StrEnum):
    """The services; each is a process of its own."""

    ROUTER = "router"
    PREDICTOR = "predictor"
    MUTABLE = "mutable"
    PERMUTATION = "permutation"
    POJOIN = "pojoin"
    LOGICAL_AND = "logical-and"
    SINK = "sink"
    CONTROLLER = "controller"


class Topic(enum.StrEnum):
    """Internal topics of a query; inputs and their dead letters are named by the user's streams."""

    INPUT = "input"
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
    """A role, the topics it reads, the topics it writes, and the topics it alone trims behind the recovery point."""

    role: Role
    reads: tuple[Topic, ...]
    writes: tuple[Topic, ...]
    trims: tuple[Topic, ...] = ()


TOPOLOGY = (
    Edge(
        Role.ROUTER,
        (Topic.INPUT, Topic.FRAMES, Topic.BATCHES, Topic.PLAN, Topic.CONTROL, Topic.GENERATIONS, Topic.RESULTS),
        (Topic.FRAMES, Topic.DEAD, Topic.GENERATIONS),
    ),
    Edge(Role.PREDICTOR, (Topic.FRAMES, Topic.GENERATIONS), (Topic.PLAN,)),
    Edge(Role.MUTABLE, (Topic.FRAMES, Topic.GENERATIONS, Topic.RESULTS), (Topic.PARTIALS, Topic.RUNS)),
    Edge(
        Role.PERMUTATION, (Topic.RUNS, Topic.BATCHES, Topic.GENERATIONS, Topic.RESULTS), (Topic.BATCHES,), (Topic.RUNS,)
    ),
    Edge(Role.POJOIN, (Topic.FRAMES, Topic.BATCHES, Topic.GENERATIONS, Topic.RESULTS), (Topic.MATCHES,)),
    Edge(
        Role.LOGICAL_AND,
        (Topic.FRAMES, Topic.PARTIALS, Topic.GENERATIONS, Topic.RESULTS),
        (Topic.MATCHES,),
        (Topic.PARTIALS,),
    ),
    Edge(
        Role.SINK,
        (Topic.FRAMES, Topic.BATCHES, Topic.MATCHES, Topic.GENERATIONS, Topic.RESULTS),
        (Topic.RESULTS,),
        (Topic.MATCHES, Topic.FRAMES, Topic.BATCHES),
    ),
    Edge(Role.CONTROLLER, (Topic.CONTROL, Topic.GENERATIONS), (Topic.CONTROL,), (Topic.CONTROL,)),
)


#: What no machine reads as records: the users' rows, the results, and which generation is served.
NOT_RECORDS = (Topic.INPUT, Topic.RESULTS, Topic.GENERATIONS)

#: Roles that have work where there is a mutable part whose tuples are batched: else they are idle, or left out.
BATCH_ROLES = (Role.MUTABLE, Role.PERMUTATION, Role.LOGICAL_AND)


class Size(enum.StrEnum):
    """What a topic's partitions are counted by.

    One a predicate for partials; one a stream for batches, so that a slow stream's old batches don't hold a fast
    stream's; one a part for matches (0 the mutable part, 1 + w worker w); for presence a fixed number, by the service.
    The rest has one: they are logs.
    """

    ONE = "one"
    PREDICATES = "predicates"
    STREAMS = "streams"
    PARTS = "parts"
    SERVICES = "services"


_SIZES = {
    Topic.PARTIALS: Size.PREDICATES,
    Topic.BATCHES: Size.STREAMS,
    Topic.MATCHES: Size.PARTS,
    Topic.PRESENCE: Size.SERVICES,
}

#: Partitions of presence: few services share one.
PRESENCE_PARTITIONS = 16


def size(topic: Topic) -> Size:
    """What an internal topic's partitions are counted by."""
    return _SIZES.get(topic, Size.ONE)


def partitions(topic: Topic, *, predicates: int, streams: int, workers_max: int) -> int:
    """How many partitions an internal topic has."""
    counts = {
        Size.ONE: 1,
        Size.PREDICATES: predicates,
        Size.STREAMS: streams,
        Size.PARTS: 1 + workers_max,
        Size.SERVICES: PRESENCE_PARTITIONS,
    }
    return counts[size(topic)]


def presence_partition(service: str) -> int:
    """Where the instances of a service write their beats."""
    return zlib.crc32(service.encode()) % PRESENCE_PARTITIONS


#: Internal topics that no role trims behind the recovery point: for whoever reads results or letters.
KEPT = (Topic.RESULTS, Topic.DEAD)

#: Topics that all generations of a query share (rule P12); of the others each generation has its own.
SHARED = (Topic.INPUT, Topic.RESULTS, Topic.DEAD, Topic.CONTROL, Topic.GENERATIONS, Topic.PRESENCE)

FIRST_GENERATION = 1


def topic_name(query: str, topic: Topic, generation: int = FIRST_GENERATION) -> str:
    """Kafka's name of an internal topic of a query."""
    if topic in SHARED or generation == FIRST_GENERATION:
        return f"{query}.{topic.value}"
    return f"{later_generations(query, topic)}{generation}"


def later_generations(query: str, topic: Topic) -> str:
    """The prefix of a topic's names in a query's generations from the second on."""
    return f"{query}.{GENERATION_PART}.{topic.value}."


def input_topic(stream: str) -> str:
    """Kafka's default name of a stream's input topic."""
    return f"in.{stream}"


def source_topic(stream: Stream) -> str:
    """Where a stream's rows are unless a setting says otherwise: its input topic, or the results of another query.

    Of a table it is the topic that the query names.
    """
    if stream.table is not None and stream.table.topic is not None:
        return stream.table.topic
    return input_topic(stream.name) if stream.query is None else topic_name(stream.query, Topic.RESULTS)


def dead_letter_topic(topic: str) -> str:
    """Where poisoned messages of an input topic go."""
    return f"{topic}.dlq"
