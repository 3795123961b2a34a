"""Opens the explorers in Chromium: their rules give what the project's own code gives, their
controls work by mouse, keyboard and address, and nothing is cut off on a phone.

    python3 -m docs.explorers.tests.drive_explorers --facts explorer_facts \
        --steps 03_online_softmax --lesson01 01_naive_attention [--write] [NAME...]

--write writes the still pictures, which are the scripts' own drawings. Exit status:
browser.run_test.
"""

import argparse
import array
import itertools
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from common.data import records
from common.drawing.dark import with_dark
from docs.explorers import data
from docs.site import browser
from docs.site.comment_blocks import explorer
from docs.theory import examples

HERE = pathlib.Path(__file__).resolve().parent.parent
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{}</title>
<style>
body {{ margin: 8px; color-scheme: light dark; }}
</style>
</head>
<body>
{}</body>
</html>
"""


def write_pages(directory, steps):
    """Each explorer as a page of its own; `steps` is lesson 03's program. Returns their names."""
    command = [steps.resolve(), "--section", "steps", "--save", directory]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    names = sorted(path.stem for path in HERE.glob("*.js"))
    names = [name for name in names if name != "explorer" and not name.endswith("_data")]
    for path in [*HERE.glob("*.js"), *HERE.glob("*.css"), *HERE.glob("*.svg")]:
        shutil.copyfile(path, directory / path.name)
    data.write_made(directory)
    for name in names:
        page = PAGE.format(name, explorer((HERE, directory), name, f"The explorer {name}"))
        (directory / f"{name}.html").write_text(page, encoding="utf-8")
    return names


def different(name, got, wanted):
    """Yields a fault where two lists are not equal."""
    if len(got) != len(wanted) or not wanted:
        yield f"{name}: {len(got)} values, not {len(wanted)}"
        return
    for i, (a, b) in enumerate(zip(got, wanted)):
        if a != b:
            yield f"{name}: value {i} is {a}, not {b}"
            return


BANKS = """(rows => rows.map(([width, stride, pad, swizzle]) => {
  const {served, wavefronts, best} = Explorer.all.banks.serve(
    {width, stride, pad, swizzle: swizzle ? "xor" : "none"});
  let sum = 0;
  for (const {round, word, lanes} of served) {
    for (const lane of lanes) sum += (lane + 1) * (32 * round + word % 32 + 1);
  }
  return [width, stride, pad, swizzle, wavefronts, best, served.length, sum];
}))"""


def banks(window, facts):
    """Wavefronts of every request, and which lanes a bank serves in which round."""
    yield from different("banks", window.value(BANKS, facts["banks"]), facts["banks"])


FRAGMENTS = """(() => {
  const {layouts, taken} = Explorer.all.fragments;
  const all = ({of, threads, registers, each}) => Array.from(
    {length: threads * registers * each},
    (_, i) => of(Math.floor(i / (registers * each)), Math.floor(i / each) % registers, i % each));
  const places = (layout) => all(layout).map(([row, col]) => row * layout.cols + col);
  return {
    ldmatrix: places(layouts.ldmatrix), ldmatrix_trans: places(layouts.trans),
    mma_d_row: all(layouts.d).map(([row]) => row), mma_d_col: all(layouts.d).map(([, col]) => col),
    mma_a: places(layouts.a), mma_b: places(layouts.b),
    wgmma_d_row: all(layouts.wd).map(([row]) => row),
    wgmma_d_col: all(layouts.wd).map(([, col]) => col),
    wgmma_a: places(layouts.wa),
    next: Array.from({length: 8}, (_, i) => taken(Math.floor(i / 2), i % 2)),
  };
})()"""


def fragments(window, facts):
    """The element in each register of each lane; which sums become which part of an operand."""
    got, wanted = window.value(FRAGMENTS), facts["fragments"]
    for name in sorted(set(got) | set(wanted)):
        yield from different(f"fragments: {name}", got.get(name, []), wanted.get(name, []))


