"""Packets go out when due, whatever happens to earlier ones."""

import threading

import pytest

from loadgen.load.open_loop import BEHIND_S, OpenLoop, Packet
from spojoin.ports.interfaces import LogPartition

HERE = LogPartition("t", 0)
PATIENCE_S = 60


class Sent:
    """A sender that records; it first calls `before` with what was sent so far."""

    def __init__(self, before=lambda sent: None):
        self.packets = []
        self.is_closed = self.is_flushed = False
        self._before = before

    def send(self, target, values, timestamp_ms):
        self._before(self.packets)
        self.packets.append((target, list(values), timestamp_ms))

    def flush(self, timeout_s):
        self.is_flushed = True

    def close(self):
        self.is_closed = True


def packets(count, apart_s):
    return (Packet(number * apart_s, HERE, [b"%d" % number], 1) for number in range(count))


def test_messages_carry_their_due_time():
    sender = Sent()
    with OpenLoop(sender, packets(20, 0.002)) as loop:
        loop.wait(PATIENCE_S)
    assert [values for _, values, _ in sender.packets] == [[b"%d" % number] for number in range(20)]
    assert [at for *_, at in sender.packets] == [round((loop.began_s + n * 0.002) * 1000) for n in range(20)]
    assert (loop.rows, loop.messages) == (20, 20)
    assert loop.ended_s >= loop.began_s + 19 * 0.002
    assert sender.is_flushed
    assert sender.is_closed


def test_a_slow_receiver_delays_messages_but_drops_none_and_keeps_the_schedule():
    held = threading.Event()
    warnings = []

    def hold(sent):
        if len(sent) == 1:
            held.wait(1.3 * BEHIND_S)

    sender = Sent(hold)
    with OpenLoop(sender, packets(300, 0.001), warnings.append) as loop:
        loop.wait(PATIENCE_S)
    assert len(sender.packets) == 300
    assert [at for *_, at in sender.packets] == [round((loop.began_s + n * 0.001) * 1000) for n in range(300)]
    assert loop.behind_s_max > BEHIND_S
    assert len(warnings) == 1
    assert "can't hold this rate" in str(warnings[0])
    assert "2 rows" in str(warnings[0])


def test_waiting_raises_the_error_that_ended_the_loop():
    def broken(_):
        raise OSError("no room")

    with OpenLoop(Sent(broken), packets(5, 0.001)) as loop, pytest.raises(OSError, match="no room"):
        loop.wait(PATIENCE_S)
    assert loop.rows == 0
