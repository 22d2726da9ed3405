"""scripts/callsites: what it does is said there."""

import argparse
import collections
import pathlib
import re
import sys
import zipfile

import elf_names

TOP = pathlib.Path(__file__).resolve().parents[2]

# Not in cuda.h: the profiler's, and those for memory of a graphics system, which hbmspill did not give the job and leaves alone.
ELSEWHERE = re.compile(r"cu(?:Graphics)?(?:Profiler|GL|EGL|VDPAU)[A-Z]")


def libraries(path):
    """(name, contents) of the shared libraries in a wheel or directory, or of the one."""
    if path.is_dir():
        for file in sorted(path.rglob("*.so*")):
            if file.is_file():
                yield str(file.relative_to(path)), file.read_bytes()
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                if re.search(r"\.so(\.\d+)*$", name):
                    yield name, wheel.read(name)
    else:
        yield path.name, path.read_bytes()


def classified():
    text = (TOP / "shim/functions.h").read_text(encoding="utf-8").split("#define HBMSPILL_REAL")[0]
    known = {name: "wrapped" for name in re.findall(r"^    X\((cu\w+), PFN_", text, re.M)}
    for line in (TOP / "tests/loader/not_wrapped").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            known.update(dict.fromkeys(line.split(), "left alone"))
    return known


def main():
    parser = argparse.ArgumentParser(prog="callsites")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    options = parser.parse_args()

    known = classified()
    reached, where, status = {}, collections.defaultdict(list), 0
    for path in options.paths:
        try:
            for name, contents in libraries(path):
                for function, how in elf_names.driver_functions(contents).items():
                    reached[function] = min(how, reached.get(function, how))  # called before imported before named
                    where[function].append(f"{path.name}: {name}" if name != path.name else name)
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            print(f"callsites: {path}: {error}", file=sys.stderr)
            status = 2
    if not where and not status:
        print("callsites: no function of the driver is called or named there", file=sys.stderr)
        status = 2

    kinds = {f: known.get(f) or ("not of cuda.h" if ELSEWHERE.match(f) else "UNKNOWN") for f in reached}
    for function in sorted(reached) if not options.quiet else ():
        print(f"{function:52} {reached[function]:9} {kinds[function]}")
    for function in sorted(f for f in reached if kinds[f] == "UNKNOWN"):
        status = status or 1
        print(f"{function} is neither wrapped nor in tests/loader/not_wrapped ({reached[function]} in {', '.join(where[function])})")
    if not options.quiet:
        counts = collections.Counter(kinds.values())
        print(f"{len(reached)} functions: " + ", ".join(f"{counts[kind]} {kind}" for kind in sorted(counts)))
    return status


if __name__ == "__main__":
    sys.exit(main())
