"""The cases of docs/kernels.md's tables: steps with the arguments of `patchbay profile`, and how bench_gpu launches the same. One table for the page
(scripts/update_kernel_counters.py) and for what ncu counts of it on a GPU (ncu.py)."""

GEMM = "formats/fp16 --tokens 64 --rows 128 --cols 128"
ONE = "formats/fp16 --tokens 1 --rows 64 --cols 2048"
GEMV = "formats/q4_k --tokens 1 --rows 64 --cols 512"
BYTES = "--tokens 64 --rows 128 --cols 128"
PREFILL = "--tokens 128 --context 0 --heads 8 --kv-heads 2 --head-size 64 kv_store.format=fp16"
DECODE = "--tokens 1 --context 511 --heads 8 --kv-heads 2 --head-size 64 kv_store.format=fp16"
LADDERS = {
    "gemm": [(step, f"{GEMM} --kernel {step}") for step in ("naive", "tiled", "vectorised", "tensor_core")],
    "gemv": [(step, f"{ONE} --kernel {step}") for step in ("naive", "tensor_core", "gemv")],
    "packed": [(step, f"{GEMV} --kernel {step}") for step in ("naive", "gemv")],
    "scaled": [(f"{name} {step}", f"formats/{name} {BYTES} --kernel {step}{settings}") for name, settings in (("w8a8", ""), ("fp8", " activations=token"))
               for step in ("naive", "dequantised", "tensor_core") if (name, step) != ("w8a8", "dequantised")],
    "prefill": [("block", f"attention/naive {PREFILL}"), ("tiled", f"attention/flash --kernel tiled {PREFILL}"), ("flash", f"attention/flash --kernel flash {PREFILL}")],
    "decode": [("block", f"attention/naive {DECODE}"), ("tiled", f"attention/flash --kernel tiled {DECODE}"), ("flash", f"attention/flash --kernel flash {DECODE}"),
               ("split_kv", f"attention/flash --kernel split_kv {DECODE}")],
}
# bench_gpu --once TOKENS,ROWS,COLS,CONTEXT --only PREFIX: every step of a ladder in one process.
ONCE = {"gemm": ("64,128,128,0", "matmul/fp16"), "gemv": ("1,64,2048,0", "matmul/fp16"), "packed": ("1,64,512,0", "matmul/q4_k"),
        "prefill": ("128,256,512,0", "attention"), "decode": ("1,256,512,511", "attention")}