DESCRIPTOR = """((facts) => {
  const {bits, byteOf, tileAt, columns, described} = Explorer.all.descriptor;
  const at = [];
  for (let row = 0; row < 64; ++row) {
    for (let col = 0; col < 128; col += 8) at.push(tileAt(64, row, col));
  }
  const place = (row, col) => Math.floor(col / 64) * 64 * 128 + row * 128 + 2 * (col % 64);
  const fields = ([row, col], leading) =>
    [row, col, bits({start: place(row, col), leading, stride: 1024})];
  const elements = (one) => Array.from({length: 16 * columns(one.major)}, (_, j) =>
    byteOf(one, Math.floor(j / columns(one.major)), j % columns(one.major)) / 2);
  return {
    at, by_rows: facts.by_rows.map((one) => fields(one, 0)),
    by_columns: facts.by_columns.map((one) => fields(one, 8192)),
    reads: facts.reads.map((one) => ({...one, bits: bits(one), elements: elements(one)})),
  };
})"""


def descriptor(window, facts):
    """The tile's layout, the bits of descriptors, and which elements wgmma reads with one."""
    wanted = facts["descriptors"]
    got = window.value(DESCRIPTOR, wanted)
    for name, values in wanted.items():
        yield from different(f"descriptor: {name}", got[name], values)


SHARES = """explorerData.pipeline.map((one) =>
  [one.name, 100 * one.peak / one.cycles, Explorer.all.pipeline.inFlight(one, one.cycles)])"""


def pipeline(window, _):
    """Matmuls are in flight, by the spans that are drawn, for at least the time that they take at
    the peak."""
    for name, peak, share in window.value(SHARES):
        if not peak < share + 1 <= 101:
            yield f"{name}: matmuls are in flight {share} % of the time, and take {peak:.1f} %"


BACKWARD = """(rows => rows.map((one) => {
  const {shape, visits, rank} = Explorer.all.backward;
  const blocks = [...Array(shape(one).blocks).keys()];
  return {...one, visits: blocks.map((block) => visits(one, block)),
          ranks: blocks.map((block) => visits(one, block).map((tile) => rank(one, block, tile)))};
}))"""
SUMS = """(rows => rows.map((one) => ["atomics", "ordered"].map((order) => {
  const {play, shape} = Explorer.all.backward, {steps, adds} = play({...one, order, run: 1});
  return [adds.map((of) => of.map(([block]) => block)), steps.length];
})))"""


def backward(window, facts):
    """Which tiles a block of keys visits, its rank in each sum; every sum is complete, in order by
    rank where it is ordered."""
    wanted = facts["backward"]
    yield from different("backward", window.value(BACKWARD, wanted), wanted)
    for one, results in zip(wanted, window.value(SUMS, wanted)):
        parts = {}
        for block, (tiles, ranks) in enumerate(zip(one["visits"], one["ranks"])):
            for tile, rank in zip(tiles, ranks):
                parts.setdefault(tile, []).append((rank, block))
        order = [[block for _, block in sorted(parts[tile])] for tile in sorted(parts)]
        (free, _), (ordered, _) = results
        if ordered != order or [sorted(of) for of in free] != [sorted(of) for of in order]:
            yield f"backward: the sums of {one['length']}, {one['mask']} are not the kernel's"


RING = """(rows => rows.map((one) => {
  const {owner, play} = Explorer.all.ring, ranks = [...Array(one.ranks).keys()];
  return {...one, owners: ranks.map((step) => ranks.map((rank) => owner(one, rank, step))),
          pairs: play(one).work};
}))"""


def ring(window, facts):
    """Whose keys a rank holds at each step, and the visible pairs that it then computes."""
    yield from different("ring", window.value(RING, facts["ring"]), facts["ring"])


ROOFLINE = """((kernels) => {
  const {intensity, bound} = Explorer.all.roofline;
  return kernels.map(([n, dim, type, fused]) => {
    const state = {n, dim, type, fused};
    return [intensity(state), bound(explorerData.roofline[0], type, intensity(state))];
  });
})"""


def roofline(window, _):
    """Intensity and bound are those of the theory chapter's functions, for the tensors that one
    kernel or three kernels read and write."""
    peaks = examples.machine(records.read(HERE.parent / "results" / "h200_04_tiled_matmul.json"))
    asked = [
        (n, d, kind, fused)
        for n in (128, 4096, 16384)
        for d in (64, 128)
        for kind in ("float32", "bfloat16")
        for fused in ("yes", "no")
    ]
    values = window.value(ROOFLINE, asked)
    for (n, d, kind, fused), got in zip(asked, values):
        row, score = n * d, n * n
        # Q and K give S, S gives P, P and V give O.
        steps = [3 * row, row] if fused == "yes" else [2 * row, score, score, score, score, 2 * row]
        least = sum(steps) * (4 if kind == "float32" else 2)
        kernel = examples.Kernel("", kind, 2 * (2 * n * n * d), least, 0)
        wanted = kernel.intensity, examples.bound(kernel, peaks)
        if any(abs(a / b - 1) > 1e-9 for a, b in zip(got, wanted)):
            yield f"roofline: {n}, {d}, {kind}, fused: {fused} has {got}, not {wanted}"


