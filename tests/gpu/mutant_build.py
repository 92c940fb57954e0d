"""How mutate.py compiles mutants, links them into a test in place of the kernel, and runs them."""
import os, pathlib, re, resource, shlex, shutil, subprocess, tempfile

from mutants import ROOT, text_of

CPU_SECONDS = 60  # of one run: more is an endless loop
WRAPPER = """#include <cstdlib>
inline const int mutant_chosen = std::atoi(std::getenv("MUTANT"));
__attribute__((const, noinline, no_sanitize("thread"), no_sanitize_coverage)) inline int mutant_in_force() { return mutant_chosen; }
#define MUTANT(n) (mutant_in_force() == n)
#define PATCHBAY_GPU simt_checked
#include "%s"
"""


class Build:
    """The commands by which ninja makes a test program, to be repeated with some objects in others' places."""

    def __init__(self, folder):
        self.folder = folder
        self.commands = {}
        self.linker = " -fuse-ld=gold" if shutil.which("ld.gold") else ""  # a fifth of the time

    def of(self, target):
        if target not in self.commands:
            output = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", target], capture_output=True, text=True, check=True).stdout
            self.commands[target] = output.splitlines()
        return self.commands[target]

    def outcomes(self, kernel, program):
        """Each mutant of a program, and how it was caught, or "survived", or "no program"."""
        with tempfile.TemporaryDirectory(prefix="mutants_") as folder:
            errors = self._make(kernel, program, folder)
            if errors is None:
                outcomes = [_run(folder, kernel.cases, number) for number in range(1, len(program) + 1)]
                if program[0].switched is None or "survived" in outcomes or _run(folder, kernel.cases, 0) == "survived":
                    return list(zip(program, outcomes))
                errors = ""  # it fails with no mutant in force: a switch has changed the meaning
            if program[0].switched is None:
                return [(program[0], "no program")]
            lines = {int(line) for line in re.findall(re.escape(pathlib.Path(kernel.source).name) + r":(\d+):", errors)}
            fail = [m for m in program if m.line in lines] or program
            alone = [self.outcomes(kernel, [mutant._replace(switched=None)])[0] for mutant in fail]  # as it is written, without a switch
            rest = [m for m in program if m not in fail]
            return alone + (self.outcomes(kernel, rest) if rest else [])

    def _make(self, kernel, program, folder):
        """Compiles and links folder/test. Returns the compiler's errors, or nothing."""
        _place(kernel, text_of(program), pathlib.Path(folder))
        output = "-o bin/" + kernel.program
        link = next(line for line in self.of(kernel.program) if output in line).replace(output, "-o %s/test%s" % (folder, self.linker))
        for i, unit in enumerate(kernel.units):
            words, made = self._compile_command(kernel.program, unit)
            wrapper, made_here = "%s/wrapper_%d.cpp" % (folder, i), "%s/mutant_%d.o" % (folder, i)
            pathlib.Path(wrapper).write_text(WRAPPER % (pathlib.Path(folder) / pathlib.Path(unit).name))
            words[words.index("-c") + 1], words[words.index("-o") + 1] = wrapper, made_here
            words[1:1] = ["-I" + folder]  # before the folder of headers
            for flag in ("-MF", "-MT"):
                if flag in words:
                    words[words.index(flag) + 1] = folder + "/mutant.d"
            done = subprocess.run(words + ["-w", "-I" + str((ROOT / unit).parent)], cwd=self.folder, capture_output=True, text=True)
            if done.returncode:
                return done.stderr
            link = re.sub(r" (?=\S+\.o )", " " + made_here + " ", link.replace(" " + made, ""), count=1)  # first: its inline functions count
        subprocess.run(link, shell=True, cwd=self.folder, check=True, capture_output=True)

    def _compile_command(self, target, unit):
        """The command that compiles the checked build of `unit`, and the object that it makes."""
        name = pathlib.Path(unit).stem
        for line in self.of(target):
            words = [word for word in shlex.split(line) if not word.endswith("ccache")]
            if "-c" in words and words[words.index("-c") + 1].endswith("_simt_checked/%s.cpp" % name):
                if str(ROOT / unit) in (self.folder / words[words.index("-c") + 1]).read_text():
                    return words, words[words.index("-o") + 1]
        raise RuntimeError("%s: no object of %s is among its parts" % (target, unit))


def _place(kernel, text, folder):
    """The mutated source where it is found before the original: a kit's header by its path, a plugin's file beside the units."""
    for unit in kernel.units:
        shutil.copy(ROOT / unit, folder)
    shared = pathlib.Path("core/include")
    place = pathlib.Path(kernel.source)
    place = folder / (place.relative_to(shared) if place.is_relative_to(shared) else place.name)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def _run(folder, cases, number):
    try:
        done = subprocess.run([folder + "/test", cases, "--abort"], capture_output=True, text=True, errors="replace", timeout=20 * CPU_SECONDS,
                              env=dict(os.environ, MUTANT=str(number)),
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS)))
    except subprocess.TimeoutExpired:
        return "hang"
    if done.returncode in (-24, -9):  # SIGXCPU, SIGKILL
        return "hang"
    if "No tests ran" in done.stdout:
        raise RuntimeError("no test is called '%s'" % cases)
    return "survived" if done.returncode == 0 else _how(" ".join((done.stdout + done.stderr).split()))


def _how(output):
    """Which check spoke: the first that matches."""
    for pattern, name in ((r"race on", "race"), (r"deadlock|divergence", "barrier"), (r"before the async copy", "wait"),
                          (r"has written", "uninitialised"), (r"out of bounds|outside of its dimension|not the device's|use after", "bounds"),
                          (r"misaligned|not aligned", "alignment"), (r"take part|its own mask|all 32 lanes", "lanes"), (r"stack overflow|no memory", "fault"),
                          (r"due to|FAILED", "wrong result")):
        if re.search(pattern, output):
            return name
    return "crash"
