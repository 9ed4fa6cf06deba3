"""Section `frames`: ratios of frames' times, and counts that don't depend on the size of frames."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from loadgen.bench.sections import SectionContext
from loadgen.promises import frames
from loadgen.promises.data import check_counts, columns
from loadgen.promises.frames import LARGE, SMALL, FrameStream
from loadgen.promises.sizes import QUICK

TINY = replace(QUICK, window=3_000, slide_after=8_000)


def test_frames_of_any_size_count_what_a_scan_finds() -> None:
    data, window = columns("uniform", 10_000), 2_000
    for rows in (SMALL, LARGE):
        stream = FrameStream(window, rows)
        stream.feed(data.table())
        check_counts(data, window, window // 10, stream.end(), 20)


def test_other_counts_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end = FrameStream.end
    ends = iter(range(3))
    monkeypatch.setattr(FrameStream, "end", lambda stream: end(stream).slice(next(ends)))
    with pytest.raises(ValueError, match="other counts in frames of"):
        list(frames.measure(SectionContext(TINY, tmp_path, tmp_path, lambda _: None)))
