#!/usr/bin/env python3
"""Makes one folder that runs on another machine: program, plugins, tests of kernels, bench_gpu, gpu_check.sh, and every shared library that they need but
libc and the GPU's driver. Called by `cmake --build --preset cuda --target bundle`.

    make_bundle.py BUILD FOLDER

Nothing in it names the folder where it was built. cuBLAS (600 MB) is not in it: it is looked for at run time.
"""
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
MOST_BYTES = 60 << 20
# The machine's own: libc's family belongs to its kernel and loader, libcuda to its driver.
OF_THE_MACHINE = re.compile(r"^(ld-linux.*|linux-vdso|libc|libm|libdl|librt|libpthread|libresolv|libcuda|libnvidia.*)\.so")
# What of ICU's data (31 MB) patchbay reads: normalisation, properties of characters, where characters and words end.
ICU_KEPT = re.compile(r"^[^/]+\.(nrm|icu|cfu)$|^(root|res_index|keyTypeData|icustd|supplementalData)\.res$|^brkitr/(root\.res|res_index\.res|(char|title|word|sent)\.brk)$")


def output_of(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def is_elf(path):
    if path.is_symlink() or not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def elf_files(folder):
    return [path for path in sorted(folder.rglob("*")) if is_elf(path)]


def install(build, folder):
    """The program and its plugins, then what only a check of a GPU needs; not what a plugin is built with."""
    for component in ([], ["--component", "gpu_check"]):
        output_of("cmake", "--install", build, "--prefix", folder, *component)
    for file in elf_files(folder):
        subprocess.run(["strip", "--strip-debug", file], check=True)  # names stay: the emulator tells kernels by them
    for left_out in ("include", "lib/cmake", "share/patchbay/templates", "share/patchbay/python"):
        shutil.rmtree(folder / left_out, ignore_errors=True)
    shutil.copy2(SOURCE / "scripts/gpu_check.sh", folder)
    shutil.copytree(SOURCE / "scripts/gpu_check", folder / "gpu_check", ignore=shutil.ignore_patterns("__pycache__"))


def libraries_of(files, folder):
    """Paths of the libraries that the files load, in the bundle or on this machine, by name. A library's own needs are among them."""
    found = {}
    for file in files:
        for line in output_of("env", f"LD_LIBRARY_PATH={folder / 'lib'}", "ldd", file).splitlines():
            name, _, place = line.strip().partition(" => ")
            if OF_THE_MACHINE.match(name) or not place:
                continue
            if "not found" in place:
                sys.exit(f"make_bundle: {file.name} needs {name}, which is not on this machine")
            found[name] = pathlib.Path(place.split()[0])
    return found


def copy_libraries(folder):
    for name, path in libraries_of(elf_files(folder), folder).items():
        target = folder / "lib" / name
        if folder not in path.parents and not target.exists():
            shutil.copy(path.resolve(), target)
            subprocess.run(["strip", "--strip-unneeded", target], check=True)


def section_of_symbol(library, symbol):
    """The bytes at a symbol of an ELF library."""
    line = next(line.split() for line in output_of("readelf", "-W", "--dyn-syms", library).splitlines() if line.split()[-1:] == [symbol])
    address, size = int(line[1], 16), int(line[2], 0)
    for part in output_of("readelf", "-W", "-l", library).splitlines():
        words = part.split()
        if words[:1] == ["LOAD"]:
            offset, begin, length = (int(words[i], 16) for i in (1, 2, 4))
            if begin <= address < begin + length:
                data = library.read_bytes()[offset + address - begin:offset + length]
                return data[:size] if size > 4096 else data
    sys.exit(f"make_bundle: {library} has no bytes for {symbol}")


def trim_icu(library):
    """ICU's data library with only ICU_KEPT: a table of names and offsets, sorted by name, then the items."""
    version = library.name.rsplit(".", 1)[1]
    data = section_of_symbol(library, f"icudt{version}_dat")
    header, = struct.unpack_from("<H", data)
    count, = struct.unpack_from("<I", data, header)
    entries = [struct.unpack_from("<II", data, header + 4 + 8 * i) for i in range(count)]
    names = [data[header + name:data.index(b"\0", header + name)] for name, _ in entries]
    ends = [at for _, at in entries[1:]] + [len(data) - header]
    kept = [(name, data[header + at:header + end]) for name, (_, at), end in zip(names, entries, ends) if ICU_KEPT.match(name.decode().split("/", 1)[1])]
    table_end = 4 + 8 * len(kept)
    texts, items, table = b"", b"", []
    first = -(-(table_end + sum(len(name) + 1 for name, _ in kept)) // 16) * 16
    for name, item in kept:
        table.append((table_end + len(texts), first + len(items)))
        texts += name + b"\0"
        items += item + b"\0" * (-len(item) % 16)
    body = struct.pack("<I", len(kept)) + b"".join(struct.pack("<II", *entry) for entry in table) + texts
    trimmed = data[:header] + body + b"\0" * (first - len(body)) + items
    with tempfile.TemporaryDirectory() as scratch:
        (pathlib.Path(scratch) / "data").write_bytes(trimmed)
        code = f'.section .rodata\n.balign 64\n.globl icudt{version}_dat\n.type icudt{version}_dat, @object\nicudt{version}_dat:\n.incbin "{scratch}/data"\n' \
               f".size icudt{version}_dat, .-icudt{version}_dat\n.section .note.GNU-stack,\"\",@progbits\n"
        (pathlib.Path(scratch) / "data.s").write_text(code)
        output_of("cc", "-shared", "-nostdlib", f"-Wl,-soname,{library.name}", "-o", library, f"{scratch}/data.s")


def versions_needed(files, prefix):
    """The newest version of glibc or libstdc++ that a file asks for."""
    found = set()
    for file in files:
        found.update(re.findall(rf"\b{prefix}_(\d+(?:\.\d+)+)\b", output_of("readelf", "-W", "--version-info", file)))
    return max(found, key=lambda version: [int(part) for part in version.split(".")], default="none")


def check(folder):
    """That every library is found inside, that nothing names this machine's folders, and the size."""
    files = elf_files(folder)
    for file in files:
        beside = [f"LD_LIBRARY_PATH={folder / 'lib'}"] if file.parent == folder / "lib" else []  # loaded by a program, whose path they take
        for line in output_of("env", "-i", *beside, "ldd", file).splitlines():
            name, _, place = line.strip().partition(" => ")
            if place and not OF_THE_MACHINE.match(name) and folder not in pathlib.Path(place.split()[0]).parents:
                sys.exit(f"make_bundle: {file.relative_to(folder)} takes {name} from {place}, not from the bundle")
        paths = re.findall(r"R(?:UN)?PATH\).*\[(.*)\]", output_of("readelf", "-W", "-d", file))
        if any(not part.startswith("$ORIGIN") for path in paths for part in path.split(":")):
            sys.exit(f"make_bundle: {file.relative_to(folder)} looks for libraries in {paths}")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > MOST_BYTES:
        sys.exit(f"make_bundle: {size} bytes are more than {MOST_BYTES}")
    own = [file for file in files if not (file.name.startswith("libstdc++") or file.name.startswith("libgcc_s"))]
    facts = f"{size / (1 << 20):.1f} MiB; needs glibc {versions_needed(files, 'GLIBC')} and, of what it brings, libstdc++ {versions_needed(own, 'GLIBCXX')}"
    (folder / "BUNDLE.txt").write_text(f"patchbay: a relocatable bundle, made by scripts/make_bundle.py.\n{facts}\nRun ./gpu_check.sh on a machine with a GPU; bin/patchbay works anywhere.\n")
    print(f"{folder}: {facts}")


def main():
    build, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(os.path.abspath(sys.argv[2]))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    install(build, folder)
    copy_libraries(folder)
    for library in (folder / "lib").glob("libicudata.so.*"):
        trim_icu(library)
    check(folder)


if __name__ == "__main__":
    main()
