"""The judge of statements tells right answers from wrong ones, and sentences from what programs print."""

import pyarrow as pa
import pytest

from spojoin.errors import QueryError
from tests.support.statement_draw import DrawnStatement
from tests.support.statement_oracle import StatementOracle
from tests.support.statement_tables import DrawnTable, Field
from tests.support.statement_verdict import judged

TABLE = pa.table({"a": pa.array([1, 2, 3], pa.int32()), "s": ["x", None, "y"]})
TRIPS = DrawnTable("trips", (Field("a", "int"), Field("s", "string")), "", TABLE)
TEXT = "SELECT l.a, r.s AS t FROM trips AS l JOIN trips AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '5')"
RIGHT = pa.table({"a": pa.array([1, 1, 2], pa.int32()), "t": [None, "y", "y"]})


def judge(made, text=TEXT, must_answer=True):
    """The verdict where the product answers `made`, a table or an error."""

    def answer(_statement):
        if isinstance(made, Exception):
            raise made
        return made

    return judged(DrawnStatement(text, (TRIPS,), {}), StatementOracle({"trips": TABLE}), must_answer, answer)


def test_the_right_answer_is_right():
    assert judge(RIGHT).finding is None


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (RIGHT.slice(1), "rows"),
        (RIGHT.take([1, 0, 2]), "rows"),
        (pa.concat_tables([RIGHT, RIGHT.slice(2)]), "rows"),
        (RIGHT.rename_columns(["a", "T"]), "names"),
        (RIGHT.set_column(0, "a", RIGHT["a"].cast(pa.int64())), "types"),
        (RIGHT.select(["a"]), "names"),
        (KeyError("a"), "crash"),
        (QueryError("strings can't be ordered"), "refused"),
        (QueryError("KeyError('a') was raised"), "message"),
        (QueryError(""), "message"),
    ],
)
def test_anything_else_is_a_finding(made, kind):
    assert judge(made).finding.kind == kind


def test_a_spoilt_statement_may_be_refused():
    assert judge(QueryError("strings can't be ordered"), must_answer=False).finding is None


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("l.a,", "random(),"),
        TEXT.replace("l.a,", "count(*),"),
        TEXT.replace("l.a,", "l,"),
        TEXT.replace("l.a <", "l.nosuch <"),
        TEXT.replace("JOIN", "NATURAL JOIN"),
        TEXT.replace("WINDOW", "GROUP BY 1 WINDOW"),
        TEXT.replace("l.a <", '"L"."A" <'),
        TEXT.replace("WINDOW", "AND 1 = 0 WINDOW"),
        TEXT.replace("WINDOW", "AND EXISTS (SELECT 1) WINDOW"),
    ],
)
def test_what_no_statement_can_say_must_be_refused(text):
    assert judge(RIGHT, text).finding.kind == "accepted"
