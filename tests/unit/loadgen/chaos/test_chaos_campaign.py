"""A campaign against services that are a plain nested loop: correct ones pass, each kind of wrong one is caught."""

import itertools

import pyarrow as pa
import pytest

from loadgen.chaos.campaign import Campaign, Rules
from loadgen.chaos.plan import Fault, FaultKind
from loadgen.check.rows import rows_of
from loadgen.load.formats import MessageFormat
from loadgen.load.load import Arrivals, Load
from loadgen.load.load_streams import LOADS
from loadgen.load.messages import ipc_bytes
from loadgen.load.open_loop import WriterSender
from loadgen.window import window_of
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.memory import MemoryLog
from spojoin.query.load import load_query, parse_query

WINDOW, SLIDE = 50, 10
HOLDS = {
    "q1": lambda left, right: left["distance"] > right["distance"] and left["fare"] < right["fare"],
    "q3": lambda left, right: left["power"] < right["power"] and left["cooling"] > right["cooling"],
    "flights": lambda left, right: left["distance"] > right["distance"] and left["air_time"] < right["air_time"],
}


#: The farthest flight that takes part.
FAR = 999


def query_of(name):
    text = load_query(LOADS[name].query_path).text
    for long, short in (("'10K' ON '100K'", f"'{SLIDE}' ON '{WINDOW}'"), ("'1K' ON '10K'", f"'{SLIDE}' ON '{WINDOW}'")):
        text = text.replace(long, short)
    # Far flights are beyond the type's range, and refused; the first flight without air time is the 472nd.
    return parse_query(text.replace("distance: int,", "distance: 'decimal(3,0)',"))


class Services:
    """Reads the input topics and writes results when tended; also the target of the faults.

    harm: what is done to each result row, by its seq; None leaves it out
    sinks: frame f is in partition f modulo these
    """

    def __init__(self, log, query, topics, harm=lambda _seq, row: row, sinks=1):
        self._sinks = sinks
        self.faults = []
        self.is_down = False
        self._log, self._query, self._harm = log, query, harm
        self._topics = topics
        self._inputs = {LogPartition(t, p): 0 for t in topics for p in range(log.partitions(t))}
        self._tuples = [[] for _ in topics]
        self._seq = self._frame = 0
        counts = ("matches", "as_left", "as_right") if query.is_self else ("matches",)
        names = [("seq", pa.int64()), ("stream", pa.string()), ("key", pa.string())]
        self._schema = pa.schema([*names, *((count, pa.int64()) for count in counts)])

    def targets(self):
        return ["router", "sink"]

    def delete(self, target):
        self._note("delete", target)

    def kill(self, target):
        self._note("kill", target)

    def pause(self, target):
        self._note("pause", target)
        self.is_down = True

    def resume(self, target):
        self._note("resume", target)
        self.is_down = False

    def restart_broker(self):
        self._note("broker")

    def flush_redis(self):
        self._note("redis")

    def _note(self, *done):
        self.faults.append(done)

    def tend(self):
        if self.is_down:
            return
        found = []
        for source, position in self._inputs.items():
            for record in list(self._log.records(source))[position:]:
                stream = self._topics.index(source.topic)
                for number, row in enumerate(rows_of(record.value, [], None)):
                    found += self._answer(stream, row, (source.partition, record.offset, number))
                self._inputs[source] += 1
        if found:
            self._write(found)

    def _answer(self, stream, row, place):
        if self._query.name not in HOLDS and row["distance"] > FAR:
            self._refuse(stream, place)
            return []
        other = 0 if self._query.is_self else 1 - stream
        before = self._tuples[other]
        window = before[window_of(len(before), WINDOW, SLIDE)]
        known = [each for each in window if None not in each.values() and None not in row.values()]
        holds = HOLDS[self._query.name if self._query.name in HOLDS else "flights"]
        left = sum(holds(row, each) for each in known) if stream == 0 else 0
        right = sum(holds(each, row) for each in known) if other == 0 else 0
        declared = self._query.streams[stream]
        fields = {"seq": self._seq, "stream": declared.name, "key": str(row[declared.key]), "matches": left + right}
        if self._query.is_self:
            fields |= {"as_left": left, "as_right": right}
        self._tuples[stream].append(row)
        self._seq += 1
        return [self._harm(fields["seq"], fields)]

    def _refuse(self, stream, place):
        source = dict(zip(("source-partition", "source-offset", "source-row"), place, strict=True))
        self._append(f"{self._topics[stream]}.dlq", b"", {"reason": "overflow", **source})

    def _write(self, rows):
        value = ipc_bytes(pa.RecordBatch.from_pylist([row for row in rows if row is not None], self._schema))
        headers = {"frame": self._frame, "begin": 0, "end": len(rows), "last": 1}
        if self._sinks > 1:
            headers["sinks"] = self._sinks
        for _ in range(2):  # as after a restart
            self._append(f"{self._query.name}.results", value, headers, self._frame % self._sinks)
        self._frame += 1

    def _append(self, topic, value, headers, partition=0):
        writer = self._log.writer()
        encoded = tuple((f"spojoin-{name}", str(text).encode()) for name, text in headers.items())
        writer.append(LogPartition(topic, partition), value, encoded)
        writer.flush(1.0)


