#!/usr/bin/env python3
"""Mutation test of the emulator: breaks kernels one small step at a time and sees whether their tests notice.

  mutate.py BUILD_DIR                 every mutant of every kernel below; writes a table and all survivors (--doc FILE)
  mutate.py BUILD_DIR --only gemm     mutants of the sources whose path contains "gemm"
  mutate.py BUILD_DIR --sample 30     a fixed, evenly spaced choice; exit code 1 when a mutant survives that is not known to
  mutate.py --list                    the mutants, without running them

A mutant is compiled for the world simt_checked alone, in the way that the build compiles the kernel, linked into the kernel's test in place of the
original, and run. It is caught when the test fails, an error of the emulator included, or takes too long. surviving_mutants.txt says why each known
survivor is not caught: mostly it computes the same.
"""
import argparse, collections, concurrent.futures, os, pathlib, re, shlex, shutil, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SURVIVORS = ROOT / "tests/gpu/surviving_mutants.txt"
TIMEOUT_S = 60

# Source, test program, and the test cases to run (Catch's filter).
KERNELS = [
    ("tests/gpu/kernels/gemm_tiled.cu", "test_gpu_kernels", "emulated: tiled GEMM*"),
    ("tests/gpu/kernels/gemv_int4.cu", "test_gpu_kernels", "emulated: 4-bit GEMV*"),
    ("tests/gpu/kernels/attn_decode.cu", "test_gpu_kernels", "emulated: decode attention*"),
    ("tests/gpu/kernels/gemm_mma.cu", "test_gpu_kernels", "emulated: tensor-core GEMM*"),
]

Mutant = collections.namedtuple("Mutant", "source target cases kind line before after text")

# Kind, what to look for in a line, what to put in its place.
RULES = [
    ("barrier", r"__syncthreads\(\);", ""),
    ("barrier", r"__syncthreads\(\);", "__syncwarp();"),
    ("barrier", r"__syncthreads\(\);", "if (threadIdx.x < 16) __syncthreads();"),
    ("barrier", r"__syncwarp\(\);", ""),
    ("wait", r"(gpu::)?cp_async_wait<\d>\(\);", ""),
    ("wait", r"cp_async_wait<0>", "cp_async_wait<1>"),
    ("wait", r"cp_async_wait<1>", "cp_async_wait<2>"),
    ("wait", r"(gpu::)?cp_async_commit\(\);", ""),
    ("index", r"(?<=; )(\w+) < (?=[^;]*;)", r"\1 <= "),                       # loops
    ("index", r"(?<=; )(\w+) < ([\w.]+)(?=[^;]*;)", r"\1 < \2 - 1"),
    ("index", r"(?<!for \()\b([\w.]+( \+ [\w.]+)?) < ([\w.]+)(?=\)| &&| \?)", r"\1 <= \3"),  # guards
    ("index", r"(?<!for \()\b([\w.]+( \+ [\w.]+)?) < ([\w.]+)(?=\)| &&| \?)", r"\1 < \3 - 1"),
    ("index", r"(?<!for \()\b([\w.]+( \+ [\w.]+)?) >= ([\w.]+)(?=\)| &&| \?)", r"\1 > \3"),
    ("index", r"(?<=\w)\[([^\[\]&]*[a-z]\w*[^\[\]]*)\]", r"[\1 + 1]"),
    ("index", r"= (tid|lane|warp|row|col|threadIdx\.x|blockIdx\.x);", r"= \1 + 1;"),
    ("index", r"(?<=[\w)\]] )/ (8|16|32)\b", "/ 7"),
    ("index", r"(?<=[\w)\]] )% (\d+)\b", r"% (\1 - 1)"),
    ("index", r"(\w+ \+ (?:1|PAD|kPad))\]", r"\1 - 2]"),
    ("index", r"size_t \w+ = \((.*)\) \* sizeof", r"size_t smem = (\1 - 1) * sizeof"),
    ("index", r"size_t \w+ = \((.*)\) \* sizeof", r"size_t smem = (\1 - 32) * sizeof"),
    ("lane", r"(__shfl_xor_sync\([^;]*, )(\w+)\)", r"\1\2 - 1)"),
    ("lane", r"__shfl_xor_sync\(", "__shfl_down_sync("),
    ("lane", r"__shfl_xor_sync\(~0u", "__shfl_xor_sync(0xffffu"),
    ("lane", r"= 16; (\w+) > 0", r"= 8; \1 > 0"),
    ("lane", r"= 16; (\w+) > 0", r"= 16; \1 > 1"),
    ("lane", r"lane == 0", "lane == 1"),
    ("lane", r"lane % 16", "lane / 2"),
    ("lane", r"lane / 16", "lane % 2"),
    ("lane", r"lane / 4", "lane % 8"),
    ("lane", r"lane % 4", "lane / 8"),
    ("lane", r"\be / 2", "e % 2"),
    ("lane", r"warp / 2 \* 32", "warp % 2 * 32"),
    ("lane", r"threadIdx\.x % 32", "threadIdx.x / 4"),
    ("logic", r"= -INFINITY", "= 0.0f"),
    ("logic", r"= 0\.0f", "= 1.0f"),
    ("logic", r": 0\.0f;", ": 1.0f;"),
    ("logic", r" \+= (?![^;]*\) )", " = "),  # not the step of a loop: that would never end
    ("logic", r" \*= \w+;", " += 0;"),
    ("logic", r"\* corr\b", ""),
    ("logic", r" / l\b", ""),
    ("logic", r"\) - 8\)", ") - 7)"),
    ("logic", r"& 15", "& 7"),
    ("logic", r"\bs \^ 1, ", "s, "),
]


