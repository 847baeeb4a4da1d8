"""A second process that takes one core for half of the time, in bursts: the load that measurements are held against."""
import subprocess
import sys

WORK = """
import os, sys, time
burst, parent = float(sys.argv[1]), os.getppid()
while os.getppid() == parent:
    until = time.monotonic() + burst
    while time.monotonic() < until:
        pass
    time.sleep(burst)
"""


class SecondProcess:
    """While it is entered. burst: seconds of work, and of rest; 0: there is none."""

    def __init__(self, burst):
        self.burst, self.process = burst, None

    def __enter__(self):
        if self.burst > 0:
            self.process = subprocess.Popen([sys.executable, "-c", WORK, str(self.burst)])
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.kill()
            self.process.wait()
