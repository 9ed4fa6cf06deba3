"""The measurement of PPOIJ's patterns, on few rows."""

from loadgen.papers.patterns import HEADS, PATTERNS, main


def test_a_row_for_each_pattern(capsys):
    main(["--workers", "2", "--keys", "5", "--skew", "1.0", "--interval-ms", "50", "--tuples", "4000"])
    head, _, *rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert head == list(HEADS)
    assert [row[1].strip("`").split()[0] for row in rows] == [name for name, _ in PATTERNS]
    cell = {head: [row[HEADS.index(head)] for row in rows] for head in HEADS}
    assert set(cell["completeness"]) == {"1.000"}
    assert cell["messages a tuple"][:2] == ["1.0", "2.0"]
