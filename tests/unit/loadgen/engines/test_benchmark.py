"""The benchmark's data, totals and adapters, each beside a second implementation of its specification."""

import hashlib
import importlib.util
import json
import struct
import sys
from bisect import bisect_right
from functools import cache
from itertools import accumulate

import pytest
from typer.testing import CliRunner

from loadgen.engines import expected, reference
from loadgen.engines.adapters import java as locking
from loadgen.engines.adapters.engine import write_job
from loadgen.engines.commands import engines_app
from loadgen.engines.runner import RunLimits, Runner
from loadgen.engines.variants import VARIANTS
from loadgen.engines.worker import PACKAGES, make, measure
from loadgen.engines.workloads import MARKS, QUESTIONS, workload
from loadgen.papers.methods.catalog import METHODS
from spojoin.errors import ConfigurationError, SpoJoinError
from tests.support.long import first_of, long_only

WORD = 2**64
ALL = [(question, variant) for question in QUESTIONS for variant in VARIANTS]


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


def normal(u):
    return sum(u >> shift & 0xFFFF for shift in (0, 16, 32, 48)) - 131_070


SUMS = list(accumulate(2**24 // rank for rank in range(1, 10_001)))


def zipf(u):
    return 7919 * (bisect_right(SUMS, (u >> 32) * SUMS[-1] >> 32) + 1) % 10_007


@cache
def row(variant, i):
    number = list(VARIANTS).index(variant) + 1

    def draw(k, at=i):
        return mix((mix(number) + (8 * at + k + 1) * 0x9E3779B97F4A7C15) % WORD)

    def top(u, bits):
        return u >> 64 - bits

    if variant == "taxi":
        a = (normal(draw(0)) + 131_070) ** 2 >> 24
        return a, 50 * max(5, (300 + 2 * a + (normal(draw(1)) >> 6)) // 50)
    if variant == "blond":
        day = 32_768 - abs(i % 65_536 - 32_768)
        a = 20_000 + 500 * top(draw(0), 6) + (day >> 2) + (normal(draw(1)) >> 5)
        return a, (3 * a >> 3) + (normal(draw(2)) >> 5)
    if variant == "zipf":
        return zipf(draw(0)), zipf(draw(1))
    if variant == "ties":
        v = draw(2, i >> 6)
        return (top(v, 3) & 3, top(v, 5) & 3) if top(v, 1) else (top(draw(0), 2), top(draw(1), 2))
    step = 8 * i if variant == "drift" else 0
    return top(draw(0), 20) + step, top(draw(1), 20) - step


@cache
def further(variant, i):
    """c and k of a row."""
    number = list(VARIANTS).index(variant) + 1
    words = (mix((mix(number) + (8 * i + k + 1) * 0x9E3779B97F4A7C15) % WORD) for k in (3, 4))
    return tuple(word >> shift for word, shift in zip(words, (54, 62), strict=True))


#: By variant da and db of q4 and q5, and the rise of q7, as the specification says.
SHIFTS = {
    "uniform": (262_144, 262_144, 262_144),
    "taxi": (300, 700, 2_000),
    "blond": (2_000, 2_000, 10_000),
    "zipf": (2_500, 2_500, 2_500),
    "drift": (262_144, 262_144, 262_144),
    "ties": (0, 0, 0),
}


#: By variant the width of q9 and the longest interval of q10.
NEAR = {
    "uniform": (2_048, 1_024),
    "taxi": (3, 2),
    "blond": (70, 36),
    "zipf": (1, 1),
    "drift": (2_048, 1_024),
    "ties": (1, 1),
}


def overlap(variant, i, j):
    longest = NEAR[variant][1]
    begin, other = row(variant, i)[0], row(variant, j)[0]
    end, end_of_other = (
        begin + 1 + further(variant, i)[0] * longest // 1024,
        other + 1 + further(variant, j)[0] * longest // 1024,
    )
    return begin < end_of_other and end > other


def answer(question, variant, window, i):
    """What row i counts for where rows ask, by the definition."""
    before = range(i - window, i)
    (a, b), (_, k) = row(variant, i), further(variant, i)
    da, db, rise = SHIFTS[variant] if question in ("q4", "q5", "q7") else (0, 0, 0)
    if question == "q7":
        partners = [j for j in before if further(variant, j)[1] == k and row(variant, j)[0] > a + rise]
        return further(variant, partners[-1])[0] if partners else 0
    if question == "q9":
        same = [j for j in before if further(variant, j)[1] == k]
        return sum(further(variant, j)[0] for j in same if abs(row(variant, j)[0] - a) < NEAR[variant][0])
    if question == "q10":
        return sum(further(variant, j)[0] for j in before if overlap(variant, i, j))
    partners = [j for j in before if row(variant, j)[0] > a + da and row(variant, j)[1] < b - db]
    return {
        "q4": 0 if partners else 1,
        "q5": len(partners) or 1,
        "q6": sum(further(variant, j)[0] for j in partners),
        "q8": int(len(partners) < window / 20),
    }[question]


def matches(question, band, left, right):
    (la, lb), (ra, rb) = left, right
    if question == "q2":
        return abs(la - ra) < band[0] and abs(lb - rb) < band[1]
    return (la > ra and lb < rb) if question == "q1" else (la < ra and lb > rb)


def nested_loop(question, variant, window, probes):
    """Matches of each of the first probes, or what their answers count for."""
    if QUESTIONS[question].asks:
        return [answer(question, variant, window, i) for i in range(window, window + probes)]
    fill = 2 * window if question == "q1" else window
    rows = [row(variant, i) for i in range(fill + probes)]
    band, found = VARIANTS[variant].band, []
    for i in range(fill, fill + probes):
        before = [j for j in range(i) if question != "q1" or j % 2 != i % 2][-window:]
        pairs = [pair for j in before for pair in ((i, j), (j, i)) if question != "q1" or pair[0] % 2 == 0]
        found.append(sum(matches(question, band, rows[left], rows[right]) for left, right in pairs))
    return found


@pytest.mark.parametrize("variant", VARIANTS)
def test_data_is_what_the_specification_says(variant):
    rows = [row(variant, i) for i in range(1_000)]
    packed = b"".join(struct.pack("<qq", *each) for each in rows)
    assert hashlib.sha256(packed).hexdigest() == expected.published()["sha256"][variant]["1000"]
    assert list(zip(*(column.tolist() for column in VARIANTS[variant].columns(200, 131_000)), strict=True)) == [
        row(variant, i) for i in range(131_000, 131_200)
    ]
    packed = b"".join(struct.pack("<qq", *further(variant, i)) for i in range(1_000))
    assert hashlib.sha256(packed).hexdigest() == expected.published()["sha256 of c and k"][variant]["1000"]


@pytest.mark.parametrize(("question", "variant"), ALL)
def test_published_totals_are_those_of_a_nested_loop(question, variant):
    found = nested_loop(question, variant, 100, 64)
    asked = workload(question, variant, 100)
    assert reference.counts(asked, 64).tolist() == found
    assert list(expected.totals(asked)[:3]) == [sum(found[:mark]) for mark in MARKS[:3]]


@pytest.mark.parametrize("window", [17, 3_000])
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_reference_is_correct_at_block_ends(question, window):
    probes = 2_100 if window == 17 else 40
    asked = workload(question, "ties", window)
    assert reference.counts(asked, probes).tolist() == nested_loop(question, "ties", window, probes)


def totals_of(name, asked, marks):
    """The totals that an engine reports at these marks."""
    said = []
    measure(make(name)(asked), marks, said.append)
    assert said[0]["filled"] == asked.fill
    return [line["total"] for line in said[1:]]


ASKED = [
    ("q4", "taxi"),
    ("q5", "ties"),
    ("q6", "drift"),
    ("q7", "blond"),
    ("q8", "taxi"),
    ("q9", "zipf"),
    ("q10", "ties"),
]


@pytest.mark.parametrize(("question", "variant"), [("q1", "ties"), long_only("q2", "taxi"), ("q3", "drift"), *ASKED])
@pytest.mark.parametrize("name", [*first_of(4, METHODS), *PACKAGES])
def test_engines_find_the_published_totals(name, question, variant):
    if name in PACKAGES and importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is in the extra 'engines', which is not installed")
    asked = workload(question, variant, 100)
    if QUESTIONS[question].asks and name in METHODS and name != "spo":
        with pytest.raises(SpoJoinError, match="gives each pair when its later row comes, and nothing else"):
            make(name)(asked)
        return
    if name == "hash":
        with pytest.raises(SpoJoinError, match="equality"):
            make(name)(asked)
        return
    assert totals_of(name, asked, MARKS[:5]) == list(expected.totals(asked)[:5])


def test_a_job_holds_all_that_an_engine_in_another_language_needs(tmp_path):
    asked = workload("q1", "blond", 100)
    text = write_job(asked, tmp_path).read_text()
    said = dict(line.split("=", 1) for line in text.splitlines())
    assert (said["fill"], said["window"], said["probings"]) == ("200", "100", "2")
    assert (said["probing.1.probes"], said["probing.1.stored"]) == ("1", "0")
    assert said["probing.1.where"] == "p.a < s.a and p.b > s.b"
    with open(said["rows"], "rb") as file:
        assert struct.unpack("<4q", file.read(32)) == (*row("blond", 0), *row("blond", 1))


@pytest.mark.parametrize(
    ("files", "sentence"), [(["a.jar"], "is not the file"), ([], "lacks a.jar"), (["b.jar"], "is not")]
)
def test_jars_that_differ_from_the_lock_do_not_run(tmp_path, monkeypatch, files, sentence):
    lock, folder = tmp_path / "jars.lock", tmp_path / "jars"
    folder.mkdir()
    lock.write_text(f"esper {hashlib.sha256(b'right').hexdigest()} a.jar\n")
    for name in files:
        (folder / name).write_bytes(b"wrong")
    monkeypatch.setattr(locking, "LOCK", lock)
    monkeypatch.setattr(locking, "fetched", lambda *_: folder)
    with pytest.raises(ConfigurationError, match=sentence):
        locking.jars_of("esper")
    (folder / "a.jar").write_bytes(b"right")
    (folder / "b.jar").unlink(missing_ok=True)
    assert locking.jars_of("esper") == folder


def ran(monkeypatch, tmp_path, program, budget=0.2, fill=20):
    """The outcome of an engine that is this Python program, on q3-taxi with a window of 100."""
    monkeypatch.setattr(Runner, "_command", lambda *_: [sys.executable, "-uc", program])
    limits = RunLimits(budget, fill, frozenset({0}))
    return Runner(limits, tmp_path, print).run("some", workload("q3", "taxi", 100))


def lines(*totals):
    marks = [{"mark": m, "total": t, "s": m / 10, "cpu_s": m / 100} for m, t in zip(MARKS, totals, strict=False)]
    return ";".join(f"print({json.dumps(json.dumps(line))})" for line in [{"filled": 100, "version": "1"}, *marks])


def test_a_mark_counts_only_with_the_right_total(monkeypatch, tmp_path):
    right = expected.totals(workload("q3", "taxi", 100))
    found = ran(monkeypatch, tmp_path, lines(*right[:3]) + ";import time; time.sleep(60)")
    assert (found.version, found.message, len(found.marks)) == ("1", "", 3)
    assert found.cpu_us == pytest.approx(10_000)
    wrong = ran(monkeypatch, tmp_path, lines(right[0], right[1] + 1, right[2]))
    assert wrong.message == f"WRONG: {right[1] + 1} matches of 32 probes, expected {right[1]}"
    assert wrong.cpu_us is None


@pytest.mark.parametrize(("s", "cpu_s"), [(0.5, 2.0), (2.0, 0.5), (1.0, 1.0)])
def test_more_probes_in_no_more_time_yield_no_figure(monkeypatch, tmp_path, s, cpu_s):
    first, second = expected.totals(workload("q3", "taxi", 100))[:2]
    said = [
        {"filled": 100, "version": "1"},
        {"mark": 16, "total": first, "s": 1.0, "cpu_s": 1.0},
        {"mark": 32, "total": second, "s": s, "cpu_s": cpu_s},
    ]
    found = ran(monkeypatch, tmp_path, ";".join(f"print({json.dumps(json.dumps(line))})" for line in said))
    assert found.message == "too few probes to tell: 32 took no longer than 16"
    assert found.cpu_us is None


@pytest.mark.parametrize(
    ("program", "fill", "message"),
    [
        ('print(\'{"refused": "no keyless joins"}\')', 20, "refuses: no keyless joins"),
        ("raise ValueError('so it is')", 20, "failed: ValueError: so it is"),
        ("import os; os.kill(os.getpid(), 9)", 20, "was killed: out of memory?"),
        ("import time; time.sleep(60)", 0.3, "too slow: its window was not full after 0.3 s"),
        (lines() + ";import time; time.sleep(60)", 20, "too slow: came to no mark in 0.8 s, and two marks are needed"),
    ],
)
def test_an_engine_without_a_figure_says_why(monkeypatch, tmp_path, program, fill, message):
    assert ran(monkeypatch, tmp_path, program, fill=fill).message == message


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--engines", "spoo", "--engines has 'spoo'; expected some of spo, "),
        ("--variants", "taxy", "--variants has 'taxy'"),
        ("--window", "3", "--window is 3; expected 16 to 1,000,000 tuples"),
        ("--cpus", "900", "--cpus is 900; expected 1 to "),
    ],
)
def test_mistakes_are_one_sentence(option, value, sentence):
    done = CliRunner().invoke(engines_app, ["run", option, value])
    assert done.exit_code == 2
    assert sentence in done.output
