// The backward pass tile by tile: a block owns keys and visits tiles of queries. visits() and rank() follow lesson 06's
// kernels and are tested against them. In a step each block computes one tile, or waits: an order, not times.
(() => {
  "use strict";
  const { text, box, line, titled, hue } = Explorer;
  const BLOCK_N = 128;

  const shape = ({ length, dim }) => {
    const blockM = dim === 64 ? 128 : 64;
    return { blockM, blocks: length / BLOCK_N, tiles: length / blockM };
  };
  function visits(state, block) {
    const { blockM, tiles } = shape(state);
    const first = state.mask === "causal" ? Math.floor((block * BLOCK_N) / blockM) : 0;
    return Array.from({ length: tiles - first }, (_, i) => first + i);
  }
  // How many blocks add to a tile of queries before this one: those with later keys that its last query sees.
  function rank(state, block, tile) {
    const visible = state.mask === "causal" ? (tile + 1) * shape(state).blockM : state.length;
    return Math.floor((visible - 1) / BLOCK_N) - block;
  }

  // steps: of each block {tile, waits} or null; adds: of each tile of queries [block, step] in the order of arrival.
  function play(state) {
    const { blocks, tiles } = shape(state);
    const lists = Array.from({ length: blocks }, (_, block) => visits(state, block));
    const at = new Array(blocks).fill(0), adds = Array.from({ length: tiles }, () => []), steps = [];
    while (at.some((position, block) => position < lists[block].length)) {
      const before = adds.map((of) => of.length), now = [];
      const coming = [...at.keys()];
      // Without an order, blocks that arrive together add in any order: another one in each run.
      const key = (block) => ((block + 1) * 7919 * (state.run * 31 + steps.length + 3)) % 101;
      if (state.order === "atomics") coming.sort((a, b) => key(a) - key(b));
      for (const block of coming) {
        const tile = lists[block][at[block]];
        if (tile === undefined) {
          now[block] = null;
          continue;
        }
        const waits = state.order === "ordered" && before[tile] !== rank(state, block, tile);
        now[block] = { tile, waits };
        if (waits) continue;
        adds[tile].push([block, steps.length]);
        ++at[block];
      }
      steps.push(now);
    }
    return { steps, adds };
  }

  function draw(state, width) {
    const { blocks, tiles } = shape(state), { steps, adds } = play(state);
    const shown = Math.min(state.step, steps.length - 1), now = steps[shown];
    const left = 70, gap = 20, cell = Math.min(30, (width - left - gap - 4) / (2 * blocks)), high = 24, top = 62;
    const parts = [], right = left + blocks * cell + gap;
    parts.push(text(left + (blocks * cell) / 2, 14, blocks * cell > 190 ? "blocks of keys: dK, dV" : "dK, dV", { "font-weight": "bold" }),
      text(right + (blocks * cell) / 2, 14, blocks * cell > 190 ? "parts of dQ, as they are added" : "dQ: added parts", { "font-weight": "bold" }),
      text(left - 6, 34, "block", { "text-anchor": "end" }), text(left - 6, 50, "tiles in it", { "text-anchor": "end", fill: "quiet" }));
    const done = new Array(blocks).fill(0);
    adds.flat().forEach(([block, step]) => { if (step <= shown) ++done[block]; });
    for (let block = 0; block < blocks; ++block) {
      const x = left + block * cell;
      parts.push(box(x + 1, 20, cell - 2, 18, { ...hue(block), stroke: "none" }), text(x + cell / 2, 33, block),
        text(x + cell / 2, 50, done[block], { fill: "quiet" }));
    }
    for (let tile = 0; tile < tiles; ++tile) {
      const y = top + tile * high;
      parts.push(text(left - 6, y + 16, "queries " + tile, { "text-anchor": "end" }));
      for (let block = 0; block < blocks; ++block) {
        const x = left + block * cell, added = adds[tile].find(([one]) => one === block);
        if (!added) continue;  // masked: no tile
        const current = now[block] && now[block].tile === tile, past = added[1] < shown || (added[1] === shown && !current);
        const words = "queries " + tile + ", block " + block + (current ? (now[block].waits ? ": waits to add to dQ" : ": computed in this step") : "");
        parts.push(titled(words, box(x + 1, y + 1, cell - 2, high - 2,
          current ? { ...hue(block), "fill-opacity": now[block].waits ? 0.12 : 0.6, stroke: now[block].waits ? "bad" : "ink", "stroke-width": 2, ...(now[block].waits ? { "stroke-dasharray": "3 2" } : {}) }
            : { ...hue(block), "fill-opacity": past ? 0.28 : 0.03 })));
        if (current && now[block].waits) parts.push(text(x + cell / 2, y + 16, "…", { fill: "bad" }));
      }
      adds[tile].filter(([, step]) => step <= shown).forEach(([block, step], place) => {
        const x = right + place * cell;
        parts.push(titled("block " + block + ", step " + (step + 1), box(x + 1, y + 1, cell - 2, high - 2,
          { ...hue(block), stroke: step === shown ? "ink" : "line", "stroke-width": step === shown ? 2 : 1 }), text(x + cell / 2, y + 16, block)));
      });
      parts.push(line(right, y + high, right + blocks * cell, y + high));
    }
    const works = now.filter((one) => one && !one.waits).length, waits = now.filter((one) => one && one.waits).length;
    const targets = new Set(now.filter((one) => one && !one.waits).map((one) => one.tile)).size;
    const says = "Step " + (shown + 1) + " of " + steps.length + ": " + works + (works === 1 ? " block computes a tile" : " blocks compute a tile each") +
      ". dK and dV stay in the block; the parts of dQ go to " + targets + (targets === 1 ? " tile" : " tiles") + " of queries" +
      (state.order === "ordered" ? ", in the order of the ranks" + (waits ? "; " + waits + (waits === 1 ? " block waits." : " blocks wait.") : ".")
        : targets < works ? " by atomic additions: those of one step may come in any order." : " by atomic additions.");
    return { svg: parts.join(""), height: top + tiles * high + 8, says };
  }

  Explorer.define({
    name: "backward", title: "The backward pass, tile by tile", main: "step", draw, shape, visits, rank, play,
    fields: [
      { key: "length", label: "Queries and keys", value: 1024, still: 512, choices: [[512, "512"], [1024, "1024"]] },
      { key: "dim", label: "head_dim", value: 128, choices: [[64, "64"], [128, "128"]] },
      { key: "mask", label: "Mask", value: "none", choices: [["none", "none"], ["causal", "causal"]] },
      { key: "order", label: "Sums of dQ", value: "atomics", still: "ordered", choices: [["atomics", "atomics (step 10)"], ["ordered", "ordered (step 11)"]] },
      { key: "run", label: "Run", value: 1, choices: [[1, "1"], [2, "2"], [3, "3"]], when: (state) => state.order === "atomics" },
      { key: "step", label: "Step", value: 3, still: 1, play: 1.5, shown: (value) => value + 1, range: (state) => [0, play(state).steps.length - 1] },
    ],
  });
})();
