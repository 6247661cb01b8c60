"""The contract of LMCache's native_plugin, without LMCache: two clients of two agents that share a volume."""

import random
import select
import unittest

from hearth_lmcache import Client
from volume_agents import TIMEOUT_MS, VolumeTest

LIMIT_S = 300


class LmcacheTest(VolumeTest):
    def open(self, agent, fingerprint="", timeout_ms=TIMEOUT_MS):
        named = self.options(agent, fingerprint=fingerprint or "weights", timeout_ms=timeout_ms)
        client = Client(**named)
        self.addCleanup(client.close)
        return client

    @staticmethod
    def completion(client):
        """The next one, as LMCache's thread waits for it."""
        poller = select.poll()
        poller.register(client.event_fd(), select.POLLIN)
        while True:
            assert poller.poll(LIMIT_S * 1000), "no completion"
            if completions := client.drain_completions():
                assert len(completions) == 1, completions
                return completions[0]

    def test_another_node_loads_what_one_has_stored(self):
        values = [random.Random(size).randbytes(size) for size in (1, 4096, 3 << 20)]
        keys = [f"org/model@01010000@0@{size:064x}@salt" for size in range(3)]
        writer, reader = self.open(0), self.open(1)
        stored = writer.submit_batch_set(keys, [memoryview(value) for value in values])
        self.assertEqual(self.completion(writer), (stored, True, "", None))
        asked = reader.submit_batch_exists(["none", *keys])
        self.assertEqual(self.completion(reader), (asked, True, "", [False, True, True, True]))
        memory = [bytearray(len(value)) for value in values]
        loaded = reader.submit_batch_get([*keys, "none"], [*map(memoryview, memory), memoryview(bytearray(8))])
        self.assertEqual(self.completion(reader), (loaded, True, "", [True, True, True, False]))
        self.assertEqual([bytes(each) for each in memory], values)

    def test_values_of_another_length_or_fingerprint_are_misses(self):
        writer = self.open(0)
        writer.submit_batch_set(["key"], [memoryview(bytes(5000))])
        self.completion(writer)
        for length in (4999, 5001):
            asked = writer.submit_batch_get(["key"], [memoryview(bytearray(length))])
            self.assertEqual(self.completion(writer), (asked, True, "", [False]), length)
        other = self.open(0, "other weights")
        asked = other.submit_batch_exists(["key"])
        self.assertEqual(self.completion(other), (asked, True, "", [False]))

    def test_more_keys_than_one_call_takes(self):
        client = self.open(1)
        keys = [f"key {number}" for number in range(5000)]
        stored = client.submit_batch_set(keys[4998:], [memoryview(b"value")] * 2)
        self.assertEqual(self.completion(client), (stored, True, "", None))
        asked = client.submit_batch_exists(keys)
        self.assertEqual(self.completion(client), (asked, True, "", [False] * 4998 + [True] * 2))
        # The token of this test has no right to delete.
        removed = client.submit_batch_delete(keys)
        self.assertEqual(self.completion(client), (removed, False, "Permission denied", [False] * 5000))

    def test_every_future_ends_once(self):
        client = self.open(0)
        self.assertEqual(self.completion_of(client.submit_batch_exists([]), client), (True, "", []))
        future = client.submit_batch_set(["key"], [memoryview(b"")])
        ok, error, found = self.completion_of(future, client)
        self.assertEqual((ok, found), (False, None))
        self.assertTrue(error)
        self.assertEqual(client.drain_completions(), [])

    def completion_of(self, future, client):
        done, *rest = self.completion(client)
        self.assertEqual(done, future)
        return tuple(rest)

    def test_a_space_without_a_fingerprint_is_refused(self):
        with self.assertRaises(ValueError):
            Client(**self.options(0, fingerprint=""))


if __name__ == "__main__":
    unittest.main()
