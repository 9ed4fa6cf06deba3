"""What is missing is reported, for as long as it is missing: rules on synthetic releases, judged by promtool."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from spojoin.protocol.services import role_of
from tests.support.chart import CHART, WITH_ALL, render, values_file

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool isn't on PATH (Debian: apt-get install prometheus)"
)

#: seconds between the values of a series, and between evaluations
STEP_S = 30
#: what went did so after ten minutes, when a scrape found it no more
STAYS, WENT = "1x120", "1x20 stale"
#: minutes at which an outage must be known
OUTAGE = (12, 20, 40)
OPTIONAL = ("predictor", "controller")
PACKINGS = {
    "apart": ("router", "mutable-0", "permutation", "pojoin-0", "pojoin-1", "logical-and", "sink"),
    "together": ("together",),
    "groups": ("router+pojoin+sink", "mutable+permutation+logical-and", "pojoin-1"),
}


class Scene(NamedTuple):
    """Processes of a release, each with its series, and the alerts that fire after some minutes.

    needed: what processes say of what should run; None for the services of the processes
    fires: alerts, each with the service that it names behind a colon where it names one
    """

    about: str
    processes: dict[str, str]
    minutes: tuple[int, ...]
    fires: tuple[str, ...]
    needed: tuple[str, ...] | None = None
    instances: int = 1


def service(process: str) -> str:
    return process.removesuffix(".b")


def series_of(scene: Scene, release: str = "demo", query: str = "demo") -> list[dict[str, str]]:
    """As a ServiceMonitor's Prometheus holds them."""
    found = []
    needed = scene.needed or tuple(dict.fromkeys(service(name) for name in scene.processes if name not in OPTIONAL))
    for name, values in scene.processes.items():
        labels = (
            f'namespace="joins", release="{release}", query="{query}", role="{role_of(name)}", service_name="{name}"'
        )
        found.append({"series": f"spojoin_build_info{{{labels}}}", "values": values})
        for each in needed:
            worded = values.replace("1x", f"{scene.instances}x")
            found.append({"series": f'spojoin_needed_instances{{{labels}, needed="{each}"}}', "values": worded})
    return found


def fleet(packing: str, *optional: str, has_standbys: bool = False, **gone: str) -> dict[str, str]:
    """The processes of a release; `gone` by name, with `_` for each hyphen and plus."""
    names = [*PACKINGS[packing], *(f"{name}.b" for name in PACKINGS[packing] if has_standbys), *optional]
    return {name: gone.get(name.replace("-", "_").replace("+", "_").replace(".", "_"), STAYS) for name in names}


def without(processes: dict[str, str], *names: str) -> dict[str, str]:
    assert set(names) <= processes.keys()
    return processes | dict.fromkeys(names, WENT)


def losses() -> list[Scene]:
    """Every service of every packing, alone."""
    return [
        Scene(
            f"{packing}: {name} alone gone", without(fleet(packing, *OPTIONAL), name), OUTAGE, (f"ServiceGone:{name}",)
        )
        for packing, names in PACKINGS.items()
        for name in names
        if len(names) > 1
    ]


def outages() -> list[Scene]:
    """Nothing that results need is left."""
    found = []
    for packing in PACKINGS:
        everything = fleet(packing, *OPTIONAL)
        found += [
            Scene(f"{packing}: everything gone", dict.fromkeys(everything, WENT), OUTAGE, ("QueryGone",)),
            Scene(
                f"{packing}: the controller is left",
                dict.fromkeys(everything, WENT) | {"controller": STAYS},
                OUTAGE,
                ("QueryGone",),
            ),
            Scene(
                f"{packing}: both instances of everything gone",
                dict.fromkeys(fleet(packing, has_standbys=True), WENT),
                OUTAGE,
                ("QueryGone",),
                instances=2,
            ),
        ]
    return found


def health() -> list[Scene]:
    return [
        Scene(f"{packing}: all is well", fleet(packing, *OPTIONAL, has_standbys=count == 2), (12, 60), (), None, count)
        for packing in PACKINGS
        for count in (1, 2)
    ]


