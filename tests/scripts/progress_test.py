"""`patchbay run` through a pseudo-terminal: the bar, its width, the time left, the locale; and plain lines without one.

progress_test.py PROGRAM
"""

import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = None  # the first argument
CLEAR = "\r\x1b[K"
EXPERIMENT = f"""\
name: tiny
model: {ROOT}/tests/golden/tiny_llama/gqa_tied.gguf
tasks: [perplexity, divergence]
evaluation: {{text: {ROOT}/data/evaluation.txt, window: 64, chunks: 3}}
base: {{activations: fp32, weights: {{quantizer: rtn, format: {{type: int_grouped, group_size: 16}}}}}}
sweep: {{weights.format.bits: {{größe acht: 8, größe vier: 4, größe zwei: 2}}}}
baseline: {{weights: none}}
noise: false
"""


def read_all(descriptor: int) -> str:
    data = b""
    while True:
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:  # how Linux says that the other side has closed
            break
        if not chunk:
            break
        data += chunk
    return data.decode("utf-8", "replace").replace("\r\n", "\n")


class Progress(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "tiny.yaml").write_text(EXPERIMENT, encoding="utf-8")

    def command(self, *more, out="out"):
        return [PROGRAM, "run", str(self.folder / "tiny.yaml"), "--out", str(self.folder / out), "--threads", "1", *more]

    def on_terminal(self, columns, *more, out="out", locale="C.UTF-8", kind="xterm"):
        """All that a terminal of that width receives, stdout and stderr alike."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        environment = {**os.environ, "LC_ALL": locale, "TERM": kind}
        with subprocess.Popen(self.command(*more, out=out), stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment) as child:
            os.close(theirs)
            output = read_all(ours)
        os.close(ours)
        self.assertEqual(child.returncode, 0, output)
        return output

    def bars(self, output):
        """What was drawn and cleared again."""
        return [part for part in output.split(CLEAR)[1:] if part and "\n" not in part]

    def test_a_bar_on_a_terminal(self):
        output = self.on_terminal(100)
        bars = self.bars(output)
        self.assertTrue(bars)
        for bar in bars:
            self.assertRegex(bar, r"^\[#*\.*\] +\d+%( about \d+:\d\d left)? \d/4 ")
            self.assertLess(len(bar), 100)
        percents = [int(re.search(r"(\d+)%", bar).group(1)) for bar in bars]
        self.assertEqual(percents, sorted(percents))
        # Until one run has ended nothing is known of the time.
        first = [bar for bar in bars if " 1/4 " in bar]
        later = [bar for bar in bars if " 1/4 " not in bar]
        self.assertTrue(first and later)
        self.assertFalse([bar for bar in first if "left" in bar])
        self.assertFalse([bar for bar in later if "left" not in bar])
        # Nothing of the bars stays: what follows the last one starts with a clear line.
        self.assertNotIn("%", output.rsplit(CLEAR, 1)[1].split("\n")[0])
        self.assertIn("±", output)
        self.assertIn("─", output)

    def test_narrow_terminals(self):
        for columns in (1, 4, 12, 30, 45):
            with self.subTest(columns=columns):
                bars = self.bars(self.on_terminal(columns, out=str(columns)))
                self.assertTrue(all(len(bar) < columns for bar in bars))
                self.assertEqual(bool(bars), columns > 1)

    def test_a_locale_without_utf8_gets_ascii(self):
        output = self.on_terminal(100, locale="C")
        self.assertTrue(all(bar.isascii() for bar in self.bars(output)))
        table = output[output.index("weights.format.bits"):]
        self.assertIn("+-", table)
        self.assertNotIn("±", table)
        self.assertNotIn("─", table)

    def test_a_finished_experiment_draws_no_bar(self):
        self.on_terminal(80)
        self.assertEqual(self.bars(self.on_terminal(80, "--resume")), [])

    def test_kept_runs_do_not_count(self):
        self.on_terminal(80, "sweep.weights.format.bits={acht: 8}")
        bars = self.bars(self.on_terminal(120, "--resume"))
        self.assertIn(" 0% 3/4 ", bars[0])  # two of the four are there

    def test_plain_lines_elsewhere(self):
        for way in ("pipe", "dumb"):
            with self.subTest(way=way):
                if way == "dumb":
                    output = self.on_terminal(80, out=way, kind="dumb")
                else:
                    output = subprocess.run(self.command(out=way), capture_output=True, text=True, check=True).stderr
                self.assertNotIn("\x1b", output)
                self.assertNotIn("\r", output)
                self.assertIn(f"4 runs into {self.folder / way}; a line after each\n", output)  # before the first has ended
                lines = re.findall(r"^(\d)/4 .* \(\d+:\d\d(, about \d+:\d\d left)?\)$", output, re.MULTILINE)
                self.assertEqual([number for number, _ in lines], ["1", "2", "3", "4"])
                self.assertEqual([bool(left) for _, left in lines], [True, True, True, False])

    def test_quiet_says_nothing_but_the_table(self):
        result = subprocess.run(self.command("--quiet"), capture_output=True, text=True, check=True)
        self.assertEqual(result.stderr, "")
        self.assertIn("perplexity", result.stdout)
        self.assertNotIn(CLEAR, self.on_terminal(80, "--quiet", "--resume"))

    def test_quiet_errors_are_told(self):
        self.on_terminal(80)
        result = subprocess.run(self.command("--quiet"), capture_output=True, text=True)  # the folder is there, without --resume
        self.assertEqual(result.returncode, 1)
        self.assertIn("--resume", result.stderr)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
