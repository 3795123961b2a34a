// Ring attention step by step: which rank holds whose keys, which scores it computes, and how long the others wait
// for the busiest rank. owner(), pieces() and pairs() follow lesson 06's ring and are tested against it.
(() => {
  "use strict";
  const { text, box, titled, hue } = Explorer;
  const PIECE = 1024;  // positions; each rank owns two pieces

  const zigzag = (state) => state.mask === "causal" && state.order === "zig-zag";
  const pieces = (state, rank) => (zigzag(state) ? [rank, 2 * state.ranks - 1 - rank] : [2 * rank, 2 * rank + 1]);
  const owner = (state, rank, step) => (rank - step + state.ranks) % state.ranks;
  // Visible pairs of the queries of one piece and the keys of another.
  function pairsOf(state, queries, keys) {
    if (state.mask === "none" || keys < queries) return PIECE * PIECE;
    return keys === queries ? (PIECE * (PIECE + 1)) / 2 : 0;
  }
  // Of one head, that a rank computes in a step.
  function pairs(state, rank, step) {
    let sum = 0;
    for (const queries of pieces(state, rank)) {
      for (const keys of pieces(state, owner(state, rank, step))) sum += pairsOf(state, queries, keys);
    }
    return sum;
  }
  // work: of each step those of all ranks; times: a step takes as long as its busiest rank.
  function play(state) {
    const ranks = [...Array(state.ranks).keys()];
    const work = ranks.map((step) => ranks.map((rank) => pairs(state, rank, step)));
    return { work, times: work.map((of) => Math.max(...of)) };
  }
  // The part of the time up to a step in which ranks compute.
  function busy({ work, times }, step) {
    const total = (list) => list.slice(0, step + 1).flat().reduce((a, b) => a + b, 0);
    return total(work) / (work.length * total(times));
  }

  function draw(state, width) {
    const { ranks, step } = state, all = play(state), { work, times } = all;
    const count = 2 * ranks, left = 64, cell = Math.min(24, (width - left - 4) / count), top = 40, parts = [];
    const rankOf = [], label = ranks > 4 && width < 500 ? "" : "keys of rank ";
    for (let rank = 0; rank < ranks; ++rank) for (const piece of pieces(state, rank)) rankOf[piece] = rank;
    parts.push(text(left + (count * cell) / 2, 14, label ? "keys, by owner" : "keys", { "font-weight": "bold" }),
      text(left - 8, 30, "queries", { "text-anchor": "end", "font-weight": "bold" }));
    for (let keys = 0; keys < count; ++keys) {
      const x = left + keys * cell;
      parts.push(box(x + 1, 20, cell - 2, 16, { ...hue(rankOf[keys], ranks), stroke: "none" }), text(x + cell / 2, 32, rankOf[keys]));
    }
    for (let queries = 0; queries < count; ++queries) {
      const y = top + queries * cell, rank = rankOf[queries];
      parts.push(text(left - 8, y + cell / 2 + 4, "rank " + rank, { "text-anchor": "end" }));
      for (let keys = 0; keys < count; ++keys) {
        const seen = pairsOf(state, queries, keys) / (PIECE * PIECE);
        if (seen === 0) continue;  // masked
        const when = (rank - rankOf[keys] + ranks) % ranks, x = left + keys * cell;
        const colour = hue(rankOf[keys], ranks), now = when === step;
        parts.push(titled("rank " + rank + ", keys of rank " + rankOf[keys] + ": step " + (when + 1),
          box(x + 1, y + 1, cell - 2, cell - 2, { ...colour, "fill-opacity": when < step ? 0.3 : now ? 0.65 : 0.03,
            ...(now ? { stroke: "ink", "stroke-width": 2 } : {}), ...(seen < 1 ? { "stroke-dasharray": "3 2" } : {}) })));
      }
    }
    const below = top + count * cell + 34, high = 26;
    // As long as the slower of the two orders takes, so that both can be compared.
    const longest = play({ ...state, order: "contiguous" }).times.reduce((a, b) => a + b, 0);
    const unit = (width - left - 6) / longest;
    parts.push(text(left, below - 10, "time: whose keys each rank holds", { "text-anchor": "start", "font-weight": "bold" }));
    for (let rank = 0; rank < ranks; ++rank) {
      const y = below + rank * high;
      parts.push(text(left - 8, y + 17, "rank " + rank, { "text-anchor": "end" }));
      let x = left;
      for (let at = 0; at < ranks; ++at) {
        const held = owner(state, rank, at), full = times[at] * unit, own = work[at][rank] * unit;
        const look = at < step ? 0.3 : at === step ? 0.65 : 0.03;
        parts.push(titled("step " + (at + 1) + ": rank " + rank + " holds the keys of rank " + held +
          (own < full ? own > 0 ? " and waits for the busiest rank" : ", sees none of them, and waits" : ""),
        box(x + 1, y + 2, full - 2, high - 4, { "stroke-dasharray": "3 2" }),
        own > 0 ? box(x + 1, y + 2, own - 2, high - 4, { ...hue(held, ranks), "fill-opacity": look,
          ...(at === step ? { stroke: "ink", "stroke-width": 2 } : {}) }) : "",
        full > 12 ? text(x + (own > 0 ? Math.max(own, 14) : full) / 2, y + 17, held, own > 0 ? {} : { fill: "quiet" }) : ""));
        x += full;
      }
    }
    const now = work[step], waiting = now.filter((one) => one < times[step]).length;
    const says = "Step " + (step + 1) + " of " + ranks + ": " +
      (step === 0 ? "each rank holds its own keys"
        : "each rank holds the keys of the rank " + (step === 1 ? "before it" : step + " places before it")) +
      (step + 1 < ranks ? ", and sends them on. " : "; nothing is sent any more. ") +
      (waiting === 0 ? "All ranks have equal work. " : waiting + (waiting === 1 ? " rank waits" : " ranks wait") + " for the busiest. ") +
      "So far ranks compute " + Math.round(100 * busy(all, step)) + " % of the time.";
    return { svg: parts.join(""), height: below + ranks * high + 8, says };
  }

  Explorer.define({
    name: "ring", title: "Ring attention, step by step", main: "step", draw, pieces, owner, pairs, play, busy,
    fields: [
      { key: "ranks", label: "Ranks", value: 4, choices: [[2, "2"], [3, "3"], [4, "4"], [8, "8"]] },
      { key: "mask", label: "Mask", value: "causal", choices: [["none", "none"], ["causal", "causal"]] },
      { key: "order", label: "Pieces", value: "contiguous", choices: [["contiguous", "contiguous"], ["zig-zag", "zig-zag"]],
        when: (state) => state.mask === "causal" },
      { key: "step", label: "Step", value: 1, play: 1, shown: (value) => value + 1, range: (state) => [0, state.ranks - 1] },
    ],
  });
})();
