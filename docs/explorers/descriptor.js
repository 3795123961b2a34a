// What wgmma reads of shared memory with a descriptor: a tile of 128 x 128 elements of 16 bits, two panels of 128 rows
// of 128 bytes, swizzled. The rules are tested against the kernels' tiles and the lab's wgmma.
(() => {
  "use strict";
  const { text, box, group, titled, hue } = Explorer;
  const ROWS = 128, ROW_BYTES = 128, CHUNK = 16, DEPTH = 16;

  // 16-byte piece p of a row stands at place p ^ (row % 8).
  const swizzled = (byte) => byte ^ ((byte >> 3) & 0x70);
  const tileAt = (rows, row, col) =>
    swizzled(Math.floor(col / 64) * rows * ROW_BYTES + row * ROW_BYTES + 2 * (col % 64));

  // Bits 0 to 13, 16 to 29 and 32 to 45: addresses and distances in units of 16 bytes; 62 and 63: the swizzle.
  const bits = ({ start, leading, stride }) =>
    (BigInt(start >> 4) | (BigInt(leading >> 4) << 16n) | (BigInt(stride >> 4) << 32n) | (1n << 62n)).toString(16);

  // The byte of element (k, i) of operand B; i is its column.
  function byteOf({ major, start, leading, stride }, k, i) {
    const [piece, within] = major === "k" ? [k, k % 8] : [i, i % 8];
    const first = piece - within;
    const plain = major === "k"
      ? start + Math.floor(i / 8) * stride + (i % 8) * ROW_BYTES + 2 * first
      : start + Math.floor(i / 64) * leading + Math.floor(k / 8) * stride + (k % 8) * ROW_BYTES + 2 * (first % 64);
    return swizzled(plain) + 2 * within;
  }
  const columns = (major) => (major === "k" ? 64 : 128);

  function described(state) {
    const col = state.major === "k" ? state.col : 0;
    const start = Math.floor(col / 64) * ROWS * ROW_BYTES + state.row * ROW_BYTES + 2 * (col % 64);
    return { major: state.major, start, leading: state.major === "k" ? 0 : state.leading, stride: state.stride, row: state.row, col };
  }

  function draw(state, width) {
    const fields = described(state), n = columns(state.major);
    const pieces = new Map();  // byte of a 16-byte piece -> [colour, words]
    let wrong = 0, outside = 0;
    for (let k = 0; k < DEPTH; ++k) {
      for (let i = 0; i < n; ++i) {
        const byte = byteOf(fields, k, i);
        const wanted = state.major === "k" ? tileAt(ROWS, fields.row + i, fields.col + k - (k % 8)) + 2 * (k % 8)
          : tileAt(ROWS, fields.row + k, i - (i % 8)) + 2 * (i % 8);
        if (byte !== wanted) ++wrong;
        if (byte >= 2 * ROWS * ROW_BYTES) ++outside;
        const at = byte - (byte % CHUNK);
        if (!pieces.has(at)) {
          pieces.set(at, state.major === "k" ? [Math.floor(k / 8), "column " + i + " of B, k " + k + " to " + (k + 7)]
            : [k, "row k = " + k + " of B, columns " + i + " to " + (i + 7)]);
        }
      }
    }
    const left = 34, gap = 14, cell = Math.min(26, (width - left - gap - 2) / 16), high = 5, top = 106;
    const parts = [];
    const entries = [["start, bits", fields.start, "0 to 13"], ["leading, bits", fields.leading, "16 to 29"],
      ["stride, bits", fields.stride, "32 to 45"], ["swizzle, bits", "128 bytes", "62, 63"]];
    entries.forEach(([name, value, place], j) => {
      const x = width < 560 ? (j % 2) * (width / 2) : (j * width) / 4, y = width < 560 ? 14 + 34 * Math.floor(j / 2) : 14;
      const field = typeof value === "number" ? value + " / 16 = " + value / 16 : "1: " + value;
      parts.push(text(x, y, name + " " + place, { "text-anchor": "start", fill: "quiet" }),
        text(x, y + 15, field, { "text-anchor": "start" }));
    });
    for (let panel = 0; panel < 2; ++panel) {
      const x = left + panel * (8 * cell + gap);
      parts.push(text(x, top - 8, "columns " + 64 * panel + " to " + (64 * panel + 63), { "text-anchor": "start", fill: "quiet" }));
      for (let row = 0; row < ROWS; ++row) {
        if (panel === 0 && row % 16 === 0) parts.push(text(left - 5, top + row * high + 9, row, { "text-anchor": "end", fill: "quiet" }));
        for (let place = 0; place < 8; ++place) {
          const byte = panel * ROWS * ROW_BYTES + row * ROW_BYTES + place * CHUNK, piece = pieces.get(byte);
          if (!piece) continue;
          parts.push(titled("byte " + byte + ": " + piece[1], box(x + place * cell, top + row * high, cell - 0.5, high - 0.5,
            { ...hue(state.major === "k" ? 4 * piece[0] + 1 : piece[0], state.major === "k" ? 8 : 16), "fill-opacity": 0.8, stroke: "none" })));
        }
      }
      parts.push(box(x, top, 8 * cell, ROWS * high));
    }
    const says = "Descriptor 0x" + bits(fields) + ". " + (wrong === 0
      ? "wgmma reads " + (state.major === "k"
        ? "rows " + fields.row + " to " + (fields.row + n - 1) + ", columns " + fields.col + " to " + (fields.col + 15) + " of the tile, summed over columns."
        : "rows " + fields.row + " to " + (fields.row + 15) + " of all 128 columns of the tile, summed over rows.")
      : wrong + " of " + DEPTH * n + " elements are not those of the tile" + (outside ? "; " + outside + " lie outside of it" : "") + ".");
    return { svg: parts.join(""), height: top + ROWS * high + 6, says };
  }

  Explorer.define({
    name: "descriptor", title: "Swizzle and matrix descriptor", main: "row", draw, bits, byteOf, tileAt, columns, described,
    fields: [
      { key: "major", label: "Operand B", value: "k", choices: [["k", "K-major: K of Q Kᵀ"], ["mn", "MN-major: V of P V"]] },
      { key: "row", label: "First row", value: 0, step: 8, range: (state) => [0, state.major === "k" ? 64 : 112] },
      { key: "col", label: "First column", value: 16, step: 16, range: () => [0, 112], when: (state) => state.major === "k" },
      { key: "stride", label: "Stride distance, bytes", value: 1024, choices: [[512, "512"], [1024, "1024"], [2048, "2048"]] },
      { key: "leading", label: "Leading distance, bytes", value: 16384, choices: [[0, "0"], [8192, "8192"], [16384, "16384"]],
        when: (state) => state.major === "mn" },
    ],
  });
})();
