// Kernels as the watched lab sees them: beside each line its sectors and wavefronts, and what is wrong (data.py).
(() => {
  "use strict";
  const { text, box, titled, wrapped } = Explorer;
  const all = window.explorerData.traces;
  const isBroken = (one) => one.file.startsWith("common/");

  // A line of code in pieces of at most so many letters, the first of them indented as in the file, the others more.
  function pieces(line, most) {
    const indent = line.length - line.trimStart().length, result = [];
    let rest = line.trimStart(), at = Math.min(indent, 8);
    while (rest) {
      const room = most - at;
      let cut = rest.length;
      if (cut > room) {
        cut = Math.max(...[" ", ",", "(", "["].map((sign) => rest.lastIndexOf(sign, room - 1) + 1));
        if (cut < room / 3) cut = room;
      }
      result.push([at, rest.slice(0, cut).trimEnd()]);
      rest = rest.slice(cut).trimStart();
      at = Math.min(indent, 8) + 4;
    }
    return result.length ? result : [[0, ""]];
  }

  function found(one) {
    const lines = [...new Set(one.findings.map(([line]) => line))].sort((a, b) => a - b);
    return (lines.length > 1 ? "lines " : "line ") + lines.join(" and ");
  }

  function draw(state, width) {
    const one = all.find(({ name }) => name === state.kernel), solved = state.findings === "shown";
    // In a narrow window long lines wrap, and a line's counts stand below it.
    const narrow = width < 560, letter = 7.3, left = narrow ? 36 : 176, high = 18, top = narrow ? 24 : 40;
    const longest = Math.max(...one.lines.map(([, line]) => line.length));
    const wide = narrow ? width : Math.max(width, Math.ceil(left + 8 + letter * longest));
    const parts = [text(left, 14, one.file.split("/").pop(), { "text-anchor": "start", "font-weight": "bold" })];
    if (!narrow) {
      parts.push(text(64, 14, "global", { "text-anchor": "middle", "font-weight": "bold" }), text(64, 30, "sectors", { fill: "quiet" }),
        text(136, 14, "shared", { "font-weight": "bold" }), text(136, 30, "wavefronts", { fill: "quiet" }));
    }
    const marked = new Map();
    if (solved) one.findings.forEach(([line, other]) => { marked.set(other, "quiet"); });
    if (solved) one.findings.forEach(([line]) => { marked.set(line, "bad"); });
    let y = top, previous = 0;
    for (const [number, line] of one.lines) {
      if (previous && number > previous + 1 && !isBroken(one)) y += 8;
      previous = number;
      const code = narrow ? pieces(line, Math.floor((wide - left) / letter)) : [[line.length - line.trimStart().length, line.trimStart()]];
      if (marked.has(number)) {
        parts.push(box(left - 6, y, wide - left + 4, high * code.length,
          { stroke: marked.get(number), fill: "var(--x-bad)", "fill-opacity": 0.12 }));
      }
      // Gaps between the numbers would tell where a line is missing.
      if (solved || !isBroken(one)) parts.push(text(26, y + 13, number, { "text-anchor": "end", fill: "quiet" }));
      const counts = one.traffic.filter(([at]) => at === number).map(([, memory, count, least]) => {
        const unit = (memory === "global" ? " sector" : " wavefront") + (count === 1 ? "" : "s");
        return { memory, count, unit, least, words: memory + ": " + count + unit + ", " + least + " at best" };
      });
      const field = (x, wide, { count, least }) => box(x, y + 1, wide, high - 2,
        { fill: count > least ? "var(--x-bad)" : "var(--x-good)", "fill-opacity": 0.18, stroke: count > least ? "bad" : "none" });
      for (const one of narrow ? [] : counts) {
        const x = one.memory === "global" ? 34 : 106;
        parts.push(titled(one.words, field(x, 60, one), text(x + 30, y + 13, one.count)));
      }
      for (const [indent, words] of code) {
        parts.push(text(left, y + 13, words, { "text-anchor": "start", "font-family": "monospace", x: left + letter * indent }));
        y += high;
      }
      for (const one of narrow ? counts : []) {
        parts.push(field(left, wide - left, one), text(left + 6, y + 13, one.words, { "text-anchor": "start" }));
        y += high + 2;
      }
    }
    y += 10;
    if (solved) {
      const messages = new Set(one.findings.map(([line, , kind, message]) => "Line " + line + ", " + kind + ": " + message + "."));
      for (const words of [...messages]) {
        for (const part of wrapped(words, Math.floor(Math.min(width, wide) / 6.9))) {
          y += 17;
          parts.push(text(4, y, part, { "text-anchor": "start" }));
        }
        y += 8;
      }
    }
    const sum = (memory, column) => one.traffic.filter(([, where]) => where === memory).reduce((total, cell) => total + cell[column], 0);
    const counts = ["global", "shared"].filter((memory) => sum(memory, 2)).map((memory) =>
      sum(memory, 2) + (memory === "global" ? " sectors" : " wavefronts") + (sum(memory, 2) > sum(memory, 3) ? " where " + sum(memory, 3) + " would do" : ", the least")).join("; ");
    const says = isBroken(one)
      ? (solved ? one.words + " The lab found it at " + found(one) + "."
        : "This kernel has one mistake. Find it, then show what the lab found.")
      : one.words + ": " + counts + ". Outlined: more than the least.";
    return { svg: parts.join(""), height: y + 8, width: wide, says };
  }

  const choices = all.map((one) => [one.name, (isBroken(one) ? "broken: " : "lesson 04: ") + one.name.replace(/_/g, " ")]);
  Explorer.define({
    name: "traces", title: "Kernels in the watched lab", main: "kernel", draw,
    fields: [
      { key: "kernel", label: "Kernel", value: "02_transpose_naive", choices },
      { key: "findings", label: "Findings", value: "hidden", choices: [["hidden", "hidden"], ["shown", "shown"]],
        when: (state) => isBroken(all.find(({ name }) => name === state.kernel)) },
    ],
  });
})();
