#!/usr/bin/env python3
"""Whether a library holds machine code for every architecture that its kernels declare: reads the fat binaries in its ELF file.

    cuda_module_test.py LIBRARY ARCHITECTURES    e.g. formats/fp16.so 80-real,89-real,90
"""
import pathlib
import struct
import sys

MAGIC, PTX, MACHINE_CODE = 0xBA55ED50, 1, 2


def section(elf, name):
    """The bytes of one section of a 64-bit little-endian ELF file; none where there is no such section."""
    table, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    texts = headers[names][4]
    for text, _, _, _, offset, length in headers:
        if elf[texts + text:elf.index(b"\0", texts + text)].decode() == name:
            return elf[offset:offset + length]
    return b""


def code_in(fat):
    """(kind, architecture) of each piece in a section of fat binaries, which lie side by side, padded with zeros."""
    at = 0
    while at + 16 <= len(fat):
        magic, _, header, size = struct.unpack_from("<IHHQ", fat, at)
        if magic != MAGIC:
            at += 8
            continue
        end, at = at + header + size, at + header
        while at < end:
            kind, _, entry_header, entry_size = struct.unpack_from("<HHIQ", fat, at)
            architecture, = struct.unpack_from("<I", fat, at + 28)
            yield kind, architecture
            at += entry_header + entry_size


def main():
    path, declared = sys.argv[1], sys.argv[2].split(",")
    found = set(code_in(section(pathlib.Path(path).read_bytes(), ".nv_fatbin")))
    missing = []
    for name in declared:  # CMake's spelling: "80-real" machine code, "90-virtual" PTX, "90" both
        number, _, which = name.partition("-")
        for kind, text in ((MACHINE_CODE, "sm_"), (PTX, "compute_")):
            if which != {MACHINE_CODE: "virtual", PTX: "real"}[kind] and (kind, int(number.rstrip("af"))) not in found:
                missing.append(text + number)
    names = sorted(("compute_" if kind == PTX else "sm_") + str(architecture) for kind, architecture in found)
    print(f"{path} holds {', '.join(names) or 'no code for GPUs'}")
    if missing:
        sys.exit(f"it declares {', '.join(missing)} too")


if __name__ == "__main__":
    main()