FAULTS = (
    Fault(0.05, FaultKind.KILL, "router"),
    Fault(0.1, FaultKind.PAUSE, "sink", 0.15),
    Fault(0.2, FaultKind.BROKER, "broker"),
    Fault(0.3, FaultKind.REDIS, "redis"),
    Fault(0.35, FaultKind.DELETE, "sink"),
)


def campaign(name="q3", rows=300, partitions=1, log=None, rules=None, notes=None, **options):
    """A campaign and its services."""
    harm, sinks = options.pop("harm", lambda _seq, row: row), options.pop("sinks", 1)
    query, log = query_of(name), log or MemoryLog()
    load = Load(LOADS[name], Arrivals(1_500.0), seed=3, rows=rows, partitions=partitions, **options)
    topics = [load.topic_of(stream.name) for stream in query.streams]
    log.create_topics(dict.fromkeys(topics, partitions))
    log.create_topics({f"{query.name}.results": sinks, **{f"{topic}.dlq": 1 for topic in topics}})
    services = Services(log, query, topics, harm, sinks)
    return Campaign(
        driver=services,
        log=log,
        new_sender=lambda: WriterSender(log.writer()),
        query=query,
        load=load,
        faults=FAULTS,
        rules=rules or Rules(20.0),
        note=[].append if notes is None else notes.append,
        show=lambda _: None,
    )


def test_results_of_several_sinks_are_judged_together_and_in_their_order():
    assert campaign(sinks=3).run().is_passed
    wrong = campaign(sinks=3, harm=lambda seq, row: row | {"matches": 7_777} if seq == 250 else row).run()
    assert wrong.divergences == 1


@pytest.mark.parametrize("message", [MessageFormat.ARROW, MessageFormat.JSON])
@pytest.mark.parametrize(("name", "partitions"), [("q1", 1), ("q1", 3), ("q3", 2), ("flights", 2)])
def test_correct_services_survive_everything(name, partitions, message):
    outcome = campaign(name, partitions=partitions, message=message, first=400).run()
    assert outcome.verdict.is_exact, outcome.verdict
    assert (outcome.survived, outcome.planned, outcome.divergences) == (5, 5, 0)
    assert outcome.is_passed
    assert outcome.rows == outcome.out == 300 * len(LOADS[name].streams)
    assert outcome.verdict.matches > 0
    assert outcome.verdict.resent > 0
    assert (outcome.verdict.rejected.get("overflow", 0) > 0) == (name == "flights")


def wrong_count(seq, row):
    return {**row, "as_left": row["as_left"] + 1, "matches": row["matches"] + 1} if seq in (100, 200) else row


def missing(seq, row):
    return None if seq == 100 else row


def wrong_key(seq, row):
    return {**row, "key": "17"} if seq == 100 else row


@pytest.mark.parametrize(("harm", "said"), [(wrong_count, "probe 100"), (missing, "100"), (wrong_key, "100")])
def test_wrong_results_are_divergences(harm, said):
    outcome = campaign(harm=harm).run()
    assert outcome.divergences >= 1
    assert not outcome.is_passed
    assert said in outcome.verdict.first_difference
    if harm is wrong_count:
        assert outcome.divergences == 2


def test_services_that_stop_neither_survive_nor_are_complete():
    notes = []
    made = campaign(rules=Rules(stall_s=0.5), notes=notes)
    tend, calls = made.driver.tend, itertools.count()

    def give_up():
        if next(calls) < 3:
            tend()

    made.driver.tend = give_up
    outcome = made.run()
    assert outcome.survived < outcome.planned
    assert outcome.divergences > 0
    assert outcome.verdict.completeness < 1
    assert any("stuck" in note for note in notes)


def test_earlier_rows_are_read_back_and_count():
    log = MemoryLog()
    first = campaign("flights", log=log, first=400)
    assert first.run().is_passed
    second = campaign("flights", rows=200, log=log, first=700)
    second.driver = first.driver
    outcome = second.run()
    assert outcome.is_passed, outcome.verdict
    assert outcome.rows == outcome.out == 200
    assert outcome.verdict.tuples + sum(outcome.verdict.rejected.values()) == 500


def test_an_error_that_prevents_a_fault_ends_the_campaign():
    made = campaign()

    def refuse(_):
        raise OSError("not allowed")

    made.driver.kill = refuse
    with pytest.raises(OSError, match="not allowed"):
        made.run()
