"""Numbers of texts: one a value as long as a window reaches it, never another's, and the same after a restart."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from spojoin.query.load import parse_query
from spojoin.roles.router import value_numbers
from spojoin.roles.router.value_numbers import ValueNumbers

QUERIES = {"one stream": "a AS l JOIN a AS r", "two streams": "a AS l JOIN b AS r"}
TEXT = """
name: q
streams:
  a: {{schema: {{s: string, x: long}}}}
  b: {{schema: {{s: string, x: long}}}}
sql: SELECT * FROM {sides} ON l.s = r.s AND l.x < r.x WINDOW AS (SLIDE INTERVAL '1' ON '9')
order: arrival
output: count
"""


@dataclass
class Slice:
    """Rows of one stream from index `first` on: their texts, and the numbers that the log has for them."""

    stream: int
    first: int
    texts: list[str]
    codes: list[int]


class Log:
    """A router's numbering of frames drawn at random, as its log would have it."""

    def __init__(self, random: Random, sides: str) -> None:
        text = TEXT.format(sides=sides)
        if "b AS r" not in sides:
            text = text.replace("  b: {schema: {s: string, x: long}}\n", "")
        self.query = parse_query(text)
        self.random = random
        self.names = ValueNumbers(self.query)
        self.slot = next(k for k, key in enumerate(self.query.streams[0].keys) if key.text.endswith("s"))
        self.slices: list[Slice] = []
        self.ends = [0] * len(self.query.streams)
        self.seq = 0

    def frame(self) -> None:
        self.names.begin_frame(self.seq)
        for stream in range(len(self.ends)):
            # values come in waves, so that some are forgotten, and met again
            low = self.random.choice([0, self.seq // 7, self.seq // 7])
            texts = [f"t{self.random.randrange(low, low + 9)}" for _ in range(self.random.randrange(8))]
            codes = self.numbered(self.names, stream, texts)
            self.slices.append(Slice(stream, self.ends[stream], texts, codes))
            self.ends[stream] += len(texts)
            self.seq += len(texts)
        self.names.forget_unreached(self.lower())

    def numbered(self, by: ValueNumbers, stream: int, texts: list[str]) -> list[int]:
        nothing = tuple(np.zeros(len(texts), np.int64) for _ in self.query.streams[stream].keys)
        return by.number_codes(stream, nothing, payload(texts), self.ends[stream])[self.slot].tolist()

    def lower(self) -> list[int]:
        return [max(0, end - 9) for end in self.ends]

    def reached(self) -> dict[str, int]:
        """The texts that windows reach, and their numbers, by looking at each row."""
        found: dict[str, int] = {}
        for each in self.slices:
            for index, (text, code) in enumerate(zip(each.texts, each.codes, strict=True), each.first):
                if index >= self.lower()[each.stream]:
                    assert found.setdefault(text, code) == code
        return found


def payload(texts: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"s": pa.array(texts, pa.string())})


@pytest.fixture(autouse=True)
def sweeps_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_numbers, "SWEEP_MIN", 8)


@pytest.mark.parametrize("sides", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("seed", range(12))
def test_a_text_has_one_number_and_a_number_one_text(seed: int, sides: str) -> None:
    log = Log(Random(seed), sides)
    texts: dict[int, str] = {}
    for _ in range(80):
        log.frame()
        log.reached()
        for each in log.slices[-len(log.ends) :]:
            for text, code in zip(each.texts, each.codes, strict=True):
                assert texts.setdefault(code, text) == text
    assert len(log.names) <= 4 * 18 + 9, "texts that no window reaches are forgotten in time"
    assert len(texts) > len(set(texts.values())), "some were forgotten and met again"


@pytest.mark.parametrize("sides", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("seed", range(12))
def test_a_restart_learns_the_numbers_from_slices_in_any_order(seed: int, sides: str) -> None:
    random = Random(seed)
    log = Log(random, sides)
    for _ in range(random.randrange(10, 60)):
        log.frame()
    needed = [s for s in log.slices if s.first + len(s.texts) > log.lower()[s.stream]]
    older = random.sample(log.slices, len(log.slices) // 3)  # batches that no window needs may still be there
    taught = [*needed, *older, *random.sample(needed, len(needed) // 2)]
    random.shuffle(taught)
    restarted = ValueNumbers(log.query)
    for each in taught:
        codes = [np.zeros(len(each.texts), np.int64) for _ in log.query.streams[each.stream].keys]
        codes[log.slot] = np.array(each.codes, np.int64)
        restarted.learn_numbers(each.stream, codes, payload(each.texts), each.first)
        if random.random() < 0.3:
            restarted.forget_unreached(log.lower())
    restarted.begin_frame(log.seq)
    reached = log.reached()
    used = {code for each in log.slices for code in each.codes}
    asked = [*reached, *(f"new{k}" for k in range(5))]
    random.shuffle(asked)
    for text, code in zip(asked, log.numbered(restarted, 0, asked), strict=True):
        assert code == reached[text] if text in reached else code not in used


def test_nothing_to_number_changes_nothing() -> None:
    log = Log(Random(1), QUERIES["one stream"])
    assert log.numbered(log.names, 0, []) == []
    log.names.learn_numbers(0, [np.empty(0, np.int64)] * 2, payload([]), 0)
    log.names.forget_unreached([5])
    assert len(log.names) == 0
    assert log.numbered(log.names, 0, ["x", "y", "x"]) == [0, 1, 0]
