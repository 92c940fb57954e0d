"""patchbay as others use it: installed, with a plugin that was built outside its tree.

  out_of_tree_test.py BUILD_FOLDER COMPILER [CMAKE_ARGUMENT...]
"""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD, COMPILER, *CMAKE_ARGUMENTS = sys.argv[1:]
WORK = pathlib.Path(BUILD) / "out_of_tree"
PREFIX = WORK / "installed"
TINY_MODEL = ROOT / "tests/golden/tiny_llama/gqa_tied.gguf"


def run(*command, folder=WORK, **environment):
    result = subprocess.run([str(c) for c in command], cwd=folder, env={**os.environ, **environment}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return result.returncode, result.stdout


def built(source, build):
    """Configures and builds a project against the installed patchbay."""
    arguments = ["-G", "Ninja", f"-DCMAKE_PREFIX_PATH={PREFIX}", f"-DCMAKE_CXX_COMPILER={COMPILER}", *CMAKE_ARGUMENTS]
    for command in (["cmake", "-S", source, "-B", build, *arguments], ["cmake", "--build", build]):
        code, output = run(*command)
        if code:
            raise AssertionError(output)


def setUpModule():
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    code, output = run("cmake", "--install", BUILD, "--prefix", PREFIX)
    assert code == 0, output


class Installed(unittest.TestCase):
    def test_the_program_finds_its_plugins_and_models_from_anywhere(self):
        code, output = run(PREFIX / "bin/patchbay", "list")
        self.assertEqual(code, 0, output)
        self.assertIn("greedy", output)
        self.assertNotIn("refused", output)
        code, output = run(PREFIX / "bin/patchbay", "inspect", "no-such-model")
        self.assertIn("smollm2-135m", output)

    def test_another_compiler_is_refused_with_both_named(self):
        script = WORK / "other_compiler.cmake"
        script.write_text(f"set(CMAKE_CXX_COMPILER_ID Other)\nset(CMAKE_CXX_COMPILER_VERSION 1.0)\n"
                          f"find_package(patchbay REQUIRED PATHS {PREFIX} NO_DEFAULT_PATH)\n")
        code, output = run("cmake", "-P", script)
        self.assertNotEqual(code, 0)
        self.assertRegex(" ".join(output.split()), r"this patchbay was built with .+, and this project uses 'Other 1.0'")


class Example(unittest.TestCase):
    def test_it_builds_loads_and_does_its_work(self):
        build = WORK / "example"
        built(ROOT / "examples/out_of_tree_plugin", build)
        code, output = run("ctest", "--output-on-failure", folder=build)
        self.assertEqual(code, 0, output)
        self.assertIn("100% tests passed, 0 tests failed out of 1", output)

        program, path = PREFIX / "bin/patchbay", str(build / "lib/patchbay/plugins")
        code, output = run(program, "describe", "min_p")
        self.assertEqual(code, 1, output)  # not installed, and not on the path yet
        code, output = run(program, "describe", "min_p", PATCHBAY_PLUGIN_PATH=path)
        self.assertIn("least likely token kept", output)
        # min_p = 1 keeps the likeliest token alone: sampling becomes greedy decoding.
        generate = [program, "generate", "--model", TINY_MODEL, "--tokens", "1,2,3", "--max-tokens", "12", "--ignore-end", "--json"]
        code, greedy = run(*generate, PATCHBAY_PLUGIN_PATH=path)
        self.assertEqual(code, 0, greedy)
        code, drawn = run(*generate, "decoder=sampling", "processors=[{type: min_p, min_p: 1.0}]", PATCHBAY_PLUGIN_PATH=path)
        self.assertEqual(code, 0, drawn)
        code, free = run(*generate, "decoder=sampling", PATCHBAY_PLUGIN_PATH=path)
        tokens = [__import__("json").loads(text)["tokens"] for text in (greedy, drawn, free)]
        self.assertEqual(tokens[0], tokens[1])
        self.assertNotEqual(tokens[0], tokens[2])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
