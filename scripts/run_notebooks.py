#!/usr/bin/env python3
"""Executes every notebook from a fresh kernel: exit status 1 when a cell fails. Needs the .venv of scripts/setup_python.sh.

  .venv/bin/python scripts/run_notebooks.py           changes nothing
  .venv/bin/python scripts/run_notebooks.py --write   keeps the outputs in the notebooks
  .venv/bin/python scripts/run_notebooks.py --folder results/quickstart   reads that folder in place of the sample; changes nothing
"""
import argparse
import pathlib
import sys

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = pathlib.Path(__file__).resolve().parent.parent


def without_times(notebook):
    """When and by which Python a cell ran is no result: files that change by nothing else would look changed."""
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    return notebook


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="keep the outputs")
    parser.add_argument("--folder", type=pathlib.Path, help="results to read in place of notebooks/sample")
    arguments = parser.parse_args()
    if arguments.write and arguments.folder:
        parser.error("--write keeps the outputs of the sample: leave --folder out")
    failed = 0
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        if arguments.folder:
            for cell in notebook.cells:
                cell.source = cell.source.replace('pathlib.Path("sample")', f"pathlib.Path({str(arguments.folder.resolve())!r})")
        try:
            NotebookClient(notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}).execute()
        except CellExecutionError as error:
            print(f"{path.relative_to(ROOT)}: {error}")
            failed = 1
            continue
        print(f"{path.relative_to(ROOT)}: {sum(cell.cell_type == 'code' for cell in notebook.cells)} cells ran")
        if arguments.write:
            nbformat.write(without_times(notebook), path)
    return failed


if __name__ == "__main__":
    sys.exit(main())
