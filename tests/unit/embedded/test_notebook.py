"""How things look: a line in a shell, a table in a notebook."""

import sys
from types import SimpleNamespace

import pyarrow as pa

import spojoin
from spojoin.embedded.notebook import SHOWN_ROWS, results_html

QUERY = """
name: q
streams:
  s: {schema: {a: int}, key: k}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '100')
"""


def a_join():
    join = spojoin.Join(QUERY)
    join.push({"a": pa.array([2, 1, 2**40]), "k": ["<b>", "y", "<i>z"]})
    return join, join.flush()


def test_a_join_in_a_line():
    join, _ = a_join()
    assert repr(join) == "<spojoin.Join 'q', open: 2 tuples, 1 matches, 1 refused>"
    join.close()
    assert repr(join) == "<spojoin.Join 'q', closed: 2 tuples, 1 matches, 1 refused>"


def test_a_join_in_a_notebook():
    html = a_join()[0]._repr_html_()
    for part in ("<th>q</th>", "l.a &lt; r.a", "<td>matches</td><td>1</td>", "<td>refused: overflow</td><td>1</td>"):
        assert part in html


def test_refused_rows_in_a_notebook():
    html = a_join()[0].take_rejects()._repr_html_()
    assert "1 refused rows" in html
    assert "a: 1099511627776, k: &lt;i&gt;z" in html


def test_results_in_a_notebook():
    join, results = a_join()
    html = results_html(results)
    assert "q: 2 results" in html
    assert "&lt;b&gt;" in html
    join.push({"a": range(SHOWN_ROWS + 5), "k": range(SHOWN_ROWS + 5)} | {"k": ["x"] * (SHOWN_ROWS + 5)})
    assert "the first 10 of 15 results" in results_html(join.flush())
    assert results_html(pa.table({"a": [1]})) is None


class Formatter(dict):
    """As IPython's: the view of a type, and what it was before."""

    def for_type(self, kind, view):
        before = self.get(kind)
        self[kind] = view
        return before


def test_notebooks_show_results_as_tables_unless_the_user_has_a_view(monkeypatch):
    formatter = Formatter()
    shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/html": formatter}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    a_join()
    a_join()
    assert formatter[pa.Table] is results_html
    formatter[pa.Table] = len
    a_join()
    assert formatter[pa.Table] is len


def test_outside_a_notebook_nothing_is_registered(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert a_join()[1].num_rows == 2
