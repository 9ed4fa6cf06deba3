"""Remove the import times of certificates from a Java key store, so that equal stores are equal files.

python docker/keystore.py FILE

The format is JKS: a magic number, a version, and the number of entries. Each entry has a tag, a name, a time in
milliseconds, the kind of the certificate, and the certificate. The end is a digest of all these bytes with the
password, which is "changeit" on Debian.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

HEAD, DIGEST = 12, 20
CERTIFICATE = 2
SALT = "changeit".encode("utf-16-be") + b"Mighty Aphrodite"


def settled(data: bytes) -> bytes:
    """The key store with all times 0, in the order of names. Raises ValueError if it isn't a store of certificates."""
    body, digest = data[:-DIGEST], data[-DIGEST:]
    if body[:8] != b"\xfe\xed\xfe\xed\0\0\0\2" or hashlib.sha1(SALT + body, usedforsecurity=False).digest() != digest:
        raise ValueError("not a key store of version 2 with the password 'changeit'")
    entries, at = [], HEAD
    for _ in range(int.from_bytes(body[8:HEAD], "big")):
        if int.from_bytes(body[at : at + 4], "big") != CERTIFICATE:
            raise ValueError("it holds more than certificates")
        named = _behind(body, at + 4, 2)
        end = _behind(body, _behind(body, named + 8, 2), 4)
        entries.append(body[at:named] + bytes(8) + body[named + 8 : end])
        at = end
    body = body[:HEAD] + b"".join(sorted(entries))
    return body + hashlib.sha1(SALT + body, usedforsecurity=False).digest()


def _behind(body: bytes, at: int, width: int) -> int:
    """The end of a field that begins with its length in `width` bytes."""
    return at + width + int.from_bytes(body[at : at + width], "big")


if __name__ == "__main__":
    store = Path(sys.argv[1])
    store.write_bytes(settled(store.read_bytes()))
