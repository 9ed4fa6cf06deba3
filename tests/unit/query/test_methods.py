"""A query names its method and the method's options; every mistake says what was expected."""

import pytest

from loadgen.papers.methods import catalog as methods
from spojoin.errors import QueryError
from spojoin.evaluation.choices import chosen_method, method
from spojoin.evaluation.options import ChoiceOption, MethodAbout
from spojoin.model import Method
from spojoin.query.load import load_served_query, parse_query

QUERY = """
name: q
streams: {s: {schema: {a: int}}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '5' ON '20')
"""


@pytest.fixture(autouse=True)
def _trees(monkeypatch):
    options = (
        ChoiceOption("fanout", 16, "keys a node", 2, 512),
        ChoiceOption("ratio", 0.5, "merge ratio", 0.01, 1),
        ChoiceOption("part", "left", "which", choices=("left", "right")),
    )
    monkeypatch.setitem(methods.METHODS, "tree", MethodAbout("tree", "a tree", "a paper", options))


def test_the_default_is_the_products_own():
    assert parse_query(QUERY).method == Method("spo", ())


def test_a_method_is_named_alone_or_with_options():
    assert parse_query(QUERY + "method: scan").method == Method("scan", ())
    given = parse_query(QUERY + "method: {name: tree, fanout: 8}").method
    assert given == Method("tree", (("fanout", 8), ("ratio", 0.5), ("part", "left")))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("method: scam", "line 5: unknown method 'scam'.*did you mean 'scan'"),
        ("method: {fanout: 8}", "missing option 'name'"),
        ("method: {name: tree, fanuot: 8}", "unknown option of method tree 'fanuot'.*did you mean 'fanout'"),
        ("method: {name: tree, fanout: 1}", "fanout is '1'; expected a whole number from 2 to 512"),
        ("method: {name: tree, fanout: 2.5}", "fanout is '2.5'; expected a whole number"),
        ("method: {name: tree, ratio: nan}", "ratio is 'nan'; expected a number from 0.01 to 1"),
        ("method: {name: tree, part: up}", "part is 'up'; expected left or right"),
        ("method: {name: scan, fanout: 8}", "method scan has no options"),
    ],
)
def test_mistakes_are_reported(text, said):
    with pytest.raises(QueryError, match=said):
        parse_query(QUERY + text)


def test_the_command_line_wins():
    query = parse_query(QUERY + "method: scan")
    assert chosen_method(query, None, ()).method.name == "scan"
    assert chosen_method(query, "tree", ["ratio=0.25"]).method == method("tree", {"ratio": "0.25"})
    with pytest.raises(QueryError, match="name=value"):
        chosen_method(query, "tree", ["ratio"])
    with pytest.raises(QueryError, match="--method"):
        chosen_method(query, None, ["ratio=1"])


@pytest.mark.parametrize("option", ["state=exact", "logical_and=overwriting_unsafe", "cache=memory", "workers=2"])
def test_options_of_simulations_are_refused_by_the_command_line(option):
    with pytest.raises(QueryError, match=f"{option.split('=')[0]} belongs to a simulation .* `loadgen papers`"):
        chosen_method(parse_query(QUERY), "spo_paper", [option])


def test_services_run_their_own_method_only(tmp_path):
    path = tmp_path / "query.yaml"
    path.write_text(QUERY)
    assert load_served_query(path).name == "q"
    path.write_text(QUERY + "method: scan")
    with pytest.raises(QueryError, match="'scan' runs in `spojoin run` only"):
        load_served_query(path)
