"""What the sections of gpu_check.sh share: options, JSON that is whole at every moment, commands with a time limit."""
import argparse
import json
import os
import pathlib
import subprocess
import time

BUNDLE = pathlib.Path(__file__).resolve().parent.parent  # bin/, lib/, share/ lie there


def options(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the section's JSON")
    parser.add_argument("--seconds", type=float, required=True, help="the section's time; what does not fit is left out and said so")
    parser.add_argument("--backend", choices=["cuda", "simt"], default="cuda", help="simt: a dry run on a CPU")
    parser.add_argument("--quick", action="store_true", help="tiny shapes")
    return parser.parse_args()


class Section:
    """A section's report, written again whenever something is added: a section that is cut off leaves what it had."""

    def __init__(self, name, given):
        self.path, self.given, self.began = given.out / f"{name}.json", given, time.monotonic()
        self.report = {"section": name, "backend": given.backend, "quick": given.quick, "ended": False, "complete": False, "results": []}
        self.write()

    def left(self):
        return self.given.seconds - (time.monotonic() - self.began)

    def write(self):
        self.report["seconds"] = round(time.monotonic() - self.began, 2)
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.report, indent=1) + "\n")
        part.replace(self.path)

    def add(self, result):
        self.report["results"].append(result)
        self.write()
        return result

    def end(self, left_out=0, **more):
        """The section came to its end; it is complete where no case was left out for lack of time."""
        self.report.update(more, ended=True, complete=left_out == 0, not_run_for_lack_of_time=left_out)
        self.write()


def environment(**more):
    return {**os.environ, "PATCHBAY_PLUGIN_PATH": str(BUNDLE / "lib/patchbay/plugins"), **more}


def run(command, seconds, tail=2000, **more):
    """The command's exit status ("timed out" where it was stopped), its time and the end of what it printed."""
    began = time.monotonic()
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace", timeout=max(seconds, 1),
                              env=environment(**more))
        status, output, errors = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as stopped:
        status, output, errors = "timed out", text_of(stopped.stdout), text_of(stopped.stderr)
    except OSError as error:
        status, output, errors = "not found", "", str(error)
    return {"command": " ".join(str(word).replace(str(BUNDLE) + "/", "") for word in command), "status": status,
            "seconds": round(time.monotonic() - began, 2), "output": output[-tail:], "errors": errors[-tail:]}


def test_files():
    """The files of tests in gpu_tests, as the tags that choose them; without those about the emulator alone."""
    listed = run([BUNDLE / "bin/gpu_tests", "-#", "--list-tags", "~[emulator]"], 20, tail=20000)
    return sorted(word for word in listed["output"].split() if word.startswith("[#"))


def text_of(captured):
    return captured.decode(errors="replace") if isinstance(captured, bytes) else captured or ""


def json_of(text):
    """The JSON object that a program printed, or None."""
    try:
        return json.loads(text)
    except ValueError:
        return None
