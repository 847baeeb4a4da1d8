"""Runs the example and the code of the guide."""

import os
import re
import subprocess
import sys

from golden_cases import SOURCE


def run(arguments, cwd):
    environment = {**os.environ, "PYTHONPATH": str(SOURCE / "python")}
    done = subprocess.run(
        [sys.executable, "-B", *arguments], capture_output=True, text=True, cwd=cwd, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example(tmp_path):
    said = run([SOURCE / "examples" / "from_python.py", "pocl:0,pocl:1"], tmp_path)
    found = re.search(r"epochs, accuracy ([0-9.]+), by predictions ([0-9.]+)\n2 ranks, sum 3\n$", said)
    assert found and found[1] == found[2] and float(found[1]) > 0.8


def test_the_guide(tmp_path):
    """Runs the blocks that need only NumPy. tests/soak/keras_objects covers the block that needs Keras."""
    text = (SOURCE / "docs" / "guides" / "from-python.md").read_text()
    blocks = [one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "keras" not in one]
    assert len(blocks) >= 3
    program = tmp_path / "guide.py"
    program.write_text("\n".join(blocks))
    said = run([program], tmp_path)
    assert "Epoch 3/3" in said
