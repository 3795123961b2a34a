"""Prints the part of a file of stamps that timelines show: python3 -m docs.records.stamps FILE
[KERNEL...].

FILE is what ./learn bench writes, BUILD/bench/LESSON_stamps.tsv; without kernels all of them are
kept. A timeline (common/lab/measured.cpp) shows the first warp of each warpgroup and the warps that
copy or add. Of each other warp it needs the waits that are the first to end behind a copy, since
these end the copy in the drawing, and what follows the warp's last matmul, where a block ends.
"""

import collections
import pathlib
import sys

BLOCK, COMMIT, BARRIER, END, LOAD = 1, 5, 6, 11, 12  # StampKind in common/gpu/stamps.hpp
LOADS, COPIES, WARPS = (LOAD, LOAD + 1), range(LOAD, LOAD + 4), 4

Stamp = collections.namedtuple("Stamp", "warp clock what")


def kind(stamp):
    return stamp.what & 0xFF


def barrier(stamp):
    return stamp.what >> 8 & 0x7FFF


def runs(text):
    """(line of a kernel without its count, stamps) for each kernel in a file."""
    lines = iter(text.splitlines()[1:])
    for head in lines:
        *words, count = head.split("\t")
        yield words, [Stamp(*map(int, next(lines).split("\t"))) for _ in range(int(count))]


def first_ends(events):
    """The indices of the waits, both stamps of each, that are the first to end behind a load."""
    kept, loaded, waits = set(), set(), {}
    for i, event in enumerate(events):
        if kind(event) in LOADS:
            loaded.add(barrier(event))
        elif kind(event) == END and event.warp in waits:
            begin = waits.pop(event.warp)
            waited = events[begin]
            if kind(waited) == BARRIER and barrier(waited) in loaded:
                loaded.remove(barrier(waited))
                kept |= {begin, i}
        elif BARRIER <= kind(event) < END:
            waits[event.warp] = i
    return kept


def shown(stamps):
    """The stamps of a kernel that its timeline needs, in their order."""
    wraps = max(s.clock for s in stamps) - min(s.clock for s in stamps) > 1 << 31
    turn = 1 << 32 if wraps else 0
    order = sorted(
        range(len(stamps)),
        key=lambda i: stamps[i].clock + (turn if stamps[i].clock < 1 << 31 else 0),
    )
    events = [stamps[i] for i in order]
    copy = {event.warp for event in events if kind(event) in COPIES}
    starts = [i for i, event in enumerate(events) if kind(event) == BLOCK]
    kept = first_ends(events)
    for begin, end in zip(starts, [*starts[1:], len(events)]):
        last = {e.warp: i for i, e in enumerate(events[begin:end], begin) if kind(e) == COMMIT}
        for i in range(begin, end):
            warp = events[i].warp
            if warp % WARPS == 0 or warp in copy or i >= last.get(warp, 0):
                kept.add(i)
    return [stamps[i] for i in sorted(order[i] for i in kept)]


def main(arguments):
    path, *kernels = arguments
    text = pathlib.Path(path).read_text(encoding="utf-8")
    print(text.splitlines()[0])
    for words, stamps in runs(text):
        if not kernels or words[0] in kernels:
            kept = shown(stamps)
            print(*words, len(kept), sep="\t")
            for stamp in kept:
                print(*stamp, sep="\t")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
