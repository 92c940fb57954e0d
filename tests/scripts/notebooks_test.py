"""The notebooks run as they stand, with the project's .venv. Without it: 77, which ctest shows as skipped."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv/bin/python"


def main() -> int:
    if not PYTHON.exists() or subprocess.run([PYTHON, "-c", "import matplotlib, nbclient, ipykernel"], stderr=subprocess.DEVNULL).returncode != 0:
        print("skipped: .venv has no Jupyter kernel: run scripts/setup_python.sh (it needs the network once)")
        return 77
    return subprocess.run([PYTHON, ROOT / "scripts/run_notebooks.py"]).returncode


if __name__ == "__main__":
    sys.exit(main())
