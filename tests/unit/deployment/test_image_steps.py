"""Dockerfiles: each step trusts one's own authorities, says no time and no address, and can be read by a shell."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
IMAGES = ("services", "dev", "spark")
STEP = ["RUN", "--mount=type=secret,id=ca", "--mount=type=bind,source=docker/step.sh,target=/run/step.sh"]
RUN_BY = ["sh", "/run/step.sh"]
#: A further script that a step runs.
SCRIPT = re.compile(r"--mount=type=bind,source=docker/(\w+\.py),target=/run/\1")
ADDRESSES = ("PIP_INDEX_URL", "SPOJOIN_MAVEN_URL")
#: What needs to be told where it fetches from.
FETCHERS = {
    "pip install": "PIP_INDEX_URL",
    "kafka_jars()": "SPOJOIN_MAVEN_URL",
    "load.spark import": "SPOJOIN_MAVEN_URL",
}


def stages(image):
    """The instructions of each stage, each on one line."""
    text = re.sub(r"(?m)^#.*\n", "", (ROOT / f"docker/{image}.Dockerfile").read_text()).replace("\\\n", "")
    return [stage.strip().splitlines() for stage in re.split(r"(?m)^(?=FROM )", text)[1:]]


@pytest.mark.parametrize("image", IMAGES)
def test_every_step_is_taken_in_the_same_way_and_is_shell(image):
    runs = [line for stage in stages(image) for line in stage if line.startswith("RUN")]
    assert runs
    for line in runs:
        *how, text = shlex.split(line)
        scripts = how[len(STEP) : -len(RUN_BY)]
        assert how == [*STEP, *scripts, *RUN_BY], line
        assert all(map(SCRIPT.fullmatch, scripts)), line
        assert subprocess.run(["sh", "-n", "-c", text], capture_output=True, text=True, check=True).stderr == ""
        assert "&&" not in text, "a step ends at the first command that fails: && would hide one in its middle"


@pytest.mark.parametrize("image", IMAGES)
def test_a_stage_that_fetches_is_told_where_from_before_it_does(image):
    for stage in stages(image):
        for number, line in enumerate(stage):
            for fetcher, address in FETCHERS.items():
                assert fetcher not in line or f"ARG {address}" in stage[:number], (fetcher, stage[0])


@pytest.mark.parametrize("image", IMAGES)
def test_no_address_is_known_to_what_becomes_the_image(image):
    *_, last = stages(image)
    bases = {name: stage for stage in stages(image) if (name := stage[0].partition(" AS ")[2])}
    while last:
        assert not [line for line in last if any(address in line for address in ADDRESSES)]
        last = bases.get(last[0].split()[1])
    assert not [line for stage in stages(image) for line in stage if re.match(r"ENV.*(_URL|PROXY)", line)]


def test_the_script_can_be_read():
    subprocess.run(["sh", "-n", ROOT / "docker/step.sh"], check=True)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("CA=corp.pem", "--secret id=ca,src=corp.pem"),
        ("MAVEN_URL=https://maven.example", "--build-arg SPOJOIN_MAVEN_URL=https://maven.example"),
        ("PIP_INDEX_URL=https://pip.example/simple", "--build-arg PIP_INDEX_URL=https://pip.example/simple"),
        ("HTTPS_PROXY=http://proxy.example:3128", "--build-arg HTTPS_PROXY=http://proxy.example:3128"),
        ("https_proxy=http://proxy.example:3128", "--build-arg HTTPS_PROXY=http://proxy.example:3128"),
        ("NO_PROXY=.example,localhost", "--build-arg NO_PROXY=.example,localhost"),
    ],
)
def test_make_tells_every_build_what_it_was_told(given, told):
    shown = subprocess.run(["make", "-n", "images", given], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    builds = [" ".join(shlex.split(line)) for line in shown.splitlines() if "docker build" in line]
    assert len(builds) == len(IMAGES)
    assert all(told in build for build in builds)
