"""`patchbay chat` on a pseudo-terminal: its commands, and Ctrl-C, which stops an answer and not the program.

chat_test.py PROGRAM
"""

import json
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMOLLM2 = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "patchbay/models/SmolLM2-135M-Instruct.Q4_1.gguf"
PROGRAM = None  # the first argument


class Terminal:
    def __init__(self, *arguments):
        self.screen, side = pty.openpty()
        # A session of its own, whose terminal this is: so Ctrl-C reaches the program as a signal.
        self.process = subprocess.Popen([PROGRAM, "chat", *arguments], stdin=side, stdout=side, stderr=side, start_new_session=True,
                                        preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0))
        os.close(side)
        self.shown = ""

    def read_until(self, pattern, seconds=60):
        end = time.time() + seconds
        while not re.search(pattern, self.shown, re.S):
            if time.time() > end or not select.select([self.screen], [], [], max(0.0, end - time.time()))[0]:
                raise AssertionError(f"no {pattern!r} in {self.shown!r}")
            try:
                self.shown += os.read(self.screen, 65536).decode(errors="replace")
            except OSError as error:  # how Linux says that the other side has closed
                raise AssertionError(f"the program ended; no {pattern!r} in {self.shown!r}") from error
        shown, self.shown = self.shown, ""
        return shown

    def say(self, text):
        os.write(self.screen, text.encode())

    def end(self):
        code = self.process.wait(60)
        os.close(self.screen)
        return code


class Chat(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.template = pathlib.Path(self.folder.name) / "template.jinja"
        self.template.write_text("{{ bos_token }}{% for m in messages %}{{ m.role | upper }}:\n{{ m.content }}\n\n{% endfor %}ROMEO:\n")
        self.tiny = ["--model", str(ROOT / "data/tiny-shakespeare/tiny-shakespeare-f16.gguf"), "--template", str(self.template), "--max-tokens", "8"]

    def test_commands(self):
        terminal = Terminal(*self.tiny)
        terminal.read_until("Ctrl-C stops an answer.*> $")
        for line in ("/nonsense\n", "/help\n"):
            terminal.say(line)
            shown = terminal.read_until("/reset forgets.*> $")
            self.assertEqual("unknown command" in shown, line == "/nonsense\n")
        terminal.say("Who is there?\n")
        terminal.read_until("Who is there.*cut off after 8 tokens.*> $")
        terminal.say("/reset\n")
        terminal.read_until("> $")
        terminal.say("/exit\n")
        self.assertEqual(terminal.end(), 0)

    def test_an_answer_that_is_empty_is_told(self):
        """A copy of the tiny model for which the first token of its answer is the one that ends texts."""
        self.template.write_text("{{ bos_token }}{{ messages[-1].content }} ROMEO:")  # without that token, which no text will be any more
        model = pathlib.Path(self.tiny[1]).read_bytes()
        said = subprocess.run([PROGRAM, "chat", *self.tiny, "--message", "Hi", "--json"], capture_output=True, check=True)
        token = json.loads(said.stdout)["tokens"][0]

        def value_at(key, bytes_of_type):  # a key of GGUF: its length, its text, its type; then the value
            return model.index(struct.pack("<Q", len(key)) + key) + 8 + len(key) + bytes_of_type

        eos, types = value_at(b"tokenizer.ggml.eos_token_id", 4), value_at(b"tokenizer.ggml.token_type", 4 + 4 + 8)
        changed = bytearray(model)
        changed[eos:eos + 4] = struct.pack("<I", token)
        changed[types + 4 * token:types + 4 * token + 4] = struct.pack("<i", 3)  # a control token
        path = pathlib.Path(self.folder.name) / "silent.gguf"
        path.write_bytes(changed)
        terminal = Terminal("--model", str(path), *self.tiny[2:])
        terminal.read_until("> $")
        terminal.say("Hi\n")
        terminal.read_until(r"\(the model ended its answer at once\).*> $")
        terminal.say("/exit\n")
        self.assertEqual(terminal.end(), 0)

    def test_what_does_not_fit_is_refused_and_the_conversation_goes_on(self):
        terminal = Terminal(*self.tiny, "--context", "40")
        terminal.read_until("> $")
        terminal.say("word " * 60 + "\n")
        terminal.read_until("tokens and the context 40.*/reset.*> $")
        terminal.say("Hi\n")
        terminal.read_until("Hi\r\n.*> $")
        terminal.say("\x04")  # Ctrl-D
        self.assertEqual(terminal.end(), 0)

    def test_lines_that_begin_with_slashes_and_lines_that_a_terminal_cuts(self):
        self.template.write_text("{% for m in messages %}{{ m.content }}{% endfor %}{% if messages[-1].content == '/help' %}{{ raise_exception('It is a message.') }}{% endif %}")
        terminal = Terminal(*self.tiny)
        terminal.read_until("> $")
        terminal.say("//help\n")
        terminal.read_until("the template refuses: It is a message.*> $")
        for _ in range(4):
            terminal.say("x" * 1000)
            terminal.read_until("x{1000}")
        terminal.say("x" * 1000 + "\n")
        terminal.read_until("fills a terminal's line of 4095 bytes.*chat < FILE.*> $")
        terminal.say("Hi\n")
        terminal.read_until("cut off after 8 tokens.*> $")
        terminal.say("/exit\n")
        self.assertEqual(terminal.end(), 0)

    @unittest.skipUnless(SMOLLM2.exists(), "SmolLM2 is not here")
    def test_ctrl_c_stops_the_answer(self):
        terminal = Terminal("--model", str(SMOLLM2), "--max-tokens", "3000")
        terminal.read_until("> $")
        for _ in range(2):
            terminal.say("Write a very long story about a fox, in twenty chapters.\n")
            terminal.read_until("chapters\\..*\\w+ \\w+ \\w+")
            terminal.say("\x03")
            terminal.read_until("> $")
        terminal.say("/exit\n")
        self.assertEqual(terminal.end(), 0)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
