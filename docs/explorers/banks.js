// A warp's request to shared memory and the wavefronts that serve it. serve() follows common/lab/banks.cpp; a test
// compares the two for every state.
(() => {
  "use strict";
  const { text, box, line, group, titled, hue } = Explorer;
  const LANES = 32, BANKS = 32, ROW_BYTES = 128;

  // The byte that lane reads: element lane * stride of a tile with rows of 128 bytes.
  function addressOf(state, lane) {
    const cols = ROW_BYTES / state.width;
    const index = lane * state.stride;
    const row = Math.floor(index / cols), col = index % cols;
    return (row * (cols + state.pad) + (state.swizzle === "xor" ? col ^ (row % cols) : col)) * state.width;
  }

  // Lanes that are served together: all of them up to 4 bytes; halves of 8 bytes and quarters of 16, two of which go
  // together where each lane reads what lane ^ 1, or lane ^ 2, reads.
  function parts(address, width) {
    if (width <= 4) return [[0, LANES]];
    const size = width === 8 ? 16 : 8, result = [];
    for (let first = 0; first < LANES; first += 2 * size) {
      const pairs = (distance) => {
        for (let lane = first; lane < first + 2 * size; ++lane) {
          if (address[lane] !== address[lane ^ distance]) return false;
        }
        return true;
      };
      if (pairs(1) || pairs(2)) result.push([first, first + 2 * size]);
      else result.push([first, first + size], [first + size, first + 2 * size]);
    }
    return result;
  }

  // [{round, word, lanes}]: a bank hands out one word in a round.
  function serve(state) {
    const address = Array.from({ length: LANES }, (_, lane) => addressOf(state, lane));
    const served = [];
    let rounds = 0;
    for (const [first, last] of parts(address, state.width)) {
      const words = new Map();
      for (let lane = first; lane < last; ++lane) {
        for (let word = address[lane] / 4; word < (address[lane] + state.width) / 4; ++word) {
          words.set(word, [...(words.get(word) || []), lane]);
        }
      }
      const used = new Array(BANKS).fill(0);
      for (const word of [...words.keys()].sort((a, b) => a - b)) {
        served.push({ round: rounds + used[word % BANKS]++, word, lanes: words.get(word) });
      }
      rounds += Math.max(...used);
    }
    return { served, wavefronts: rounds, best: (LANES * state.width) / ROW_BYTES };
  }

  function draw(state, width) {
    const { served, wavefronts, best } = serve(state);
    const left = 44, cell = (width - left - 2) / BANKS, high = 20, top = 82;
    const parts = [text(left - 6, 16, "lane", { "text-anchor": "end", fill: "quiet" }),
      text(left - 6, 76, "bank", { "text-anchor": "end", fill: "quiet" })];
    for (let k = 0; k < BANKS; ++k) {
      const x = left + k * cell;
      parts.push(box(x + 0.5, 3, cell - 1, 18, { ...hue(k, LANES), stroke: "none" }));
      if (cell >= 18 || k % 4 === 0) {
        parts.push(cell >= 18 ? text(x + cell / 2, 16, k) : text(x + cell / 2, 35, k), text(x + cell / 2, 76, k, { fill: "quiet" }));
      }
      parts.push(line(x, top, x, top + high * wavefronts));
    }
    parts.push(line(width - 2, top, width - 2, top + high * wavefronts));
    for (let round = 0; round < wavefronts; ++round) {
      parts.push(text(left - 6, top + high * round + 14, round + 1, { "text-anchor": "end" }));
    }
    for (const { round, word, lanes } of served) {
      const lane = lanes[0], bank = word % BANKS;
      const words = "wavefront " + (round + 1) + ", bank " + bank + ", byte " + 4 * word + ": lane" +
        (lanes.length > 1 ? "s " : " ") + lanes.join(", ");
      parts.push(group({ "data-from": "translate(" + (left + lane * cell) + " 2)",
        transform: "translate(" + (left + bank * cell) + " " + (top + high * round) + ")" },
      titled(words, box(0.5, 0.5, cell - 1, high - 1, { ...hue(lane, LANES), stroke: "none" }),
        cell >= 18 ? text(cell / 2, 14, lane) : "")));
    }
    const says = (wavefronts === 1 ? "1 wavefront" : wavefronts + " wavefronts") +
      (wavefronts > best ? "; " + best + " would do without bank conflicts." : ": no bank conflict.") +
      " A row below is one wavefront; a cell has the colour of its lane" +
      (served.some(({ lanes }) => lanes.length > 1) ? ", or of the first of the lanes that read the same word." : ".");
    return { svg: parts.join(""), height: top + high * wavefronts + 6, says };
  }

  Explorer.define({
    name: "banks", title: "Banks of shared memory", main: "stride", draw, serve,
    fields: [
      { key: "stride", label: "Stride between lanes, elements", value: 32, still: 8, range: () => [0, 33] },
      { key: "width", label: "Bytes per lane", value: 4, choices: [[4, "4"], [8, "8"], [16, "16"]] },
      { key: "pad", label: "Padding of a row, elements", value: 0, choices: [[0, "none"], [1, "1"], [2, "2"]] },
      { key: "swizzle", label: "Swizzle", value: "none", choices: [["none", "none"], ["xor", "column XOR row"]] },
    ],
  });
})();
