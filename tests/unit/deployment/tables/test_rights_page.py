"""The tables of SECURITY.md name every user and replace what stands between their marks."""

from helm.tables.rights_page import with_rights
from spojoin.protocol.access import Person
from spojoin.protocol.packing import with_standbys
from spojoin.protocol.topology import MACHINE_ROLES, SHARED, TOPOLOGY, Role, Topic

PAGE = """# By hand

<!-- Made by `python -m helm.tables --write` from here on: rights -->
old
<!-- to here -->

The end.
"""


def test_handwritten_text_stays_and_the_tables_are_replaced():
    made = with_rights(PAGE)
    assert made.startswith("# By hand\n\n<!-- Made by")
    assert made.endswith("<!-- to here -->\n\nThe end.\n")
    assert "old" not in made
    assert with_rights(made) == made


def test_each_user_has_a_row_with_its_topics():
    rows = {line.split("`")[1]: line.split(" | ") for line in with_rights(PAGE).splitlines() if line.startswith("| `")}
    assert set(rows) == {*Role, *Person}
    for edge in TOPOLOGY:
        shown = {Topic.INPUT: "`INPUT`", Topic.DEAD: "`INPUT.dlq`"}
        removed = [topic for topic in Topic if topic not in SHARED and edge.role is Role.ROUTER]
        beats = (Topic.PRESENCE,) if edge.role in MACHINE_ROLES else ()
        cells = with_standbys(edge).reads, edge.writes, (*edge.trims, *removed)
        for cell, topics in zip(rows[edge.role][1:4], cells, strict=True):
            assert set(cell.split()) == {shown.get(topic, f"`{topic.value}`") for topic in (*topics, *beats)}
    assert [name for name, cells in rows.items() if "creates the topics that it sees" in cells[-1]] == [Person.TOPICS]