def mutants_of(source, target, cases):
    lines = (ROOT / source).read_text().split("\n")
    seen = set()
    for number, line in enumerate(lines):
        code = line.split("//")[0].rstrip()
        if not code.strip() or code.startswith("#") or "static_assert" in code or "gpu::launch" in code:
            continue
        for kind, pattern, replacement in RULES:
            for match in re.finditer(pattern, code):
                after = code[:match.start()] + match.expand(replacement) + code[match.end():]
                if after == code or (number, after) in seen:
                    continue
                seen.add((number, after))
                text = "\n".join(lines[:number] + [after] + lines[number + 1:])
                yield Mutant(source, target, cases, kind, number + 1, code.strip(), after.strip() or "(nothing)", text)


def key(mutant):
    """What a mutant is known by, wherever its line stands."""
    return "%s: %s => %s" % (pathlib.Path(mutant.source).name, mutant.before, mutant.after)


class Build:
    """The commands by which ninja makes a test program, to be repeated with one object in another's place."""

    def __init__(self, folder):
        self.folder = folder
        self.commands = {}

    def of(self, target):
        if target not in self.commands:
            output = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", target], capture_output=True, text=True, check=True).stdout
            self.commands[target] = output.splitlines()
        return self.commands[target]

    def compile_command(self, target, source):
        """The command that compiles the checked build of `source`, and the object that it makes."""
        name = pathlib.Path(source).stem
        for line in self.of(target):
            words = shlex.split(line)
            if "-c" in words and words[words.index("-c") + 1].endswith("_simt_checked/%s.cpp" % name):
                wrapper = words[words.index("-c") + 1]
                if str(ROOT / source) in (self.folder / wrapper).read_text():
                    return words, words[words.index("-o") + 1]
        sys.exit("%s: no object of %s is among its parts" % (target, source))

    def link_command(self, target):
        return next(line for line in self.of(target) if "-o bin/" + target in line)


def run_mutant(build, mutant):
    """How the mutant was caught, or "survived", or "no program"."""
    with tempfile.TemporaryDirectory(prefix="mutant_") as folder:
        words, made = build.compile_command(mutant.target, mutant.source)
        wrapper, kernel = pathlib.Path(folder) / "wrapper.cpp", pathlib.Path(folder) / pathlib.Path(mutant.source).name
        kernel.write_text(mutant.text)
        wrapper.write_text('#define PATCHBAY_GPU simt_checked\n#include "%s"\n' % kernel)
        words = [word for word in words if not word.endswith("ccache")]
        words[words.index("-c") + 1] = str(wrapper)
        words[words.index("-o") + 1] = folder + "/mutant.o"
        words += ["-w", "-I" + str((ROOT / mutant.source).parent)]
        for flag in ("-MF", "-MT"):
            if flag in words:
                words[words.index(flag) + 1] = folder + "/mutant.d"
        if subprocess.run(words, cwd=build.folder, capture_output=True).returncode:
            return "no program", ""
        link = build.link_command(mutant.target).replace(" " + made, " " + folder + "/mutant.o").replace("-o bin/" + mutant.target, "-o " + folder + "/test")
        subprocess.run(link, shell=True, cwd=build.folder, check=True, capture_output=True)
        try:
            done = subprocess.run([folder + "/test", mutant.cases], capture_output=True, text=True, timeout=TIMEOUT_S, errors="replace")
        except subprocess.TimeoutExpired:
            return "hang", ""
        output = " ".join((done.stdout + done.stderr).split())
        return ("survived", "") if done.returncode == 0 else how(output)


