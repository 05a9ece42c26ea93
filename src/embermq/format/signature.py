"""Signatures of requests: who asks, proven with a secret that both sides know.

    content     the values of all fields in the order of their names, without the signature; then the body
    signature   HMAC-SHA1 of the content with the secret, in base64

The names are ordered by their bytes, so upper case comes first. There is no time and no number in
it: whoever can listen can repeat a request, and TLS is what prevents that.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from typing import Final

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"

_UNSIGNED_BEFORE: Final = "_UNIQUE_KEY_QUERY"  # clients up to 4.9.3 add it when they have signed
_SIGNING_IT_SINCE: Final = 400  # the version of the request


def content(fields: Mapping[str, str], body: bytes, *, version: int = _SIGNING_IT_SINCE) -> bytes:
    """What is signed of a request; `version` is the one in its header."""
    left_out = {SIGNATURE} if version >= _SIGNING_IT_SINCE else {SIGNATURE, _UNSIGNED_BEFORE}
    names = sorted((name for name in fields if name not in left_out), key=str.encode)
    return "".join(fields[name] for name in names).encode() + body


def sign(fields: Mapping[str, str], body: bytes, secret: str, *, version: int = _SIGNING_IT_SINCE) -> str:
    """The signature of a request with these fields; the access key is one of them already."""
    digest = hmac.digest(secret.encode(), content(fields, body, version=version), "sha1")
    return base64.b64encode(digest).decode()


def signed(fields: Mapping[str, str], body: bytes, *, access_key: str, secret: str) -> dict[str, str]:
    """`fields` with the access key and the signature in them."""
    complete = {**fields, ACCESS_KEY: access_key}
    complete[SIGNATURE] = sign(complete, body, secret)
    return complete
