"""gdb on a deadlocked kernel: every CUDA thread is seen, with what it waits for and its backtrace. Usage: gdb_test.py TEST_GPU_BROKEN"""
import pathlib
import shutil
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/simt_gdb.py"


def main(program):
    if not shutil.which("gdb"):
        print("skipped: gdb is not here")
        return 77
    commands = ["simt threads", "set breakpoint pending on", "set confirm off", "handle SIGSEGV nostop noprint pass", "break patchbay::gpu::emulator::report_deadlock", "run",
                "simt threads", "simt bt 17", "simt bt 3", "simt bt 99"]
    words = ["gdb", "-batch", "-x", str(SCRIPT)] + [word for command in commands for word in ("-ex", command)]
    done = subprocess.run(words + ["--args", program, "broken on purpose: after an error*"], capture_output=True, text=True, timeout=300, errors="replace")
    said = done.stdout + done.stderr
    if "ptrace: Operation not permitted" in said:
        print("skipped: gdb may not trace here")
        return 77
    wanted = ["no kernel runs: give `run` first",
              "block (0,0,0):   32 threads in __shfl_xor_sync at barriers.cu:",      # half of each warp
              "threads in __syncthreads at barriers.cu:",
              "barrier_sum",                                                        # thread 17 waits in the barrier
              "warp_collective",                                                    # thread 3 in the shuffle
              "barrier_and_shuffle_kernel",
              "no block that runs has a thread 99"]
    missing = [text for text in wanted if text not in said]
    if "Traceback" in said:
        missing.append("anything but a Python exception")
    if missing:
        print(said)
    for text in missing:
        print("gdb did not say:", text)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
