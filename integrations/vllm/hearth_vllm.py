"""A secondary tier of vLLM's TieringOffloadingSpec on values of a Hearth volume: vLLM loads HearthTier.

All methods run in the scheduler under the manager's lock. None but drain_jobs() and shutdown() waits: libgd2fs moves
the bytes between the volume and vLLM's host memory by itself, and ends every batch by its deadline.
"""

from __future__ import annotations

import ctypes
import logging
import math
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from hearth_engines import MAX_KEYS, Connection, HostMemory, Options, Warnings
from hearth_lookups import Lookups
from pygd2fs import SGE, _native
from vllm.v1.kv_offload.base import LookupResult, Medium, RequestOffloadingContext
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager, TransferJob

_PUT, _GET = 0, 1  # calls of KvSpace.submit()
_DEFAULT_TIMEOUT_MS = 10_000
_DEFAULT_LOOKUP_TIMEOUT_MS = 1000
_CONNECT_TIMEOUT_MS = 10_000
_POLL_MS = 100
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Job:
    """A job of vLLM's, in as many batches as it takes."""

    id: int
    is_load: bool
    keys: list[bytes]
    stored: list[bool]  # or loaded, of each key
    began: float
    batches: int = 0  # in flight
    is_at_rest: bool = True


@dataclass(frozen=True)
class _Part:
    """One batch of a job: its keys are those from `first` on."""

    job: _Job
    first: int


