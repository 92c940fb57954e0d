"""scripts/quickstart.sh with and without its model. quickstart_test.py BUILD_FOLDER

The scripts run in a copy of the tree; set-up is skipped, and a cmake that does nothing stands for the build, which is done.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
TINY = ROOT / "data/tiny-shakespeare/tiny-shakespeare-f16.gguf"


class QuickStart(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        for folder in ("scripts", "configs", "data"):
            shutil.copytree(ROOT / folder, self.root / folder)
        offline = self.root / "configs/quickstart_offline.yaml"  # the same runs, in less time
        offline.write_text(offline.read_text().replace("repeat: 6", "repeat: 1").replace("chunks: 0", "chunks: 2"))
        (self.root / "build").mkdir()
        (self.root / "build/release").symlink_to(BUILD)
        (self.root / "tools").mkdir()
        (self.root / "tools/cmake").symlink_to(shutil.which("true"))

    def run_script(self):
        environment = {**os.environ, "PATH": f"{self.root}/tools:{os.environ['PATH']}", "XDG_CACHE_HOME": f"{self.root}/cache",
                       "PATCHBAY_SKIP_SETUP": "1", "PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull}
        return subprocess.run([self.root / "scripts/quickstart.sh"], env=environment, text=True, capture_output=True, check=False)

    def test_without_a_network_it_says_so_loudly_measures_the_tiny_model_and_is_no_success(self):
        result = self.run_script()
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("pip could not download", result.stderr)
        self.assertEqual(result.stderr.count("This is NOT the quick start"), 2)  # before and after
        self.assertIn("OFFLINE", (self.root / "results/quickstart-offline/report.html").read_text(encoding="utf-8"))
        self.assertFalse((self.root / "results/quickstart").exists())
        records = [json.loads(line) for line in (self.root / "results/quickstart-offline/records.jsonl").read_text().splitlines()]
        self.assertEqual(len(records), 13)  # twelve runs, and the baseline again
        self.assertEqual({record["model"] for record in records}, {"tiny-shakespeare"})

    def test_with_the_model_it_is_the_quick_start_and_says_nothing_of_being_offline(self):
        cached = self.root / "cache/patchbay/models" / TINY.name
        cached.parent.mkdir(parents=True)
        shutil.copy(TINY, cached)  # stands for SmolLM2
        description = (self.root / "configs/models/tiny-shakespeare.yaml").read_text().replace("repository", "no-such-package")
        (self.root / "configs/models/smollm2-135m.yaml").write_text(description)
        (self.root / "configs/quickstart.yaml").write_text("name: quickstart\nmodel: smollm2-135m\ntasks: [memory]\n")
        result = self.run_script()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("OFFLINE", result.stderr + result.stdout)
        self.assertTrue((self.root / "results/quickstart/records.jsonl").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
