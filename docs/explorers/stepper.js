// The tile stepper: tiled attention one step at a time, as lesson 03's program ran it (data.py). It computes nothing of
// its own; every number that is drawn stands in the data, and a test compares them.
(() => {
  "use strict";
  const { text, box, line, group, titled } = Explorer;
  const [data] = window.explorerData.stepper;
  const LABELS = 66, HEADS = 66, ROW = 34;  // pixels: of names beside rows, above columns; of a row of the tile

  const tilesOf = (run) => run.block_m + "x" + run.block_n;
  const runOf = (state) => data.runs.find((run) => run.mask === state.mask && tilesOf(run) === state.tiles);
  const stepOf = (state) => runOf(state).steps[state.step];

  // ---------------------------------------------------------------- words and numbers

  const minus = (words) => words.replace(/^-(?=0?\.?0*$)/, "").replace("-", "\u2212");  // no -0.00
  // null stands for the maximum of no keys.
  const shown = (x, digits) => (x === null ? "\u2212\u221e" : minus(x.toFixed(digits)));
  const small = (x) => minus(x.toExponential(1));
  const quoted = (word) => "\u2018" + word + "\u2019";
  const span = (words, first, count) =>
    count === 1 ? quoted(words[first]) : quoted(words[first]) + " to " + quoted(words[first + count - 1]);
  const largestOf = (rows) => Math.max(...rows.flat().map((x) => Math.abs(x ?? 0)));
  const rises = (step, i) => step.m_before[i] !== null && step.m[i] > step.m_before[i];

  // The row that is told about: the chosen one, else the one whose maximum rises most.
  function rowOf(state) {
    const step = stepOf(state);
    if (state.row > 0) return Math.min(state.row, step.queries) - 1;
    const rise = (i) => (step.kind === "tile" && rises(step, i) ? step.m[i] - step.m_before[i] : 0);
    return [...Array(step.queries).keys()].reduce((best, i) => (rise(i) > rise(best) ? i : best), 0);
  }

  function sentence(run, step, i) {
    const queries = span(data.queries, step.query, step.queries);
    if (step.kind === "skipped") {
      return "No query of " + queries + " may see a key of " + span(data.keys, step.key, step.keys) +
        ": the mask hides the whole tile, so it is skipped. Nothing is loaded and nothing computed.";
    }
    const row = "Row " + quoted(data.queries[step.query + i]) + ": ";
    if (step.kind === "finish") {
      const end = "Queries " + queries + " have met all keys. Each row of O is divided by its l, once. " + row +
        (step.l[i] === 0 ? "no key was seen, so O is 0 and LSE \u2212\u221e."
          : "l = " + shown(step.l[i], 3) + ", and LSE = m + ln l = " + shown(step.lse[i], 3) + ".");
      return step.query + step.queries < data.queries.length ? end : end +
        " The run is over: its O is at most " + small(run.max_error_o) + " away from lesson 01 in float64 (allowed " +
        small(run.allowed_o) + ").";
    }
    const meet = "Queries " + queries + " meet keys " + span(data.keys, step.key, step.keys) + ". " + row;
    if (step.s[i].every((x) => x === null)) return meet + "all of these keys are masked, so m, l and O stay as they are.";
    if (step.m_before[i] === null) {
      return meet + "these are its first keys. The maximum becomes " + shown(step.m[i], 3) +
        "; what was there before is multiplied by exp(\u2212\u221e) = 0. Then l = " + shown(step.l[i], 3) + " and O = P V.";
    }
    if (!rises(step, i)) {
      return meet + "the maximum stays " + shown(step.m[i], 3) + ", so the rescale factor is 1. The tile only adds: l goes from " +
        shown(step.l_before[i], 3) + " to " + shown(step.l[i], 3) + ", and P V is added to O.";
    }
    const m = shown(step.m[i], 3), count = step.m.filter((_, r) => rises(step, r)).length;
    return meet + "the maximum rises from " + shown(step.m_before[i], 3) + " to " + m + ", so O and l are multiplied by exp(" +
      shown(step.m_before[i], 3) + " \u2212 " + (step.m[i] < 0 ? "(" + m + ")" : m) + ") = " + shown(step.rescale[i], 4) +
      ". Then the tile is added: l = " + shown(step.l[i], 3) + ", and O gets P V. The maximum rises in " + count + " of " +
      step.queries + " rows.";
  }

  // ---------------------------------------------------------------- the pictures

  // One hue above 0, another below; a root, so that small values can be seen.
  const paint = (x, largest) => ({ fill: x < 0 ? "#2a6fb8" : "#d9722b", "fill-opacity": 0.6 * Math.sqrt(Math.min(1, Math.abs(x ?? 0) / largest) || 0) });
  const heads = (words, x, y, wide) => words.map((word, j) => {
    const middle = x + (j + 0.5) * wide + 4;
    return text(middle, y, word, { "text-anchor": "start", transform: "rotate(-90 " + middle + " " + y + ")" });
  });
  // A number of the data, which the test reads: the field and its indices.
  const value = (field, i, j, x, y, words, more = {}) => group({ "data-n": [field, i, j].join() }, text(x, y, words, more));

  // All scores up to this step; the tile has a frame.
  function map(state, x, y) {
    const run = runOf(state), now = stepOf(state), cell = 14, parts = [];
    const left = x + LABELS, top = y + HEADS;
    parts.push(...heads(data.keys, left, top - 4, cell));
    data.queries.forEach((query, i) => parts.push(text(left - 4, top + cell * i + 11, query, { "text-anchor": "end" })));
    const seen = run.steps.slice(0, state.step + 1).filter((step) => step.kind !== "finish");
    const kinds = data.queries.map(() => data.keys.map(() => null)), largest = Math.max(...run.steps.map((s) => (s.s ? largestOf(s.s) : 0)));
    for (const step of seen) {
      // With a mask a tile ends at the last key that one of its queries sees.
      for (let c = 0; step.key + c < Math.min(step.key + run.block_n, data.keys.length); ++c) {
        for (let r = 0; r < step.queries; ++r) {
          kinds[step.query + r][step.key + c] = step.kind === "skipped" || c >= step.keys ? "skipped" : step.s[r][c] ?? "masked";
        }
      }
    }
    kinds.forEach((row, i) => row.forEach((kind, j) => {
      const [px, py] = [left + cell * j, top + cell * i], hidden = typeof kind === "string";
      const words = data.queries[i] + ", " + data.keys[j] + ": " + (kind === null ? "to come" : hidden ? kind : shown(kind, 2));
      parts.push(titled(words, box(px, py, cell, cell, kind === null || hidden ? {} : paint(kind, largest)),
        hidden ? line(px, py, px + cell, py + cell) : "", kind === "skipped" ? line(px + cell, py, px, py + cell) : ""));
    }));
    if (now.kind !== "finish") {
      const wide = Math.min(run.block_n, data.keys.length - now.key);
      parts.push(box(left + cell * now.key, top + cell * now.query, cell * wide, cell * now.queries, { stroke: "ink", "stroke-width": 2.5 }));
    }
    const bottom = top + cell * data.queries.length;
    parts.push(text(x + 2, bottom + 18, "Framed: this tile. One stroke: masked. Crossed: skipped.", { "text-anchor": "start", fill: "quiet" }));
    return { svg: parts, width: LABELS + cell * data.keys.length + 6, height: bottom + 24 - y };
  }

  // The scores or probabilities of the tile, and m, the rescale factor and l of its rows.
  function tile(state, x, y, room) {
    const step = stepOf(state), chosen = rowOf(state), parts = [];
    const keys = step.kind === "tile" ? data.keys.slice(step.key, step.key + step.keys) : [];
    const wide = 42, cell = Math.min(40, Math.max(34, (room - LABELS - 3 * wide) / keys.length)), left = x + LABELS, right = left + cell * keys.length, top = y + HEADS;
    const names = step.kind === "finish" ? ["m", "l", "lse"] : ["m", "rescale", "l"];
    if (step.kind === "skipped") return { svg: [text(x + 2, y + 20, "skipped", { "text-anchor": "start" })], width: 80, height: 30 };
    parts.push(...heads(keys, left, top - 4, cell));
    names.forEach((name, k) => parts.push(text(right + wide * (k + 0.5), top - 6, name === "lse" ? "LSE" : name)));
    const largest = state.show === "s" && keys.length ? largestOf(step.s) : 1;
    for (let i = 0; i < step.queries; ++i) {
      const line1 = top + ROW * i, middle = line1 + 21, bold = i === chosen ? { "font-weight": "bold" } : {};
      parts.push(group({ "data-pick": "row=" + (i + 1) }, box(x, line1, LABELS, ROW, { stroke: "none", fill: "var(--x-paper)" }),
        text(left - 4, middle, data.queries[step.query + i], { "text-anchor": "end", ...bold })));
      keys.forEach((_, j) => {
        const masked = step.s[i][j] === null, px = left + cell * j;
        parts.push(box(px, line1, cell, ROW, masked ? {} : paint(step[state.show][i][j], largest)), masked
          ? line(px, line1, px + cell, line1 + ROW)
          : value(state.show, i, j, px + cell / 2, middle, shown(step[state.show][i][j], 2)));
      });
      names.forEach((name, k) => {
        const px = right + wide * (k + 0.5), rising = step.kind === "tile" && name !== "l" && rises(step, i) ? { fill: "accent" } : {};
        parts.push(box(px - wide / 2, line1, wide, ROW));
        if (step.kind === "tile" && name !== "rescale") {  // before and after
          parts.push(value(name + "_before", i, "", px, line1 + 14, shown(step[name + "_before"][i], 3), { fill: "quiet" }),
            value(name, i, "", px, line1 + 29, shown(step[name][i], 3), { ...bold, ...rising }));
        } else {
          parts.push(value(name, i, "", px, middle, shown(step[name][i], name === "rescale" ? 4 : 3), { ...bold, ...rising }));
        }
      });
    }
    return { svg: parts, width: right + 3 * wide - x + 2, height: HEADS + ROW * step.queries + 6 };
  }

  // O before, rescaled and after: all of it as shades, the chosen row as numbers.
  function output(state, x, y, width) {
    const step = stepOf(state), chosen = rowOf(state), parts = [], d = data.head_dim;
    if (step.kind === "skipped") return { svg: [], height: 0 };
    const fields = step.kind === "tile" ? [["o_before", "O before"], ["o_rescaled", "O \u00d7 rescale"], ["o", "O + P V"]]
      : [["o_before", "O"], ["o", "O / l, the output"]];
    // One scale for what is not yet divided; the output has its own.
    const divided = (field) => step.kind === "finish" && field === "o";
    const shared = Math.max(...fields.map(([field]) => (divided(field) ? 0 : largestOf(step[field]))));
    const gap = 8, wide = Math.min(200, (width - LABELS - 3 * gap) / 3), high = 14, top = y + 22;
    for (let i = 0; i < step.queries; ++i) {
      parts.push(text(x + LABELS - 4, top + high * i + 11, data.queries[step.query + i], { "text-anchor": "end", ...(i === chosen ? { "font-weight": "bold" } : {}) }));
    }
    fields.forEach(([field, words], k) => {
      const left = x + LABELS + k * (wide + gap), largest = divided(field) ? largestOf(step.o) : shared;
      parts.push(text(left, y + 14, words, { "text-anchor": "start" }));
      step[field].forEach((row, i) => row.forEach((one, j) => parts.push(
        box(left + (wide / d) * j, top + high * i, wide / d, high - 1, { ...paint(one, largest), stroke: "none" }))));
      parts.push(box(left, top, wide, high * step.queries));
    });
    let bottom = top + high * step.queries + 12;
    if (state.numbers === "no") return { svg: parts, height: bottom - y };
    const each = width >= 700 ? 16 : 8;
    for (const [field, words] of fields) {
      parts.push(text(x + 2, bottom + 14, words + ", row " + quoted(data.queries[step.query + chosen]), { "text-anchor": "start", fill: "quiet" }));
      step[field][chosen].forEach((one, j) => parts.push(
        value(field, chosen, j, x + ((width - 4) / each) * (j % each + 1), bottom + 32 + 17 * Math.floor(j / each), shown(one, 2), { "text-anchor": "end" })));
      bottom += 24 + 17 * Math.ceil(d / each);
    }
    return { svg: parts, height: bottom - y + 4 };
  }

  function draw(state, width) {
    const all = map(state, 0, 0), beside = tile(state, all.width + 16, 0, width - all.width - 16), fits = all.width + 16 + beside.width <= width;
    const now = fits ? beside : tile(state, 0, all.height, width), high = fits ? Math.max(all.height, now.height) : all.height + now.height;
    const most = Math.max(width, fits ? 0 : now.width), o = output(state, 0, high, width);
    return { svg: [...all.svg, ...now.svg, ...o.svg].join(""), width: most, height: high + o.height + 6,
      says: "Step " + (state.step + 1) + " of " + runOf(state).steps.length + ". " + sentence(runOf(state), stepOf(state), rowOf(state)) };
  }

  // Another mask or size shows the tile in which the reader was.
  function changed(before, state) {
    if (before.mask === state.mask && before.tiles === state.tiles) return;
    const now = stepOf(before), steps = runOf(state).steps;
    state.step = Math.max(0, steps.findIndex((step) => step.query + step.queries > now.query &&
      (now.kind === "finish" ? step.kind === "finish" : step.key + step.keys > now.key)));
    state.row = 0;
  }

  const different = (values) => [...new Set(values)];
  Explorer.define({
    name: "stepper", title: "Tile stepper", main: "step", draw, changed, data,
    fields: [
      { key: "mask", label: "Mask", value: "full", choices: different(data.runs.map((run) => run.mask)).map((mask) => [mask, mask]) },
      { key: "tiles", label: "Tile: queries \u00d7 keys", value: "4x4", choices: different(data.runs.map(tilesOf)).map((tiles) => [tiles, tiles.replace("x", " \u00d7 ")]) },
      { key: "show", label: "In the tile", value: "s", choices: [["s", "scores S"], ["p", "probabilities P"]] },
      { key: "step", label: "Step", value: 6, play: 0.7, shown: (step) => step + 1, range: (state) => [0, runOf(state).steps.length - 1] },
      { key: "row", label: "Row", value: 0, shown: (row, state) => (row ? data.queries[stepOf(state).query + row - 1] : "that rises most"), range: (state) => [0, stepOf(state).queries] },
      { key: "numbers", label: "Numbers of O", value: "no", choices: [["yes", "of the row"], ["no", "none"]] },
    ],
  });
})();
