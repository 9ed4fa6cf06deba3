"""The benchmark's Java engines: compiled and run as by `make benchmark`, with every total checked."""

import os
import subprocess

import pytest

from loadgen.engines import expected, runner
from loadgen.engines.adapters import java
from loadgen.engines.adapters.java import JARS, fetched
from loadgen.engines.runner import RunLimits, Runner
from loadgen.engines.workloads import workload
from spojoin.errors import ConfigurationError
from spojoin.local.jars import find_java

#: Seconds until the window is full (startup included), then for two marks: enough for a busy machine.
PATIENCE_S = 120.0
#: Seconds for probes after two marks.
BUDGET_S = 0.3
#: Two joins whose streams alternate; one whose matches count twice, with enough pairs to fall behind; and answers from
#: a count, a sum, and the newest partner.
WORKLOADS = [("q1", "drift"), ("q2", "ties"), ("q5", "ties"), ("q6", "taxi"), ("q7", "blond")]


@pytest.fixture(scope="module", params=java.PROGRAMS)
def engine(request):
    """The name of an engine available here. Jars that differ from the lock don't cause a skip."""
    try:
        compiler = [find_java(), "-m", "jdk.compiler/com.sun.tools.javac.Main", "-version"]
        fetched(request.param)
    except ConfigurationError as error:
        pytest.skip(str(error))
    if subprocess.run(compiler, capture_output=True, check=False).returncode:
        pytest.skip("Java has no compiler here: a JDK is needed (Debian: openjdk-17-jdk-headless)")
    return request.param


@pytest.mark.parametrize(("question", "variant"), WORKLOADS)
def test_an_engine_reproduces_the_published_totals(engine, question, variant, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "PATIENCE", PATIENCE_S / BUDGET_S)
    limits = RunLimits(BUDGET_S, PATIENCE_S, frozenset(os.sched_getaffinity(0)))
    asked = workload(question, variant, 100)
    found = Runner(limits, tmp_path, print).run(engine, asked)
    totals = [mark.total for mark in found.marks]
    assert len(totals) >= 2, found.message
    assert totals == list(expected.totals(asked)[: len(totals)])
    assert not found.message.startswith("WRONG")
    assert found.version == JARS[engine].version
