"""The notebooks run as they stand, and on folders of other experiments, with the project's .venv. Without it: 77, which ctest shows as
skipped. notebooks_test.py PROGRAM
"""

import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv/bin/python"
TINY = f"""\
name: tiny
model: {ROOT}/tests/golden/tiny_llama/gqa_tied.gguf
evaluation: {{text: {ROOT}/data/evaluation.txt, window: 64, chunks: 3}}
base: {{activations: fp32}}
"""
# No note; the baseline again; axes of other names, and none.
EXPERIMENTS = {
    "two axes": "tasks: [perplexity, divergence, memory]\nsweep: {attention: [naive, flash], kv_store.format: [fp16, int8]}\n",
    "no text": "tasks: [memory]\nsweep: {kv_store.format: [fp16, int8]}\n",
    "one run": "tasks: [perplexity]\n",
}


def main() -> int:
    if not PYTHON.exists() or subprocess.run([PYTHON, "-c", "import matplotlib, nbclient, ipykernel"], stderr=subprocess.DEVNULL).returncode != 0:
        print("skipped: .venv has no Jupyter kernel: run scripts/setup_python.sh (it needs the network once)")
        return 77
    failed = subprocess.run([PYTHON, ROOT / "scripts/run_notebooks.py"]).returncode
    with tempfile.TemporaryDirectory() as place:
        for name, sweep in EXPERIMENTS.items():
            yaml, out = pathlib.Path(place) / "tiny.yaml", pathlib.Path(place) / name
            yaml.write_text(TINY + sweep)
            subprocess.run([sys.argv[1], "run", yaml, "--out", out, "--quiet"], check=True, stdout=subprocess.DEVNULL)
            print(f"{name}:", flush=True)
            failed |= subprocess.run([PYTHON, ROOT / "scripts/run_notebooks.py", "--folder", out]).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
