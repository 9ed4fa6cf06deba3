"""Numbered rows that flow through a release while something is done to it, and what its results must be."""

import json
import subprocess
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from tests.cluster import rows_in_cluster
from tests.cluster.release import IMAGE, NAMESPACE, run
from tests.support.nested_loop import counts
from tests.support.readings import joins

ROWS_A_SECOND = 150
PROBE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "probe", "labels": {"app.kubernetes.io/component": "chaos"}},
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "probe",
                "image": IMAGE,
                "imagePullPolicy": "IfNotPresent",
                "command": ["sleep", "infinity"],
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    },
}
SCRIPT = Path(rows_in_cluster.__file__).read_text()


class Flow:
    """Feeds rows and reads results through a pod beside the release."""

    def __init__(self, cluster, query):
        self._results = f"{query}.results"
        self._bootstrap = f"{cluster.full}-kafka:9092"
        self._feed = None

    def command(self, *arguments):
        """A command that reads its program from standard input."""
        python = ["/opt/spojoin/bin/python", "-", *arguments]
        return ["kubectl", "exec", "--stdin", "--namespace", NAMESPACE, "probe", "--", *map(str, python)]

    def start(self):
        command = self.command("feed", self._bootstrap, "in.readings", ROWS_A_SECOND)
        self._feed = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._feed.stdin.write(SCRIPT)
        self._feed.stdin.close()

    def stop(self):
        """Stop sending; returns the number of rows sent."""
        run("kubectl", "exec", "--namespace", NAMESPACE, "probe", "--", "touch", "/tmp/stop")
        said = self._feed.stdout.read()
        assert self._feed.wait() == 0
        return int(said)

    @contextmanager
    def silence(self):
        """Listens to results within the block; then the list holds the longest time between two, in seconds."""
        command = self.command("silence", self._bootstrap, self._results)
        listening = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        listening.stdin.write(SCRIPT)
        listening.stdin.close()
        longest = []
        yield longest
        run("kubectl", "exec", "--namespace", NAMESPACE, "probe", "--", "touch", "/tmp/heard")
        longest.append(float(listening.stdout.read()))
        assert listening.wait() == 0

    def messages(self):
        """All results: generation, frame, begin, end, whether it is the frame's last, rows."""
        said = run(*self.command("results", self._bootstrap, self._results), said=SCRIPT).stdout
        return [json.loads(line) for line in said.splitlines()]

    def answered(self, generation):
        return sum(len(rows) for number, *_, rows in self.messages() if number == generation)

    def topics(self):
        return set(json.loads(run(*self.command("topics", self._bootstrap), said=SCRIPT).stdout))


def follow(messages):
    """Check that each message continues where the last one ended; generation two begins with its own frame."""
    expected = (1, 0, 0)
    for generation, frame, begin, end, is_last, rows in messages:
        if generation == 2 and expected[0] == 1:
            assert expected[2] == 0, "the old generation ended within a frame"
            expected = (2, 0, 0)
        assert (generation, frame, begin) == expected
        assert len(rows) <= end - begin
        expected = (generation, frame + 1, 0) if is_last else (generation, frame, end)


def answers(numbers, width, slide, compare):
    """[seq, key, as_left, as_right] of each row, by the definition."""
    every = [rows_in_cluster.row(number) for number in range(numbers.stop)]
    columns = [np.array([row[name] for row in every]) for name in ("draw", "cooling")]
    for seq, *found in counts(columns, partial(joins, compare=compare), width, slide, numbers):
        yield [seq, seq, *found]
