"""The page itself: one HTML document with its style, script and picture, and a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from itertools import pairwise

from spojoin.page.flow import Flow, Link, flow_of, role_node, topic_node
from spojoin.page.placement import Box, Picture, Point, arrange
from spojoin.protocol.topology import Role, Topic

ROLE_SIZE = (198.0, 74.0)
TOPIC_SIZE = (118.0, 38.0)
MARGIN = 6.0

_MARKERS = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path class="arrow" d="M0 0.5 8 4 0 7.5Z"/></marker></defs>'
)


def draw(flow: Flow | None = None) -> str:
    """The `svg` element of a flow, by default the whole topology's.

    Each role and topic is a group with the id of its node and texts marked `data-field`; each line names its ends.
    """
    flow = flow or flow_of()
    sizes = {node: TOPIC_SIZE if row % 2 == 0 else ROLE_SIZE for row, nodes in enumerate(flow.rows) for node in nodes}
    picture = arrange(flow.rows, [(link.source, link.target) for link in flow.links], sizes)
    width, height = picture.width + 2 * MARGIN, picture.height + 2 * MARGIN
    return (
        f'<svg id="flow" viewBox="{-MARGIN:g} {-MARGIN:g} {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'role="img" aria-labelledby="flow-title">'
        f'<title id="flow-title">How the data flows: services and the topics between them</title>{_MARKERS}'
        f"{''.join(_lines(flow, picture))}{''.join(_nodes(picture))}</svg>"
    )


def _lines(flow: Flow, picture: Picture) -> Iterator[str]:
    for link, points in zip(flow.links, picture.lines, strict=True):
        is_up = flow.row_of(link.target) < flow.row_of(link.source)
        is_read = link.target == role_node(link.role)
        yield (
            f'<path class="line{" up" if is_up else ""}" data-topic="{link.topic.value}" data-role="{link.role.value}" '
            f'data-way="{"read" if is_read else "write"}" d="{_path(points)}" '
            f'marker-end="url(#arrow)"><title>{escape(_said(link, is_read))}</title></path>'
        )


def _said(link: Link, is_read: bool) -> str:
    return f"{link.role.value} {'reads' if is_read else 'writes'} {link.topic.value}"


def _path(points: tuple[Point, ...]) -> str:
    """Bent between rows, straight through them; `points` come in pairs, one a space between rows."""
    x, y = points[0]
    parts = [f"M{x:.1f} {y:.1f}"]
    for number, ((x0, y0), (x1, y1)) in enumerate(pairwise(points)):
        middle = (y0 + y1) / 2
        bent = f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
        parts.append(bent if number % 2 == 0 else f"L{x1:.1f} {y1:.1f}")
    return "".join(parts)


def _nodes(picture: Picture) -> Iterator[str]:
    for role in Role:
        if (box := picture.boxes.get(role_node(role))) is not None:
            yield _role(role, box)
    for topic in Topic:
        if (box := picture.boxes.get(topic_node(topic))) is not None:
            yield _topic(topic, box)


def _role(role: Role, box: Box) -> str:
    """A card: name and state, rate and instances, lag and what they use."""
    left, right = 13.0, box.width - 10
    return (
        f'<g class="role" id="{role_node(role)}" data-state="unknown" transform="translate({box.x:.1f} {box.y:.1f})">'
        f'<rect class="card" width="{box.width:g}" height="{box.height:g}" rx="8"/>'
        f'<rect class="stripe" x="0" y="8" width="4" height="{box.height - 16:g}" rx="2"/>'
        f'<text class="name" x="{left:g}" y="22">{escape(role.value)}</text>'
        f"{_text('state', right, 22, is_right=True)}"
        f"{_text('rate', left, 44)}{_text('instances', right, 44, is_right=True)}"
        f"{_text('lag', left, 62)}{_text('usage', right, 62, is_right=True)}</g>"
    )


def _topic(topic: Topic, box: Box) -> str:
    return (
        f'<g class="topic" id="{topic_node(topic)}" transform="translate({box.x:.1f} {box.y:.1f})">'
        f'<rect class="pill" width="{box.width:g}" height="{box.height:g}" rx="{box.height / 2:g}"/>'
        f'<text class="name" x="{box.width / 2:g}" y="16">{escape(topic.value)}</text>'
        f'<text class="rate" data-field="rate" x="{box.width / 2:g}" y="30">-</text></g>'
    )


def _text(field: str, x: float, y: float, *, is_right: bool = False) -> str:
    anchor = ' text-anchor="end"' if is_right else ""
    return f'<text class="{field}" data-field="{field}" x="{x:g}" y="{y:g}"{anchor}>-</text>'


def document(query: str) -> bytes:
    """The page about a query; it is always the same, since its script requests what changes."""
    html = _asset("page.html")
    parts = {
        "STYLE": _asset("page.css"),
        "SCRIPT": _asset("page.js"),
        "FLOW": draw(),
        "QUERY": escape(query),
    }
    for name, text in parts.items():
        html = html.replace(f"<!--{name}-->", text)
    return html.encode()


def policy() -> str:
    """The Content-Security-Policy: this style, this script and /state.json of this server, and nothing else."""
    style, script = (_digest(_asset(name)) for name in ("page.css", "page.js"))
    return (
        f"default-src 'none'; style-src '{style}'; script-src '{script}'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _asset(name: str) -> str:
    return (files("spojoin.page") / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
