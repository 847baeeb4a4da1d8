"""A second process that takes one core for half of the time, in bursts: the load under which rates are measured."""
import subprocess
import sys
import time

WORK = """
import os, sys, time
burst, begun, parent = float(sys.argv[1]), float(sys.argv[2]), os.getppid()
while os.getppid() == parent:
    until = time.monotonic() + burst - (time.monotonic() - begun) % (2 * burst)
    while time.monotonic() < until:
        pass
    time.sleep(2 * burst - (time.monotonic() - begun) % (2 * burst))
"""


class SecondProcess:
    """Runs while the context is entered. burst: seconds of work, and of rest; 0: no process."""

    def __init__(self, burst):
        self.burst, self.begun, self.process = burst, time.monotonic(), None

    def __enter__(self):
        if self.burst > 0:
            self.process = subprocess.Popen([sys.executable, "-c", WORK, str(self.burst), str(self.begun)])
        return self

    def wait_for_burst(self):
        """Commands that begin with a burst get the same load at the same time."""
        time.sleep(2 * self.burst - (time.monotonic() - self.begun) % (2 * self.burst))

    def __exit__(self, *_):
        if self.process:
            self.process.kill()
            self.process.wait()