def traces(window, _):
    """Every finding is at a line that is shown; the counts are drawn beside theirs."""
    for one in window.value("explorerData.traces"):
        shown = {number for number, _ in one["lines"]}
        for line, other, _, message in one["findings"]:
            if line not in shown or (other and other not in shown):
                yield f"traces: {one['name']} does not show line {line} or {other}: {message}"
        state = {"kernel": one["name"], "findings": "shown"}
        drawn = window.value("(state) => Explorer.all.traces.draw(state, 800).svg", state)
        for line, _, count, _ in one["traffic"]:
            if line in shown and f">{count}<" not in drawn:
                yield f"traces: {one['name']} does not show {count} of line {line}"


SUMS_OF_MOVES = """(() => {
  const {counted, sums} = Explorer.all.bytes;
  return counted.map(([row, n, d]) => sums(row, n, d));
})()"""


def bytes_moved(window, _):
    """The moves of each order add up to the reads and writes that the lab counts."""
    counted = window.value("Explorer.all.bytes.counted")
    yield from different("bytes", window.value(SUMS_OF_MOVES), counted)


PROBS = """(([mask, scale]) => {
  const {probs, count, heads} = Explorer.all.alice, all = [];
  for (let head = 0; head < heads; ++head) {
    for (let query = 0; query < count; ++query) all.push(...probs({mask, scale}, head, query));
  }
  return all;
})"""


