#!/usr/bin/env bash
# test.sh [--sanitizers]: everything from a fresh Debian 12 to all tests run: packages, build, models, Python environment, ctest. Exit status and last
# lines are ctest's. With --sanitizers, as continuous integration runs it, what reads strangers' files and the CUDA kernels on the emulator are also
# built with AddressSanitizer and UndefinedBehaviorSanitizer and run before the rest; the last line then counts both: "N passed, N failed".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# ctest's names of what the sanitizers run; a test NAME is the program test_NAME, a fuzz target fuzz_NAME itself.
sanitized=(core_jinja core_chat_template core_model_file core_convert core_hf_folder core_hf_layouts core_hf_eight_bits e2e_hostile_gguf e2e_hostile_safetensors e2e_hostile_yaml
           fuzz_config_json fuzz_gguf fuzz_jinja fuzz_safetensors fuzz_tokenizer_json fuzz_yaml
           gpu_primitives gpu_kernels gpu_broken gpu_attention_flash gpu_attention_naive gpu_backends_cuda gpu_sampling gpu_write_kv
           gpu_float_matmul gpu_packed_matmul gpu_scaled_matmul)

sanitizers=no
for argument in "$@"; do
  [[ $argument == --sanitizers ]] || { echo "test.sh: unknown argument '$argument'; allowed: --sanitizers" >&2; exit 2; }
  sanitizers=yes
done

# ctest in a build folder, its summary preceded by how many cases of programs were skipped: ctest itself counts a program only if all its cases were.
run_ctest() {
  local skipped=$PWD/$1/skipped_cases
  : > "$skipped"
  PATCHBAY_SKIPPED_CASES=$skipped ctest --test-dir "$1" --output-on-failure "${@:2}" |
    awk -v file="$skipped" '/% tests? passed, / {while ((getline line < file) > 0) {split(line, words, " "); count += words[1]}; print count + 0 " cases skipped"}
                            {print; fflush()}' | tee "$1/ctest_summary"
}
# "PASSED FAILED" of what run_ctest printed.
counts() { sed -nE 's/.*% tests? passed, ([0-9]+) tests? failed out of ([0-9]+).*/\2 \1/p' "$1/ctest_summary" | awk '{print $1 - $2, $2}'; }

scripts/setup.sh
for model in smollm2-135m gemma3-270m; do
  scripts/fetch_model.sh "$model" ||
    echo "test: WARNING: the model $model could not be fetched: every test that needs it will be skipped" >&2
done
scripts/setup_python.sh ||
  echo "test: WARNING: .venv could not be made: the test of the notebooks will be skipped" >&2

if [[ $sanitizers == yes ]]; then
  programs=(patchbay)
  for name in "${sanitized[@]}"; do
    if [[ $name == fuzz_* ]]; then programs+=("$name"); else programs+=("test_$name"); fi
  done
  cmake --preset asan
  cmake --build build/asan --parallel "$(nproc)" --target "${programs[@]}"
fi
# Every CUDA kernel for every GPU that it declares, compiled and linked: results cuda_kernels_* of ctest.
nvcc=$(command -v nvcc || ls "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc" 2> /dev/null || true)
if [[ -n $nvcc ]]; then
  cmake --preset release -DPATCHBAY_CUDA_KERNELS=ON
  cmake --build build/release --parallel "$(nproc)" --target all cuda_kernels
else
  echo "test: CUDA kernels for GPUs: skipped: no nvcc"
  cmake --preset release -DPATCHBAY_CUDA_KERNELS=OFF
  cmake --build build/release --parallel "$(nproc)"
fi

status=0
if [[ $sanitizers == yes ]]; then
  run_ctest build/asan -R "^($(IFS='|'; echo "${sanitized[*]}"))\$" || status=$?
fi
run_ctest build/release || status=$?
if [[ $sanitizers == yes ]]; then
  read -r passed failed < <(counts build/asan)
  read -r more_passed more_failed < <(counts build/release)
  echo "$((passed + more_passed)) passed, $((failed + more_failed)) failed"
fi
exit "$status"
