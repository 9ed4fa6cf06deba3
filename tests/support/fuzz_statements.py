"""Draw statements, corrupt two of three, and compare the product's answers with the oracle's.

    python -m tests.support.fuzz_statements --seed 1 --count 100000

prints every finding with its seed; the exit status is 1 if there is one. A seed alone reproduces its case, regardless
of the range: `--seed N --count 1 --show`.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random

from tests.support.statement_draw import DrawnStatement, draw_statement
from tests.support.statement_mutants import spoilt
from tests.support.statement_oracle import StatementOracle
from tests.support.statement_shrink import as_script, shrunk
from tests.support.statement_streams import by_join, by_roles
from tests.support.statement_tables import DrawnTable, draw_tables
from tests.support.statement_verdict import Answer, Finding, Verdict, by_sql, judged

#: How many statements share tables, since reading these takes longer than a statement.
_SHARED = 16


@dataclass(frozen=True, slots=True)
class Case:
    """A seed's statement, and whether its text was corrupted."""

    seed: int
    statement: DrawnStatement
    is_spoilt: bool


def case(seed: int) -> Case:
    """The statement of a seed: every third one as the grammar gives it, the others corrupted."""
    rng = Random(f"statement {seed}")
    tables = _tables(seed // _SHARED)
    statement = draw_statement(rng, tables)
    if seed % 3 == 0:
        return Case(seed, statement, False)
    return Case(seed, replace(statement, text=spoilt(rng, statement.text)), True)


def verdict(seed: int) -> Verdict:
    """The verdict on a seed's statement, run by `spojoin.sql`, as a query file, or by the services' machines."""
    drawn = case(seed)
    time_columns = tuple(sorted(drawn.statement.time.items()))
    return judged(drawn.statement, _oracle(seed // _SHARED, time_columns), not drawn.is_spoilt, _answer(seed))


def _answer(seed: int) -> Answer:
    return (by_sql, by_join, by_roles, by_roles)[seed // 3 % 4]


@lru_cache(maxsize=4)
def _tables(number: int) -> tuple[DrawnTable, ...]:
    rng = Random(f"tables {number}")
    return draw_tables(rng, rng.choice([1, 1, 2]))


@lru_cache(maxsize=4)
def _oracle(number: int, time_columns: tuple[tuple[str, str], ...]) -> StatementOracle:
    return StatementOracle({each.name: each.table for each in _tables(number)}, dict(time_columns))


def smallest(seed: int) -> DrawnStatement:
    """The seed's statement, made as small as its finding allows."""
    drawn, first = case(seed), verdict(seed).finding
    assert first is not None
    answer = _answer(seed)

    def fails(statement: DrawnStatement) -> bool:
        oracle = StatementOracle({each.name: each.table for each in statement.tables}, statement.time)
        found = judged(statement, oracle, not drawn.is_spoilt, answer).finding
        return found is not None and _signature(found) == _signature(first)

    return shrunk(drawn.statement, fails)


def _signature(finding: Finding) -> str:
    """The part of a finding that must stay while its statement is made smaller."""
    if finding.kind == "crash":
        return finding.text.rstrip().rpartition("\n")[2].split("'")[0]
    return re.sub(r"'[^']*'|\d+", "", finding.text) if finding.kind == "refused" else finding.kind


def findings(seeds: range, counts: Counter[str]) -> Iterator[tuple[int, Verdict]]:
    """The cases with a finding; `counts` counts all outcomes."""
    for seed in seeds:
        found = verdict(seed)
        counts[found.outcome if found.finding is None else f"finding: {found.finding.kind}"] += 1
        if found.finding is not None:
            yield seed, found


def main() -> int:
    """Run the command; the number of findings decides the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--show", action="store_true", help="print every statement, and undecided answers")
    parser.add_argument("--shrink", action="store_true", help="print every finding's statement made small as well")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    begin = time.perf_counter()
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    if arguments.show:
        for seed in seeds:
            print(f"--- {seed}\n{case(seed).statement.text}")
    for seed, found in findings(seeds, counts):
        assert found.finding is not None
        print(f"--- seed {seed}: {found.finding.kind}\n{case(seed).statement.text}\n=> {found.finding.text}\n")
        if arguments.shrink:
            print(f"{as_script(smallest(seed))}\n", flush=True)
    print(f"{arguments.count:,} statements in {time.perf_counter() - begin:,.0f} s: {dict(counts)}")
    return int(any(name.startswith("finding") for name in counts))


if __name__ == "__main__":
    sys.exit(main())
