#!/usr/bin/env bash
# Everything from a fresh Debian 12 to a table: packages, build, model, the ablation of configs/quickstart.yaml.
# A second run goes on from what is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh
cmake --preset release
cmake --build build/release --target patchbay plugins --parallel "$(nproc)"
scripts/fetch_model.sh smollm2-135m
build/release/bin/patchbay run configs/quickstart.yaml --out results/quickstart --resume
