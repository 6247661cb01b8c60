"""UCM's own factory; skipped unless $HEARTH_UCM_SOURCE names a folder of UCM's source."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE = os.environ.get("HEARTH_UCM_SOURCE", "")


@unittest.skipUnless(SOURCE, "HEARTH_UCM_SOURCE names no folder")
class Factory(unittest.TestCase):
    def test_makes_a_store_that_keeps_every_byte(self) -> None:
        # A process of its own, as the other tests have their own contract of UCM.
        script = Path(__file__).with_name("factory_round_trip.py")
        ran = subprocess.run([sys.executable, script, SOURCE], capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("useDirect True equal True", ran.stdout)
        self.assertIn("useDirect False equal True", ran.stdout)


if __name__ == "__main__":
    unittest.main()
