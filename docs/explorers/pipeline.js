// Timelines of the Hopper kernels on one clock, as one SM of a GPU ran them (data.py).
(() => {
  "use strict";
  const { text, box, line, titled, hue } = Explorer;
  const all = window.explorerData.pipeline;
  const short = (one) => (one.lesson.startsWith("05") ? "forward " : "backward ") + one.name.replace(/, \d+ queries.*head_dim \d+/, "");
  const WAITS = /^waits/;
  const order = ["load", "Q Kᵀ", "P V", "softmax", "store of O", "S, dP", "dV, dK", "dQ", "P and dS", "store of dK, dV", "addition to dQ", "other work"];
  const hues = [9, 7, 4, 1, 2, 7, 4, 6, 1, 2, 11, 0];
  const look = (kind) => {
    if (WAITS.test(kind)) return { fill: "var(--x-line)", "fill-opacity": 0.55 };
    return { ...hue(Math.max(0, hues[order.indexOf(kind)] ?? 0), 12), "fill-opacity": 0.62 };
  };
  const at = (spans, t) => spans.filter(([begin, end]) => begin <= t && t < end).map(([, , kind]) => kind);
  // The percentage of the time in which matmuls are in flight; when the tensor cores work on them, no stamp says.
  const inFlight = (one, t) => {
    const spans = one.lanes[one.lanes.length - 1][1];
    const sum = spans.reduce((total, [begin, end]) => total + Math.max(0, Math.min(end, t) - begin), 0);
    return t > 0 ? Math.round((100 * sum) / t) : 0;
  };

  const chosen = (state) => [state.first, state.second].filter((name) => name !== "").map((name) => all.find((one) => one.name === name));
  const most = (state) => Math.max(...chosen(state).map((one) => one.cycles));

  function draw(state, width) {
    const runs = chosen(state), left = 92, high = 22;
    const room = width - left - 8, seen = most(state) / state.zoom;
    const from = Math.min(Math.max(0, state.t - seen / 2), most(state) - seen);
    const x = (t) => left + (room * (t - from)) / seen;
    const parts = [], says = [];
    let y = 4;
    const kinds = new Set();
    for (const one of runs) {
      parts.push(text(2, y + 13, width < 560 ? short(one).slice(0, 44) : short(one), { "text-anchor": "start", "font-weight": "bold" }));
      y += 20;
      const now = [];
      for (const [name, spans] of one.lanes) {
        parts.push(text(left - 6, y + 15, name, { "text-anchor": "end" }), box(left, y + 1, room, high - 3, { stroke: "none", fill: "var(--x-line)", "fill-opacity": 0.18 }));
        for (const [begin, end, kind] of spans) {
          if (end < from || begin > from + seen) continue;
          kinds.add(WAITS.test(kind) ? "waits" : kind);
          const x0 = x(Math.max(begin, from)), x1 = x(Math.min(end, from + seen));
          parts.push(titled(name + ": " + kind + ", cycles " + begin + " to " + end,
            box(x0, y + 1, Math.max(0.4, x1 - x0), high - 3, { ...look(kind), stroke: "none" })));
        }
        const doing = [...new Set(at(spans, state.t))];
        if (name === "matmuls") now.push("in flight " + (doing.join(" and ") || "nothing"));
        else if (/consumer/.test(name)) now.push(name + " " + (doing.join(" and ").replace("waits for matmuls", "waits for its matmul") || "idle"));
        y += high;
      }
      if (one.cycles >= from && one.cycles <= from + seen) parts.push(line(x(one.cycles), y - high * one.lanes.length, x(one.cycles), y, "ink", { "stroke-dasharray": "3 3" }));
      says.push(short(one) + (state.t >= one.cycles ? ": done in " + one.cycles + " cycles, " + Math.round((100 * one.peak) / one.cycles) + " % of the peak of the tensor cores."
        : ": " + now.join(", ") + "; matmuls in flight " + inFlight(one, state.t) + " % so far."));
      y += 10;
    }
    parts.push(line(x(state.t), 20, x(state.t), y - 6, "accent", { "stroke-width": 2 }));
    const step = [500, 1000, 2000, 5000, 10000, 20000].find((one) => (room * one) / seen >= 55) || 50000;
    for (let t = Math.ceil(from / step) * step; t <= from + seen; t += step) {
      const place = Math.min(x(t), width - 22);
      parts.push(line(x(t), y - 8, x(t), y - 3), text(Math.max(place, 22), y + 10, t, { fill: "quiet" }));
    }
    parts.push(text(left - 6, y + 10, "cycles", { "text-anchor": "end", fill: "quiet" }));
    y += 30;
    let place = 2;
    for (const kind of [...order, "waits"].filter((one) => kinds.has(one))) {
      const words = kind === "load" ? "copy, until it arrives" : kind, wide = 30 + 7.2 * words.length;
      if (place + wide > width) [place, y] = [2, y + 20];
      parts.push(box(place, y - 10, 13, 13, { ...look(kind), stroke: "line" }), text(place + 18, y + 1, words, { "text-anchor": "start" }));
      place += wide;
    }
    return { svg: parts.join(""), height: y + 10, says: "Cycle " + state.t + ". " + says.join(" ") };
  }

  const choices = all.map((one) => [one.name, short(one)]);
  const find = (words) => all.find((one) => one.name.includes(words)).name;
  Explorer.define({
    name: "pipeline", title: "Timelines of the Hopper kernels", main: "t", draw, at, inFlight,
    fields: [
      { key: "first", label: "Kernel", value: find("10_warp"), choices },
      { key: "second", label: "Compare with", value: find("13_persistent"), choices: [["", "none"], ...choices] },
      { key: "t", label: "Cycle", value: 9000, step: 100, play: (state) => most(state) / 15, range: (state) => [0, most(state)] },
      { key: "zoom", label: "Zoom", value: 1, choices: [[1, "all"], [4, "4 ×"], [12, "12 ×"]] },
    ],
  });
})();
