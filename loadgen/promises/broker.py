"""Section `broker`: what each service asks Kafka for, and how many bytes it exchanges with it, at a steady rate."""

from __future__ import annotations

from collections.abc import Iterator

from loadgen.bench.measurement import Measurement
from loadgen.load.figures import reported
from loadgen.promises.data import columns
from loadgen.promises.services import BUSY_RATE, WORKLOAD, paced, rows_of, tend
from loadgen.promises.serving import MeasuredServices, PacedProducer, Way, arrow_messages, fill, measured, prepared
from loadgen.promises.sizes import Context
from spojoin.local.cluster import local_cluster
from spojoin.protocol.packing import APART, TOGETHER
from spojoin.protocol.topology import Role

REQUESTS = "spojoin_kafka_requests_total"
SENT, RECEIVED = "spojoin_kafka_sent_bytes_total", "spojoin_kafka_received_bytes_total"
FRAMES, TUPLES = "spojoin_head_frames", "spojoin_tuples_total"


#: Each service's figures by name.
Seen = dict[str, dict[str, float]]


def measure(context: Context) -> Iterator[Measurement]:
    """Requests a frame and bytes a tuple of each service, apart and together, at the busy rate."""
    with local_cluster(context.say) as cluster:
        for packing in (APART, TOGETHER):
            with prepared(cluster, f"broker-{packing}", context.sizes, context.scratch, way=Way(packing)) as ready:
                data = columns(WORKLOAD, context.sizes.window)
                fill(ready.log, ready.input, arrow_messages(data))
                with measured(ready) as running:
                    context.say(f"services started, {packing}; filling the window")
                    running.tap.until(len(data), running.tend)
                    yield from _figures(context, running, packing)


def _figures(context: Context, running: MeasuredServices, packing: str) -> Iterator[Measurement]:
    messages = paced(context, columns(WORKLOAD, context.sizes.window), BUSY_RATE)
    context.say(f"{BUSY_RATE:,.0f} tuples/s, {packing}")
    began, settled = running.tap.tuples, round(context.sizes.settle_s * BUSY_RATE)
    seen = []
    with PacedProducer(running.prepared.log.writer(), running.prepared.input, messages) as producer:
        for wanted in (settled, len(messages) * rows_of(BUSY_RATE)):
            running.tap.until(began + wanted, lambda: tend(running, producer))
            seen.append(_seen(running))
    yield from _between(packing, *seen)


def _seen(running: MeasuredServices) -> Seen:
    """Each service's figures, some of which are up to two seconds old."""
    return {each.name: reported(each.port) for each in running.supervisor.services().values()}


def _between(packing: str, before: Seen, after: Seen) -> Iterator[Measurement]:
    """What happened from one look to the next."""

    def grown(service: str, name: str) -> float:
        return after[service][name] - before[service][name]

    router = next(each for each in after if each in (Role.ROUTER, TOGETHER))
    frames, tuples = grown(router, FRAMES), grown(router, TUPLES)
    yield Measurement(f"{packing}: tuples of a frame", tuples / frames, "tuples", note=f"{frames:,.0f} frames")
    requests, exchanged = 0.0, 0.0
    for service in after:
        asked, sent, received = (grown(service, name) for name in (REQUESTS, SENT, RECEIVED))
        requests, exchanged = requests + asked, exchanged + sent + received
        note = f"{sent / tuples:.1f} bytes a tuple sent, {received / tuples:.1f} received"
        yield Measurement(f"{packing}, {service}: requests", asked / frames, "a frame", note=note)
    note = f"{exchanged / tuples:.0f} bytes a tuple, both ways"
    yield Measurement(f"{packing}: requests of all services", requests / frames, "a frame", note=note)
