"""The rows of a select list know which row answered, and its trace, whichever side it stands on."""

import numpy as np
import pyarrow as pa
import pytest

from spojoin.model import TRACE
from spojoin.roles.sink.history import HeldRows, History
from spojoin.roles.sink.pairs import SeqPairs


def history(traces):
    """The rows of a stream by seq, with their traces."""
    traces = dict(sorted(traces.items()))
    made = History(has_keys=False)
    seqs, texts = np.array(list(traces)), pa.array(list(traces.values()), pa.string())
    made.append_rows(0, HeldRows(seqs, None, pa.record_batch({TRACE: texts})))
    return made


#: (probe, left, right), in the order of results: either side answers.
PAIRS = [(2, 2, 1), (3, 0, 3), (3, 2, 3), (4, 4, 1), (4, 4, 3)]
LEFT, RIGHT = {0: "a", 2: None, 4: "e"}, {1: "b", 3: "d"}


def traces(histories, pairs):
    columns = [np.array([pair[at] for pair in pairs], np.int64) for at in range(3)]
    return SeqPairs(columns[1], columns[2], histories).traces(columns[0]).to_pylist()


@pytest.mark.parametrize("count", range(len(PAIRS) + 1))
def test_two_streams(count):
    found = traces([history(LEFT), history(RIGHT)], PAIRS[:count])
    assert found == [{**LEFT, **RIGHT}[probe] for probe, _, _ in PAIRS[:count]]


def test_one_stream():
    assert traces([history({**LEFT, **RIGHT})], PAIRS) == [{**LEFT, **RIGHT}[probe] for probe, _, _ in PAIRS]
