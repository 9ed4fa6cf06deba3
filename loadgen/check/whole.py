"""How much of a check a nested loop does, and how much a history on Spark: every result row, beside a drawn sample."""

from __future__ import annotations

import enum
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from loadgen.check.history import compared_pairs, history_batches, planned_history
from loadgen.check.judging import ALL, ProbeSample
from loadgen.check.ordered_rows import OrderedOutcome, RowComparison
from loadgen.check.ordering import StreamRows
from loadgen.check.result_files import result_batches
from loadgen.check.verdict import Verdict
from spojoin.errors import BadData, ConfigurationError
from spojoin.model import EmitOn, Query

#: Beyond so many pairs a history compares every row. A loop that only counts takes four minutes for them on two cores.
LOOP_PAIRS = 2_000_000_000_000
#: Probes that are recomputed by the loop beside a history.
SAMPLE_PROBES = 10_000


class CheckWay(enum.StrEnum):
    """How every result is checked."""

    LOOP = "loop"
    HISTORY = "history"


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """What is checked: by which way, None for the loop as long as that is quick enough; sample: what the loop takes."""

    sample: ProbeSample = ALL
    way: CheckWay | None = None

    @property
    def may_need_history(self) -> bool:
        """Whether a history may be due."""
        return self.way is CheckWay.HISTORY or (self.way is None and self.sample.probes is None)

    def needs_history(self, query: Query, inputs: Sequence[StreamRows]) -> bool:
        """Whether one is; of a table there is none, so that one is only asked for."""
        if self.way is None and query.has_table:
            return False
        return self.may_need_history and (self.way is CheckWay.HISTORY or compared_pairs(query, inputs) > LOOP_PAIRS)

    def beside_history(self) -> ProbeSample:
        """The sample that the loop takes beside a history."""
        return self.sample if self.sample.probes is not None else ProbeSample(SAMPLE_PROBES, self.sample.seed)


#: Everything, by the loop as long as that is quick enough.
EVERYTHING = CheckPlan()


@dataclass(frozen=True, slots=True)
class WholeOutcome:
    """What a history said; `refused` says why there is none, else None."""

    rows: OrderedOutcome | None
    refused: str | None = None

    def note(self, verdict: Verdict) -> None:
        """Into the verdict, behind what the loop found."""
        verdict.checked = self._words(verdict)
        if self.rows is None:
            return
        found = self.rows
        verdict.history_rows = found.found
        verdict.rows_expected += found.expected
        verdict.rows_right += found.right
        verdict.false_positives += found.surplus
        verdict.misordered += found.misordered
        if found.first is not None:
            verdict.differs(f"a history by Spark: {found.first}")

    def _words(self, verdict: Verdict) -> str:
        probes = f"{verdict.probes_checked:,} of {verdict.tuples:,} probes by a nested loop"
        if self.rows is not None:
            return f"every one of {self.rows.found:,} result rows by a history on Spark, and {probes}"
        return probes if self.refused is None else f"{probes}; no history on Spark: {self.refused}"


#: Where nobody asked for one.
NO_HISTORY = WholeOutcome(None)


def by_history(
    spark: SparkSession, query: Query, inputs: Sequence[StreamRows], messages: DataFrame, plan: CheckPlan
) -> WholeOutcome:
    """Compare all results in `messages` with the history of the inputs' rows that were not refused.

    messages: with the columns RESULT_MESSAGE

    Raises ConfigurationError where a history was asked for and there can be none; else the outcome says why.
    """
    with tempfile.TemporaryDirectory(prefix="spojoin-check-") as name:
        folder = Path(name)
        try:
            expected = history_batches(planned_history(spark, query, inputs, folder), folder / "history")
            goes_on = query.emit is EmitOn.CLOSE  # services at rest leave open what later rows may still join
            return WholeOutcome(RowComparison(goes_on=goes_on).compare(expected, result_batches(messages, folder)))
        except (ConfigurationError, BadData) as error:
            if plan.way is CheckWay.HISTORY:
                raise
            return WholeOutcome(None, str(error))
