"""Sizes and times as people read them."""


def size(number):
    """Bytes, in powers of 1024."""
    number = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(number) < 1024:
            return f"{number:.0f} {unit}" if unit in ("B", "KiB") else f"{number:.3g} {unit}" if abs(number) < 1000 else f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.3g} TiB"


def seconds(number):
    for unit, scale in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if abs(number) >= scale:
            return f"{number / scale:.3g} {unit}"
    return f"{number * 1e9:.3g} ns" if number else "0 s"


def rate(number):
    return f"{number * 1e-9:.3g} GB/s"


def parse_size(text):
    """K, M, G, T as in hbmspill's settings: powers of 1024. ValueError where it is none."""
    digits = text.rstrip("KMGTkmgtiB")
    unit = text[len(digits) :].upper().removesuffix("IB").removesuffix("B")
    return float(digits) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}[unit]
