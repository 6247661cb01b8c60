"""Lookups of vLLM's requests, which go to the volume as one batch a step. For one thread at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hearth_engines import MAX_KEYS, Warnings

_EXISTS = 2  # a call of KvSpace.submit()


@dataclass(eq=False)
class _Lookup:
    """What requests are told of a key, until the last of them has finished: an answer that changes would move one."""

    key: bytes
    requests: set[str] = field(default_factory=set)
    found: bool | None = None  # None until the volume has answered


class Lookups:
    """Owns the key space `space`, which nothing else uses."""

    def __init__(self, space: Any, timeout_ms: int, warnings: Warnings) -> None:
        self._space = space
        self._timeout_ms = timeout_ms
        self._warnings = warnings
        self._lookups: dict[bytes, _Lookup] = {}
        self._keys: dict[str, set[bytes]] = {}  # of each request
        self._unasked: list[_Lookup] = []
        self._in_flight = 0  # batches

    def find(self, key: bytes, request: str) -> bool | None:
        """Whether the volume has a value of the key, None while nobody has said so. Never waits."""
        self._take()
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._lookups[key] = _Lookup(key)
            self._unasked.append(lookup)
        lookup.requests.add(request)
        self._keys.setdefault(request, set()).add(key)
        return lookup.found

    def flush(self) -> None:
        """Asks for the keys that were looked up since the last call. Each is answered by the deadline, or absent."""
        unasked = [lookup for lookup in self._unasked if lookup.requests]
        self._unasked = []
        for first in range(0, len(unasked), MAX_KEYS):
            batch = unasked[first : first + MAX_KEYS]
            try:
                self._space.submit(_EXISTS, [lookup.key for lookup in batch], None, self._timeout_ms, batch)
                self._in_flight += 1
            except OSError as error:
                self._warnings.warn("Blocks cannot be looked up, and count as absent", error)
                for lookup in batch:
                    lookup.found = False

    def miss(self, keys: Iterable[bytes]) -> None:
        """The keys could not be loaded: requests that were told otherwise would load them again without end."""
        for key in keys:
            if (lookup := self._lookups.get(key)) is not None:
                lookup.found = False

    def forget(self, request: str) -> None:
        """The request has finished."""
        for key in self._keys.pop(request, ()):
            lookup = self._lookups[key]
            lookup.requests.discard(request)
            if not lookup.requests:
                del self._lookups[key]

    def close(self) -> None:
        """Nothing is answered any more: what has no answer is absent."""
        self._space.close()
        self._unasked = []
        for lookup in self._lookups.values():
            lookup.found = bool(lookup.found)

    def _take(self) -> None:
        if self._in_flight == 0:
            return
        for batch, _, status, _, statuses, _ in self._space.take(0):
            self._in_flight -= 1
            if status != 0:
                self._warnings.warn("Blocks cannot be looked up, and count as absent", OSError(status, "no answer"))
            for lookup, each in zip(batch, statuses, strict=True):
                if lookup.found is None:
                    lookup.found = each == 0
