"""Settings shared by all tests."""

from hypothesis import settings

# An example's duration depends on the machine and on kernel compilation more than on the code. Examples are the
# same in each run, so a new failure comes from the change under test; `make fuzz` looks for new examples.
settings.register_profile("spojoin", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1_000)
settings.load_profile("spojoin")


def pytest_addoption(parser):
    parser.addoption("--run-cluster", action="store_true", help="run the tests that need a Kubernetes cluster")
