"""Nothing is lost: a run killed at any operation on the disk ends, once resumed, as if it had never been killed."""

import json
import os
import subprocess
import sys
from pathlib import Path

KILLER = Path(__file__).with_name("killer.py")


def test_a_run_killed_at_fifty_points_and_resumed_ends_with_the_same_bits(tmp_path):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "REGARD_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, KILLER, tmp_path, "50"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["killed"] == 50, result
    assert result["different"] == []
