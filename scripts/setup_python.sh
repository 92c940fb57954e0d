#!/usr/bin/env bash
# Makes .venv, the virtual environment of the project's Python scripts: with it reports have plots.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Debian's own Python first: another one earlier on PATH may lack venv.
python=/usr/bin/python3
[[ -x $python ]] || python=python3
[[ -x .venv/bin/python ]] || "$python" -m venv .venv
.venv/bin/python -m pip install --quiet --requirement python/requirements.txt
echo "setup_python: .venv is ready; \`patchbay report FOLDER --html FILE\` draws plots with it"