class HearthTier(SecondaryTierManager):
    """Made by vLLM from an element of `secondary_tiers`; docs/integrations/vllm.md has the options.

    Options that it does not know are those of other releases, and are ignored. OSError when no agent answers.
    """

    medium: ClassVar[Medium] = Medium.STORAGE

    def __init__(
        self,
        offloading_spec: Any,
        primary_kv_view: memoryview,
        tier_type: str,
        timeout_ms: int = _DEFAULT_TIMEOUT_MS,
        lookup_timeout_ms: int = _DEFAULT_LOOKUP_TIMEOUT_MS,
        **given: Any,
    ) -> None:
        known = {"backpressure_detector": given["backpressure_detector"]} if "backpressure_detector" in given else {}
        super().__init__(offloading_spec, primary_kv_view, tier_type, **known)
        self._timeout_ms = timeout_ms
        self._block_bytes = primary_kv_view.strides[0]
        self._warnings = Warnings(_log)
        self._connection = Connection(Options.of(given), _CONNECT_TIMEOUT_MS)
        self._memory = HostMemory(self._connection.client)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(primary_kv_view.cast("B")))
        self._memory.add(self._address, primary_kv_view.nbytes)
        fingerprint = self._connection.fingerprint(_layout(offloading_spec.config, self._block_bytes))
        # Lookups have a space of their own: they go on while this one comes to rest.
        asks, self._space = (
            _native.KvSpace(
                self._connection.client._channel, self._connection.volume, fingerprint, self._connection.salt
            )
            for _ in range(2)
        )
        self._lookups = Lookups(asks, lookup_timeout_ms, self._warnings)
        self._jobs: dict[int, _Job] = {}  # that are not reported
        self._restless: list[_Job] = []  # that have ended, but something may still touch their memory
        self._results: list[JobResult] = []

    def lookup(self, key: bytes, req_context: Any) -> LookupResult:
        """RETRY while the question is on its way, which ends by `lookup_timeout_ms` as a MISS."""
        found = self._lookups.find(bytes(key), req_context.req_id)
        if found is None:
            return LookupResult.RETRY
        return LookupResult.HIT if found else LookupResult.MISS

    def on_new_request(self, req_context: Any) -> RequestOffloadingContext:
        return RequestOffloadingContext()

    def on_request_finished(self, req_context: Any) -> None:
        self._lookups.forget(req_context.req_id)

    def on_schedule_end(self, context: Any) -> None:
        """Asks for all keys of the step at once."""
        self._lookups.flush()

    def submit_store(self, job_metadata: TransferJob) -> None:
        self._submit(job_metadata, _PUT)

    def submit_load(self, job_metadata: TransferJob) -> None:
        self._submit(job_metadata, _GET)

    def get_finished_jobs(self) -> Iterable[JobResult]:
        """The jobs that have ended since the last call, each once; nothing touches their memory any more."""
        self._take(0)
        results, self._results = self._results, []
        return results

    def has_pending_work(self) -> bool:
        return bool(self._jobs or self._results)

    def drain_jobs(self) -> None:
        """Waits until all jobs have ended, each by its deadline."""
        while self._jobs:
            self._take(_POLL_MS)

    def shutdown(self) -> None:
        """Cancels what is in flight; afterwards nothing touches vLLM's memory. Idempotent."""
        self._close_space()
        self._lookups.close()
        self._memory.close()
        self._connection.close()

    def _submit(self, given: TransferJob, call: int) -> None:
        keys = [bytes(key) for key in given.keys]
        job = _Job(given.job_id, call == _GET, keys, [False] * len(keys), time.monotonic())
        self._jobs[job.id] = job
        for first in range(0, len(keys), MAX_KEYS):
            last = first + MAX_KEYS
            try:
                # While an ended batch may touch its memory, no other begins: the space comes to rest as a whole.
                if self._restless:
                    raise OSError("an earlier batch has not come to rest")
                memory = [self._block(int(chunk)) for chunk in given.chunk_ids[first:last]]
                self._space.submit(call, keys[first:last], memory, self._timeout_ms, _Part(job, first))
                job.batches += 1
            except (OSError, LookupError) as error:
                self._warnings.warn("Blocks cannot be loaded" if job.is_load else "Blocks cannot be stored", error)
        if job.batches == 0:
            self._report(job)

    def _block(self, chunk: int) -> Sequence[SGE]:
        return self._memory.parts([(self._address + chunk * self._block_bytes, self._block_bytes)])

    def _take(self, milliseconds: int) -> None:
        """Gathers what has ended; waits so long for the first."""
        for part, _, status, is_at_rest, statuses, sizes in self._space.take(milliseconds):
            job = part.job
            if status != 0:
                kind = "Some blocks were not loaded" if job.is_load else "Some blocks were not stored"
                self._warnings.warn(kind, os.strerror(status))
            for index, (each, size) in enumerate(zip(statuses, sizes, strict=True), part.first):
                # A value of another length is no block of this layout.
                job.stored[index] = each == 0 and (not job.is_load or size == self._block_bytes)
            job.batches -= 1
            job.is_at_rest = job.is_at_rest and is_at_rest
            if job.batches == 0:
                self._end(job)
        self._settle()

    def _end(self, job: _Job) -> None:
        if job.is_at_rest:
            self._report(job)
        else:
            self._restless.append(job)

    def _settle(self) -> None:
        """Reports the jobs whose memory has come to rest. One that is not by a second deadline closes the space."""
        if self._restless and self._space.drain(0):
            restless, self._restless = self._restless, []
            for job in restless:
                self._report(job)
        oldest = min((job.began for job in self._jobs.values()), default=math.inf)
        if time.monotonic() - oldest > 2 * self._timeout_ms / 1000:
            _log.error("Blocks do not come to rest; the tier stores and loads no more")
            self._close_space()

    def _close_space(self) -> None:
        """Returns when nothing touches memory any more; all jobs that are not reported fail."""
        self._space.close()
        self._restless = []
        for job in list(self._jobs.values()):
            self._report(job)

    def _report(self, job: _Job) -> None:
        """Once, when nothing touches the job's memory any more."""
        del self._jobs[job.id]
        done = [key for key, stored in zip(job.keys, job.stored, strict=True) if stored]
        if job.is_load:
            self._lookups.miss(key for key, stored in zip(job.keys, job.stored, strict=True) if not stored)
        is_success = len(done) == len(job.keys)
        self._results.append(
            JobResult(
                job.id,
                is_success,
                successful_keys=None if is_success or not done else tuple(done),
                transfer_time=time.monotonic() - job.began,
                transfer_bytes=len(done) * self._block_bytes,
            )
        )


def _layout(config: Any, block_bytes: int) -> dict[str, Any]:
    """All that the bytes of a chunk depend on beside its key, as far as vLLM tells it."""
    parallel = config.parallel
    layout = {
        "engine": "vllm",
        "model": config.model.name,
        "dtype": str(config.model.dtype),
        "tokens_per_hash": config.cache.tokens_per_hash,
        "blocks_per_chunk": config.cache.blocks_per_chunk,
        "chunk_bytes": block_bytes,
        "groups": [[group.tokens_per_block, list(group.layer_names)] for group in config.groups],
        "kv_layout": getattr(config, "kv_cache_layout", None),
        "canonical": getattr(config, "canonical_layout", False),
        "replicated": getattr(config, "replicated_layout", False),
    }
    # Where chunks are the same bytes for all ways to split the model over workers, these share them.
    if not (parallel.is_parallelism_agnostic or layout["replicated"]):
        sizes = ("world_size", "tp_size", "pp_size", "pcp_size", "dcp_size")
        layout["parallel"] = {name: getattr(parallel, name, 1) for name in sizes}
    return layout
