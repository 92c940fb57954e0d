#!/usr/bin/env python3
"""Mutation test of the kernels and of the emulator's checks: breaks kernels one small step at a time and sees whether their tests notice.

  mutate.py BUILD_DIR                 every mutant of every kernel below
  mutate.py BUILD_DIR --most 40       of each kernel at most 40, always the same ones
  mutate.py BUILD_DIR --only flash    mutants of the sources whose path contains "flash"
  mutate.py BUILD_DIR --sample 30     the fixed thirty of continuous integration; exit code 1 when a mutant survives that is not known to
  mutate.py --list                    the mutants, without running them

--results FILE keeps outcomes as they come, and leaves out what is there already; --doc FILE writes the table and all survivors.

Mutants (mutants.py) are compiled for the world simt_checked alone, in the way that the build compiles the kernel, linked into the kernel's test in place
of the original, and run until the first failure. A mutant is caught when the test fails, an error of the emulator included, or takes too long.
surviving_mutants.txt says why each known survivor is not caught: mostly it computes the same.
"""
import argparse, collections, concurrent.futures, hashlib, json, os, pathlib, sys

from mutant_build import Build
from mutants import ROOT, batches, in_fixed_order, mutants_of

SURVIVORS = ROOT / "tests/gpu/surviving_mutants.txt"
KIT = "core/include/patchbay/gpu/"

# source: what is mutated; units: the .cu files compiled with it; program: the test's target; cases: which of its cases check the source.
Kernel = collections.namedtuple("Kernel", "source units program cases")


def _kernel(source, program, cases):
    return Kernel(source, (source,), "test_gpu_" + program, cases)


def _kit(name, units, program, cases):
    return Kernel(os.path.normpath(KIT + name), tuple(units.split()), "test_gpu_" + program, cases)


def _backend(name, cases, program="backends_cuda", units=""):
    source = "plugins/backends/cuda/" + name
    return Kernel(source, tuple("plugins/backends/cuda/" + unit for unit in units.split()) or (source,), "test_gpu_" + program, cases)


def _format(name):
    return _kernel("plugins/formats/%s/%s.cu" % (name, name), "packed_matmul", "blocks of random bytes*")


