"""Common to the plug-ins of engines: their options, a client with key spaces, and the host memory of blocks."""

from __future__ import annotations

import bisect
import hashlib
import json
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pygd2fs
from pygd2fs import SGE

MAX_KEYS = 4096  # of a batch

_WARNING_INTERVAL_S = 10.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """The options that all plug-ins share. Engines log them, so none is secret; libgd2fs finds the token by itself."""

    volume: str
    fingerprint: str = ""
    salt: str = ""
    addresses: str = ""
    cluster: str = ""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Takes the options out of an engine's settings, which may hold others. ValueError without a volume."""
        if not given.get("volume"):
            raise ValueError("volume is missing: name the Hearth volume that keeps the blocks")
        return cls(**{name: str(given[name]) for name in cls.__dataclass_fields__ if given.get(name) is not None})


class Connection:
    """A client of an engine and its key spaces, for any thread. OSError when no agent answers by `timeout_ms`."""

    def __init__(self, options: Options, timeout_ms: int) -> None:
        self._options = options
        self.client = pygd2fs.Client(options.addresses, "", options.cluster, timeout=timeout_ms)

    @property
    def volume(self) -> str:
        return self._options.volume

    @property
    def salt(self) -> bytes:
        return self._options.salt.encode()

    def fingerprint(self, layout: Mapping[str, Any]) -> bytes:
        """Names all that a block depends on beside its key: `layout`, and what the user's fingerprint adds."""
        text = json.dumps({**layout, "fingerprint": self._options.fingerprint}, sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()
        _log.info("Blocks in volume %s have the fingerprint %s of %s", self.volume, name[:12], text)
        return name.encode()

    def close(self) -> None:
        self.client.close()


class HostMemory:
    """Memory of an engine that is registered with a client once, and the parts of it that blocks take up."""

    def __init__(self, client: pygd2fs.Client) -> None:
        self._client = client
        self._starts: list[int] = []
        self._registered: list[pygd2fs.IOMEM] = []  # by their starts

    def add(self, address: int, length: int) -> None:
        """The memory stays where it is until close(). OSError as xfer_gd2fs_reg_iomem() says."""
        at = bisect.bisect(self._starts, address)
        self._registered.insert(at, self._client.RegIOMEM(address, length))
        self._starts.insert(at, address)

    def parts(self, places: Iterable[tuple[int, int]]) -> Sequence[SGE]:
        """Of a block at these addresses with these lengths. LookupError when some of it was not added."""
        return [self._part(address, length) for address, length in places]

    def close(self) -> None:
        """Once nothing is in flight."""
        self._starts.clear()
        while self._registered:
            self._client.DeregIOMEM(self._registered.pop())

    def _part(self, address: int, length: int) -> SGE:
        at = bisect.bisect(self._starts, address) - 1
        memory = self._registered[at] if at >= 0 else None
        if memory is None or address + length > memory.addr + memory.length:
            raise LookupError(f"{length} bytes at {address:#x} are not in the memory that the engine has registered")
        return SGE(address, length, memory)


class Warnings:
    """Warns of failures, each kind at most once in ten seconds: an engine meets the same one at each step."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._next: dict[str, float] = {}

    def warn(self, kind: str, cause: object) -> None:
        now = time.monotonic()
        if now >= self._next.get(kind, 0.0):
            self._next[kind] = now + _WARNING_INTERVAL_S
            self._log.warning("%s: %s", kind, cause)
