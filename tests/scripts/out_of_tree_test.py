"""patchbay as others use it: installed, with a plugin that was built outside its tree.

  out_of_tree_test.py BUILD_FOLDER COMPILER [CMAKE_ARGUMENT...]
"""

import json
import os
import pathlib
import re
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


KERNELS_TEST = """\
#include <catch2/catch.hpp>

#include "naive_gpu.h"

TEST_CASE("its kernels are in the program, for both worlds of the emulator") {
  patchbay::GpuStep step;
  step.rows = 1;
  step.longest = 1 << 20;
  for (const auto world : {patchbay::gpu::World::simt, patchbay::gpu::World::simt_checked})
    CHECK_THROWS_WITH(patchbay::gpu::pick(patchbay::gpu_launchers::fresh_kernel_attention, world)({}, step, 0, {}, {}, {}),
                      Catch::Contains("cannot take a sequence of 1048576 tokens"));
}
"""


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
        self.assertIn("smollm2-135m, tiny-shakespeare", output)
        code, output = run(PREFIX / "bin/patchbay", "inspect", "tiny-shakespeare", "--json")
        self.assertEqual(json.loads(output)["parameters"], 3_279_104, output)

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
        tokens = [json.loads(text)["tokens"] for text in (greedy, drawn, free)]
        self.assertEqual(tokens[0], tokens[1])
        self.assertNotEqual(tokens[0], tokens[2])


class Tutorial(unittest.TestCase):
    """The plugins of docs/writing_a_plugin.md pass the suite of their kind, and each is one folder."""

    def test_its_plugins_pass_the_suite_of_their_kind(self):
        tutorial = ROOT / "examples/tutorial"
        built(tutorial, WORK / "tutorial")
        code, output = run("ctest", "--output-on-failure", folder=WORK / "tutorial")
        self.assertIn("100% tests passed, 0 tests failed out of 3", output)
        path = f"{WORK}/tutorial/lib/patchbay/plugins:{BUILD}/lib/patchbay/plugins"
        for kind, name in (("quantizers", "clip_search"), ("kv_stores", "growing"), ("drafters", "bigram")):
            with self.subTest(plugin=name):
                code, output = run(PREFIX / "bin/patchbay", "describe", f"{kind}/{name}", "--markdown", PATCHBAY_PLUGIN_PATH=path)
                self.assertEqual(code, 0, output)
                self.assertIn(output.strip(), (tutorial / kind / name / "README.md").read_text())
                code, output = run(f"{BUILD}/bin/test_conformance_{kind}", PATCHBAY_PLUGIN_PATH=path)
                self.assertEqual(code, 0, output)
        lines = (tutorial / "quantizers/clip_search/clip_search.cpp").read_text().count("\n")
        self.assertLess(lines, 100)