FP16, INT, BLOCKS = "plugins/formats/fp16/fp16.cu", "plugins/formats/int_grouped/int_grouped.cu", "blocks of random bytes*"
KERNELS = [
    _kernel("plugins/attention/flash/flash.cu", "attention_flash", "flash cuda: kernel flash*,flash cuda: a launch for some*"),
    _kernel("plugins/attention/flash/split_kv.cu", "attention_flash", "flash cuda: kernel split_kv*,flash cuda: a launch for some*"),
    _kernel("plugins/attention/flash/tiled.cu", "attention_flash", "flash cuda: kernel tiled*,flash cuda: a launch for some*"),
    _kernel("plugins/attention/naive/naive.cu", "attention_naive", "naive cuda: *"),
    _kit("../gpu_kv_cache.cuh", "plugins/attention/flash/flash.cu plugins/attention/flash/split_kv.cu", "attention_flash",
         "flash cuda: kernel flash*,flash cuda: kernel split_kv*"),
    _backend("sampling.cu", "cuda sampling: *", "sampling"),
    _backend("softmax.cu", "cuda softmax: *", "sampling"),
    _backend("fused_norm.cu", "cuda ops: add_rms_norm*,cuda ops: rows rounded*,cuda ops: a row of zeros*"),
    _backend("rms_norm.cu", "cuda ops: rms_norm"),
    _backend("layer_norm.cu", "cuda ops: layer_norm*"),
    _backend("rope.cu", "cuda ops: rope*"),
    _backend("gated.cu", "cuda ops: gates*"),
    _backend("add.cu", "cuda ops: gates*,cuda ops: add_rows*"),
    _backend("add_rows.cu", "cuda ops: add_rows*"),
    _backend("scale.cu", "cuda ops: gates*"),
    _backend("take_rows.cu", "cuda ops: take_rows*"),
    _backend("matmul.cu", "cuda ops: matmul_stored*"),
    _backend("write_kv.cu", "cuda write_kv: *", "write_kv"),
    _backend("kv_rows.cuh", "cuda write_kv: *", "write_kv", "write_kv.cu"),
    _backend("rope_write_kv.cu", "cuda rope_write_kv: *", "write_kv"),
    _kit("warp.cuh", "tests/gpu/primitives/warp_operations.cu", "primitives", "reductions of a warp*"),
    _kit("tensor_core_matmul.cuh", FP16, "float_matmul", "*tensor_core*,every pair of types*"),
    _kit("matmul_ladder.cuh", FP16, "float_matmul", "*tiled*,*vectorised*,every pair of types*"),
    _kit("gemv.cuh", FP16, "float_matmul", "*gemv*,every pair of types*"),
    _kit("matmul.cuh", FP16, "float_matmul", "*gemv*,rows of any*,every pair of types*,tensor_core stores*"),
    _kit("scaled_matmul.cuh", "plugins/formats/fp8/fp8.cu plugins/formats/w8a8/w8a8.cu", "scaled_matmul", "8-bit*"),
    _kernel("plugins/formats/fp8/fp8.cu", "scaled_matmul", "8-bit*"),
    _backend("quantize_rows.cu", "cuda ops: rows rounded*,cuda ops: a row of zeros*"),
    _backend("quantize_row.cuh", "cuda ops: rows rounded*,cuda ops: a row of zeros*", "backends_cuda", "quantize_rows.cu"),
    _kit("packed_matmul.cuh", INT, "packed_matmul", "integer groups of every width*,integer groups that are*,rows of a packed table*"),
    _kernel(INT, "packed_matmul", "integer groups of every width*,integer groups that are*,columns in another*"),
    _kit("level_matmul.cuh", "plugins/formats/nf4/nf4.cu plugins/formats/fp4/fp4.cu", "packed_matmul", "uneven levels*,rows of a table*"),
    _kernel("plugins/formats/salient/salient.cu", "formats_salient", "kept columns*"),
    _kit("block_matmul.cuh", "plugins/formats/q5_0/q5_0.cu plugins/formats/q6_k/q6_k.cu plugins/formats/q8_0/q8_0.cu", "packed_matmul", BLOCKS),
    _kit("six_bit_group.cuh", "plugins/formats/q4_k/q4_k.cu", "packed_matmul", BLOCKS),
    _kit("iq4_codes.cuh", "plugins/formats/iq4_nl/iq4_nl.cu", "packed_matmul", BLOCKS),
] + [_format(name) for name in "q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k q8_k iq4_nl iq4_xs".split()] + [
    _kit("element.cuh", "plugins/backends/cuda/gated.cu plugins/backends/cuda/quantize_rows.cu", "backends_cuda", "cuda ops: gates*,cuda ops: rows rounded*"),
    _kernel("tests/gpu/kernels/gemm_tiled.cu", "kernels", "emulated: tiled GEMM*"),
    _kernel("tests/gpu/kernels/gemv_int4.cu", "kernels", "emulated: 4-bit GEMV*"),
    _kernel("tests/gpu/kernels/attn_decode.cu", "kernels", "emulated: decode attention*"),
    _kernel("tests/gpu/kernels/gemm_mma.cu", "kernels", "emulated: tensor-core GEMM*"),
]
# Of these sources continuous integration takes its thirty: samples and plugins, with barriers, shuffles, asynchronous copies and sums over a block.
IN_CI = ["flash.cu", "split_kv.cu", "tiled.cu", "sampling.cu", "softmax.cu", "rope.cu", "warp.cuh", "int_grouped.cu", "gemm_tiled.cu", "gemm_mma.cu"]


