// Alice, pointed at: where each head looks for a word. Scores and probabilities are computed here from the q and k that
// all lessons use, rounded to 16 bits (data.py), and a test compares them with lesson 01.
(() => {
  "use strict";
  const { text, box, line, group, wrapped } = Explorer;
  const [{ tokens, heads, dim, steps, ...bits }] = window.explorerData.alice;
  const floats = (base64, step) =>
    Array.from(new Int16Array(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)).buffer), (x) => x * step);
  const q = floats(bits.q, steps.q), k = floats(bits.k, steps.k);

  // The row of P of a query in a head: softmax(scale q k^T); masked keys have 0.
  function probs(state, head, query) {
    const scale = state.scale === "root" ? 1 / Math.sqrt(dim) : 1, row = (token) => (head * tokens.length + token) * dim;
    const scores = tokens.map((_, key) => {
      if (state.mask === "causal" && key > query) return -Infinity;
      let sum = 0;
      for (let c = 0; c < dim; ++c) sum += q[row(query) + c] * k[row(key) + c];
      return scale * sum;
    });
    const most = Math.max(...scores), exps = scores.map((s) => Math.exp(s - most)), sum = exps.reduce((a, b) => a + b);
    return exps.map((e) => e / sum);
  }

  const paint = (p) => ({ fill: "var(--x-accent)", "fill-opacity": 0.55 * Math.sqrt(p) });  // a root: small ones are seen
  const quoted = (token) => "\u2018" + tokens[token] + "\u2019";
  const masked = (state, key) => state.mask === "causal" && key > state.word;

  // The words, shaded by how much the chosen head looks at them.
  function words(state, p, width) {
    const parts = [text(0, 12, "Point at a word, the query: which words does head " + state.head + " look at?", { "text-anchor": "start", "font-weight": "bold" })], high = 42;
    let x = 0, y = 20;
    tokens.forEach((word, key) => {
      const wide = 12 + 8 * word.length;
      if (x + wide > width) [x, y] = [0, y + high];
      const now = key === state.word, more = now ? { stroke: "ink", "stroke-width": 2.5 } : {};
      parts.push(group({ "data-pick": "word=" + key + "&cell=-1" }, box(x + 2, y + 3, wide - 4, 24, { ...paint(p[key]), rx: 4, ...more }),
        text(x + wide / 2, y + 20, word, { "font-size": 14, ...(now ? { "font-weight": "bold" } : masked(state, key) ? { fill: "quiet" } : {}) }),
        p[key] >= 0.05 || key === state.cell ? text(x + wide / 2, y + 40, p[key].toFixed(2)) : ""));
      x += wide;
    });
    return { svg: parts, height: y + high + 4 };
  }

  // A row for each head, a column for each key.
  function map(state, top, width) {
    const parts = [], left = 56, cell = Math.min(26, (width - left - 4) / tokens.length), high = 18, first = top + 84;
    parts.push(text(0, top + 12, "All heads, one per row; the query is " + quoted(state.word), { "text-anchor": "start", "font-weight": "bold" }));
    tokens.forEach((word, key) => {
      const middle = left + (key + 0.5) * cell + 4, now = key === state.word;
      parts.push(group({ "data-pick": "word=" + key + "&cell=-1" }, box(left + key * cell, top + 22, cell, 62, { stroke: "none", fill: "var(--x-paper)" }),
        text(middle, first - 5, word, { "text-anchor": "start", transform: "rotate(-90 " + middle + " " + (first - 5) + ")", ...(now ? { "font-weight": "bold" } : {}) })));
    });
    for (let head = 0; head < heads; ++head) {
      const y = first + head * high, p = probs(state, head, state.word), now = head === state.head;
      const row = p.map((one, key) => (masked(state, key) ? line(left + key * cell, y, left + (key + 1) * cell, y + high)
        : box(left + key * cell, y, cell, high, { ...paint(one), stroke: "none", "data-pick": "head=" + head + "&cell=" + key })));
      parts.push(group({ "data-pick": "head=" + head + "&cell=-1" }, box(0, y, left + cell * tokens.length, high, { stroke: "none", fill: "var(--x-paper)" }),
        text(left - 6, y + 13, "head " + head, { "text-anchor": "end", ...(now ? { "font-weight": "bold" } : {}) }), ...row));
    }
    for (let head = 0; head <= heads; ++head) parts.push(line(left, first + head * high, left + cell * tokens.length, first + head * high));
    for (let key = 0; key <= tokens.length; ++key) parts.push(line(left + key * cell, first, left + key * cell, first + heads * high));
    parts.push(box(left, first + state.head * high, cell * tokens.length, high, { stroke: "ink", "stroke-width": 2.5 }));
    if (state.cell >= 0) parts.push(box(left + state.cell * cell, first + state.head * high, cell, high, { stroke: "accent", "stroke-width": 3 }));
    return { svg: parts, height: 84 + heads * high + 4 };
  }

  const NOTES = [
    "A query is the question of a word; each of the " + heads + " heads asks its own. In each head the probabilities of all words sum to 1.",
    "[CLS] is a mark that this model puts before every text. A head that finds nothing often looks there.",
    "A click keeps a word or a cell.",
  ];

  function draw(state, width) {
    const p = probs(state, state.head, state.word), above = words(state, p, width), below = map(state, above.height, width);
    const lines = NOTES.flatMap((note) => wrapped(note, Math.floor(width / 6.4))), top = above.height + below.height + 16;
    const notes = lines.map((one, k) => text(0, top + 17 * k, one, { "text-anchor": "start" }));
    const order = tokens.map((_, key) => key).sort((a, b) => p[b] - p[a]).slice(0, 3).filter((key) => p[key] >= 0.005);
    return { svg: [...above.svg, ...below.svg, ...notes].join(""), height: top + 17 * lines.length - 8,
      says: sentence(state, p, order, state.mask === "causal" && state.word < tokens.length - 1) };
  }
  const sentence = (state, p, keys, masks) => {
    const named = (key) => quoted(key) + " (" + p[key].toFixed(2) + ")";
    return "In head " + state.head + " the query " + quoted(state.word) + " looks at " + keys.map(named).join(", ") + "." +
      (masks ? " The words after " + quoted(state.word) + " are masked: they get probability 0, as in a model that writes the next word." : "") +
      (state.scale === "one" && p[keys[0]] >= 0.9 ? " Without the scale nearly all goes to one word." : "") +
      (state.cell < 0 ? "" : " The framed cell: " + quoted(state.cell) + " gets " + p[state.cell].toFixed(2) + ".");
  };
  const long = tokens.map((_, key) => key).sort((a, b) => tokens[b].length - tokens[a].length);

  Explorer.define({
    name: "alice", title: "Alice, pointed at", main: "word", second: "head", hover: true, draw, probs, count: tokens.length, heads,
    longest: sentence({ head: 10, word: long[0], cell: long[0], scale: "one" }, tokens.map(() => 1), long.slice(0, 3), true),
    fields: [
      { key: "word", label: "Word", value: 11, wide: 9, shown: (word) => tokens[word], range: () => [0, tokens.length - 1] },
      { key: "head", label: "Head", value: 3, choices: [...Array(heads).keys()].map((head) => [head, String(head)]) },
      { key: "mask", label: "Mask", value: "none", choices: [["none", "none"], ["causal", "causal"]] },
      { key: "scale", label: "Scores", value: "root", choices: [["root", "\u00d7 1/\u221ad"], ["one", "\u00d7 1 (no scale)"]] },
      { key: "cell", label: "Cell", value: -1, range: () => [-1, tokens.length - 1], when: () => false },
    ],
  });
})();
