"""pygd2fs: synchronous calls, and memory of every kind."""

import array
import asyncio
import atexit
import ctypes
import errno
import gc
import os
import select
import signal
import stat
import threading
import unittest
from unittest import mock

from gd2fs_agent import PATH, AgentTest

import pygd2fs


class DLDevice(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("index", ctypes.c_int32)]


class DLManagedTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", DLDevice),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("destroy", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ]


class Tensor:
    """A matrix of 32-bit integers that speaks DLPack and nothing else."""

    def __init__(self, shape, strides=None, device=1, offset=0):
        self.memory = ctypes.create_string_buffer(4 * shape[0] * shape[1] + offset)
        self.device, self.offset, self.shape = device, offset, shape
        self.destroyed = threading.Event()
        self.c_shape = (ctypes.c_int64 * 2)(*shape)
        self.c_strides = (ctypes.c_int64 * 2)(*strides) if strides else None

    def __dlpack_device__(self):
        return (self.device, 0)

    def __dlpack__(self):
        destroy = DLManagedTensor._fields_[-1][1](lambda _: self.destroyed.set())
        self.managed = DLManagedTensor(
            ctypes.addressof(self.memory), DLDevice(self.device, 0), 2, 0, 32, 1, self.c_shape, self.c_strides,
            self.offset, None, destroy,
        )  # fmt: skip
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), b"dltensor", None)


class PublishedProgramsTest(AgentTest):
    """The calls of the published backends of SGLang and vLLM, in their order."""

    def setUp(self):
        super().setUp()
        root = mock.patch.dict(os.environ, {"HEARTH_ROOT": "/dataset/test"})
        root.start()
        self.addCleanup(root.stop)

    def test_a_backend_with_an_event_loop(self):
        client = pygd2fs.Client(self.address, "rdma://127.0.0.1", "test", iothreads=1, memthreads=1, streams=1)
        self.addCleanup(client.close)
        poll = select.poll()
        poll.register(client.GetFd(), select.POLLIN)
        length = 4096
        handlers, done = {}, []
        for offset in (0, 7, 4096):
            memory = ctypes.create_string_buffer(length)
            iomem = client.RegIOMEM(ctypes.addressof(memory), length)
            sges = [pygd2fs.SGE(ctypes.addressof(memory), length, iomem)]
            request = client.Read("/file", offset, sges, 0, "")
            self.assertEqual(sum(sge.length for sge in sges), length)
            handlers[request] = (offset, memory, iomem)
        while handlers:
            poll.poll()
            while requests := client.Wait(0):
                for request in requests:
                    offset, memory, iomem = handlers.pop(request)
                    client.DeregIOMEM(iomem)
                    self.assertEqual((request.Status(), request.Value()), (0, length))
                    self.assertEqual(memory.raw, self.expected[offset : offset + length])
                    done.append(offset)
        self.assertEqual(sorted(done), [0, 7, 4096])
        self.assertIsNone(client.Write("/file", 0, sges, 0, ""))

    def test_a_connector_that_awaits(self):
        client = pygd2fs.Client(
            self.address, "rdma://127.0.0.1,rdma://127.0.0.2", "test", iothreads=1, memthreads=1, streams=1
        )
        self.addCleanup(client.close)
        layer = ctypes.create_string_buffer(4096)
        of_layer = client.RegIOMEM(ctypes.addressof(layer), len(layer))

        async def direct():
            regions = [(ctypes.addressof(layer) + begin, 512) for begin in (2048, 0)]
            sges = [pygd2fs.SGE(address, length, of_layer) for address, length in regions]
            request = await client.ReadAsync("/file", 7, sges, 0)
            self.assertEqual((request.Status(), request.Value()), (0, sum(sge.length for sge in sges)))
            self.assertEqual(layer.raw[2048:2560] + layer.raw[:512], self.expected[7:1031])

        async def bounce():
            memory = ctypes.create_string_buffer(1000)
            iomem = client.RegIOMEM(ctypes.addressof(memory), len(memory))
            try:
                request = await client.ReadAsync(
                    "/file", 1, [pygd2fs.SGE(ctypes.addressof(memory), len(memory), iomem)], 0
                )
                self.assertEqual((request.Status(), request.Value()), (0, len(memory)))
            finally:
                client.DeregIOMEM(iomem)
            self.assertEqual(memory.raw, self.expected[1:1001])

        async def run():
            await asyncio.gather(*(each() for each in (direct, bounce, bounce)))
            sge = pygd2fs.SGE(ctypes.addressof(layer), len(layer), of_layer)
            self.assertIsNone(await client.WriteAsync("/file", 0, [sge], 0))

        asyncio.run(run())

    def test_a_backend_that_waits(self):
        client = pygd2fs.Client(self.address, "tcp://127.0.0.1", "test", iothreads=1, memthreads=1, streams=1)
        self.addCleanup(client.close)
        memory = ctypes.create_string_buffer(100)
        iomem = client.RegIOMEM(ctypes.addressof(memory), len(memory))
        request = client.Read("/file", 5, [pygd2fs.SGE(ctypes.addressof(memory), len(memory), iomem)], 0, "")
        requests = client.Wait(-1)
        self.assertEqual((len(requests), requests[0]), (1, request))
        client.DeregIOMEM(iomem)
        self.assertEqual(memory.raw, self.expected[5:105])


