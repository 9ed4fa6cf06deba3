"""The records of the generations topic determine the served generation, whoever wrote them and however often."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from spojoin.protocol.generations import CLAIM, Generations
from spojoin.wire.records import Announcement, SourcePosition, Takeover


def announcement(number: int, mark: int = 7) -> Announcement:
    return Announcement(number, mark, "text", "window")


def takeover(number: int, before: int) -> Takeover:
    return Takeover(number, before, {(0, 0): SourcePosition(number, 0, 5)}, (3,), {"late": 1})


def heard(*records: Announcement | Takeover) -> tuple[Generations, list[bool]]:
    found = Generations()
    return found, [found.accept_record(record) for record in records]


def claim(owner: str, adopts: str = "") -> Announcement:
    return Announcement(CLAIM, 0, "", "", owner=owner, adopts=adopts)


def test_the_first_that_says_whose_query_it_is_has_its_name():
    found, counts = heard(announcement(1), claim("a"), claim("b"), replace(announcement(2), owner="b"), claim("a"))
    assert counts == [True, True, False, False, True]
    assert (found.owner, found.next_number, found.wanted) == ("a", 2, announcement(1))


def test_a_name_is_adopted_from_its_owner_once():
    found, counts = heard(replace(announcement(1), owner="a"), claim("b", "a"), claim("c", "a"), claim("a", "c"))
    assert counts == [True, True, False, False]
    assert (found.owner, found.current_number, found.next_number) == ("b", 1, 2)


def test_nothing_is_served_before_an_announcement():
    found, _ = heard()
    assert (found.current, found.wanted, found.takeover, found.next_number) == (None, None, None, 1)


def test_the_first_generation_begins_at_once_and_later_ones_at_their_takeover():
    found, counts = heard(announcement(1), announcement(2, 8))
    assert counts == [True, True]
    assert (found.current, found.wanted) == (announcement(1), announcement(2, 8))
    assert found.accept_record(takeover(2, 1))
    assert found.current == found.wanted == announcement(2, 8)
    assert found.takeover == takeover(2, 1)


def test_of_two_simultaneous_announcements_the_first_gets_the_number():
    found, counts = heard(announcement(1), announcement(2, 8), announcement(2, 9))
    assert counts == [True, True, False]
    assert found.announced(2).fingerprint == 8


def test_an_announcement_that_skips_a_number_does_not_count():
    found, counts = heard(announcement(1), announcement(3))
    assert counts == [True, False]
    assert found.next_number == 2


def test_a_takeover_counts_once_and_only_from_the_generation_that_answers():
    found, counts = heard(
        announcement(1),
        takeover(2, 1),
        announcement(2),
        announcement(3),
        takeover(3, 2),
        takeover(2, 1),
        takeover(2, 1),
    )
    assert counts == [True, False, True, True, False, True, False]
    assert found.current_number == 2


def test_generations_follow_one_another():
    found, counts = heard(announcement(1), announcement(2), announcement(3), takeover(3, 1), takeover(2, 1))
    assert counts == [True, True, True, False, True]
    assert (found.current_number, found.takeover) == (2, takeover(2, 1))
    assert found.successor == announcement(3)


@given(
    st.lists(
        st.builds(announcement, st.integers(1, 4), st.integers(1, 3))
        | st.builds(takeover, st.integers(1, 4), st.integers(1, 4)),
        max_size=12,
    )
)
def test_the_answering_generation_only_grows_and_never_exceeds_the_announced(records):
    found, last = Generations(), 1
    for record in records:
        before = found.current_number, found.next_number
        assert found.accept_record(record) == ((found.current_number, found.next_number) != before)
        assert last <= found.current_number <= max(1, found.next_number - 1)
        last = found.current_number
