#!/usr/bin/env bash
# Everything from a fresh Debian 12 to all tests run: packages, build, model, Python environment, ctest. Exit status and last lines are ctest's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh
cmake --preset release
cmake --build build/release --parallel "$(nproc)"
scripts/fetch_model.sh smollm2-135m ||
  echo "test: WARNING: the model could not be fetched: every test that needs it will be skipped" >&2
scripts/setup_python.sh ||
  echo "test: WARNING: .venv could not be made: the test of the notebooks will be skipped" >&2
exec ctest --test-dir build/release --output-on-failure