class SynchronousTest(AgentTest):
    def test_reads_a_file(self):
        size = len(self.expected)
        request = self.client.Read(PATH, 0, [self.sge(0, size)], 0, "whole")
        (ended,) = self.client.Wait(-1)
        self.assertIs(ended, request)
        self.assertEqual((request.Status(), request.Value(), request.desc), (0, size, "whole"))
        self.assertEqual(self.memory.raw, self.expected)

    def test_a_descriptor_tells_when_to_wait(self):
        poll = select.poll()
        poll.register(self.client.GetFd(), select.POLLIN)
        self.assertEqual(poll.poll(0), [])
        handlers = {self.client.Read(PATH, 0, [self.sge(i, 1)], 0, ""): i for i in range(10)}
        while handlers:
            poll.poll()
            for request in self.client.Wait(0):
                del handlers[request]
        self.assertEqual(poll.poll(0), [])

    def test_scatters_what_it_reads(self):
        parts = (self.sge(5000, 10), self.sge(0, 3), self.sge(100, 4000))
        self.client.Read(PATH, 77, parts)
        (ended,) = self.client.Wait(-1)
        self.assertEqual((ended.Status(), ended.Value()), (0, 4013))
        got = self.memory.raw
        self.assertEqual(got[5000:5010] + got[0:3] + got[100:4100], self.expected[77 : 77 + 4013])

    def test_says_why_not(self):
        self.client.Read("/dataset/test/none", 0, [self.sge(0, 1)], 0, "")
        (ended,) = self.client.Wait(-1)
        _, kind, _, code = pygd2fs.InspectStatus(ended.Status())
        self.assertEqual((kind, code), (1, errno.ENOENT))
        self.assertIsNone(self.client.Read(PATH, 0, [self.sge(0, len(self.memory) + 1)], 0, ""))
        self.assertIsNone(self.client.Read(PATH, 0, [], 0, ""))
        self.assertIsNone(self.client.Read(PATH, 0, [self.sge(0, 1)] * 65_536, 0, ""))
        self.assertIsNone(self.client.Read(PATH, 0, [self.sge(0, 1)], 1 << 16, ""))
        self.assertIsNone(self.client.Write(PATH, 0, [self.sge(0, 1)], 0, ""))
        self.assertEqual(self.client.Wait(0), [])

    def test_arguments_of_other_types_are_exceptions(self):
        for arguments, error in (
            ((PATH, -1, [self.sge(0, 1)]), OverflowError),
            ((PATH, 0, [self.iomem]), TypeError),
            ((PATH, 0, 7), TypeError),
            ((b"/dataset", 0, [self.sge(0, 1)]), TypeError),
            (("/dataset/test/file\0x", 0, [self.sge(0, 1)]), ValueError),
            (("/dataset/test/\udc80", 0, [self.sge(0, 1)]), UnicodeEncodeError),
        ):
            with self.subTest(arguments), self.assertRaises(error):
                self.client.Read(*arguments)
        with self.assertRaises(TypeError):
            pygd2fs.SGE(0, 1, None)
        self.assertEqual(self.client.Wait(0), [])

    def test_stats_a_file(self):
        request = self.client.Stat(PATH)
        self.assertEqual(self.client.Wait(-1), [request])
        size, _, mode = request.Stat()
        self.assertEqual((request.Status(), size), (0, len(self.expected)))
        self.assertTrue(stat.S_ISREG(mode))

    def test_a_closed_client_waits_for_nothing(self):
        self.client.close()
        self.client.close()
        self.assertEqual(self.client.Wait(-1), [])
        self.assertIsNone(self.client.Read(PATH, 0, [self.sge(0, 1)], 0, ""))
        with self.assertRaises(OSError) as raised:
            self.client.RegIOMEM(bytearray(8))
        self.assertEqual(raised.exception.errno, errno.EBADF)

    def test_close_ends_the_wait_of_another_thread(self):
        answers = []
        waiter = threading.Thread(target=lambda: answers.append(self.client.Wait(-1)))
        waiter.start()
        self.client.close()
        waiter.join()
        self.assertEqual(answers, [[]])

    def test_a_signal_interrupts_a_wait(self):
        def interrupt(*_):
            raise KeyError("interrupted")

        previous = signal.signal(signal.SIGUSR1, interrupt)
        self.addCleanup(signal.signal, signal.SIGUSR1, previous)
        # The signal may come before the wait begins: then the exception is raised on the way there.
        killer = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGUSR1))
        with self.assertRaises(KeyError):
            killer.start()
            self.client.Wait(-1)
        killer.join()

    def test_a_child_of_fork_ends_while_its_parent_waits(self):
        waiting = threading.Event()

        def wait():
            waiting.set()
            while self.client.Wait(-1):
                pass

        waiter = threading.Thread(target=wait)
        waiter.start()
        waiting.wait()
        # The first wait for a child gives the other thread its turn to begin its wait.
        for _ in range(3):
            child = os.fork()
            if child == 0:
                # As the end of a program: exit(3) runs what atexit has.
                atexit._run_exitfuncs()
                os._exit(0)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.client.close()
        waiter.join()

    def test_a_child_of_fork_has_no_client(self):
        request = self.client.Read(PATH, 0, [self.sge(0, 10)])
        child = os.fork()
        if child == 0:
            try:
                isRefused = self.client.Read(PATH, 0, [self.sge(0, 10)]) is None
                self.client.close()
                os._exit(0 if isRefused and self.client.Wait(-1) == [] else 1)
            finally:
                os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(self.client.Wait(-1), [request])

    def test_a_forgotten_client_goes(self):
        def descriptors():
            return len(os.listdir("/proc/self/fd"))

        before = descriptors()
        client = pygd2fs.Client(self.address, [], "test", iothreads=1)
        iomem = client.RegIOMEM(bytearray(10))
        client.Read(PATH, 0, [pygd2fs.SGE(iomem.addr, 10, iomem)])
        self.assertGreater(descriptors(), before)
        del client, iomem
        gc.collect()
        self.assertEqual(descriptors(), before)


