"""How far something is that takes longer than two seconds: a line on standard error that is written over, where that is a terminal."""

import sys
import time

QUIET_SECONDS = 2


class Counter:
    """Done of so many. One thread at a time."""

    def __init__(self, what, whole):
        self.what, self.whole, self.done, self.begun = what, whole, 0, time.monotonic()

    def clear(self):
        """Ahead of what is printed."""
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def one_more(self):
        self.done += 1
        took = time.monotonic() - self.begun
        self.clear()
        if sys.stderr.isatty() and took > QUIET_SECONDS and self.done < self.whole:
            print(f"{self.done} of {self.whole} {self.what}, {took:.0f} s", end="", file=sys.stderr, flush=True)
