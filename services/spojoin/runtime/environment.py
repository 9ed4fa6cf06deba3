"""The variables that may begin with SPOJOIN_; any other is a mistake that nobody would notice."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping

from spojoin.errors import ConfigurationError

PREFIX = "SPOJOIN_"

#: Read outside the settings, often beside them.
OTHERS = {
    "SPOJOIN_SETTINGS": "a settings file",
    "SPOJOIN_PAGE_HOST": "where the page is served",
    "SPOJOIN_PAGE_PORT": "where the page is served",
    "SPOJOIN_PAGE_PATH": "where a proxy shows the page",
    "SPOJOIN_KERNELS": "compiled kernels of an image",
    "SPOJOIN_CACHE_FOLDER": "where jars are kept",
    "SPOJOIN_MAVEN_URL": "where jars come from",
    "SPOJOIN_BROKER_HOST": "the development broker's name",
    "SPOJOIN_DATA_FOLDER": "the development servers' data",
}
#: The cluster tests'.
_TEST_PREFIX = "SPOJOIN_TEST_"
#: Kubernetes gives pods such variables for Services; a release named spojoin has SPOJOIN_KAFKA_SERVICE_HOST and so on.
_SERVICE_LINK = re.compile(r"SPOJOIN_\w+?_(SERVICE_HOST|SERVICE_PORT\w*|PORT_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)")
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://")


def check_environment(environment: Mapping[str, str], settings: Collection[str]) -> None:
    """Raises ConfigurationError for the first variable that is neither one of `settings` nor another part's."""
    known = [f"{PREFIX}{name.upper()}" for name in settings] + [*OTHERS]
    for name, value in sorted(environment.items()):
        if name.upper().startswith(PREFIX) and name.upper() not in known and not _is_foreign(name, value):
            raise ConfigurationError(f"{name} is no setting: {advice(name.upper(), known)}")


def advice(name: str, known: Collection[str]) -> str:
    """What to do about a name that is not among the known ones."""
    names = {each.removeprefix(PREFIX): each for each in known}  # the common prefix makes no two names alike
    close = difflib.get_close_matches(name.removeprefix(PREFIX), names, 1)
    return (
        f"did you mean {names[close[0]]}? Correct its name or remove it" if close else "remove it or correct its name"
    )


def _is_foreign(name: str, value: str) -> bool:
    is_address = name.endswith("_PORT") and bool(_SERVICE_ADDRESS.match(value))
    return name.startswith(_TEST_PREFIX) or is_address or bool(_SERVICE_LINK.fullmatch(name))
