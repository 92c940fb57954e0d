#!/usr/bin/env python3
"""Markdown as Doxygen wants it: every text a page with a name of its own, links between texts as references.

doxygen_filter.py FILE: run by doxygen (docs/Doxyfile) in the root. Links to what is no page (sources, folders) become plain words.
"""
import os
import re
import sys

LINK = re.compile(r"(?<!!)\[([^\]\[]+)\]\(([^)\s]+)\)")
CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)


def label(path: str) -> str:
    """The page of a text, given its path from the root."""
    return "mainpage" if path == "README.md" else "page_" + re.sub(r"\W", "_", path.removesuffix(".md").lower())


def reference(match: re.Match, folder: str) -> str:
    text, target = match.groups()
    if re.match(r"[a-z]+:", target):
        return match.group(0)
    path = os.path.normpath(os.path.join(folder, target.split("#")[0]))
    if os.path.isdir(path) and os.path.isfile(os.path.join(path, "README.md")):
        path = os.path.join(path, "README.md")
    if not path.endswith(".md"):
        return text
    name = label(path)
    return f"[{text}](@ref {'index' if name == 'mainpage' else name})"


def main() -> None:
    path = os.path.relpath(sys.argv[1])
    folder = os.path.dirname(path)
    with open(path, encoding="utf-8") as file:
        parts = CODE.split(file.read())
    text = "".join(part if i % 2 else LINK.sub(lambda m: reference(m, folder), part) for i, part in enumerate(parts))
    text = re.sub(r"^\\\* ", "∗ ", text, flags=re.MULTILINE)  # doxygen 1.9 takes an escaped star for a list
    title, rest = text.split("\n", 1)
    plugin = re.fullmatch(r"plugins/(\w+)/(\w+)/README\.md", path)
    if plugin:
        title = f"# {plugin.group(1)} / " + title.removeprefix("# ")
    sys.stdout.write(f"{title.replace('`', '')} {{#{label(path)}}}\n{rest}")


if __name__ == "__main__":
    main()