APART = fleet("apart", *OPTIONAL)
DOUBLE = fleet("apart", *OPTIONAL, has_standbys=True)
SCENES = [
    *health(),
    *losses(),
    *outages(),
    Scene("several gone", without(APART, "sink", "pojoin-0"), OUTAGE, ("ServiceGone:sink", "ServiceGone:pojoin-0")),
    Scene(
        "gone with the predictor", without(APART, "router", "predictor"), (20,), ("PredictorGone", "ServiceGone:router")
    ),
    Scene("the controller alone gone", without(APART, "controller"), OUTAGE[1:], ("ControllerGone",)),
    Scene("the predictor alone gone", without(APART, "predictor"), OUTAGE[1:], ("PredictorGone",)),
    Scene("restarts", fleet("apart", *OPTIONAL, sink="1x20 stale 1x99", router="1x20 stale 1x99"), (11, 12), ()),
    Scene("for a minute", fleet("apart", *OPTIONAL, sink="1x20 stale _x2 1x97"), (11,), ("ServiceGone:sink",)),
    Scene("back after a minute", fleet("apart", *OPTIONAL, sink="1x20 stale _x2 1x97"), (14,), ()),
    Scene("the whole process restarts", fleet("together", *OPTIONAL, together="1x20 stale 1x99"), (11, 12), ()),
    Scene(
        "the whole process for a minute",
        fleet("together", *OPTIONAL, together="1x20 stale _x2 1x97"),
        (11,),
        ("QueryGone",),
    ),
    Scene("a first instance gone", without(DOUBLE, "sink"), OUTAGE, ("StandbyGone:sink",), None, 2),
    Scene("a second instance gone", without(DOUBLE, "pojoin-1.b"), OUTAGE, ("StandbyGone:pojoin-1",), None, 2),
    Scene("both instances gone", without(DOUBLE, "pojoin-1", "pojoin-1.b"), OUTAGE, ("ServiceGone:pojoin-1",), None, 2),
    Scene(
        "the router's instances gone", without(DOUBLE, "router", "router.b"), (12,), ("ServiceGone:router",), None, 2
    ),
    Scene(
        "a worker let go",
        without(APART, "pojoin-1"),
        OUTAGE,
        (),
        needed=tuple(name for name in PACKINGS["apart"] if name != "pojoin-1"),
    ),
    Scene("a worker that never came", APART, (12,), ("ServiceGone:pojoin-2",), needed=(*PACKINGS["apart"], "pojoin-2")),
    Scene(
        "an idle role gone", without(APART, "mutable-0"), OUTAGE, (), needed=("router", "pojoin-0", "pojoin-1", "sink")
    ),
]


def fired(*alerts: str) -> list[dict[str, object]]:
    found = []
    for alert in alerts:
        name, _, needed = alert.partition(":")
        named = f', needed="{needed}"' if needed else ""
        found.append({"labels": f'{{alertname="Spojoin{name}"{named}}}', "value": 1})
    return found


