"""The table of layouts has a row for each, all of them complete."""

from loadgen.papers.layout_table import HEADS, main
from loadgen.papers.layouts.catalog import LAYOUTS


def test_every_layout_is_measured(capsys):
    main(["--workers", "2", "--window", "200", "--tuples", "2000"])
    heads, _, *rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()
    ]
    assert heads == list(HEADS)
    assert [row[0] for row in rows] == [f"`{name}`" for name in LAYOUTS]
    assert {row[HEADS.index("completeness")] for row in rows} == {"1.000"}
    messages = {row[0]: row[HEADS.index("messages a tuple")] for row in rows}
    assert messages["`scale_join`"] == "2.0"
    assert not any("-" in row for row in rows), "each layout has every figure, batch too"
    assert messages["`handshake`"] == "4.0"
