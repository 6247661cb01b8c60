"""pygd2fs with memory of a GPU, over a library of the driver's functions whose memory no processor can touch."""

import ctypes
import errno
import gc
import os
import threading
import time
import unittest

if "HEARTH_FAKE_GPU" not in os.environ:
    raise unittest.SkipTest("HEARTH_FAKE_GPU names no driver")

os.environ["HEARTH_CUDA_LIBRARY"] = os.environ["HEARTH_FAKE_GPU"]
cuda = ctypes.CDLL(os.environ["HEARTH_FAKE_GPU"])

import pygd2fs
from gd2fs_agent import PATH, AgentTest
from test_pygd2fs import Tensor

CUDA = 2


def check(result):
    if result:
        raise OSError(f"CUDA answers {result}")


class GpuTensor(Tensor):
    """A matrix in memory of the first GPU, whose context is the calling thread's."""

    def __init__(self, shape):
        super().__init__(shape, device=CUDA)
        self.size = 4 * shape[0] * shape[1]
        self.address = ctypes.c_uint64()
        check(cuda.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(self.size)))
        self.memory = (ctypes.c_char * self.size).from_address(self.address.value)

    def contents(self):
        pinned, stream = ctypes.c_void_p(), ctypes.c_void_p()
        check(cuda.cuMemHostAlloc(ctypes.byref(pinned), ctypes.c_size_t(self.size), 0))
        check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
        check(cuda.cuMemcpyDtoHAsync_v2(pinned, self.address, ctypes.c_size_t(self.size), stream))
        check(cuda.cuStreamSynchronize(stream))
        check(cuda.cuStreamDestroy_v2(stream))
        contents = ctypes.string_at(pinned, self.size)
        check(cuda.cuMemFreeHost(pinned))
        return contents

    def free(self):
        check(cuda.cuMemFree_v2(self.address))


class GpuTest(AgentTest):
    def setUp(self):
        check(cuda.cuInit(0))
        context = ctypes.c_void_p()
        check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        check(cuda.cuCtxPushCurrent_v2(context))
        super().setUp()

    def tearDown(self):
        self.client.close()
        check(cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p())))
        check(cuda.cuDevicePrimaryCtxRelease_v2(0))
        cuda.fakeGpuBreaches.restype = ctypes.c_size_t
        self.assertEqual(cuda.fakeGpuBreaches(), 0)

    def read(self, iomem, sge):
        self.client.Read(PATH, 3, [sge])
        (ended,) = self.client.Wait(-1)
        self.assertEqual((ended.Status(), ended.Value()), (0, sge.length))
        self.client.DeregIOMEM(iomem)

    def leave_a_driver_at_work(self):
        """A client, and a tensor with its IOMEM into which a read that has failed may go on to write."""
        client = pygd2fs.Client(self.address, ["tcp://127.0.0.1"], "test", iothreads=1, timeout=300)
        tensor = GpuTensor((50, 40))
        iomem = client.RegIOMEM(tensor)
        cuda.fakeGpuHang(b"cuEventSynchronize")
        is_quiescent = True
        while is_quiescent:  # the time may end before the driver is called
            client.Read(PATH, 3, [pygd2fs.SGE(iomem.addr, iomem.length, iomem)])
            (ended,) = client.Wait(-1)
            self.assertEqual(ended.Status() & 0xFF, errno.ETIMEDOUT)
            is_quiescent = ended.IsQuiescent()
        return client, tensor, iomem

    def test_reads_into_a_tensor(self):
        tensor = GpuTensor((50, 40))
        iomem = self.client.RegIOMEM(tensor)
        self.assertEqual((iomem.addr, iomem.length), (tensor.address.value, tensor.size))
        self.read(iomem, pygd2fs.SGE(iomem.addr, iomem.length, iomem))
        self.assertTrue(tensor.destroyed.is_set())
        self.assertEqual(tensor.contents(), self.expected[3 : 3 + tensor.size])
        tensor.free()

    def test_tells_when_a_driver_goes_on_with_a_read_that_failed(self):
        late, tensor, iomem = self.leave_a_driver_at_work()
        self.assertFalse(late.Drain(iomem, 0))
        self.assertFalse(late.Drain(iomem, 50))
        deregistering = threading.Thread(target=late.DeregIOMEM, args=[iomem])
        deregistering.start()
        self.assertFalse(tensor.destroyed.is_set())
        cuda.fakeGpuRelease()
        deregistering.join()
        self.assertTrue(tensor.destroyed.is_set())
        late.close()
        tensor.free()

    def test_lends_memory_for_ever_that_a_driver_may_write(self):
        late, tensor, iomem = self.leave_a_driver_at_work()
        del iomem
        gc.collect()
        self.assertFalse(tensor.destroyed.is_set())
        cuda.fakeGpuRelease()
        while cuda.fakeGpuHanging() > 0:
            time.sleep(0.01)
        late.close()
        tensor.free()

    def test_reads_to_an_address(self):
        tensor = GpuTensor((50, 40))
        iomem = self.client.RegIOMEM(tensor.address.value, tensor.size)
        self.read(iomem, pygd2fs.SGE(iomem.addr + 16, 1000, iomem))
        self.assertEqual(tensor.contents()[16:1016], self.expected[3:1003])
        tensor.free()


if __name__ == "__main__":
    unittest.main()