def write_npy(file, shape, elements):
    """Writes float32 elements as a .npy file."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    blob = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
    file.write_bytes(blob + array.array("f", elements).tobytes())


def alice(window, facts):
    """The probabilities are those of lesson 01 for q and k in float32: its output where V is a unit
    matrix. Another scale is another q."""
    n = data.TOKENS
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (heads, dim, q), (*_, k) = data.first("q"), data.first("k")
        write_npy(folder / "k.npy", (1, heads, n, dim), k)
        unit = [float(i % n == i // n % n) for i in range(heads * n * n)]
        write_npy(folder / "v.npy", (1, heads, n, n), unit)
        command = [facts["lesson01"], "--section", "output", "--input", folder, "--save", folder]
        for mask, scale in itertools.product(("none", "causal"), ("root", "one")):
            factor = 1 if scale == "root" else dim**0.5
            write_npy(folder / "q.npy", (1, heads, n, dim), [factor * x for x in q])
            options = ["--causal"] if mask == "causal" else []
            subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
            shape, wanted = data.tensor(folder / "o.npy")
            got = window.value(PROBS, [mask, scale])
            worst = max(abs(a - b) for a, b in zip(got, wanted))
            if (len(got), shape) != (len(wanted), (1, heads, n, n)) or worst > 2e-3:
                yield f"alice: {mask}, {scale}: {shape}, a probability is {worst} away"


RINGS = """(() => {
  const {rings, run, recorded, draw} = Explorer.all.stages;
  return rings.map((ring) => {
    const {log, stuck, steps, first} = run(ring), wrong = first >= 0 && first + 1 < steps.length;
    const red = (step) => draw({mistake: ring.name, step}, 800).svg.split("x-bad").length - 1;
    return [ring.name, ring.says, log, recorded(ring), stuck, wrong,
            first > 0 && !red(first - 1) && red(first) > 1];
  });
})()"""
RACES = "consumer parity", "one arrival", "fewer bytes"  # how far a warp comes depends on the order


def stages(window, _):
    """Each warp does what the lab recorded, in the same phases, and comes as far. In a race the
    order of its operations is the same. What goes wrong is what the lab finds something about."""
    for name, says, log, recorded, stuck, wrong, red in window.value(RINGS):
        for warp, (ours, lab) in enumerate(zip(log, recorded)):
            if name in RACES:
                length = min(len(ours), len(lab))
                ours, lab = ([one[:2] for one in all_of[:length]] for all_of in (ours, lab))
            if ours != lab:
                yield f"stages: {name}, warp {warp}: {ours}, and in the lab {lab}"
        if name not in RACES and stuck != says[0].startswith("deadlock"):
            yield f"stages: {name}: a deadlock is {stuck}, and the lab says {says[0]}"
        if (stuck or wrong) == (says == ["No findings."]) or red == (name == "none"):
            yield f"stages: {name}: stuck {stuck}, wrong {wrong}, red {red}; the lab says {says}"


# [[mask, tiles, step, show, row, texts of numbers, sentence]]: everything that the stepper draws.
STEPS = """(() => {
  const {data, draw} = Explorer.all.stepper, all = [];
  for (const {mask, block_m, block_n, steps} of data.runs) {
    steps.forEach((one, step) => {
      for (const show of ["s", "p"]) {
        for (let row = 1; row <= one.queries; ++row) {
          const state = {mask, tiles: block_m + "x" + block_n, show, step, row, numbers: "yes"};
          const {svg, says} = draw(state, 800);
          const drawn = new DOMParser().parseFromString(`<svg>${svg}</svg>`, "text/html");
          const numbers = [...drawn.querySelectorAll("[data-n]")];
          all.push([mask, block_m, block_n, step, show, row - 1,
                    numbers.map((one) => [...one.dataset.n.split(","), one.textContent]), says]);
        }
      }
    });
  }
  return all;
})()"""
FIELDS = {  # of a step: those of the tile, and those of O, of which the chosen row has numbers
    "tile": (("m", "m_before", "rescale", "l", "l_before"), ("o_before", "o_rescaled", "o")),
    "finish": (("m", "l", "lse"), ("o_before", "o")),
    "skipped": ((), ()),
}
NUMBER = re.compile(r"\u2212?\d+\.\d{3,4}(?!\d)")


def same(shown, value):
    """Is this text the number, rounded to the digits that it has?"""
    if value is None or shown == "\u2212\u221e":
        return value is None and shown == "\u2212\u221e"
    digits = len(shown.partition(".")[2])
    return abs(float(shown.replace("\u2212", "-")) - value) <= 0.5 * 10.0**-digits * (1 + 1e-9)


def stepper(window, _):
    """Every number of each step is drawn, and the sentence has those of its row."""
    runs = window.value("Explorer.all.stepper.data.runs")
    runs = {(run["mask"], run["block_m"], run["block_n"]): run["steps"] for run in runs}
    for mask, block_m, block_n, number, show, row, drawn, says in window.value(STEPS):
        step, where = runs[mask, block_m, block_n][number], f"stepper: {mask}, step {number}"
        of_rows, of_o = FIELDS[step["kind"]]
        wanted = {(name, str(i), ""): x for name in of_rows for i, x in enumerate(step[name])}
        wanted |= {
            (name, str(row), str(j)): x for name in of_o for j, x in enumerate(step[name][row])
        }
        for i, scores in enumerate(step.get("s", ())):
            places = [(show, str(i), str(j)) for j, score in enumerate(scores) if score is not None]
            wanted |= {place: step[show][i][int(place[2])] for place in places}
        found = {tuple(place): text for *place, text in drawn}
        if found.keys() != wanted.keys():
            yield f"{where}: drawn are {len(found)} numbers, not {len(wanted)}"
        for place in found.keys() & wanted.keys():
            if not same(found[place], wanted[place]):
                yield f"{where}: {place} is {wanted[place]}, and drawn is {found[place]}"
        known = [step[name][row] for name in of_rows]
        for text in NUMBER.findall(says.replace("\u2212 \u2212", "\u2212")):
            if not any(same(text, x) for x in known if x is not None):
                yield f"{where}: {text} is none of row {row}: {says}"


RULES = {
    "alice": alice,
    "bytes": bytes_moved,
    "banks": banks,
    "fragments": fragments,
    "descriptor": descriptor,
    "pipeline": pipeline,
    "backward": backward,
    "ring": ring,
    "roofline": roofline,
    "traces": traces,
    "stages": stages,
    "stepper": stepper,
}

READ = """((name) => {
  const root = document.getElementById(name + "-explorer");
  return {says: root.querySelector(".explorer-says").textContent,
          state: {...Explorer.all[name].state}, svg: root.querySelector("svg").outerHTML};
})"""
SMALL = """[...document.querySelectorAll(".explorer-view text")].filter(
  (one) => parseFloat(getComputedStyle(one).fontSize) < 12).length"""
CUT = """[...document.querySelectorAll(".explorer-view text")].filter((one) => {
  const a = one.getBoundingClientRect(), b = one.ownerSVGElement.getBoundingClientRect();
  return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 ||
    a.bottom > b.bottom + 1;
}).map((one) => one.textContent)"""
WIDE = """(() => {
  const root = document.querySelector(".explorer");
  const right = (one) => one.getBoundingClientRect().right, most = right(root);
  return [...root.querySelectorAll("select, input, button")].some((one) => right(one) > most);
})()"""
EACH = """((name) => {
  const {fields, draw, changed = () => {}} = Explorer.all[name], wrong = [];
  const hole = /="[^"]*(NaN|undefined|Infinity)|>(NaN|undefined|null|Infinity)</;
  const first = Object.fromEntries(fields.map((field) => [field.key, field.value]));
  for (const field of fields) {
    const [least, most] = field.range ? field.range(first) : [0, 0];
    const values = field.range ? [least, Math.floor((least + most) / 2), most]
      : field.choices.map(([value]) => value);
    for (const value of values) {
      const state = {...first, [field.key]: value};
      changed(first, state);
      for (const width of [340, 800]) {
        const {svg, says, height} = draw(state, width);
        if (hole.test(svg) || /undefined|NaN/.test(says) || !(height > 0)) {
          wrong.push(field.key + "=" + value + ", " + width);
        }
      }
    }
  }
  return wrong;
})"""


def use(window, page, name):
    """Controls, keys and the address change what is shown; yields what does not."""

    def read():
        return window.value(READ, name)

    first = read()
    for place in window.value(EACH, name):
        yield f"the drawing has holes at {place}"
    main = window.value("(name) => Explorer.all[name].main", name)
    window.value("document.querySelector('.explorer-view').focus()")
    window.press("ArrowRight")
    moved = read()
    if moved["state"][main] == first["state"][main]:
        window.press("ArrowLeft")
        moved = read()
    if moved["state"][main] == first["state"][main] or moved["svg"] == first["svg"]:
        yield "an arrow key changes nothing"
    anchor = window.value("document.querySelector('.explorer-link a').hash")
    window.page.goto("about:blank")
    window.open(page, anchor)
    again = read()
    if again["state"] != moved["state"] or again["says"] != moved["says"]:
        yield f"the link {anchor} shows {again['state']}, not {moved['state']}"
    # The first list of choices, by keyboard.
    if window.value("document.querySelector('.explorer-controls select') !== null"):
        window.value("document.querySelector('.explorer-controls select').focus()")
        window.press("ArrowDown")
        if read()["svg"] == again["svg"]:
            window.press("ArrowUp")
        if read()["svg"] == again["svg"]:
            yield "the first list of choices changes nothing"


MOVES = """(() => {
  const select = document.querySelector("[data-field=width]");
  select.value = "16";
  select.dispatchEvent(new Event("input", {bubbles: true}));
  return document.getAnimations().length;
})()"""


def mouse(window, directory):
    """A click on an element chooses its lane; another size keeps the tile; play runs and stops;
    motion can be turned off. What a mouse previews goes when it leaves, a click stays."""
    window.size(900, 700)
    for reduced in (False, True):
        window.look(dark=False, reduced=reduced)
        window.open(directory / "banks.html")
        if bool(window.value(MOVES)) == reduced:
            yield f"banks: {window.value(MOVES)} animations, with reduced motion {reduced}"
    window.open(directory / "fragments.html")
    window.click('[data-pick="thread=30"] rect')
    if (lane := window.value("Explorer.all.fragments.state.thread")) != 30:
        yield f"fragments: a click on an element of lane 30 chooses lane {lane}"
    window.open(directory / "stepper.html", "#stepper:mask=full&tiles=4x4&step=11")
    window.page.select_option("[data-field=tiles]", "8x4")
    if (now := window.value("Explorer.all.stepper.state.step")) != 6:
        yield f"stepper: another size of tiles leads from tile (8, 4) to step {now}"
    window.open(directory / "alice.html")
    cell, top = "[data-pick='head=5&cell=3']", "document.querySelector('.explorer-link').offsetTop"
    place = window.value(top)
    for act, what, wanted in (
        (window.point, cell, [11, 5, 3]),
        (window.point, "output", [11, 3, -1]),
        (window.click, cell, [11, 5, 3]),
        (window.point, "output", [11, 5, 3]),
        (window.press, "ArrowDown", [11, 6, 3]),
        (window.press, "End", [23, 6, 3]),
        (lambda what: window.page.select_option(what, "causal"), "[data-field=mask]", [23, 6, 3]),
    ):
        act(what)
        now = window.value("['word', 'head', 'cell'].map((key) => Explorer.all.alice.state[key])")
        if now != wanted or window.value(top) != place:
            yield f"alice: {what}: {now}, not {wanted}, or it moves from {place}"
    window.open(directory / "backward.html")
    step = "Explorer.all.backward.state.step"
    first = window.value(step)
    window.click(".explorer-controls button")
    window.until(f"{step} > {first} + 1", 20)
    window.click(".explorer-controls button")
    now = window.value(step)
    time.sleep(1.5)
    if window.value(step) != now:
        yield "backward: it plays on after it was stopped"


TOPS = """((name) => {
  const {fields, main} = Explorer.all[name], {range} = fields.find((field) => field.key === main);
  const root = document.querySelector(".explorer"), tops = new Set();
  const [least, most] = range ? range(Explorer.all[name].state) : [1, 0];
  for (let value = least; value <= most; value += Math.ceil((most - least) / 30)) {
    const input = Object.assign(root.querySelector(`[data-field=${main}]`), {value});
    input.dispatchEvent(new Event("input"));
    tops.add(root.querySelector(".explorer-view").offsetTop);
  }
  return tops.size;
})"""


def looks(window, page):
    """Small and large, light and dark: nothing is cut off or moves, no letters are small, colours
    follow."""
    inks = set()
    for width, dark in ((390, False), (1440, True)):
        window.size(width, 900)
        window.look(dark, reduced=True)
        window.open(page)
        if window.value("document.documentElement.scrollWidth") > width:
            yield f"in a window of {width} the page is wider"
        if window.value(WIDE):
            yield f"in a window of {width} a control leaves the explorer"
        if count := window.value(SMALL):
            yield f"{count} texts are smaller than 12 pixels"
        if words := window.value(CUT):
            yield f"in a window of {width} these texts are cut off: {words}"
        if window.value(TOPS, page.stem) > 1:
            yield f"in a window of {width} the drawing moves while a reader steps"
        inks.add(window.value("getComputedStyle(document.querySelector('.explorer-says')).color"))
        yield from window.faults()
    if len(inks) == 1:
        yield "text has the same colour in light and dark"


def stills(window, name, write):
    """Writes the still picture, or yields a fault where it is not what the script draws."""
    drawn = with_dark(window.value("(name) => Explorer.still(name)", name))
    file = HERE / f"{name}.svg"
    if write:
        file.write_text(drawn, encoding="utf-8")
    elif not file.is_file() or file.read_text(encoding="utf-8") != drawn:
        yield f"{file.name} is not what the script draws; write it with --write"


def look(options):
    """(faults, a summary) of the explorers."""
    found = []
    text = subprocess.run([options.facts.resolve()], check=True, stdout=subprocess.PIPE).stdout
    facts = {**json.loads(text), "lesson01": options.lesson01.resolve()}
    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(scratch)
        names = write_pages(directory, options.steps)
        names = options.names or names
        with browser.Browser() as window:
            for name in names:
                page = directory / f"{name}.html"
                faults = []
                try:
                    window.size(1000, 800)
                    window.look(dark=False, reduced=True)
                    window.open(page)
                    faults += RULES[name](window, facts)
                    faults += stills(window, name, options.write)
                    faults += use(window, page, name)
                    faults += window.faults()
                    faults += looks(window, page)
                except browser.PageError as error:
                    faults.append(str(error))
                found += [f"{name}: {fault}" for fault in faults]
            if not options.names:
                found += mouse(window, directory)
    return found, f"{len(names)} explorers"


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Drive the explorers.")
    parser.add_argument("--facts", required=True, type=pathlib.Path, help="explorer_facts")
    parser.add_argument("--steps", required=True, type=pathlib.Path, help="03_online_softmax")
    parser.add_argument("--lesson01", required=True, type=pathlib.Path, help="01_naive_attention")
    parser.add_argument("--write", action="store_true", help="write the still pictures")
    parser.add_argument("names", nargs="*", help="explorers; all without a name")
    options = parser.parse_args(arguments)
    return browser.run_test("drive_explorers.py", lambda: look(options))


if __name__ == "__main__":
    sys.exit(main())
