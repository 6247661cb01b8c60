"""A native_plugin of LMCache's server on values of a Hearth volume: LMCache loads Client by --l2-adapter.

LMCache submits from several threads, and one of its threads drains completions. Every future completes once, by
`timeout_ms`: LMCache has no deadline of its own, and a request that never ends stops its prefetches.
"""

import errno
import os
import select
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import pygd2fs
from pygd2fs import _native

_PUT, _GET, _EXISTS, _DELETE = 0, 1, 2, 4  # calls of KvSpace.submit()
_MAX_KEYS = 4096  # of a call
_DEFAULT_TIMEOUT_MS = 10_000

Completion = tuple[int, bool, str, list[bool] | None]


@dataclass(eq=False)
class _Future:
    """A batch of LMCache, in as many calls as it takes; guarded by the client's lock."""

    id: int
    call: int
    pending: int  # calls
    found: list[bool]
    lengths: Sequence[int] = ()  # of a load: values of another length are misses
    error: str = ""


@dataclass(frozen=True)
class _Part:
    """One call of a future: its keys are those from `first` on."""

    future: _Future
    first: int


class Client:
    """Made by LMCache with the adapter_params: volume, fingerprint, salt, addresses, cluster, timeout_ms.

    `fingerprint` names what LMCache's keys do not: weights, layout and precision. Tokens are found as libgd2fs finds
    them; LMCache logs all parameters, so none is secret. OSError when no agent answers.
    """

    def __init__(
        self,
        volume: str,
        fingerprint: str,
        salt: str = "",
        addresses: str = "",
        cluster: str = "",
        timeout_ms: int = _DEFAULT_TIMEOUT_MS,
    ) -> None:
        if not fingerprint:
            raise ValueError("fingerprint is empty: name the weights, the layout and the precision of the blocks")
        self._timeout_ms = timeout_ms
        self._client = pygd2fs.Client(addresses, "", cluster, timeout=timeout_ms)
        self._space = _native.KvSpace(self._client._channel, volume, fingerprint.encode(), salt.encode())
        self._lock = threading.Lock()
        self._last_id = 0
        self._refused: list[Completion] = []  # of futures without a call
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._events = select.epoll()
        for descriptor in (self._space.fileno(), self._wake):
            self._events.register(descriptor, select.EPOLLIN)

    def event_fd(self) -> int:
        """Readable while drain_completions() has something to give."""
        return self._events.fileno()

    def submit_batch_set(self, keys: Sequence[str], values: Sequence[memoryview]) -> int:
        return self._submit(_PUT, keys, values)

    def submit_batch_get(self, keys: Sequence[str], values: Sequence[memoryview]) -> int:
        return self._submit(_GET, keys, values)

    def submit_batch_exists(self, keys: Sequence[str]) -> int:
        return self._submit(_EXISTS, keys, None)

    def submit_batch_delete(self, keys: Sequence[str]) -> int:
        return self._submit(_DELETE, keys, None)

    def drain_completions(self) -> list[Completion]:
        """Of each future its id, whether it succeeded, why not, and of all but stores which keys were found."""
        taken = self._space.take(0)
        # LMCache uses a buffer again when its future has ended.
        if not all(at_rest for _, _, _, at_rest, _, _ in taken):
            self._space.drain(self._timeout_ms)
        with self._lock:
            try:
                os.eventfd_read(self._wake)
            except BlockingIOError:
                pass
            completions, self._refused = self._refused, []
            for part, _, status, _, statuses, sizes in taken:
                completion = self._end(part, status, statuses, sizes)
                if completion is not None:
                    completions.append(completion)
        return completions

    def close(self) -> None:
        """Cancels what is in flight; afterwards no buffer is touched."""
        self._space.close()
        self._client.close()
        self._events.close()
        os.close(self._wake)

    def _submit(self, call: int, keys: Sequence[str], values: Sequence[memoryview] | None) -> int:
        starts = range(0, len(keys), _MAX_KEYS)
        with self._lock:
            self._last_id += 1
            future = _Future(self._last_id, call, len(starts), [False] * len(keys))
            if call == _GET:
                future.lengths = [value.nbytes for value in values or ()]
            if not keys:
                self._refuse(future)
        for first in starts:
            names = [key.encode() for key in keys[first : first + _MAX_KEYS]]
            try:
                memory = None if values is None else self._memory(values[first : first + _MAX_KEYS], call == _GET)
                self._space.submit(call, names, memory, self._timeout_ms, _Part(future, first))
            except OSError as error:
                with self._lock:
                    future.error = future.error or str(error)
                    future.pending -= 1
                    if future.pending == 0:
                        self._refuse(future)
        return future.id

    def _refuse(self, future: _Future) -> None:
        """With the lock held: the next drain gives the future's completion."""
        self._refused.append(self._completion(future))
        os.eventfd_write(self._wake, 1)

    def _memory(self, values: Sequence[memoryview], writable: bool) -> list[tuple[_native.SGE, ...]]:
        registered = [self._client._channel.register(value, None, writable) for value in values]
        return [(_native.SGE(each.addr, each.length, each),) for each in registered]

    def _end(self, part: _Part, status: int, statuses: list[int], sizes: list[int]) -> Completion | None:
        """With the lock held: the completion of the future whose last call this was."""
        future = part.future
        for index, each in enumerate(statuses, part.first):
            future.found[index] = each == 0 and (
                future.call != _GET or sizes[index - part.first] == future.lengths[index]
            )
        # Memory that is too short is a miss, like an absent key.
        if status not in (0, errno.EMSGSIZE):
            future.error = future.error or os.strerror(status)
        future.pending -= 1
        return self._completion(future) if future.pending == 0 else None

    def _completion(self, future: _Future) -> Completion:
        return future.id, not future.error, future.error, None if future.call == _PUT else future.found
