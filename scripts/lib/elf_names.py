"""Which driver functions a shared library can call: driver_functions(bytes of the file) -> {name: how}

A library that links no CUDA has a stub: for each function of the driver a trampoline that jumps to what dlsym said, whether anybody
calls it or not. So being in the stub means nothing, and it is looked for who goes there:

  called       an instruction, a relocation or a pointer in data leads to the function's trampoline
  imported     an undefined dynamic symbol: the library is linked with libcuda
  named        the name is there as text outside the stub's list, so it can be handed to dlsym or cuGetProcAddress

Trampolines are found by their symbols, which jax's wheels have. In a library without them every name counts as named: more than
it can call, never less. What is not seen are names put together at run time. x86-64, little endian.
"""

import re
import struct

import numpy as np

# Two words at least, or one of them: what is short comes up by chance in half a gigabyte.
NAME = re.compile(rb"cu(?:(?:[A-Z][a-z]{2,}|GL|EGL|VDPAU)[A-Z0-9][A-Za-z0-9]*|Init|Launch|Memcpy)(?:_v\d+)?(?:_pt[sd][sz])?")
TEXT = re.compile(rb"(?<![ -~])(" + NAME.pattern + rb")\0")

PROGBITS, SYMTAB, RELA, NOBITS, DYNSYM = 1, 2, 4, 8, 11
ALLOCATED, EXECUTABLE = 2, 4
FUNCTION = 2
SYMBOL = np.dtype([("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")])
RELOCATION = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])


class Section:
    def __init__(self, data, header):
        _, self.kind, self.flags, self.address, offset, size, self.link, _, _, _ = struct.unpack("<IIQQQQIIQQ", header)
        self.bytes = memoryview(b"" if self.kind == NOBITS else data[offset : offset + size])

    def array(self, dtype):
        dtype = np.dtype(dtype)
        return np.frombuffer(self.bytes[: len(self.bytes) // dtype.itemsize * dtype.itemsize], dtype)


def sections(data):
    if data[:6] != b"\x7fELF\2\1" or len(data) < 64 or struct.unpack_from("<H", data, 18)[0] != 62:
        raise ValueError("not an ELF file of x86-64")
    offset, = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    if not offset or not count or size != 64 or offset + 64 * count > len(data):
        raise ValueError("it has no table of sections")
    return [Section(data, data[offset + 64 * i : offset + 64 * (i + 1)]) for i in range(count)]


def symbols(all_sections, kind):
    """(name, symbol) of every symbol in the tables of that kind whose name may matter."""
    for section in all_sections:
        if section.kind != kind:
            continue
        text = bytes(all_sections[section.link].bytes)
        table = section.array(SYMBOL)
        # Only symbols whose name begins so: there are a million.
        starts = {m.start(): m.group(0)[1:] for m in re.finditer(rb"\0(?:cu[A-Z]|reltable\.)[^\0]*", text)}
        wanted = np.isin(table["name"], np.fromiter(starts, np.int64, len(starts)) + 1)
        for symbol in table[wanted]:
            yield starts[int(symbol["name"]) - 1], symbol


def targets(section):
    """Where instructions of a section may lead to: of calls, jumps and addresses relative to the next instruction.

    The bytes are not decoded into instructions: each place that could be one counts. One that is none has a target that
    is right by chance once in millions.
    """
    code = section.array("u1")
    for at, first in (
        (np.flatnonzero((code[:-5] & 0xFE) == 0xE8), 1),  # call, jmp
        (np.flatnonzero((code[:-6] == 0x0F) & ((code[1:-5] & 0xF0) == 0x80)), 2),  # jcc
        (np.flatnonzero((code[:-6] == 0x8D) & ((code[1:-5] & 0xC7) == 0x05)), 2),  # lea
    ):
        distance = np.zeros(len(at), np.uint32)
        for i in range(4):
            distance |= code[at + first + i].astype(np.uint32) << np.uint32(8 * i)
        yield at + first + 4 + distance.view(np.int32) + section.address


def own_list(offsets, least):
    """Which pointers are the stub's own list of names, where it is one of pointers: those in rows of so many or more."""
    order = np.argsort(offsets)
    rows = np.split(order, np.flatnonzero(np.diff(offsets[order].astype(np.int64)) != 8) + 1)
    return np.concatenate([row for row in rows if len(row) >= least] or [np.empty(0, np.int64)])


def pointers(all_sections, wanted, listed):
    """Which of the wanted addresses data points to: addends of relocations, words, and a compiler's tables of distances.

    listed is how many names the stub's list has.
    """
    for section in all_sections:
        if section.kind == RELA:
            table = section.array(RELOCATION)
            table = table[np.isin(table["addend"], wanted)]
            yield np.delete(table["addend"], own_list(table["offset"], listed))
        elif section.flags & ALLOCATED and not section.flags & EXECUTABLE and section.kind == PROGBITS and not section.address % 8:
            words = section.array("<i8")
            at = np.flatnonzero(np.isin(words, wanted))
            yield np.delete(words[at], own_list(8 * at, listed))
    for name, symbol in symbols(all_sections, SYMTAB):
        if not name.startswith(b"reltable.") or b"_tramp_resolve" in name or symbol["section"] >= len(all_sections):
            continue
        home, begin = all_sections[symbol["section"]], int(symbol["value"])
        table = home.bytes[begin - home.address : begin - home.address + int(symbol["size"]) // 4 * 4]
        yield np.frombuffer(table, "<i4").astype(np.int64) + begin


def linked(all_sections):
    """Names that relocations have: what is called through a table that the dynamic linker fills, by name."""
    for section in all_sections:
        if section.kind == RELA and section.link < len(all_sections) and all_sections[section.link].kind == DYNSYM:
            text, table = bytes(all_sections[all_sections[section.link].link].bytes), all_sections[section.link].array(SYMBOL)
            for index in np.unique(section.array(RELOCATION)["info"] >> np.uint64(32)):
                begin = int(table[int(index)]["name"])
                yield text[begin : text.index(b"\0", begin)]


def driver_functions(data):
    found, texts, stub = {}, {}, {}
    all_sections = sections(data)
    for section in all_sections:
        if section.kind == PROGBITS and section.flags & ALLOCATED and not section.flags & EXECUTABLE:
            for match in TEXT.finditer(section.bytes):
                texts[match.group(1).decode()] = section.address + match.start(1)
    for name, symbol in symbols(all_sections, SYMTAB):
        if symbol["info"] & 15 == FUNCTION and symbol["section"] and NAME.fullmatch(name):
            stub[name.decode()] = int(symbol["value"])
    for name, symbol in symbols(all_sections, DYNSYM):
        if not symbol["section"] and NAME.fullmatch(name):
            found[name.decode()] = "imported"
    for name in linked(all_sections):
        if NAME.fullmatch(name):
            found.setdefault(name.decode(), "called")

    stub_texts = [texts[name] for name in stub if name in texts]
    wanted, reached = np.unique(np.array([*stub.values(), *stub_texts], np.int64)), set()
    for section in all_sections:
        if stub and section.flags & EXECUTABLE and len(section.bytes) > 8:
            for array in targets(section):
                reached.update(array[np.isin(array, wanted)].tolist())
    for array in pointers(all_sections, wanted, max(len(stub_texts), 2)) if stub else ():
        reached.update(array[np.isin(array, wanted)].tolist())
    for name in {*stub, *texts}:
        if stub.get(name) in reached:
            found.setdefault(name, "called")
        elif name not in stub or texts.get(name) in reached:
            found.setdefault(name, "named")
    return found
