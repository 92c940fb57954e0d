#!/usr/bin/env bash
# fetch_model.sh NAME: brings the model file of configs/models/NAME.yaml into the user's cache folder and checks its hash.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Debian's own Python first: another one earlier on PATH may lack venv.
python=/usr/bin/python3
[[ -x $python ]] || python=python3
exec "$python" scripts/fetch_model.py "$@"
