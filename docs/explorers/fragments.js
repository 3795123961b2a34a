// Which elements of its operands a lane holds, by instruction. The rules are tested against the lab's instructions.
(() => {
  "use strict";
  const { text, box, line, group, titled, hue } = Explorer;

  // What element e of register r of a thread is: [row, column]. `each` elements stand in a register of 32 bits.
  const left = (thread, r, e) => {
    const lane = thread % 32, warp = Math.floor(thread / 32);
    return [16 * warp + Math.floor(lane / 4) + 8 * (r % 2), 8 * Math.floor(r / 2) + 2 * (lane % 4) + e];
  };
  const sums = (thread, r) => {
    const lane = thread % 32, warp = Math.floor(thread / 32);
    return [16 * warp + Math.floor(lane / 4) + 8 * (Math.floor(r / 2) % 2), 8 * Math.floor(r / 4) + 2 * (lane % 4) + (r % 2)];
  };
  const swapped = ([row, col]) => [col, row];
  const layouts = {
    a: { words: "mma: A, 16 × 16", rows: 16, cols: 16, registers: 4, each: 2, threads: 32, of: left, name: "a" },
    b: { words: "mma: B, 16 × 8", rows: 16, cols: 8, registers: 2, each: 2, threads: 32, name: "b",
      of: (lane, r, e) => [8 * r + 2 * (lane % 4) + e, Math.floor(lane / 4)] },
    d: { words: "mma: C and D, 16 × 8", rows: 16, cols: 8, registers: 4, each: 1, threads: 32, of: sums, name: "d" },
    ldmatrix: { words: "ldmatrix.x4", rows: 16, cols: 16, registers: 4, each: 2, threads: 32, of: left, name: "r" },
    trans: { words: "ldmatrix.x4.trans", rows: 16, cols: 16, registers: 4, each: 2, threads: 32, name: "r",
      of: (lane, r, e) => {  // each 8 x 8 matrix is transposed in its place
        const [row, col] = swapped(left(lane, 0, e));
        return [row + 8 * (r % 2), col + 8 * Math.floor(r / 2)];
      } },
    wa: { words: "wgmma: A in registers, 64 × 16", rows: 64, cols: 16, registers: 4, each: 2, threads: 128, of: left, name: "a" },
    wd: { words: "wgmma: D, 64 × 64", rows: 64, cols: 64, registers: 32, each: 1, threads: 128, of: sums, name: "d" },
    next: { words: "D of S = Q Kᵀ becomes A of P V", rows: 16, cols: 16, registers: 4, each: 2, threads: 32, of: left, name: "p" },
  };

  // Which of a lane's eight sums of 16 columns stand in element e of register r of the next operand.
  const taken = (r, e) => 4 * Math.floor(r / 2) + 2 * (r % 2) + e;

  function matrix(layout, x, y, cell, high, state, label) {
    const parts = [];
    const registers = new Map();
    for (let r = 0; r < layout.registers; ++r) {
      for (let e = 0; e < layout.each; ++e) registers.set(layout.of(state.thread, r, e).join(), [r, e]);
    }
    const owner = new Map();
    for (let thread = 0; thread < layout.threads; ++thread) {
      for (let r = 0; r < layout.registers; ++r) {
        for (let e = 0; e < layout.each; ++e) owner.set(layout.of(thread, r, e).join(), thread);
      }
    }
    for (let row = 0; row < layout.rows; ++row) {
      for (let col = 0; col < layout.cols; ++col) {
        const mine = registers.get(row + "," + col), thread = owner.get(row + "," + col);
        const look = mine ? { ...hue(label(mine).colour), "fill-opacity": 0.5, stroke: "ink" } : { ...hue(thread % 8, 8), "fill-opacity": 0.12 };
        parts.push(group({ "data-pick": "thread=" + thread }, titled(
          "row " + row + ", column " + col + ": thread " + thread, box(x + col * cell, y + row * high, cell, high, look)),
        mine && cell >= 18 ? text(x + (col + 0.5) * cell, y + row * high + high / 2 + 4, label(mine).words) : ""));
      }
    }
    return parts.join("");
  }

  function draw(state, width) {
    const layout = layouts[state.what];
    const left = 28, top = 36;
    const isNext = state.what === "next";
    const room = width - left - 4;
    const cell = Math.min(30, Math.floor((room / layout.cols) * 100) / 100);
    const high = layout.rows > 16 ? 9 : Math.min(22, Math.max(20, cell));
    const parts = [];
    const axes = (y, lay, words) => {
      parts.push(text(left, y - 22, words, { "text-anchor": "start", fill: "quiet" }));
      for (let col = 0; col < lay.cols; col += lay.cols > 16 ? 8 : 4) {
        parts.push(text(left + (col + 0.5) * cell, y - 5, col, { fill: "quiet" }));
      }
      const step = lay.rows > 16 ? 8 : 4;
      for (let row = 0; row < lay.rows; row += step) {
        parts.push(text(left - 5, y + row * high + Math.min(high, 12) - (high < 12 ? -2 : -3), row, { "text-anchor": "end", fill: "quiet" }));
      }
    };
    const named = ([r, e]) => ({ words: layout.name + r, colour: r });
    let height;
    if (isNext) {
      const wide = { ...layouts.d, cols: 16, registers: 8 };
      axes(top, wide, "the lane's sums: d0 to d3 of two 16 × 8 tiles");
      parts.push(matrix(wide, left, top, cell, high, state, ([r]) => ({ words: "d" + r, colour: Math.floor(r / 2) })));
      const y = top + 16 * high + 50;
      axes(y, layout, "the same elements, rounded: p0 to p3 of A");
      parts.push(matrix(layout, left, y, cell, high, state, named));
      height = y + 16 * high + 6;
    } else {
      axes(top, layout, "rows and columns; framed: this thread's");
      parts.push(matrix(layout, left, top, cell, high, state, named));
      height = top + layout.rows * high + 6;
    }
    const list = [];
    for (let r = 0; r < Math.min(layout.registers, 4); ++r) {
      const places = Array.from({ length: layout.each }, (_, e) => "(" + layout.of(state.thread, r, e).join(", ") + ")");
      list.push(layout.name + r + (isNext ? " = d" + taken(r, 0) + ", d" + taken(r, 1) + " at " : ": ") + places.join(" "));
    }
    const says = (layout.threads > 32 ? "Thread " : "Lane ") + state.thread + " holds (row, column) " + list.join("; ") +
      (layout.registers > 4 ? "; and so on, 8 columns further for each 4 registers." : ".") +
      (isNext ? " No lane needs another lane's element." : "");
    return { svg: parts.join(""), height, says };
  }

  Explorer.define({
    name: "fragments", title: "Fragments of the tensor cores", main: "thread", hover: true, draw, layouts, taken,
    fields: [
      { key: "what", label: "Operand", value: "a", choices: Object.entries(layouts).map(([key, one]) => [key, one.words]) },
      { key: "thread", label: "Lane or thread", value: 5, range: (state) => [0, layouts[state.what].threads - 1] },
    ],
  });
})();
