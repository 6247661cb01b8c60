"""Two agents that share the volume `kv` (hearth_gd2fs_serve), for tests of plug-ins without their engines."""

import os
import subprocess
import unittest

if "HEARTH_GD2FS_SERVE" not in os.environ:
    raise unittest.SkipTest("HEARTH_GD2FS_SERVE names no agent")

# No request of these tests is to end by its time, also on a machine that stands still for minutes.
TIMEOUT_MS = 3_600_000


class Agents:
    """Their `addresses`, in the cluster `test`, and the `token` that lets a client write the volume."""

    def __init__(self):
        serve = [os.environ["HEARTH_GD2FS_SERVE"], "--volume"]
        self._process = subprocess.Popen(serve, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        *self.addresses, self.token = (self._process.stdout.readline().strip() for _ in range(3))

    def kill(self):
        self._process.kill()
        self._process.wait()

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class VolumeTest(unittest.TestCase):
    """`agents` serve all tests of a class."""

    @classmethod
    def setUpClass(cls):
        cls.agents = Agents()
        cls.addClassCleanup(cls.agents.close)
        os.environ["HEARTH_TOKEN"] = cls.agents.token

    def options(self, agent, **more):
        """What a plug-in needs for blocks of this test alone."""
        address = self.agents.addresses[agent]
        return {"volume": "kv", "salt": self.id(), "addresses": address, "cluster": "test", **more}

    def replaceable_agents(self):
        """Agents of this test alone, which it may kill."""
        agents = Agents()
        self.addCleanup(agents.close)
        before = os.environ["HEARTH_TOKEN"]
        self.addCleanup(os.environ.__setitem__, "HEARTH_TOKEN", before)
        os.environ["HEARTH_TOKEN"] = agents.token
        return agents
