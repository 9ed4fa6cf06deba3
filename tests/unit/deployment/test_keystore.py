"""Key stores of certificates without the times at which they came in."""

import hashlib
import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("keystore", Path(__file__).parents[3] / "docker/keystore.py")
keystore = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(keystore)
settled = keystore.settled


def field(data, width=2):
    return len(data).to_bytes(width, "big") + data


def store(entries, password="changeit"):
    body = b"\xfe\xed\xfe\xed" + (2).to_bytes(4, "big") + len(entries).to_bytes(4, "big")
    for name, time, certificate in entries:
        body += (2).to_bytes(4, "big") + field(name) + time.to_bytes(8, "big") + field(b"X.509") + field(certificate, 4)
    return body + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def test_times_and_the_order_of_entries_make_no_difference():
    one = store([(b"debian:a.pem", 1_700_000_000_000, b"first" * 300), (b"debian:bb.pem", 5, b"")])
    other = store([(b"debian:bb.pem", 77, b""), (b"debian:a.pem", 1_600_000_000_000, b"first" * 300)])
    assert settled(one) == settled(other) == store([(b"debian:a.pem", 0, b"first" * 300), (b"debian:bb.pem", 0, b"")])


@pytest.mark.parametrize("data", [b"", b"a file of another kind", store([], password="secret"), store([])[:-1]])
def test_other_files_are_left_alone(data):
    with pytest.raises(ValueError, match="not a key store"):
        settled(data)
