"""The texts of the repository hold together: links lead somewhere, and every plugin's folder is a lesson."""

import contextlib
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts"))
import update_ablations  # noqa: E402
import update_readmes  # noqa: E402

SKIPPED = {"build", "results", ".venv", ".git"}
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
FORMULA = re.compile(r"\(([A-Z]{1,2}[0-9]+)\)")
MARKERS = ("<!-- parameters -->", "<!-- /parameters -->", "<!-- results -->", "<!-- /results -->")


def markdown_files():
    return [p for p in ROOT.rglob("*.md") if not SKIPPED & set(p.relative_to(ROOT).parts)]


def plugin_folders():
    return sorted(p.parent for p in (ROOT / "plugins").glob("*/*/CMakeLists.txt"))


class Documents(unittest.TestCase):
    def test_every_relative_link_leads_somewhere(self):
        self.assertGreater(len(markdown_files()), 5)
        for path in markdown_files():
            for target in LINK.findall(CODE.sub("", path.read_text(encoding="utf-8"))):
                if re.match(r"[a-z]+:", target):
                    continue
                with self.subTest(file=str(path.relative_to(ROOT)), link=target):
                    self.assertTrue((path.parent / target).exists())

    def test_the_readmes_first_plugin_is_the_example_that_is_built_and_tested(self):
        code = re.search(r"```cpp\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL).group(1)
        example = ROOT / "examples/out_of_tree_plugin/processors/min_p/min_p.cpp"
        self.assertEqual(code, example.read_text(encoding="utf-8"))


class Ablations(unittest.TestCase):
    def test_each_experiment_has_a_page_with_the_table_of_its_yaml(self):
        self.assertGreater(len(update_ablations.experiments()), 5)
        self.assertEqual(update_ablations.faults(), [])

    def test_a_changed_figure_or_experiment_shows(self):
        text = (ROOT / "docs/ablations/bits_by_group.md").read_text(encoding="utf-8")
        block = next(update_ablations.BLOCK.finditer(text))
        self.assertTrue(update_ablations.is_generated(block[2], block[4]))
        self.assertFalse(update_ablations.is_generated(block[2], block[4].replace("commit", "comit")))
        self.assertFalse(update_ablations.is_generated("kv_formats", block[4]))

    def test_a_marker_says_which_run_a_table_stands_against(self):
        def options_of(marker):
            block = update_ablations.BLOCK.fullmatch(f"{marker}\nfigures\n<!-- /table -->")
            self.assertEqual((block[2], block[4]), ("awq", "figures\n"))
            return update_ablations.options_of(block[3])
        self.assertEqual(options_of("<!-- table awq -->"), [])
        self.assertEqual(options_of("<!-- table awq --by-kind -->"), ["--by-kind"])
        self.assertEqual(options_of("<!-- table awq against plain -->"), ["--against", "plain"])
        self.assertEqual(options_of("<!-- table awq against rtn, weights.format.bits=3 -->"), ["--against", "rtn, weights.format.bits=3"])
        self.assertEqual([block[3] for block in update_ablations.BLOCK.finditer(
            "<!-- table awq -->\n<!-- /table -->\n<!-- table awq against plain -->\n<!-- /table -->\n")], ["", " against plain"])

    def test_a_table_against_a_run_is_that_report_of_the_program(self):
        report = {"sources": [{"note": "a note"}], "records": [{"environment": {"cpu": "a CPU", "threads": 2, "commit": "0123456789abcdef", "started": "2026-11-30T12"}}]}
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            program = pathlib.Path(folder) / "program"
            program.write_text("#!/usr/bin/env python3\nimport json, sys\nwords = sys.argv[1:]\n"
                               f"print({json.dumps(report)!r} if '--json' in words else '' if words[0] == 'run' else json.dumps(words))\n", encoding="utf-8")
            program.chmod(0o755)
            table = update_ablations.table_of(program, "awq", ["--against", "scaled and clamped"])
        self.assertIn('["report", "results/ablations/awq", "--markdown", "--against", "scaled and clamped"]', table)
        self.assertIn("then `patchbay report results/ablations/awq --against 'scaled and clamped'`; a CPU, 2 threads, commit 0123456789ab, 2026-11-30", table)
        self.assertTrue(update_ablations.is_generated("awq", table))

    def test_the_index_leads_to_each_page_and_each_page_asks_and_answers(self):
        index = (ROOT / "docs/ablations/README.md").read_text(encoding="utf-8")
        for page in sorted((ROOT / "docs/ablations").glob("*.md")):
            if page.name == "README.md":
                continue
            with self.subTest(page=page.name):
                self.assertIn(f"({page.name})", index)
                text = page.read_text(encoding="utf-8")
                self.assertIn("**Question:**", text)
                self.assertIn("**Answer", text)


class PluginFolders(unittest.TestCase):
    def test_there_are_plugins(self):
        self.assertGreater(len(plugin_folders()), 20)

    def test_each_has_the_parts_of_a_lesson(self):
        for folder in plugin_folders():
            name = folder.name
            for part in (f"{name}.cpp", f"{name}.yaml", "README.md"):
                with self.subTest(plugin=name, part=part):
                    self.assertTrue((folder / part).is_file())

    def test_each_readme_has_the_markers_of_its_generated_tables(self):
        for folder in plugin_folders():
            with self.subTest(plugin=folder.name):
                text = (folder / "README.md").read_text(encoding="utf-8")
                places = [text.find(marker) for marker in MARKERS]
                self.assertNotIn(-1, places)
                self.assertEqual(places, sorted(places))

    def test_results_are_those_of_the_experiment_beside_them(self):
        filled = 0
        for folder in plugin_folders():
            plugin = f"{folder.parent.name}/{folder.name}"
            _, results, _ = update_readmes.between((folder / "README.md").read_text(encoding="utf-8"), "results")
            if update_readmes.waits_for_gpu(plugin, results):
                continue
            filled += 1
            with self.subTest(plugin=plugin):
                self.assertTrue(update_readmes.is_generated(plugin, results), f"run scripts/update_readmes.py --run {plugin}")
                changed = results.replace("95% interval", "99% interval").replace("commit", "comit")
                self.assertFalse(update_readmes.is_generated(plugin, changed))
        self.assertGreater(filled, 15)

    def test_each_formula_tagged_in_the_code_is_in_the_readme(self):
        for folder in plugin_folders():
            for source in [*folder.glob("*.cpp"), *folder.glob("*.h")]:
                comments = " ".join(re.findall(r"//.*", source.read_text(encoding="utf-8")))
                with self.subTest(source=str(source.relative_to(ROOT))):
                    known = set(FORMULA.findall((folder / "README.md").read_text(encoding="utf-8")))
                    self.assertEqual(set(FORMULA.findall(comments)) - known, set())


if __name__ == "__main__":
    unittest.main()
