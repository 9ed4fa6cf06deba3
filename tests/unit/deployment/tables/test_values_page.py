from pathlib import Path

from helm.tables.values_page import documented

VALUES = """\
# A remark that documents nothing.
# -- The query,
# over two lines.
query: ""
demo:
  # -- On or off.
  enabled: false
  silent: 1
"""


def test_values_with_a_comment_are_documented():
    assert [tuple(value) for value in documented(VALUES)] == [
        ("query", "", "The query, over two lines."),
        ("demo.enabled", False, "On or off."),
    ]


def test_the_chart_documents_its_roles():
    text = (Path(__file__).parents[4] / "helm/spojoin/values.yaml").read_text()
    assert {"query.text", "query.replace", "demo.enabled", "pojoin.replicas", "mutable.replicas"} <= {
        v.path for v in documented(text)
    }