class NewPlugin(unittest.TestCase):
    """`patchbay new`: every kind is made, two of them are built and put under the suite of their kind."""

    program = PREFIX / "bin/patchbay"

    def new(self, kind, name, folder, code=0):
        actual, output = run(self.program, "new", kind, name, "--dir", folder)
        self.assertEqual(actual, code, output)
        return output

    def test_every_kind_has_a_template_whose_readme_holds_the_formulas_of_the_code(self):
        kinds = sorted(path.name for path in (ROOT / "plugins").iterdir())
        self.assertGreater(len(kinds), 10)
        for kind in kinds:
            with self.subTest(kind=kind):
                self.new(kind, "fresh_one", WORK / "every_kind")
                folder = WORK / "every_kind" / kind / "fresh_one"
                for part in ("fresh_one.cpp", "fresh_one_test.cpp", "fresh_one.yaml", "CMakeLists.txt", "README.md"):
                    self.assertTrue((folder / part).is_file(), part)
                self.assertNotIn("TEMPLATE", (folder / "CMakeLists.txt").read_text())
                tag = re.compile(r"\(([A-Z]{1,2}[0-9]+)\)")
                for source in [*folder.glob("*.cpp"), *folder.glob("*.h")]:
                    comments = " ".join(re.findall(r"//.*", source.read_text()))
                    self.assertLessEqual(set(tag.findall(comments)), set(tag.findall((folder / "README.md").read_text())))

    def test_two_kinds_build_and_pass_the_suite_of_their_kind_as_they_are(self):
        project = WORK / "two_kinds"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(two_kinds CXX)\nfind_package(patchbay REQUIRED)\nfind_package(Catch2)\n"
            "enable_testing()\nadd_subdirectory(processors/fresh_one)\nadd_subdirectory(decoders/fresh_two)\n")
        self.new("processors", "fresh_one", project)
        self.new("decoder", "fresh_two", project)
        built(project, project / "build")
        code, output = run("ctest", folder=project / "build")
        self.assertIn("100% tests passed, 0 tests failed out of 2", output)
        path = f"{project}/build/lib/patchbay/plugins:{BUILD}/lib/patchbay/plugins"
        for kind, name in (("processors", "fresh_one"), ("decoders", "fresh_two")):
            code, output = run(f"{BUILD}/bin/test_conformance_{kind}", PATCHBAY_PLUGIN_PATH=path)
            self.assertEqual(code, 0, output)
            code, output = run(self.program, "plan", project / kind / name / f"{name}.yaml", folder=ROOT, PATCHBAY_PLUGIN_PATH=path)
            if code:  # the model of the experiment need not be here
                self.assertIn("fetch_model.sh", output)

    def test_a_plugin_with_cuda_kernels_builds_with_its_kernels_test(self):
        self.new("attention", "fresh_kernel", WORK / "kernels")
        project = WORK / "kernels/attention/fresh_kernel"
        (project / "fresh_kernel_gpu_test.cpp").write_text(KERNELS_TEST)
        built(project, project / "build")
        code, output = run("ctest", "--output-on-failure", folder=project / "build")
        self.assertIn("100% tests passed, 0 tests failed out of 2", output)
        path = str(project / "build/lib/patchbay/plugins")
        code, output = run(self.program, "profile", "attention/fresh_kernel", "--tokens", "2", "--context", "5", PATCHBAY_PLUGIN_PATH=path)
        self.assertEqual(code, 0, output)
        self.assertIn("fresh_kernel.cu:", output)

    def test_in_the_tree_the_build_file_is_one_call_elsewhere_a_project(self):
        (WORK / "tree/cmake").mkdir(parents=True)
        (WORK / "tree/cmake/patchbay_add_plugin.cmake").touch()
        self.assertIn("cmake --preset release", self.new("quantizers", "inside", WORK / "tree/plugins"))
        self.assertEqual((WORK / "tree/plugins/quantizers/inside/CMakeLists.txt").read_text(), "patchbay_add_plugin()\n")
        self.assertIn("CMAKE_PREFIX_PATH", self.new("quantizers", "outside", WORK / "elsewhere"))
        self.assertIn("find_package(patchbay REQUIRED)", (WORK / "elsewhere/quantizers/outside/CMakeLists.txt").read_text())

    def test_what_is_refused(self):
        self.assertIn("did you mean quantizers?", self.new("quantisers", "x", WORK / "refused", 1))
        for name in ("Rtn", "2bit", "a-b", "../a", "", "a" * 41):
            self.assertIn("is no name of a plugin", self.new("quantizers", name, WORK / "refused", 1))
        self.assertIn("there is such a plugin", self.new("quantizers", "rtn", WORK / "refused", 1))
        (WORK / "refused/quantizers/mine").mkdir(parents=True)
        self.assertIn("is there already", self.new("quantizers", "mine", WORK / "refused", 1))
        self.assertEqual([p.name for p in (WORK / "refused/quantizers").iterdir()], ["mine"])

    def test_a_name_that_the_interface_has_taken_becomes_another_class(self):
        self.new("decoders", "sequence", WORK / "taken")
        self.assertIn("class SequencePlugin final", (WORK / "taken/decoders/sequence/sequence.cpp").read_text())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
