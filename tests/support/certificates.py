"""Certificates of an authority that lives for one test session."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization as forms

from spojoin.local.security import Certificates


def make_certificates(folder: Path, *names: str) -> Certificates:
    """Certificates of a server with these names or addresses."""
    authority = trustme.CA()
    server = authority.issue_cert(*names)
    files = Certificates(*(folder / name for name in ("ca.pem", "server.key", "server.crt", "server.pem")))
    chain = b"".join(blob.bytes() for blob in server.cert_chain_pems)
    key = as_pkcs8(server.private_key_pem.bytes())
    authority.cert_pem.write_to_path(str(files.authority))
    for file, text in ((files.key, key), (files.chain, chain), (files.key_and_chain, key + chain)):
        file.write_bytes(text)
    return files


def as_pkcs8(pem: bytes) -> bytes:
    """A key in PKCS #8, the only form that Java reads."""
    key = forms.load_pem_private_key(pem, password=None)
    return key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
