"""What the page is about: one query and its deployment, as far as known in advance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from spojoin.model import Query
from spojoin.page.flow import readers
from spojoin.protocol.packing import ANSWERER, APART, parse_packing, roles_of
from spojoin.protocol.services import NEEDED, joiner_count, names, role_of, without_workers
from spojoin.protocol.topology import Role, Topic
from spojoin.runtime.settings import Settings
from spojoin.runtime.topics import Topics


@dataclass(frozen=True, slots=True)
class Subject:
    """A query, its topics, and how many of each service it has; the log may give another worker count.

    packing: which roles share a process; inside: how many of the first workers share theirs
    """

    query: Query
    topics: Topics
    workers: int
    joiners: int
    packing: str = APART
    inside: int = 0

    @classmethod
    def of(cls, query: Query, workers: int, input_topics: Mapping[str, str], joiners: int | None = None) -> Subject:
        """The query served with these numbers of workers and joiners; `input_topics` overrides names by stream."""
        topics = Topics.for_query(query, workers, input_topics)
        return cls(query, topics, workers, joiner_count(len(query.predicates), joiners))

    @classmethod
    def served(cls, query: Query, settings: Settings) -> Subject:
        """The query as services with these settings serve it."""
        found = cls.of(query, settings.workers, settings.input_topics, settings.joiners)
        intakes, logical_ands, sinks = settings.intakes, settings.mutable_reporters(), settings.sinks
        topics = replace(found.topics, intakes=intakes, logical_ands=logical_ands, sinks=sinks)
        return replace(found, topics=topics, packing=settings.packing, inside=settings.workers_packed())

    def expected(self, role: Role, workers: int | None = None) -> tuple[str, ...]:
        """The services of a role that should run at least; none of a role that takes nothing from the flow.

        `workers` is the log's worker count, if it has one.
        """
        beside = names(Role.POJOIN, workers or self.workers)[self.inside :] if self.is_of_workers(role) else ()
        if role in NEEDED:
            topics = self.topics
            counts = topics.logical_ands, topics.sinks, topics.intakes
            needed = without_workers(self.query, self.joiners, self.packing, *counts)
            return (*(name for name in needed if role in roles_of(role_of(name))), *beside)
        return (role.value,) if role in {reader for topic in Topic for reader in readers(topic)} else ()

    def is_of_workers(self, role: Role) -> bool:
        """Whether the processes of PO-Join workers have a role."""
        return role is Role.POJOIN or (role in ANSWERER and parse_packing(self.packing).has_answerers)

    def names(self, topic: Topic) -> list[str]:
        """Kafka's names of a topic; one a stream for inputs and dead letters."""
        if topic is Topic.INPUT:
            return list(self.topics.inputs)
        if topic is Topic.DEAD:
            return [self.topics.dead_letters(stream).topic for stream in range(len(self.topics.inputs))]
        return [self.topics.name(topic)]

    def topic_of(self, name: str) -> Topic | None:
        """The topic by its name in Kafka, or by the short name that services use."""
        return next((topic for topic in Topic if name in (topic.value, *self.names(topic))), None)


def window_text(query: Query) -> str:
    """The window in words."""
    if query.has_table:
        return f"the whole table {query.streams[-1].name}"
    return query.window.shown
