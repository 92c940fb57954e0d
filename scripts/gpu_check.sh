#!/usr/bin/env bash
# gpu_check.sh [--out DIR] [--backend cuda|simt] [--quick] [section ...]: what a GPU says to all of this, from the bundle (cmake --build --preset cuda
# --target bundle), on a machine with an NVIDIA GPU and no package manager. Sections run one at a time, each in a time of its own, each writes its own
# JSON into DIR ($OUT, or ./gpu_check_results) as it goes; one that fails or is cut off does not stop the next. All together: under 8 minutes.
# A table of what was found in them comes last. Exit status: 0, or 1 when something failed, was cut off or ran nothing. What an earlier check of a section
# wrote into DIR is removed first; gpu_check/summary.py DIR makes one table of all that lies there.
#   --backend simt --quick    a dry run of the script itself, on any machine, in a minute
# cuBLAS, a yardstick, is looked for where LD_LIBRARY_PATH says, then beside PyTorch. docs/measurements/gpu.md describes the files.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Seconds of each section: 450, and 2 more for each that must be killed, leave 16 for the rest.
declare -A seconds=([machine]=15 [tests]=70 [sanitizer]=65 [kernels]=85 [torch_kernels]=30 [models]=150 [ncu]=35)
grace=2
sections=(machine tests sanitizer kernels torch_kernels models ncu)
out=${OUT:-gpu_check_results} backend=cuda quick=() chosen=()
while (($#)); do
  case $1 in
    --out | --backend) (($# > 1)) || { echo "gpu_check: $1: a value is missing" >&2; exit 2; }; if [[ $1 == --out ]]; then out=$2; else backend=$2; fi; shift 2 ;;
    --quick) quick=(--quick); shift ;;
    *) [[ -n ${seconds[$1]:-} ]] || { echo "gpu_check: '$1' is no section; allowed: ${sections[*]}" >&2; exit 2; }; chosen+=("$1"); shift ;;
  esac
done
[[ $backend == cuda || $backend == simt ]] || { echo "gpu_check: --backend '$backend'; allowed: cuda, simt" >&2; exit 2; }
((${#chosen[@]})) || chosen=("${sections[@]}")
[[ -x $here/bin/bench_gpu ]] || { echo "gpu_check: $here is no bundle: bin/bench_gpu is not there; cmake --build --preset cuda --target bundle makes one" >&2; exit 2; }
python=${PATCHBAY_PYTHON:-python3}
mkdir -p "$out"
rm -f "$out/summary.json"
for section in "${chosen[@]}"; do rm -f "$out/$section.json"; done
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PATCHBAY_PLUGIN_PATH=$here/lib/patchbay/plugins

# PyTorch's wheels bring cuBLAS in a folder of their own.
cublas=$("$python" - <<'PYTHON' 2> /dev/null
import importlib.util, pathlib
found = importlib.util.find_spec("nvidia")
for root in (found.submodule_search_locations if found else []):
    for library in sorted(pathlib.Path(root).glob("*/lib/libcublas.so.*")):
        print(library.parent)
PYTHON
)
for folder in $cublas; do export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder; done

for section in "${chosen[@]}"; do
  echo "gpu_check: $section, at most ${seconds[$section]} s"
  began=$SECONDS
  timeout -k "$grace" "${seconds[$section]}" "$python" "$here/gpu_check/$section.py" --out "$out" --seconds "$((seconds[$section] - 3))" --backend "$backend" "${quick[@]}"
  status=$?
  ((status == 0)) || echo "gpu_check: $section ended with status $status after $((SECONDS - began)) s$( ((status == 124)) && echo ': cut off')"
done
rm -f "$out"/*.part
"$python" "$here/gpu_check/summary.py" "$out" "${chosen[@]}" || exit 1
