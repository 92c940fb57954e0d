#!/usr/bin/env bash
# Installs the Debian 12 packages that patchbay is built with, where they are missing. Run by quickstart.sh and test.sh.
# PATCHBAY_SKIP_SETUP=1 leaves the system as it is (for other systems, where the same libraries come from elsewhere).
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache git pkg-config
  libboost-dev libboost-filesystem-dev libyaml-cpp-dev libpcre2-dev libicu-dev nlohmann-json3-dev libcli11-dev libfmt-dev
  libxtensor-dev catch2 doxygen
  python3 python3-venv
)

fail() {
  echo "setup: error: $1" >&2
  exit 1
}

if [[ "${PATCHBAY_SKIP_SETUP:-0}" == 1 ]]; then
  echo "setup: skipped, as PATCHBAY_SKIP_SETUP=1 asks"
  exit 0
fi

system=$(. /etc/os-release 2>/dev/null && echo "${ID:-unknown} ${VERSION_ID:-}" || uname -s)
if [[ "$system" != "debian 12" ]]; then
  fail "this script knows Debian 12, and this is '$system'. Install the like of these yourself, then run again with
PATCHBAY_SKIP_SETUP=1: ${packages[*]} (CMake 3.25 or newer, a C++20 compiler, Catch2 2.13, yaml-cpp 0.7, Boost 1.74 or newer)"
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ "$status" == installed ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "setup: all ${#packages[@]} Debian packages are here"
  exit 0
fi

as_root=()
if [[ $EUID != 0 ]]; then
  command -v sudo >/dev/null || fail "packages are missing and there is no sudo; as root, run: apt-get install ${missing[*]}"
  as_root=(sudo)
fi
echo "setup: installing ${#missing[@]} Debian packages with apt-get: ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
