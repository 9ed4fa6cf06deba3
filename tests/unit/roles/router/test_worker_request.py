"""Which worker count the router takes: the newest, unless it is too large."""

from __future__ import annotations

import pytest

from spojoin.errors import ConfigurationError
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.machine import WorkerRequest
from spojoin.wire.records import WorkerCount


def heard(*counts):
    said = []
    request = WorkerRequest(RouterConfig("r", workers=2, workers_max=4), said.append)
    for count in counts:
        request.accept_count(WorkerCount(*count))
    return request.workers, said


def test_the_setting_holds_until_a_request():
    assert heard() == (2, [])


def test_the_largest_version_wins_and_of_equal_ones_the_first():
    assert heard((1, 3), (2, 1))[0] == 1
    assert heard((2, 1), (1, 3))[0] == 1
    assert heard((2, 1), (2, 3))[0] == 1


def test_too_large_a_count_is_refused_with_a_sentence():
    workers, (sentence,) = heard((1, 3), (2, 5))
    assert workers == 3
    assert sentence.startswith("request 2 for 5 workers is refused, 3 stay: workers_max is 4")


def test_a_count_that_was_overtaken_by_a_refused_one_stays_overtaken():
    assert heard((2, 5), (1, 3))[0] == 2


def test_an_initial_setting_above_the_limit_is_refused():
    with pytest.raises(ConfigurationError, match="raise workers_max"):
        RouterConfig("r", workers=5, workers_max=4)
