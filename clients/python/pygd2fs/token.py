"""The datasets that the token of this process grants. native/wire/capability.h has the format."""

import base64
import binascii
import os
import pathlib
import struct

_PREFIX = "hearth-token-1."
_ANY = "*"


def granted_datasets() -> list[str]:
    """Names in their order, of the token that libgd2fs would use now. It is not checked: only agents can.

    OSError when there is no token, PermissionError for one of all datasets, which names none; ValueError when it is cut.
    """
    text = _text().strip()
    try:
        if not text.startswith(_PREFIX):
            raise ValueError("no prefix")
        claims = text.removeprefix(_PREFIX).split(".")[0]
        names = _datasets(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    except (ValueError, binascii.Error, struct.error) as error:
        raise ValueError("the token is cut off or of a newer kind; make one by hearth token") from error
    if _ANY in names:
        raise PermissionError("the token grants all datasets and names none; hearth status lists them")
    return sorted(names)


def _text() -> str:
    """Of the first place that has one, in the order in which xfer/gd2fs.h names them."""
    if file := os.environ.get("HEARTH_TOKEN_FILE"):
        return pathlib.Path(file).read_text()
    if token := os.environ.get("HEARTH_TOKEN"):
        return token
    return pathlib.Path(os.environ.get("HEARTH_CLIENT_ACCESS") or "/var/run/hearth", "token").read_text()


def _datasets(claims: bytes) -> list[str]:
    at = 0

    def take(layout: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from("<" + layout, claims, at)
        at += struct.calcsize("<" + layout)
        return value

    def text() -> str:
        nonlocal at
        size = take("H")
        if at + size > len(claims):
            raise ValueError("cut off")
        at += size
        return claims[at - size : at].decode()

    if take("B") != 1:
        raise ValueError("another version")
    text(), text()  # cluster and node
    take("Q"), take("I")  # end and rights
    return [text() for _ in range(take("H"))]
