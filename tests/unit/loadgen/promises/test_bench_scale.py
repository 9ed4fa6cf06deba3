"""The works of section `scale` are judged by scans; keys are spread; a column of a wide window is a worker's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from loadgen.promises import wide, works
from loadgen.promises.recording import Recording, Release, ScaleWork, as_written, recorded
from loadgen.promises.sizes import QUICK
from loadgen.promises.spreading import with_spread_keys
from loadgen.promises.wide import WideWindow
from spojoin.embedded.engine import Engine
from spojoin.model import Query
from spojoin.protocol.grid import Grid, Share
from spojoin.protocol.machine import START, Emit
from spojoin.protocol.topology import Topic
from spojoin.roles.pojoin.machine import PoJoinMachine
from spojoin.wire.codec import decode
from spojoin.wire.records import Frame, Part

SMALL = replace(QUICK, window=2_000, window_small=1_000, services_after=6_000)
#: By work, a column of its results that a scan must contradict when it is changed.
WORKS = {
    works.plain: "as_left",
    works.three_ranges: "as_right",
    works.pairs: "other",
    works.greatest: "greatest",
    works.by_key: "as_left",
}


def results_of(work: ScaleWork) -> pa.Table:
    engine = Engine(work.query())
    batches = [found for batch in work.rows.to_batches(500) for found in engine.feed(0, batch)]
    return pa.Table.from_batches([*batches, *engine.finish()])


@pytest.mark.parametrize(("make", "column"), WORKS.items(), ids=lambda each: getattr(each, "__name__", each))
def test_a_scan_confirms_right_results_and_refuses_wrong_ones(make, column):
    work = make(SMALL)
    found = results_of(work)
    assert found.num_rows
    work.check(found)
    at = found.column_names.index(column)
    wrong = pa.array(found[column].to_numpy() + 1)
    with pytest.raises(AssertionError):
        work.check(found.set_column(at, column, wrong))


def test_a_row_has_about_as_many_pairs_as_is_said():
    sizes = replace(SMALL, window_small=4_000, services_after=10_000)
    work = works.pairs(sizes)
    found = results_of(work)
    later = np.maximum(found["one"].to_numpy(), found["other"].to_numpy())
    full = later >= work.before
    assert 0.5 < full.sum() / (len(work.rows) - work.before) / works.PARTNERS < 1.5


def parts_of(query: Query, run: Recording, release: Release, worker: int) -> list[Part]:
    """What a worker of a release says of a recorded run."""
    machine = PoJoinMachine(query, worker, START)
    given = []
    for is_measured in (False, True):
        for topic in (Topic.FRAMES, Topic.BATCHES):
            given += [(topic, each) for each in run.part_of(topic, is_measured=is_measured)]
    found = []
    for offset, (topic, record) in enumerate(given):
        for action in machine.on_record(topic, 0, offset, decode(as_written(record, release).value)):
            if isinstance(action, Emit) and isinstance(action.record, Part):
                found.append(action.record)
    return found


def test_columns_by_key_with_hot_keys_find_together_what_one_column_finds():
    sizes = replace(SMALL, window=60_000, services_after=400_000)
    work = works.by_key(sizes)
    run, release = recorded(work), Release(Grid(1, 4, by_key=True))
    spread = with_spread_keys(run, work.query(), release.grid)
    frames = [each for each in spread.records[Topic.FRAMES] if isinstance(each, Frame)]
    assert not frames[0].spread
    assert frames[-1].spread
    one = parts_of(work.query(), run, Release(Grid(1, 1)), 0)
    each = [parts_of(work.query(), spread, release, number) for number in range(4)]
    for number, whole in enumerate(one):
        for direction, matches in enumerate(whole.directions):
            assert np.array_equal(sum(of[number].directions[direction].counts for of in each), matches.counts)


@pytest.fixture
def window(monkeypatch):
    monkeypatch.setattr(wide, "FRAMES", 8)
    monkeypatch.setattr(wide, "FRAMES_BEFORE", 3)
    return WideWindow(replace(SMALL, wide_batches=90), Share(0, 8))


def test_a_column_of_a_wide_window_counts_what_a_scan_of_its_tuples_counts(window):
    parts = parts_of(window.work.query(), window.run, Release(Grid(1, 8)), 0)
    assert len(parts) == 8
    window.check(parts[-1])
    assert window.stored == 10 * wide.BATCH  # batches 16, 24 and so on up to 88, of those from 9 to 90
    counts = parts[-1].directions[0].counts
    wrong = replace(parts[-1].directions[0], counts=counts + 1)
    with pytest.raises(AssertionError):
        window.check(replace(parts[-1], directions=(wrong, parts[-1].directions[1])))
