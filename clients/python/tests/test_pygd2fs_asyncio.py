"""pygd2fs on event loops, and at the end of the interpreter."""

import asyncio
import ctypes
import errno
import os
import subprocess
import sys
import textwrap
import threading
import unittest

from gd2fs_agent import PATH, AgentTest

import pygd2fs

EACH = 900
READS = 10_000


class AsyncioTest(AgentTest):
    async def read_all(self, client, count):
        return await asyncio.gather(*(client.ReadAsync(PATH, i * EACH, [self.sge(i * EACH, EACH)]) for i in range(count)))

    def test_ten_thousand_reads_are_in_flight_on_one_loop_without_a_thread_each(self):
        threads = threading.active_count()
        request = self.client.Read(PATH, 3, [self.sge(READS * EACH, 10)])
        ended = asyncio.run(self.read_all(self.client, READS))
        self.assertEqual({(one.Status(), one.Value()) for one in ended}, {(0, EACH)})
        self.assertEqual(self.memory.raw[: READS * EACH], self.expected[: READS * EACH])
        self.assertEqual(self.client.Wait(-1), [request])
        self.assertEqual(threading.active_count(), threads)

    def test_many_reads_are_accepted_before_the_first_has_ended(self):
        async def run():
            # The loop does not turn between these, so none of them can end.
            tasks = [asyncio.ensure_future(self.client.ReadAsync(PATH, 0, [self.sge(0, 1)])) for _ in range(READS)]
            return await asyncio.gather(*tasks)

        self.assertNotIn(None, asyncio.run(run()))

    def test_several_loops_share_a_client(self):
        answers = []

        def run():
            answers.append(asyncio.run(self.read_all(self.client, 100)))

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([len(answer) for answer in answers], [100] * 4)

    def test_loops_that_are_closed_leave_nothing_behind(self):
        for _ in range(5):
            asyncio.run(self.read_all(self.client, 10))
        descriptors = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            asyncio.run(self.read_all(self.client, 10))
        self.assertEqual(len(os.listdir("/proc/self/fd")), descriptors)

    def test_a_status_says_why_not(self):
        async def run():
            ended = await self.client.ReadAsync("/dataset/test/none", 0, [self.sge(0, 1)])
            self.assertEqual(pygd2fs.InspectStatus(ended.Status())[3], errno.ENOENT)
            self.assertIsNone(await self.client.ReadAsync(PATH, 0, []))
            self.assertIsNone(await self.client.WriteAsync(PATH, 0, [self.sge(0, 1)]))
            return (await self.client.StatAsync(PATH)).Stat()[0]

        self.assertEqual(asyncio.run(run()), len(self.expected))

    def test_a_cancelled_read_leaves_the_others(self):
        async def run():
            read = asyncio.create_task(self.client.ReadAsync(PATH, 0, [self.sge(0, len(self.expected))]))
            await asyncio.sleep(0)
            read.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await read
            other = await self.client.ReadAsync(PATH, 0, [self.sge(0, 10)])
            self.assertEqual(other.Status(), 0)

        asyncio.run(run())

    def test_memory_of_a_cancelled_read_is_deregistered_without_an_error(self):
        async def read():
            memory = ctypes.create_string_buffer(len(self.expected))
            iomem = self.client.RegIOMEM(ctypes.addressof(memory), len(memory))
            try:
                await self.client.ReadAsync(PATH, 0, [pygd2fs.SGE(iomem.addr, iomem.length, iomem)])
            finally:
                self.client.DeregIOMEM(iomem)

        async def run():
            for _ in range(20):
                task = asyncio.create_task(read())
                await asyncio.sleep(0)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task

        asyncio.run(run())

    def test_close_ends_what_is_awaited(self):
        async def run():
            reads = [asyncio.create_task(self.client.ReadAsync(PATH, 0, [self.sge(0, len(self.memory))])) for _ in range(50)]
            await asyncio.sleep(0)
            self.client.close()
            for read in await asyncio.gather(*reads):
                self.assertIn(pygd2fs.InspectStatus(read.Status())[3], (0, errno.ECANCELED))
            self.assertIsNone(await self.client.ReadAsync(PATH, 0, [self.sge(0, 1)]))

        asyncio.run(run())

    def test_a_loop_may_go_while_reads_are_in_flight(self):
        async def run():
            for _ in range(50):
                asyncio.ensure_future(self.client.ReadAsync(PATH, 0, [self.sge(0, len(self.memory))]))
            await asyncio.sleep(0)

        asyncio.run(run())
        # Another loop, and then the end of the client, find the first one's queue.
        asyncio.run(self.read_all(self.client, 10))


class ExitTest(AgentTest):
    def exits(self, program):
        begin = f"""
            import asyncio, logging, pygd2fs, threading
            logging.getLogger("asyncio").setLevel(logging.ERROR)  # Its warnings name slow tasks.
            client = pygd2fs.Client({self.address!r}, [], "test", iothreads=1)
            memory = bytearray({len(self.expected)})
            iomem = client.RegIOMEM(memory)
            sges = [pygd2fs.SGE(iomem.addr, iomem.length, iomem)]
        """
        source = textwrap.dedent(begin) + textwrap.dedent(program)
        ended = subprocess.run([sys.executable, "-X", "dev", "-c", source], capture_output=True, text=True)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))

    def test_with_reads_in_flight(self):
        self.exits(f"requests = [client.Read({PATH!r}, 0, sges) for _ in range(20)]")

    def test_with_a_thread_that_waits(self):
        self.exits("threading.Thread(target=client.Wait, daemon=True).start()")

    def test_with_a_loop_in_the_middle_of_reads(self):
        self.exits(f"""
            async def run():
                for _ in range(20):
                    asyncio.ensure_future(client.ReadAsync({PATH!r}, 0, sges))
                await asyncio.sleep(0)
            asyncio.run(run())
        """)

    def test_with_a_loop_on_a_daemon_thread(self):
        self.exits(f"""
            began = threading.Event()
            async def run():
                while True:
                    reads = [client.ReadAsync({PATH!r}, 0, sges) for _ in range(20)]
                    began.set()
                    if None in await asyncio.gather(*reads):
                        return
            threading.Thread(target=lambda: asyncio.run(run()), daemon=True).start()
            began.wait()
        """)


if __name__ == "__main__":
    unittest.main()
