"""A query names its layout and the layout's options; every mistake says what was expected."""

import pytest

from spojoin.errors import ConfigurationError, QueryError
from spojoin.evaluation.choices import chosen_layout, layout
from spojoin.local.services import Deployment, services_of
from spojoin.model import LayoutChoice
from spojoin.protocol.topology import BATCH_ROLES
from spojoin.query.load import load_served_query, parse_query
from spojoin.roles.router.__main__ import wire
from spojoin.runtime.generations import Serving
from spojoin.runtime.settings import load_settings

QUERY = """
name: q
streams: {s: {schema: {a: int}}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '5' ON '20')
"""
STA = LayoutChoice("sta", 3, (("hot_workers", 2), ("choices", 1)), has_mutable_part=False)


def test_the_default_is_the_products_own():
    assert parse_query(QUERY).layout == LayoutChoice("batch", 0, ())
    assert parse_query(QUERY).layout.has_mutable_part


def test_a_layout_is_named_alone_or_with_options():
    assert parse_query(QUERY + "layout: split_join").layout == LayoutChoice("split_join", has_mutable_part=False)
    assert parse_query(QUERY + "layout: {name: sta, workers: 3, choices: 1}").layout == STA


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("layout: scale_jion", "line 5: unknown layout 'scale_jion'.*did you mean 'scale_join'"),
        ("layout: {workers: 3}", "layout: missing option 'name'"),
        ("layout: {name: sta, chioces: 1}", "unknown option of layout sta 'chioces'.*did you mean 'choices'"),
        (
            "layout: {name: sta, workers: 1025}",
            "layout sta: workers is '1025'; expected a whole number from 0 to 1,024",
        ),
        ("layout: {name: bchj, choices: 1}", "unknown option of layout bchj 'choices': expected workers"),
    ],
)
def test_mistakes_are_reported(text, said):
    with pytest.raises(QueryError, match=said):
        parse_query(QUERY + text)


def test_the_command_line_wins():
    query = parse_query(QUERY + "layout: {name: split_join, workers: 3}")
    assert chosen_layout(query, None, None, ()).layout == query.layout
    assert chosen_layout(query, None, 5, ()).layout == LayoutChoice("split_join", 5, has_mutable_part=False)
    assert chosen_layout(query, "sta", 3, ["choices=1"]).layout == STA
    assert chosen_layout(query, "sta", None, ["workers=3", "choices=1"]).layout == STA
    with pytest.raises(QueryError, match="--layout-option 'choices': expected name=value"):
        chosen_layout(query, "sta", None, ["choices"])
    with pytest.raises(QueryError, match="name the layout"):
        chosen_layout(query, None, None, ["choices=1"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("layout: handshake", "layout 'handshake' runs in `spojoin run` only; the services run batch, scale_join, sta"),
        ("layout: bchj", "layout 'bchj' runs in `spojoin run` only"),
        ("method: scan", "method 'scan' runs in `spojoin run` only"),
    ],
)
def test_services_refuse_what_they_cannot_run(tmp_path, text, said):
    path = tmp_path / "query.yaml"
    path.write_text(QUERY + text)
    with pytest.raises(QueryError, match=said):
        load_served_query(path)


def test_services_run_the_other_layouts_with_any_method(tmp_path):
    path = tmp_path / "query.yaml"
    path.write_text(QUERY + "layout: {name: sta, workers: 3, choices: 1}\nmethod: pim_tree")
    query = load_served_query(path)
    assert (query.layout, query.method.name) == (STA, "pim_tree")


def test_services_without_work_in_a_layout_are_not_started(tmp_path):
    query = parse_query(QUERY + "layout: scale_join")
    names = [each.name for each in services_of(Deployment(query, tmp_path / "q.yaml", "k:1", "redis://r", 3))]
    assert sorted(names) == ["pojoin-0", "pojoin-1", "pojoin-2", "predictor", "router", "sink"]
    assert not {name.split("-")[0] for name in names} & {role.value.split("-")[0] for role in BATCH_ROLES}


def test_a_router_refuses_another_number_of_workers(tmp_path):
    query = parse_query(QUERY + "layout: {name: scale_join, workers: 3}")
    wire(Serving(query), load_settings(query_file=tmp_path / "q.yaml", workers=3))
    with pytest.raises(
        ConfigurationError, match="workers is 2, and the query's layout asks for 3: set SPOJOIN_WORKERS"
    ):
        wire(Serving(query), load_settings(query_file=tmp_path / "q.yaml", workers=2))


def test_a_layout_without_options_takes_workers_alone():
    assert layout("bchj", {"workers": "7"}) == LayoutChoice("bchj", 7, has_mutable_part=False)
