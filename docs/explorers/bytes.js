// Where the bytes go: three orders of attention beside each other, each having moved as many bytes as the others.
// moves() follows the kernels of lesson 05's first steps; its sums are compared with what the lab counts. Times are
// those of the record.
(() => {
  "use strict";
  const { text, box, hue, wrapped } = Explorer;
  const [measured, counted] = window.explorerData.bytes;
  const TICKS = 1200, BYTES = 4, DIM = measured.dim;
  const ROWS = 64, KEYS = 32, TILE = 32;  // queries and keys of a tile of FlashAttention; of a tile of three kernels
  const LEAST = 6, MOST = 12;  // of log2(N)
  const HUE = { Q: 0, K: 1, V: 2, S: 3, O: 4 };

  // A list of moves between global memory and the chip: what, "in" or "out", the elements, the first query and key of
  // its tile, and what else the chip holds.
  const walks = {
    unfused(n, d, move) {
      for (let i = 0; i < n; i += TILE) {
        for (let j = 0; j < n; j += TILE) {
          move("Q", "in", TILE * d, i, j, "");
          move("K", "in", TILE * d, i, j, "Q");
          move("S", "out", TILE * TILE, i, j, "QK");
        }
      }
      for (let i = 0; i < n; i += TILE) {  // a row is read for its maximum, for its sum, and for P
        move("S", "in", 3 * TILE * n, i, null, "");
        move("S", "out", TILE * (n + 1), i, null, "");  // and its LSE
      }
      for (let i = 0; i < n; i += TILE) {
        for (let column = 0; column < d; column += TILE) {
          for (let j = 0; j < n; j += TILE) {
            move("S", "in", TILE * TILE, i, j, "O", true);
            move("V", "in", TILE * TILE, i, j, "SO", true);
          }
          move("O", "out", TILE * TILE, i, n - TILE, "", true);
        }
      }
    },
    flash1(n, d, move) {
      for (let j = 0; j < n; j += KEYS) {
        move("K", "in", KEYS * d, 0, j, "");
        move("V", "in", KEYS * d, 0, j, "K");
        for (let i = 0; i < n; i += ROWS) {
          move("Q", "in", ROWS * d, i, j, "KV");
          if (j > 0) move("O", "in", ROWS * (d + 2), i, j, "QKVS");  // with m and l
          move("O", "out", ROWS * (d + 3), i, j, "QKVS");  // and LSE
        }
      }
    },
    flash2(n, d, move) {
      for (let i = 0; i < n; i += ROWS) {
        move("Q", "in", ROWS * d, i, 0, "");
        for (let j = 0; j < n; j += KEYS) {
          move("K", "in", KEYS * d, i, j, "QO");
          move("V", "in", KEYS * d, i, j, "QKSO");
        }
        move("O", "out", ROWS * (d + 1), i, n - KEYS, "Q");
      }
    },
  };
  const KERNELS = [
    { walk: "unfused", row: "01_unfused", title: "Unfused", order: "three kernels", rows: TILE, keys: TILE },
    { walk: "flash1", row: "02_flash_1", title: "FlashAttention-1", order: "outer loop: keys", rows: ROWS, keys: KEYS },
    { walk: "flash2", row: "03_flash_2", title: "FlashAttention-2", order: "outer loop: queries", rows: ROWS, keys: KEYS },
  ];

  // The moves, each with the elements that were moved before it, in all and by matrix; and the sums.
  const known = new Map();
  function moves(kernel, n, d = DIM) {
    const key = [kernel.walk, n, d].join();
    if (known.has(key)) return known.get(key);
    const list = [], sums = { S: 0, Q: 0, K: 0, V: 0, O: 0 };
    let sum = 0;
    walks[kernel.walk](n, d, (what, way, elements, i, j, held, last = false) => {
      list.push({ what, way, elements, i, j, held, last, before: sum, sums: { ...sums } });
      sum += elements;
      sums[what] += elements;
    });
    known.set(key, { list, sum, sums });
    return known.get(key);
  }
  function at({ list, sum }, elements) {  // the move of this moment, or none after the last one
    if (elements >= sum) return null;
    let low = 0, high = list.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (list[middle].before <= elements) low = middle;
      else high = middle - 1;
    }
    return list[low];
  }

  const length = (state) => 2 ** state.n;
  const allOf = (state) => KERNELS.map((kernel) => moves(kernel, length(state)));
  const movedOf = (state, all) => (state.moved / TICKS) * Math.max(...all.map((one) => one.sum));
  function amount(elements) {
    const bytes = BYTES * elements, [unit, size] = bytes < 999.5e3 ? ["kB", 1e3] : ["MB", 1e6];
    return (bytes / size).toFixed(bytes / size < 9.995 ? 2 : bytes / size < 99.95 ? 1 : 0) + " " + unit;
  }

  // ---------------------------------------------------------------- one of the three

  // A tile lies in its matrix: Q and O are upright beside the scores, K and V lie above them.
  function panel(kernel, walk, n, elements, x, y, width) {
    const parts = [], strip = 15, side = Math.min(150, width - 2 * strip - 22), middle = x + width / 2;
    const left = middle - side / 2, top = y + 122, scale = side / n, now = at(walk, elements);
    const places = {
      Q: [left - strip - 5, top, strip, side], O: [left + side + 5, top, strip, side], S: [left, top, side, side],
      K: [left, top - 2 * strip - 8, side, strip], V: [left, top - strip - 4, side, strip],
    };
    const stored = kernel.walk === "unfused", number = !now || now.last ? 3 : now.j === null ? 2 : 1;
    parts.push(text(middle, y + 12, kernel.title, { "font-weight": "bold", "data-room": width }),
      text(middle, y + 28, "lesson 05, step " + kernel.row.slice(0, 2), { fill: "quiet", "data-room": width }),
      text(middle, y + 44, stored && now ? "kernel " + number + ": " + ["Q K\u1d40", "softmax", "P V"][number - 1] : kernel.order, { fill: "quiet", "data-room": width }),
      text(middle, y + 60, "tiles of " + kernel.rows + " x " + kernel.keys, { fill: "quiet", "data-room": width }));
    const bottom = top + side + 6;
    parts.push(box(x + 1, y + 66, width - 2, bottom - y - 66, { rx: 4 }),
      text(x + 6, y + 79, "global memory (HBM)", { "text-anchor": "start", fill: "quiet", "data-room": width - 10 }));
    for (const [what, place] of Object.entries(places)) {
      parts.push(box(...place, "QKV".includes(what) ? hue(HUE[what], 5) : { "stroke-dasharray": "3 3" }));
    }
    // The scores so far, in the order in which their tiles come.
    const seen = { ...hue(HUE.S, 5), stroke: "none", ...(stored ? {} : { "fill-opacity": 0.14 }) };
    const i = now ? now.i : n, j = now && now.j !== null ? now.j : n;
    if (!now || now.last || now.j === null) parts.push(box(left, top, side, side, seen));
    else if (kernel.walk === "flash1") {
      parts.push(box(left, top, scale * j, side, seen), box(left + scale * j, top, scale * kernel.keys, scale * i, seen));
    } else {
      parts.push(box(left, top, side, scale * i, seen), box(left, top + scale * i, scale * j, scale * kernel.rows, seen));
    }
    const rows = !now || (kernel.walk === "flash1" && j > 0) ? n : stored && !now.last ? 0 : i;  // of O, written so far
    parts.push(box(places.O[0], top, strip, scale * rows, { ...hue(HUE.O, 5), stroke: "none" }));
    const probabilities = stored && (!now || now.last);
    const labels = stored ? [] : ["computed,", "not stored"].map((words, k) => text(middle, top + side / 2 - 4 + 15 * k, words, { fill: "quiet", "data-room": side - 4 }));
    for (const [what, [px, py, wide, high]] of Object.entries(places)) {  // over the tile on its way
      if (what !== "S" || stored) labels.push(text(px + wide / 2, "QO".includes(what) ? py - 5 : py + high / 2 + 4, what !== "S" ? what : probabilities ? "P" : now.j === null ? "S, P" : "S"));
    }
    // The chip, and the tile on its way.
    const chip = bottom + 20, slot = (width - 10) / 5, names = "QKVSO";
    parts.push(box(x + 1, chip, width - 2, 52, { rx: 4 }), text(x + 6, chip + 14, now ? "chip" : "chip: done", { "text-anchor": "start", fill: "quiet" }));
    const slots = [...names].map((_, k) => [x + 5 + slot * k + 2, chip + 22, slot - 4, 24]);
    [...names].forEach((what, k) => {
      const held = now && now.held.includes(what);
      parts.push(box(...slots[k], held ? hue(HUE[what], 5) : { "stroke-dasharray": "3 3" }), text(slots[k][0] + slot / 2 - 2, chip + 39, what === "S" && probabilities ? "P" : what, held ? {} : { fill: "quiet" }));
    });
    if (now) {
      const wide = Math.max(3, scale * (now.j === null ? n : kernel.keys)), high = Math.max(3, scale * kernel.rows);
      const [px, py, pw, ph] = places[now.what], across = "KV".includes(now.what), upright = "QO".includes(now.what);
      const tile = [upright ? px : left + scale * (now.j ?? 0), across ? py : top + scale * now.i, upright ? pw : wide, across ? ph : high];
      const done = (elements - now.before) / now.elements, part = now.way === "in" ? done : 1 - done;
      const target = slots[names.indexOf(now.what)], between = tile.map((from, k) => from + part * (target[k] - from));
      if (now.j !== null) parts.push(box(left + scale * j, top + scale * i, wide, high, { stroke: "ink" }));
      parts.push(box(...tile, { stroke: "ink", "stroke-width": 2 }),
        box(...between, { fill: "var(--x-paper)", stroke: "ink", "stroke-width": 2 }), box(...between, { ...hue(HUE[now.what], 5), stroke: "none" }));
      parts.push(text(middle, chip - 6, now.way === "out" ? "\u2191 write" : now.j === null ? "\u2193 3x: max, sum, P" : "\u2193 read", { "data-room": width }));
    }
    return { svg: [...parts, ...labels], height: chip + 56 - y };
  }

  // ---------------------------------------------------------------- all of it

  // Elements by matrix, up to this moment.
  function byMatrix(walk, elements) {
    const now = at(walk, elements), sums = { ...(now || walk).sums };
    if (now) sums[now.what] += elements - now.before;
    return Object.entries(sums);
  }
  const share = (part, whole) => Math.round((100 * part) / whole) + " %";
  const times = (x) => x.toFixed(x < 9.95 ? 1 : 0);
  const timeOf = (kernel) => measured.milliseconds[kernel.row];

  function sentence(all, moved) {
    if (moved === 0) return "Press play: here all move bytes at the same speed, for one head; real times are below. A frame in the square is the tile of scores at work. Which is done first?";
    if (all.some((one) => one.sum > moved)) {
      return "After " + amount(moved) + ": " + KERNELS.map((kernel, k) => kernel.title + (k ? " " : " has moved ") +
        (all[k].sum > moved ? share(moved, all[k].sum) : "all") + (k ? "" : " of its bytes")).join(", ") + ".";
    }
    const [unfused, first, second] = all.map((one) => one.sum);
    return "All are done. Unfused moved " + times(unfused / first) + " times as many bytes as FlashAttention-1 and " + times(unfused / second) +
      " times as many as FlashAttention-2; " + share(all[0].sums.S, unfused) + " of its bytes are S and P, for its softmax reads S three times.";
  }
  const slowest = KERNELS.reduce((one, other) => (timeOf(other) > timeOf(one) ? other : one));
  const verdict = (guess) => (guess === slowest ? "Right: " : "No: ") + slowest.title + " is slowest (" + timeOf(slowest).toFixed(1) + " ms; why: below). ";
  function compared() {
    const [unfused, first] = KERNELS.map((kernel) => moves(kernel, measured.length).sum), [t0, t1, t2] = KERNELS.map(timeOf);
    return "FlashAttention-1 takes " + (t1 / t0).toFixed(2) + " times as long as unfused, FlashAttention-2 " + (t2 / t0).toFixed(2) + " times." +
      (t1 > t0 && first < unfused ? " FlashAttention-1 moves fewer bytes. But in our kernel, not that of its authors, only " + ROWS + " threads of a head have work: while they wait for memory, none is left to compute. FlashAttention-2 gives each head " + measured.length / ROWS + " blocks of " + ROWS + " threads." : "");
  }

  function draw(state, width) {
    const n = length(state), all = allOf(state), moved = movedOf(state, all), gap = width < 500 ? 8 : 20, parts = [];
    const wide = (width - 2 * gap) / 3, panels = KERNELS.map((kernel, k) => panel(kernel, all[k], n, moved, k * (wide + gap), 0, wide));
    for (const one of panels) parts.push(...one.svg);
    const left = width < 500 ? 108 : 130, room = width - left - 66, most = Math.max(...all.map((one) => one.sum));
    let y = panels[0].height + 26;
    const heading = (words) => parts.push(text(2, y, words, { "text-anchor": "start", "font-weight": "bold" }));
    heading("Moved by one head, N = " + n);
    KERNELS.forEach((kernel, k) => {
      const top = y + 10 + 26 * k, sum = Math.min(moved, all[k].sum);
      parts.push(text(2, top + 15, kernel.title, { "text-anchor": "start" }));
      let x = left;
      for (const [what, elements] of byMatrix(all[k], sum)) {
        const size = (room * elements) / most;
        parts.push(box(x, top, size, 20, hue(HUE[what], 5)), size > 9 ? text(x + size / 2, top + 15, what === "S" ? (size > 30 ? "S, P" : "S") : what) : "");
        x += size;
      }
      parts.push(text(width - 2, top + 15, amount(sum), { "text-anchor": "end" }));
    });
    y += 118;
    heading("Which is slowest on an " + measured.gpu + ", at N = " + measured.length + "?");
    const guess = KERNELS.find((kernel) => kernel.row === state.guess);
    KERNELS.forEach((kernel, k) => {
      const top = y + 10 + 26 * k;
      parts.push(text(2, top + 15, kernel.title, { "text-anchor": "start" }), guess ? box(left, top, (room * timeOf(kernel)) / timeOf(slowest), 20, { fill: "var(--x-line)" }) : "",
        text(width - 2, top + 15, guess ? timeOf(kernel).toFixed(1) + " ms" : "? ms", { "text-anchor": "end" }));
    });
    y += 88;
    const note = "Measured at N = " + measured.length + " (the slider does not change this): " + measured.sequences + " sequences, " + measured.heads + " heads, d = " + DIM + ", float32.";
    for (const [words, fill] of [[guess ? compared() : "Choose your guess above; then the times are shown.", "ink"], [note, "quiet"]]) {
      for (const part of wrapped(words, Math.floor(width / 6.4))) parts.push(text(2, y += 18, part, { "text-anchor": "start", fill }));
    }
    return { svg: parts.join(""), height: y + 8, says: (guess ? verdict(guess) : "") + sentence(all, moved) };
  }

  // Reads and writes, for the test.
  function sums(row, n, d) {
    const { list } = moves(KERNELS.find((kernel) => kernel.row === row), n, d);
    const of = (way) => list.reduce((sum, one) => sum + (one.way === way ? one.elements : 0), 0);
    return [row, n, d, of("in"), of("out")];
  }

  Explorer.define({
    name: "bytes", title: "Where the bytes go", main: "moved", second: "n", draw, sums, counted, measured,
    fields: [
      { key: "moved", label: "Moved so far", value: 0, still: 90, step: 1, wide: 7, play: ({ n }) => (n < 8 ? 40 : 100), range: () => [0, TICKS],
        shown: (_, state) => amount(movedOf(state, allOf(state))) },
      { key: "n", label: "N", value: 7, still: 8, shown: (value) => 2 ** value, range: () => [LEAST, MOST] },
      { key: "guess", label: "Slowest on the GPU", value: "", choices: [["", "your guess?"], ...KERNELS.map(({ row, title }) => [row, title])] },
    ],
  });
})();