def judged(folder: Path, rules: list[dict[str, object]], *tests: dict[str, object], step_s: int = STEP_S) -> None:
    """promtool's verdict."""
    names = [f"rules-{number}.yaml" for number in range(len(rules))]
    for name, content in zip(names, rules, strict=True):
        (folder / name).write_text(yaml.safe_dump(content))
    suite = {"rule_files": names, "evaluation_interval": f"{step_s}s", "tests": [*tests]}
    (folder / "suite.yaml").write_text(yaml.safe_dump(suite))
    done = subprocess.run(["promtool", "test", "rules", "suite.yaml"], cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()


def as_test(
    name: str, series: list[dict[str, str]], expected: dict[int, tuple[str, ...]], step_s: int = STEP_S
) -> dict[str, object]:
    """What fires, by minute."""
    expression = 'count by (alertname, needed) (ALERTS{alertstate="firing"})'
    asked = [
        {"expr": expression, "eval_time": f"{minute}m", "exp_samples": fired(*alerts)}
        for minute, alerts in expected.items()
    ]
    return {"name": name, "interval": f"{step_s}s", "input_series": series, "promql_expr_test": asked}


def of_release(release: str, *settings: str) -> dict[str, object]:
    """The rules that the chart installs with a release."""
    given = ("serviceMonitor.enabled=true", "prometheusRule.enabled=true", *settings)
    options = [part for each in given for part in ("--set", each)]
    documents = render("--values", values_file("demo"), *options, release=release)
    (rule,) = [each for each in documents if each["kind"] == "PrometheusRule"]
    return rule["spec"]


SHIPPED = yaml.safe_load((CHART / "alerts/rules.yaml").read_text())
BOTH = pytest.mark.parametrize(
    "rules_of", [lambda: SHIPPED, lambda: of_release("demo", WITH_ALL)], ids=["shipped", "release"]
)


@BOTH
def test_what_is_missing_fires_and_nothing_else(rules_of, tmp_path: Path) -> None:
    tests = [as_test(each.about, series_of(each), dict.fromkeys(each.minutes, each.fires)) for each in SCENES]
    judged(tmp_path, [rules_of()], *tests)


#: values every five minutes: gone after half an hour, or after two days
DAYS_STEP_S, HOUR = 300, 60


def days(values: str) -> dict[str, str]:
    return dict.fromkeys(fleet("together"), values)


GONE_FOR_DAYS = series_of(Scene("", days("1x6 stale"), (), ()))
WELL = series_of(Scene("", days("1x700"), (), ()))


def test_an_outage_of_a_release_is_reported_for_as_long_as_the_release_is_installed(tmp_path: Path) -> None:
    first_day = dict.fromkeys((HOUR, 5 * HOUR, 23 * HOUR), ("QueryGone",))
    later = dict.fromkeys((25 * HOUR, 50 * HOUR), ("NeverSeen",))
    both = {24 * HOUR: ("NeverSeen", "QueryGone")}  # one begins before the other ends
    test = as_test("outage", GONE_FOR_DAYS, first_day | both | later, DAYS_STEP_S)
    judged(tmp_path, [of_release("demo")], test, step_s=DAYS_STEP_S)


def test_where_nothing_says_that_a_query_should_run_it_is_forgotten_after_a_day(tmp_path: Path) -> None:
    expected = {HOUR: ("QueryGone",), 23 * HOUR: ("QueryGone",), 25 * HOUR: (), 50 * HOUR: ()}
    judged(tmp_path, [SHIPPED], as_test("uninstalled", GONE_FOR_DAYS, expected, DAYS_STEP_S), step_s=DAYS_STEP_S)


@pytest.mark.parametrize("rules_of", [lambda: SHIPPED, lambda: of_release("demo", "packing=together")])
def test_a_healthy_release_is_left_alone_for_days(rules_of, tmp_path: Path) -> None:
    test = as_test("well", WELL, {HOUR: (), 26 * HOUR: (), 50 * HOUR: ()}, DAYS_STEP_S)
    judged(tmp_path, [rules_of()], test, step_s=DAYS_STEP_S)


def test_a_release_that_is_never_scraped_is_reported(tmp_path: Path) -> None:
    """Prometheus reaches its pods and gets nothing, or has no target of it at all."""
    refused = [{"series": 'up{namespace="joins", release="demo", pod="together"}', "values": "0x120"}]
    tests = [
        as_test(name, series, {8: (), 12: ("NeverSeen",), 40: ("NeverSeen",)})
        for name, series in (("refused", refused), ("no target", []))
    ]
    judged(tmp_path, [of_release("demo")], *tests)


@BOTH
def test_scrapes_that_fail_from_now_on_are_reported(rules_of, tmp_path: Path) -> None:
    scene = Scene("", dict.fromkeys(fleet("together"), WENT), (), ())
    up = {"series": 'up{namespace="joins", release="demo", pod="together"}', "values": "1x20 0x100"}
    expected = dict.fromkeys(OUTAGE, ("QueryGone",))
    judged(tmp_path, [rules_of()], as_test("up is 0", [*series_of(scene), up], expected))


def test_rules_of_ten_releases_each_report_their_own(tmp_path: Path) -> None:
    """All serve a query of the same name, each on a Kafka of its own."""
    names = [f"r{number}" for number in range(10)]
    series = []
    for name in names:
        processes = fleet("apart")
        if name == "r3":
            processes = without(processes, "sink")
        elif name == "r7":
            processes = dict.fromkeys(processes, WENT)
        series += series_of(Scene("", processes, (), ()), name)
    fires = 'count by (alertname, release, needed) (ALERTS{alertstate="firing"})'
    samples = [
        {"labels": '{alertname="SpojoinServiceGone", release="r3", needed="sink"}', "value": 1},
        {"labels": '{alertname="SpojoinQueryGone", release="r7"}', "value": 1},
    ]
    asked = [{"expr": fires, "eval_time": "20m", "exp_samples": samples}]
    case = {"name": "ten", "interval": f"{STEP_S}s", "input_series": series, "promql_expr_test": asked}
    judged(tmp_path, [of_release(name, "controller.enabled=false") for name in names], case)


def test_a_release_without_controller_or_predictor_has_no_rules_for_them() -> None:
    def names(*settings: str) -> set[str]:
        return {rule["alert"] for rule in of_release("demo", *settings)["groups"][0]["rules"]}

    assert names("predictor.enabled=true") - names() == {"SpojoinPredictorGone"}
    assert names() - names("controller.enabled=false") == {"SpojoinControllerGone"}


def test_a_release_whose_controller_is_never_seen_is_told_so(tmp_path: Path) -> None:
    series = series_of(Scene("", fleet("apart", "predictor"), (), ()))
    expected = {3: (), 8: ("ControllerGone",), 40: ("ControllerGone",)}
    judged(tmp_path, [of_release("demo")], as_test("no controller", series, expected))