class MemoryTest(AgentTest):
    def read(self, iomem, offset=0):
        request = self.client.Read(PATH, offset, [pygd2fs.SGE(iomem.addr, iomem.length, iomem)])
        self.assertEqual(self.client.Wait(-1), [request])
        self.assertEqual((request.Status(), request.Value()), (0, iomem.length))

    def test_buffers(self):
        numbers = array.array("d", bytes(800))
        for memory in (bytearray(1000), numbers, memoryview(bytearray(64))[8:16], (ctypes.c_int * 10)()):
            with self.subTest(type(memory)):
                self.read(self.client.RegIOMEM(memory), 5)
                self.assertEqual(bytes(memory), self.expected[5 : 5 + memoryview(memory).nbytes])

    def test_a_buffer_stays_while_it_is_registered(self):
        memory = bytearray(1000)
        iomem = self.client.RegIOMEM(memory)
        with self.assertRaises(BufferError):
            memory.clear()
        self.client.DeregIOMEM(iomem)
        memory.clear()
        with self.assertRaises(OSError) as raised:
            self.client.DeregIOMEM(iomem)
        self.assertEqual(raised.exception.errno, errno.EINVAL)

    def test_a_request_keeps_its_memory(self):
        memory = bytearray(len(self.expected))
        iomem = self.client.RegIOMEM(memory)
        self.client.Read(PATH, 0, [pygd2fs.SGE(iomem.addr, iomem.length, iomem)])
        del iomem
        (ended,) = self.client.Wait(-1)
        self.assertEqual(ended.Status(), 0)
        self.assertEqual(memory, self.expected)
        del ended
        memory.clear()

    def test_part_of_a_buffer(self):
        memory = bytearray(100)
        self.read(self.client.RegIOMEM(memory, 10))
        self.assertEqual(memory, self.expected[:10] + bytes(90))
        with self.assertRaises(ValueError):
            self.client.RegIOMEM(memory, 101)

    def test_tensors(self):
        tensor = Tensor((5, 7), offset=8)
        iomem = self.client.RegIOMEM(tensor)
        self.read(iomem)
        self.assertEqual(tensor.memory.raw[8:], self.expected[: 4 * 35])
        self.assertFalse(tensor.destroyed.is_set())
        self.client.DeregIOMEM(iomem)
        self.assertTrue(tensor.destroyed.is_set())

    def test_memory_that_cannot_be_read_into(self):
        transposed = Tensor((5, 7), strides=(1, 5))
        for memory, error in (
            (bytes(10), BufferError),
            (memoryview(bytearray(10))[::2], BufferError),
            (transposed, BufferError),
            (Tensor((2, 2), device=10), BufferError),
            ("text", TypeError),
            (None, TypeError),
            (1.5, TypeError),
        ):
            with self.subTest(type(memory)), self.assertRaises(error):
                self.client.RegIOMEM(memory)
        self.assertTrue(transposed.destroyed.is_set())
        with self.assertRaises(TypeError):
            self.client.RegIOMEM(4096)  # an address without a length
        for address, length in ((0, 10), (4096, 0), (2**64 - 10, 100)):
            with self.assertRaises(OSError) as raised:
                self.client.RegIOMEM(address, length)
            self.assertEqual(raised.exception.errno, errno.EINVAL)

    def test_memory_of_another_client_is_refused(self):
        other = self.connect()
        iomem = other.RegIOMEM(bytearray(10))
        self.assertIsNone(self.client.Read(PATH, 0, [pygd2fs.SGE(iomem.addr, 10, iomem)]))


if __name__ == "__main__":
    unittest.main()
