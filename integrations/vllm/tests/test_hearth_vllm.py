"""The contract of vLLM's secondary tiers, without vLLM."""

import mmap
import random
import time
import unittest
from types import SimpleNamespace

from hearth_vllm import HearthTier
from volume_agents import TIMEOUT_MS, VolumeTest
from vllm.v1.kv_offload.base import LookupResult
from vllm.v1.kv_offload.tiering.base import TransferJob

CHUNK_BYTES = 20_480
CHUNKS = 8
KEYS = [bytes([number]) * 36 for number in range(CHUNKS)]
ABSENT = b"\xff" * 36
LIMIT_S = 60


def spec(**changes):
    config = {
        "model": SimpleNamespace(name="org/model", dtype="bfloat16"),
        "cache": SimpleNamespace(tokens_per_hash=16, blocks_per_chunk=1),
        "groups": (SimpleNamespace(tokens_per_block=16, layer_names=("layers.0",)),),
        "parallel": SimpleNamespace(world_size=1, tp_size=1, is_parallelism_agnostic=False),
        "engine_id": "engine",
    }
    return SimpleNamespace(config=SimpleNamespace(**{**config, **changes}))


class Tier:
    """A tier with vLLM's memory of CHUNKS chunks, and the steps of its scheduler."""

    def __init__(self, options, spec, chunk_bytes=CHUNK_BYTES):
        self.memory = mmap.mmap(-1, CHUNKS * chunk_bytes)
        view = memoryview(self.memory).cast("b", (CHUNKS, chunk_bytes))
        self.tier = HearthTier(spec, view, "HearthTier", backpressure_detector=None, unknown=1, **options)
        self.jobs = 0

    def find(self, keys, request="request"):
        context = SimpleNamespace(req_id=request)
        ends = time.monotonic() + LIMIT_S
        while time.monotonic() < ends:
            results = [self.tier.lookup(key, context) for key in keys]
            self.tier.on_schedule_end(None)
            if LookupResult.RETRY not in results:
                return [result is LookupResult.HIT for result in results]
        raise AssertionError("no answer")

    def submit(self, call, keys, chunks):
        self.jobs += 1
        call(TransferJob(self.jobs, keys, chunks, call == self.tier.submit_load, None))
        return self.jobs

    def finish(self, call, keys, chunks):
        job = self.submit(call, keys, chunks)
        ends = time.monotonic() + LIMIT_S
        while time.monotonic() < ends:
            if results := list(self.tier.get_finished_jobs()):
                assert [result.job_id for result in results] == [job]
                return results[0]
        raise AssertionError("no result")

    def chunk(self, number):
        return self.memory[number * CHUNK_BYTES : (number + 1) * CHUNK_BYTES]


