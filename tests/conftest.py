"""Settings shared by all tests."""

import gc
import logging
import os
import secrets
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.warm import forked_modules

# An example's duration depends on the machine and on kernel compilation more than on the code. Examples are the
# same in each run, so a new failure comes from the change under test; `make fuzz` looks for new examples.
settings.register_profile("spojoin", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("search", deadline=None, max_examples=1_000)
settings.load_profile("spojoin")

# Read by every Spark that a test starts, in its process or in another.
os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "support" / "spark"))


def pytest_addoption(parser):
    parser.addoption("--run-cluster", action="store_true", help="run the tests that need a Kubernetes cluster")
    parser.addoption("--long", action="store_true", help="also run the tests that are marked as long")
    # Drawn as `loadgen simulate --campaign` draws it, whose imports a plain installation lacks.
    start = secrets.randbelow((1 << 63) - (1 << 32))
    parser.addoption("--fresh-from", type=int, default=start, help="the first of the simulator's fresh seeds")


def pytest_collection_modifyitems(config, items):
    """Leave out what is marked as long, unless it is asked for or named."""
    if config.getoption("--long") or any("::" in argument for argument in config.args):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    items[:] = [item for item in items if not item.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)


@pytest.fixture(scope="session", autouse=True)
def _modules_are_imported_once():
    with forked_modules():
        yield


@pytest.fixture(scope="module", autouse=True)
def _collected_tests_are_frozen():
    """Keep what pytest has collected out of the garbage collector's rounds, which each life of a service starts.

    A service that ends in this process takes it in again, so this is looked at once a module.
    """
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def _hooks_stay_pytests():
    """A service that a test runs in this process makes log lines of crashes; pytest shall find those of other tests."""
    root, before = logging.getLogger(), (sys.excepthook, threading.excepthook, sys.unraisablehook)
    handlers, level = root.handlers, root.level
    yield
    sys.excepthook, threading.excepthook, sys.unraisablehook = before
    root.handlers, root.level = handlers, level
    if structlog := sys.modules.get("structlog"):  # which a plain install hasn't got
        structlog.reset_defaults()  # it may write to what the test captured


def pytest_terminal_summary(terminalreporter, config):
    """Say which seeds were fresh, also where all is well."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    if any("test_fresh_seeds" in getattr(report, "nodeid", "") for report in reports):
        start = config.getoption("--fresh-from")
        terminalreporter.write_line(f"fresh seeds from {start} on; again: pytest tests/simulation --fresh-from {start}")
