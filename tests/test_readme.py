"""The README's Python runs and prints what the README says."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_first_screen_prints_what_it_says(tmp_path):
    text = README.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```\s+```text\n(.*?)```", text, re.DOTALL)
    assert blocks
    for code, output in blocks:
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == (output, "")
