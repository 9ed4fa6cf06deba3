"""Cases that users report, sent through Kafka and all services."""

from __future__ import annotations

from pathlib import Path

import pytest

from spojoin.local.cluster import LocalCluster
from tests.support.cases import Case, canonical, cases, names_of, query_text, write_inputs
from tests.support.long import long_only
from tests.support.served import send, served

pytestmark = pytest.mark.integration

CASES = [case for case in cases() if "kafka" in case.doors]


def one_of_each_kind() -> list[object]:
    """The first case of each folder; the others are long."""
    kinds: set[str] = set()
    found: list[object] = []
    for case in CASES:
        kind = case.name.partition("/")[0]
        found.append(long_only(case) if kind in kinds else case)
        kinds.add(kind)
    return found


@pytest.mark.parametrize("case", one_of_each_kind(), ids=lambda case: case.name)
def test_services_answer_what_was_sent(
    cluster: LocalCluster, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_inputs(case, tmp_path)
    text, answer = query_text(case, case.statements[0], "case-" + case.name.replace("/", "-")), case.answer or []
    columns = list(answer[0])
    with served(cluster, tmp_path, text, 1, {}, columns=columns, packing="together") as running:
        streams = {stream.name for stream in running.query.inputs if stream.table is None}
        files = [f"--input={name}={file}" for name, file in names_of(case).items() if name in streams]
        sent = send(running, cluster, *files)
        assert sent.returncode == bool(case.rejected), sent.stdout + sent.stderr
        running.until(lambda: len(running.output.rows) >= len(answer), lambda: f"{running.output.rows}")
    rows = [dict(zip(columns, row, strict=True)) for row in running.output.rows]
    assert canonical(rows) == canonical(answer)