class VllmTest(VolumeTest):
    def open(self, agent=0, chunk_bytes=CHUNK_BYTES, changes=None, **options):
        given = {"timeout_ms": TIMEOUT_MS, "lookup_timeout_ms": TIMEOUT_MS, **options}
        tier = Tier(self.options(agent, **given), spec(**(changes or {})), chunk_bytes)
        self.addCleanup(tier.tier.shutdown)
        return tier

    def store(self, chunks=range(CHUNKS), **options):
        writer = self.open(**options)
        writer.memory[:] = random.Random(1).randbytes(len(writer.memory))
        result = writer.finish(writer.tier.submit_store, [KEYS[chunk] for chunk in chunks], list(chunks))
        self.assertTrue(result.success)
        self.assertEqual(result.transfer_bytes, len(chunks) * CHUNK_BYTES)
        return writer

    def test_another_node_loads_what_one_has_stored(self):
        writer, reader = self.store(), self.open(1)
        self.assertEqual(reader.find([*KEYS, ABSENT]), [True] * CHUNKS + [False])
        places = list(reversed(range(CHUNKS)))
        self.assertTrue(reader.finish(reader.tier.submit_load, KEYS, places).success)
        for chunk, place in enumerate(places):
            self.assertEqual(reader.chunk(place), writer.chunk(chunk))

    def test_a_lookup_does_not_wait(self):
        reader = self.open()
        context = SimpleNamespace(req_id="request")
        self.assertEqual(reader.tier.lookup(ABSENT, context), LookupResult.RETRY)
        self.assertEqual(reader.find([ABSENT]), [False])

    def test_keys_that_could_not_be_loaded_are_missed(self):
        self.store([0, 2])
        reader = self.open(1)
        self.assertEqual(reader.find(KEYS[:3]), [True, False, True])
        result = reader.finish(reader.tier.submit_load, KEYS[:3], [0, 1, 2])
        self.assertEqual((result.success, result.successful_keys), (False, (KEYS[0], KEYS[2])))
        other = self.open(1, chunk_bytes=2 * CHUNK_BYTES)
        other.tier._lookups.find(KEYS[0], "request")
        self.assertFalse(other.finish(other.tier.submit_load, KEYS[:1], [0]).success)
        self.assertEqual(other.find(KEYS[:1]), [False])

    def test_a_request_keeps_its_answers_until_it_has_finished(self):
        reader = self.open(1)
        self.assertEqual(reader.find(KEYS[:1], "a"), [False])
        self.store([0])
        self.assertEqual(reader.find(KEYS[:1], "a"), [False])
        reader.tier.on_request_finished(SimpleNamespace(req_id="a"))
        self.assertEqual(reader.find(KEYS[:1], "b"), [True])

    def test_a_failed_load_is_not_offered_again(self):
        agents = self.replaceable_agents()
        reader = self.store([0, 1], addresses=",".join(agents.addresses), timeout_ms=800, lookup_timeout_ms=800)
        self.assertEqual(reader.find(KEYS[:2]), [True, True])
        agents.kill()
        with self.assertLogs("hearth_vllm", "WARNING"):
            result = reader.finish(reader.tier.submit_load, KEYS[:2], [0, 1])
            self.assertEqual((result.success, result.successful_keys), (False, None))
            self.assertEqual(reader.find(KEYS[:2]), [False, False])
            self.assertEqual(reader.find([ABSENT]), [False])
            self.assertFalse(reader.finish(reader.tier.submit_store, KEYS[2:3], [2]).success)

    def test_chunks_of_another_fingerprint_are_missed(self):
        self.store([0])
        self.assertEqual(self.open(1).find(KEYS[:1]), [True])
        others = [
            {"changes": {"model": SimpleNamespace(name="org/model", dtype="fp8")}},
            {"changes": {"cache": SimpleNamespace(tokens_per_hash=32, blocks_per_chunk=1)}},
            {"changes": {"groups": (SimpleNamespace(tokens_per_block=16, layer_names=("layers.1",)),)}},
            {"changes": {"parallel": SimpleNamespace(world_size=2, tp_size=2, is_parallelism_agnostic=False)}},
            {"changes": {"kv_cache_layout": "HND"}},
            {"chunk_bytes": 2 * CHUNK_BYTES},
            {"fingerprint": "weights-2"},
            {"salt": "another tenant"},
        ]
        for other in others:
            with self.subTest(**{name: str(value) for name, value in other.items()}):
                self.assertEqual(self.open(**other).find(KEYS[:1]), [False])

    def test_chunks_that_are_the_same_for_all_layouts_are_shared(self):
        one, two = (
            {"parallel": SimpleNamespace(world_size=workers, tp_size=workers, is_parallelism_agnostic=True)}
            for workers in (1, 2)
        )
        self.store([0], changes=one)
        self.assertEqual(self.open(1, changes=two).find(KEYS[:1]), [True])

    def test_every_job_is_reported_once(self):
        tier = self.store()
        keys = [*KEYS, *(bytes([number % 256, number // 256]) * 18 for number in range(5000))]
        jobs = [
            tier.submit(tier.tier.submit_store, KEYS, list(range(CHUNKS))),
            tier.submit(tier.tier.submit_load, KEYS, list(range(CHUNKS))),
            tier.submit(tier.tier.submit_load, keys, [CHUNKS - 1] * len(keys)),
            tier.submit(tier.tier.submit_store, [b""], [0]),
        ]
        self.assertTrue(tier.tier.has_pending_work())
        tier.tier.drain_jobs()
        results = list(tier.tier.get_finished_jobs())
        self.assertEqual(sorted(result.job_id for result in results), jobs)
        success = {result.job_id: result.success for result in results}
        self.assertEqual([success[job] for job in jobs], [True, True, False, False])
        self.assertEqual(list(tier.tier.get_finished_jobs()), [])
        self.assertFalse(tier.tier.has_pending_work())

    def test_shutdown_ends_what_is_in_flight(self):
        tier = self.store()
        jobs = [tier.submit(tier.tier.submit_load, KEYS, list(range(CHUNKS))) for _ in range(20)]
        tier.tier.shutdown()
        tier.tier.shutdown()
        self.assertEqual(sorted(result.job_id for result in tier.tier.get_finished_jobs()), jobs)
        late = tier.submit(tier.tier.submit_load, KEYS, list(range(CHUNKS)))
        self.assertEqual([(each.job_id, each.success) for each in tier.tier.get_finished_jobs()], [(late, False)])
        self.assertEqual(tier.find([ABSENT]), [False])
        tier.memory.close()

    def test_a_tier_without_a_volume_is_refused(self):
        with self.assertRaises(ValueError):
            self.open(volume=None)


if __name__ == "__main__":
    unittest.main()
