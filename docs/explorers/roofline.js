// The roofline of attention: operations for each byte, what the GPU allows, and what the steps of lesson 05 reached.
// The figures are those of the records (data.py); the rules are tested against docs/theory/examples.py.
(() => {
  "use strict";
  const { text, box, line, titled, element } = Explorer;
  const [gpu, ...steps] = window.explorerData.roofline;
  const bytesOf = (type) => (type === "float32" ? 4 : 2);

  // 4 N^2 d operations of a head; Q, K, V and O once, and unfused S and P written and read once.
  function intensity({ n, dim, type, fused }) {
    const elements = 4 * n * dim + (fused === "yes" ? 0 : 4 * n * n);
    return (4 * n * n * dim) / (elements * bytesOf(type));
  }
  const bound = (peaks, type, x) => Math.min(peaks[type], x * peaks.memory);

  // Letters over lines.
  const clear = { stroke: "var(--x-paper)", "stroke-width": 4, "stroke-linejoin": "round", style: "paint-order: stroke" };
  const three = (x) => (x >= 100 ? String(Math.round(x)) : x.toPrecision(3));
  const isFused = (kernel) => !kernel.startsWith("01_");

  function draw(state, width) {
    const left = 48, top = 14, high = 330, bottom = top + high, right = width - 10;
    const [x0, x1, y0, y1] = [2, 16384, 1, 2048];  // operations per byte, TFLOP/s
    const x = (v) => left + ((right - left) * Math.log(Math.min(x1, Math.max(x0, v)) / x0)) / Math.log(x1 / x0);
    const y = (v) => bottom - (high * Math.log(Math.max(y0, v) / y0)) / Math.log(y1 / y0);
    const parts = [];
    for (let v = 4; v <= x1; v *= width < 560 ? 16 : 4) {
      parts.push(line(x(v), top, x(v), bottom), text(Math.min(x(v), right - 16), bottom + 16, v, { fill: "quiet" }));
    }
    for (const v of [1, 10, 100, 1000]) parts.push(line(left, y(v), right, y(v)), text(left - 6, y(v) + 4, v, { "text-anchor": "end", fill: "quiet" }));
    parts.push(text((left + right) / 2, bottom + 34, "operations for each byte of global memory"),
      text(left + 4, top + 2, "TFLOP/s", { "text-anchor": "start", fill: "quiet" }));
    for (const type of ["float32", "bfloat16"]) {
      const now = type === state.type, peak = gpu[type], ridge = peak / gpu.memory;
      const look = { "stroke-width": now ? 2.5 : 1 };
      const low = Math.max(x0, (y0 * 1e12) / gpu.memory);
      const roof = y(peak / 1e12), label = type + " " + three(peak / 1e12);
      if (now) parts.push(line(x(low), y((low * gpu.memory) / 1e12), x(ridge), roof, "ink", look));
      parts.push(line(x(ridge), roof, right, roof, now ? "ink" : "line", look), now
        ? text(right, roof - 8, label, { ...clear, "text-anchor": "end", fill: "ink" })
        : text(x(ridge) + 6, roof + 16, label, { ...clear, "text-anchor": "start", fill: "quiet" }));
    }
    const value = intensity(state), most = bound(gpu, state.type, value) / 1e12;
    parts.push(line(x(value), y(most), x(value), bottom, "accent", { "stroke-width": 1.5, "stroke-dasharray": "4 3" }),
      element("circle", { cx: x(value), cy: y(most), r: 6, fill: "none", stroke: "var(--x-accent)", "stroke-width": 2.5 }));
    const shown = steps.filter((one) => one.type === state.type && one.dim === state.dim && one.length === state.n)
      .map((one) => ({ ...one, at: intensity({ ...state, fused: isFused(one.kernel) ? "yes" : "no" }) }))
      .sort((a, b) => b.tflops - a.tflops);
    const named = (one) => one.kernel + " " + Math.round((100 * one.tflops) / (bound(gpu, one.type, one.at) / 1e12)) + " %";
    // Names stand beside their dots, on the right if there is room; a narrow drawing lists them below its axis.
    const beside = width >= 560, room = 160, list = bottom + 58;
    const lower = (one, last) => Math.max(y(one.tflops) + 4, last + 14);
    let last = top - 14;
    const labels = shown.map((one) => (last = lower(one, last)));
    const over = Math.max(0, last - bottom + 4);
    const dots = [];
    shown.forEach((one, i) => {
      const px = x(one.at), py = y(one.tflops), away = px > right - room ? -1 : 1, ly = labels[i] - over;
      dots.push(titled(one.kernel + ": " + three(one.tflops) + " TFLOP/s", element("circle", { cx: px, cy: py, r: 4, fill: "var(--x-good)" })));
      if (beside) {
        parts.push(line(px, py, px + 14 * away, ly - 4, "quiet"));
        dots.push(text(px + 18 * away, ly, named(one), { ...clear, "text-anchor": away < 0 ? "end" : "start" }));
      } else {
        dots.push(text(left, list + 18 * i, named(one), { "text-anchor": "start" }));
      }
    });
    parts.push(...dots);
    const ridge = gpu[state.type] / gpu.memory;
    const says = three(value) + " operations for each byte: " + (value < ridge ? "bound by memory, " : "bound by arithmetic, ") +
      three(most) + " TFLOP/s at most on an " + gpu.gpu.replace("NVIDIA ", "") + (shown.length
        ? ". The dots are steps of lesson 05, in percent of their own bound." : ". No step of lesson 05 was recorded for this N.");
    return { svg: parts.join(""), height: beside ? bottom + 44 : list + 18 * shown.length, says };
  }

  Explorer.define({
    name: "roofline", title: "Roofline of attention", main: "n", draw, intensity, bound,
    fields: [
      { key: "n", label: "Queries and keys N", value: 4096, choices: [128, 256, 512, 1024, 2048, 4096, 8192, 16384].map((n) => [n, String(n)]) },
      { key: "dim", label: "head_dim", value: 128, choices: [[64, "64"], [128, "128"]] },
      { key: "type", label: "Type", value: "bfloat16", choices: [["float32", "float32"], ["bfloat16", "bfloat16"]] },
      { key: "fused", label: "One kernel", value: "yes", choices: [["yes", "yes: S and P stay on the chip"], ["no", "no: S and P in global memory"]] },
    ],
  });
})();
