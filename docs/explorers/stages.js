// A ring of stages that can be broken: a producer and two consumer warps, one operation at a time. The rule of an
// mbarrier is here, and a test compares what each warp does with what the lab recorded; what the lab says of each
// mistake stands in the data (data.py).
(() => {
  "use strict";
  const { text, box, group, hue, wrapped } = Explorer;
  const rings = window.explorerData.stages;
  const STAGES = 2, TILES = 6, SIZE = 512;  // bytes of a tile
  const FLIGHT = 4;  // turns that a copy takes
  const ringOf = (state) => rings.find((ring) => ring.name === state.mistake);

  // What each thread does: {at: barrier, call, words}, as in docs/explorers/tests/ring.cpp.
  function programs(ring) {
    const producer = [], consumers = [[], []];
    for (let tile = 0; tile < TILES; ++tile) {
      const stage = tile % STAGES, round = Math.floor(tile / STAGES);
      const full = "full[" + stage + "]", empty = "empty[" + stage + "]";
      const wait = (at, parity) => ({ call: "wait", at, parity, words: at + ".wait(" + parity + ")" });
      producer.push(wait(empty, (round + ring.producer) % 2),
        { call: "expect", at: full, bytes: ring.bytes, words: full + ".arrive_and_expect(" + ring.bytes + ")" },
        { call: "load", at: full, stage, tile, bytes: SIZE, words: "bulk_load of tile " + tile });
      consumers.forEach((consumer, warp) => {
        consumer.push(wait(full, (round + ring.consumer) % 2), { call: "read", stage, tile, words: "read tile " + tile });
        if (warp < ring.releasing) consumer.push({ call: "arrive", at: empty, bytes: 0, words: empty + ".arrive()" });
      });
    }
    return [producer, ...consumers];
  }
  const NAMES = ["producer", "warp 1", "warp 2"];

  // All states: after each operation the barriers, the stages, the copies in flight, how far each thread is, and what
  // happened. Threads take turns; one that cannot go on waits.
  function run(ring) {
    const todo = programs(ring), barriers = {}, stages = [], next = todo.map(() => 0), steps = [];
    const log = todo.map(() => []);  // [call, barrier, phases that have ended, of a wait, or bytes]
    let copies = [], turn = 0;
    for (let stage = 0; stage < STAGES; ++stage) {
      barriers["full[" + stage + "]"] = { of: 1, missing: 1, bytes: 0, phase: 0 };
      barriers["empty[" + stage + "]"] = { of: ring.arrivals, missing: ring.arrivals, bytes: 0, phase: 0 };
      stages.push({ tile: null, landed: false });
    }
    const open = ({ call, at, parity }) => call !== "wait" || barriers[at].phase % 2 !== parity;
    const advance = (at) => {
      const one = barriers[at];
      if (one.missing > 0 || one.bytes > 0) return " Its phase " + one.phase + " waits for " + [
        one.missing > 0 ? one.missing + (one.missing > 1 ? " arrivals" : " arrival") : "", one.bytes > 0 ? one.bytes + " bytes" : ""].filter(Boolean).join(" and ") + ".";
      one.missing = one.of;
      return " This ends its phase " + one.phase++ + ".";
    };
    const keep = (who, words, wrong = false) => steps.push({ who, words, wrong, barriers: JSON.parse(JSON.stringify(barriers)),
      stages: stages.map((one) => ({ ...one })), copies: copies.map((one) => ({ ...one })), next: [...next],
      waits: todo.map((list, i) => next[i] < list.length && !open(list[next[i]])) });
    keep(-1, "The barriers are initialised; each is in its phase 0.");
    const act = {
      wait: (name, one) => [name + ": " + one.words + " returns: the phase bit of " + one.at + " is " + barriers[one.at].phase % 2 + "."],
      expect(name, one) {
        --barriers[one.at].missing;
        barriers[one.at].bytes += one.bytes;
        return [name + ": " + one.words + "." + advance(one.at)];
      },
      load(name, one) {
        stages[one.stage] = { tile: one.tile, landed: false };
        copies.push({ ...one, lands: turn + FLIGHT });
        return [name + ": the copy of tile " + one.tile + " to stage " + one.stage + " begins."];
      },
      read(name, one) {
        const { tile, landed } = stages[one.stage], right = tile === one.tile && landed;
        return [name + " reads tile " + one.tile + " in stage " + one.stage + (right ? "." : ", but " +
          (tile === null ? "nothing is there." : tile !== one.tile ? "tile " + tile + " is there." : "it has not landed.")), !right];
      },
      arrive(name, one) {
        --barriers[one.at].missing;
        return [name + ": " + one.words + "." + advance(one.at)];
      },
    };
    for (let idle = 0; idle < FLIGHT + 1; ++turn) {
      ++idle;
      for (const copy of copies.filter(({ lands }) => lands <= turn)) {
        copies = copies.filter((one) => one !== copy);
        if (stages[copy.stage].tile === copy.tile) stages[copy.stage].landed = true;
        barriers[copy.at].bytes -= copy.bytes;
        keep(NAMES.length, "Tile " + copy.tile + " has landed in stage " + copy.stage + " and reports " + copy.bytes + " bytes to " + copy.at + "." + advance(copy.at));
        idle = 0;
      }
      todo.forEach((list, i) => {
        const one = list[next[i]];
        if (!one || !open(one)) return;
        ++next[i];
        if (one.at) log[i].push([one.call === "expect" ? "arrive" : one.call, one.at, one.call === "wait" ? barriers[one.at].phase : one.bytes]);
        keep(i, ...act[one.call](NAMES[i], one));
        idle = 0;
      });
    }
    const stuck = todo.map((list, i) => (next[i] < list.length ? NAMES[i] + " at " + list[next[i]].words : "")).filter(Boolean);
    keep(-1, stuck.length ? "A deadlock. These wait for ever: " + stuck.join(", ") + "." : "All have ended.", stuck.length > 0);
    return { steps, todo, log, stuck: stuck.length > 0 };
  }
  const known = new Map();
  const runOf = (state) => known.get(state.mistake) || known.set(state.mistake, run(ringOf(state))).get(state.mistake);

  // ---------------------------------------------------------------- the picture

  // A stage with its two barriers.
  function card(now, stage, x, width) {
    const parts = [box(x, 1, width, 142, { rx: 4 }), text(x + 8, 18, "stage " + stage, { "text-anchor": "start", "font-weight": "bold" })];
    const { tile, landed } = now.stages[stage], left = x + 68, wide = (width - 72) / 3;
    parts.push(box(x + 8, 26, width - 16, 28, tile === null || !landed ? { "stroke-dasharray": "4 3" } : hue(tile, TILES)),
      text(x + width / 2, 45, tile === null ? "empty" : "tile " + tile + (landed ? "" : " in flight")));
    (width < 300 ? ["bit", "left", "bytes"] : ["phase bit", "arrivals left", "bytes left"]).forEach((words, k) => parts.push(text(left + wide * (k + 0.5), 74, words, { fill: "quiet" })));
    ["full", "empty"].forEach((kind, row) => {
      const name = kind + "[" + stage + "]", one = now.barriers[name], y = 82 + 29 * row;
      parts.push(text(x + 8, y + 18, name, { "text-anchor": "start" }));
      [one.phase % 2 + "", one.missing, kind === "full" ? one.bytes : ""].forEach((value, k) => {
        if (value !== "") parts.push(box(left + wide * k + 2, y, wide - 4, 25), text(left + wide * (k + 0.5), y + 17, value));
      });
    });
    return parts;
  }

  function draw(state, width) {
    const { steps, todo, stuck } = runOf(state), now = steps[Math.min(state.step, steps.length - 1)], gap = 10, wide = (width - gap) / 2;
    const parts = [...card(now, 0, 1, wide - 1), ...card(now, 1, wide + gap, wide - 1)], last = state.step === steps.length - 1;
    let y = 156;
    // A click on a row leads to what it does next.
    const row = (i, name, words, quiet, note = "") => {
      const then = steps.findIndex(({ who }, step) => step > state.step && who === i);
      parts.push(group({ "data-row": i, ...(then < 0 ? {} : { "data-pick": "step=" + then }) },
        box(1, y, width - 2, 28, { rx: 4, fill: "var(--x-paper)", ...(now.who === i ? { stroke: now.wrong ? "bad" : "ink", "stroke-width": 2.5 } : {}) }),
        text(9, y + 19, name, { "text-anchor": "start", "font-weight": "bold" }),
        text(80, y + 19, words, { "text-anchor": "start", fill: quiet ? "quiet" : "ink" }),
        text(width - 9, y + 19, note, { "text-anchor": "end", "font-weight": "bold", fill: last ? "bad" : "ink" })));
      y += 33;
    };
    NAMES.forEach((name, i) => {
      const one = todo[i][now.next[i]];
      row(i, name, one ? "next: " + one.words : "has ended", !one, now.waits[i] ? (last ? "hangs" : "waits") : "");
    });
    row(NAMES.length, "copies", now.copies.map(({ tile }) => "tile " + tile).join(", ") || "none in flight", !now.copies.length);
    y += 23;
    parts.push(text(2, y, "The lab says of this kernel", { "text-anchor": "start", "font-weight": "bold" }));
    for (const words of ringOf(state).says) {
      y += 4;
      for (const part of wrapped(words, Math.floor(width / 6.4))) parts.push(text(2, y += 17, part, { "text-anchor": "start" }));
    }
    return { svg: parts.join(""), height: y + 10, says: "Step " + state.step + " of " + (steps.length - 1) + ". " + now.words +
      (last && !stuck && ringOf(state).says[0].startsWith("deadlock") ? " In the lab, which runs the threads in another order, they hang." : "") };
  }

  // What the lab recorded of each warp, in the form of run()'s log: for the test.
  const CALLS = { 2: "arrive", 3: "wait", 4: "load" }, BARRIERS = ["full[0]", "empty[0]", "full[1]", "empty[1]"];
  const recorded = (ring) => ring.warps.map((warp) => warp.filter(([kind]) => CALLS[kind]).map(([kind, barrier, count, bytes]) =>
    [CALLS[kind], BARRIERS[barrier], kind === 3 ? count : bytes]));

  const LABELS = { none: "none", "producer parity": "the producer's parity", "consumer parity": "the consumers' parity",
    "dropped arrival": "warp 2 does not arrive", "one arrival": "empty expects 1 arrival",
    "more bytes": "full expects 1024 bytes", "fewer bytes": "full expects 256 bytes" };
  Explorer.define({
    name: "stages", title: "A ring that can be broken", main: "step", draw, rings, run, recorded,
    fields: [
      { key: "mistake", label: "Mistake", value: "none", choices: rings.map(({ name }) => [name, LABELS[name]]) },
      { key: "step", label: "Step", value: 12, play: 1, range: (state) => [0, runOf(state).steps.length - 1] },
    ],
  });
})();