def how(output):
    """Which check spoke: the first that matches."""
    for pattern, name in ((r"race on", "race"), (r"deadlock|divergence", "barrier"), (r"before the async copy", "wait"),
                          (r"has written", "uninitialised"), (r"out of bounds|outside of its dimension|not the device's|use after", "bounds"),
                          (r"misaligned|not aligned", "alignment"), (r"take part|its own mask|all 32 lanes", "lanes"), (r"stack overflow|no memory", "fault"),
                          (r"due to|FAILED", "wrong result")):
        found = re.search(pattern, output)
        if found:
            return name, output[max(0, found.start() - 80): found.start() + 160]
    return "crash", output[-160:]


def known_survivors():
    known = {}
    for line in SURVIVORS.read_text().splitlines() if SURVIVORS.exists() else []:
        if line and not line.startswith("#"):
            mutant, _, reason = line.partition(" | ")
            known[mutant] = reason
    return known


def table(results):
    kinds = collections.defaultdict(collections.Counter)
    for mutant, outcome in results:
        if outcome != "no program":
            kinds[mutant.source]["all"] += 1
            kinds[mutant.source]["survived" if outcome == "survived" else "caught"] += 1
    rows = ["| kernel | mutants | caught | |", "| --- | --- | --- | --- |"]
    total = collections.Counter()
    for source, count in kinds.items():
        total.update(count)
        rows.append("| `%s` | %d | %d | %.0f%% |" % (source, count["all"], count["caught"], 100 * count["caught"] / count["all"]))
    rows.append("| all | %d | %d | **%.1f%%** |" % (total["all"], total["caught"], 100 * total["caught"] / max(1, total["all"])))
    ways = collections.Counter(outcome for _, outcome in results if outcome not in ("survived", "no program"))
    rows += ["", "| caught by | mutants |", "| --- | --- |"] + ["| %s | %d |" % way for way in ways.most_common()]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--doc", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    mutants = [mutant for kernel in KERNELS if options.only in kernel[0] for mutant in mutants_of(*kernel)]
    if options.sample:
        mutants = [mutants[i * len(mutants) // options.sample] for i in range(options.sample)]
    if options.list:
        for mutant in mutants:
            print("%s:%d [%s] %s => %s" % (mutant.source, mutant.line, mutant.kind, mutant.before, mutant.after))
        return print(len(mutants), "mutants")
    build, known, results, unexplained = Build(options.build.resolve()), known_survivors(), [], []
    for target in {mutant.target for mutant in mutants}:
        build.of(target)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for mutant, (outcome, words) in zip(mutants, pool.map(lambda m: run_mutant(build, m), mutants)):
            results.append((mutant, outcome))
            print("%-13s %s:%d  %s => %s" % (outcome, mutant.source, mutant.line, mutant.before, mutant.after), flush=True)
            if words and os.environ.get("PATCHBAY_MUTANT_WORDS"):
                print("              ", words)
            if outcome == "survived" and key(mutant) not in known:
                unexplained.append(mutant)
    lines = table(results)
    print("\n".join(lines))
    survivors = [(mutant, known.get(key(mutant), "not explained yet")) for mutant, outcome in results if outcome == "survived"]
    if options.doc:
        survived = ["| %s:%d | `%s` | `%s` | %s |" % (pathlib.Path(m.source).name, m.line, m.before, m.after, why) for m, why in survivors]
        text = options.doc.read_text().split("<!-- table -->")[0] + "<!-- table -->\n\n" + "\n".join(lines) + "\n\n## Survivors\n\n"
        options.doc.write_text(text + "| line | was | became | why nobody notices |\n| --- | --- | --- | --- |\n" + "\n".join(survived) + "\n")
    for mutant in unexplained:
        print("survives without a reason in %s: %s" % (SURVIVORS.name, key(mutant)))
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
