"""Section `frames`: ratios of frames' times, and counts that don't depend on the size of frames."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from loadgen.promises import frames
from loadgen.promises.context import Context
from loadgen.promises.data import columns
from loadgen.promises.frames import LARGE, MIDDLE, SMALL, FrameStream, figures
from loadgen.promises.sizes import QUICK
from loadgen.promises.window import check_counts

TINY = replace(QUICK, window=3_000, slide_after=8_000)


def test_ratios_are_of_a_frame_and_of_rates() -> None:
    pieces = [{SMALL: 3.2, MIDDLE: 0.4, LARGE: 0.2}, {SMALL: 6.4, MIDDLE: 0.8, LARGE: 0.4}]
    small, middle = figures(pieces, LARGE)
    assert small.value == pytest.approx(3.2 / 64 / 0.2)
    assert middle.value == pytest.approx(0.5)
    assert small.bar is not None
    assert middle.bar is not None
    assert not small.bar.is_met(small.value)
    assert small.bar.is_met(0.04)
    assert middle.bar.is_met(0.6)
    assert small.note == "median of 2 pairs; 75 and 300 ms a frame"


def test_frames_of_any_size_count_what_a_scan_finds() -> None:
    data, window = columns("uniform", 10_000), 2_000
    for rows in (SMALL, LARGE):
        stream = FrameStream(window, rows)
        stream.feed(data.table())
        check_counts(data, window, window // 10, stream.end(), 20)


def test_all_sizes_are_measured(tmp_path: Path) -> None:
    measured = list(frames.measure(Context(TINY, tmp_path, lambda _: None)))
    assert [each.unit for each in measured] == ["times", "times"]


def test_other_counts_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end = FrameStream.end
    ends = iter(range(3))
    monkeypatch.setattr(FrameStream, "end", lambda stream: end(stream).slice(next(ends)))
    with pytest.raises(ValueError, match="other counts in frames of"):
        list(frames.measure(Context(TINY, tmp_path, lambda _: None)))
