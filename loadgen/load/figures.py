"""What a process of this machine reports of itself."""

from __future__ import annotations

import urllib.request
from collections import defaultdict
from itertools import chain

from prometheus_client.parser import text_string_to_metric_families

from spojoin.local.net import LOOPBACK

TIMEOUT_S = 30.0


def reported(port: int) -> dict[str, float]:
    """The sum of each metric's samples, by its name, of the process that serves them on a port. Raises OSError."""
    found: dict[str, float] = defaultdict(float)
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics", timeout=TIMEOUT_S) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        for sample in chain.from_iterable(family.samples for family in families):
            found[sample.name] += sample.value
    return found