def chosen(kernel, options):
    mutants = in_fixed_order(mutants_of(kernel.source)) if options.only in kernel.source else []
    if options.sample:
        mutants = mutants[:options.sample // len(IN_CI)] if pathlib.Path(kernel.source).name in IN_CI else []
    return mutants[:options.most] if options.most else mutants


class Results:
    """Outcomes by mutant, as long as its source is what it was."""

    def __init__(self, file):
        self.file, self.outcomes = file, {}
        if file and file.exists():
            self.outcomes = {tuple(record[:2]): record[2] for record in map(json.loads, file.read_text().splitlines())}

    @staticmethod
    def _name(mutant):
        return mutant.key, hashlib.sha1((ROOT / mutant.source).read_bytes()).hexdigest()[:12]

    def get(self, mutant):
        return self.outcomes.get(self._name(mutant))

    def set(self, mutant, outcome):
        self.outcomes[self._name(mutant)] = outcome
        if self.file:
            with self.file.open("a") as out:
                out.write(json.dumps([*self._name(mutant), outcome]) + "\n")


def known_survivors():
    known = {}
    for line in SURVIVORS.read_text().splitlines() if SURVIVORS.exists() else []:
        if line and not line.startswith("#"):
            mutant, _, reason = line.partition(" | ")
            known[mutant] = reason
    return known


def table(kernels, results):
    rows = ["| source | mutants | run | caught | |", "| --- | --- | --- | --- | --- |"]
    total, ways = collections.Counter(), collections.Counter()
    for kernel in kernels:
        outcomes = [results.get(mutant) for mutant in mutants_of(kernel.source)]
        count = collections.Counter("caught" if o and o != "survived" else o for o in outcomes if o != "no program")
        ways.update(o for o in outcomes if o and o not in ("survived", "no program"))
        run, generated = count["caught"] + count["survived"], sum(count.values())
        total.update(generated=generated, run=run, caught=count["caught"])
        if generated:
            share = "%.0f%%" % (100 * count["caught"] / run) if run else ""
            rows.append("| `%s` | %d | %d | %d | %s |" % (pathlib.Path(kernel.source).name, generated, run, count["caught"], share))
    rows.append("| all | %d | %d | %d | **%.1f%%** |" % (total["generated"], total["run"], total["caught"], 100 * total["caught"] / max(1, total["run"])))
    return rows + ["", "| caught by | mutants |", "| --- | --- |"] + ["| %s | %d |" % way for way in ways.most_common()]


def write_doc(file, lines, survivors):
    rows = ["| %s:%d | `%s` | `%s` | %s |" % (pathlib.Path(m.source).name, m.line, *(text.replace("|", "\\|") for text in (m.before, m.after)), why)
            for m, why in survivors]
    text = file.read_text().split("<!-- table -->")[0] + "<!-- table -->\n\n" + "\n".join(lines) + "\n\n## Survivors\n\n"
    file.write_text(text + "| line | was | became | why nobody notices |\n| --- | --- | --- | --- |\n" + "\n".join(rows) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--doc", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    mutants = {kernel: chosen(kernel, options) for kernel in KERNELS}
    if options.list:
        for mutant in sum(mutants.values(), []):
            print("%s:%d [%s] %s => %s" % (mutant.source, mutant.line, mutant.kind, mutant.before, mutant.after))
        return print(sum(map(len, mutants.values())), "mutants")
    build, known, results, unexplained = Build(options.build.resolve()), known_survivors(), Results(options.results), []

    def run(work):
        kernel, program = work
        for mutant, outcome in build.outcomes(kernel, program):
            results.set(mutant, outcome)
            print("%-13s %s:%d  %s => %s" % (outcome, mutant.source, mutant.line, mutant.before, mutant.after), flush=True)

    def to_run(mutant):  # a survivor without a reason once more: its test may have changed
        return not results.get(mutant) or (results.get(mutant) == "survived" and mutant.key not in known)

    work = [(kernel, program) for kernel, some in mutants.items() for program in batches([m for m in some if to_run(m)])]
    for kernel in {kernel for kernel, _ in work}:
        build.of(kernel.program)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(run, work))
    lines = table([kernel for kernel in KERNELS if mutants[kernel]], results)
    print("\n".join(lines))
    survivors = [m for some in mutants.values() for m in some if results.get(m) == "survived"]
    if options.doc:
        write_doc(options.doc, lines, [(m, known.get(m.key, "not explained yet")) for m in sorted(survivors, key=lambda m: (m.source, m.line))])
    unexplained = [m for m in survivors if m.key not in known]
    for mutant in unexplained:
        print("survives without a reason in %s: %s" % (SURVIVORS.name, mutant.key))
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
