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
        { call: "arrive", at: full, bytes: ring.bytes, words: full + ".arrive_and_expect(" + ring.bytes + ")" },
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
    const todo = programs(ring), barriers = {}, stages = [], next = todo.map(() => 0), steps = [], marks = [];
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
      if (one.missing > 0 || one.bytes > 0) return " Its phase " + one.phase + " still waits for " + [
        one.missing > 0 ? one.missing + (one.missing > 1 ? " arrivals" : " arrival") : "", one.bytes > 0 ? one.bytes + " bytes" : ""].filter(Boolean).join(" and ") + ".";
      one.missing = one.of;
      return " This ends its phase " + one.phase++ + ": the phase bit is now " + one.phase % 2 + ".";
    };
    // bad: what is wrong in a step, and stays marked: threads, stages, barriers.
    const keep = (who, words, bad = []) => {
      marks.push(...bad);
      steps.push({ who, words, wrong: bad.length > 0, marks: [...marks], barriers: JSON.parse(JSON.stringify(barriers)),
        stages: stages.map((one) => ({ ...one })), copies: copies.map((one) => ({ ...one })), next: [...next],
        waits: todo.map((list, i) => next[i] < list.length && !open(list[next[i]])) });
    };
    keep(-1, "The barriers are initialised; each is in its phase 0. Press next.");
    const act = {
      wait(name, one) {
        const { phase } = barriers[one.at];
        return [name + ": " + one.words + " returns, for the phase bit is " + phase % 2 + ", not " + one.parity +
          (phase > 0 ? ": phase " + (phase - 1) + " (bit " + (phase - 1) % 2 + ") has ended." : ": a new barrier lets wait(1) pass.")];
      },
      load(name, one) {
        stages[one.stage] = { tile: one.tile, landed: false };
        copies.push({ ...one, lands: turn + FLIGHT });
        return [name + ": the copy of tile " + one.tile + " to stage " + one.stage + " begins."];
      },
      read(name, one) {
        const { tile, landed } = stages[one.stage], right = tile === one.tile && landed;
        return [name + " reads tile " + one.tile + " in stage " + one.stage + (right ? "." : ", but " +
          (tile === null ? "nothing is there." : tile !== one.tile ? "tile " + tile + " is there." : "it has not landed.")) + (name === NAMES[ring.releasing + 1] ? " It does not arrive at empty[" + one.stage + "]." : ""), right ? [] : [name, "stage " + one.stage]];
      },
      arrive(name, one) {
        const { bytes } = barriers[one.at];
        --barriers[one.at].missing;
        barriers[one.at].bytes += one.bytes;
        return [name + ": " + one.words + "." + (bytes < 0 ? " An earlier copy brought " + -bytes + " bytes too many: they count here, before this phase's own copy begins." : "") + advance(one.at)];
      },
    };
    for (let idle = 0; idle < FLIGHT + 1; ++turn) {
      ++idle;
      for (const copy of copies.filter(({ lands }) => lands <= turn)) {
        copies = copies.filter((one) => one !== copy);
        if (stages[copy.stage].tile === copy.tile) stages[copy.stage].landed = true;
        barriers[copy.at].bytes -= copy.bytes;
        const over = barriers[copy.at].bytes < 0;
        keep(NAMES.length, "Tile " + copy.tile + " has landed in stage " + copy.stage + " and reports " + copy.bytes + " bytes to " + copy.at +
          (over ? ", which expected fewer" : "") + "." + advance(copy.at), over ? [copy.at] : []);
        idle = 0;
      }
      todo.forEach((list, i) => {
        const one = list[next[i]];
        if (!one || !open(one)) return;
        ++next[i];
        if (one.at) log[i].push([one.call, one.at, one.call === "wait" ? barriers[one.at].phase : one.bytes]);
        keep(i, ...act[one.call](NAMES[i], one));
        idle = 0;
      });
    }
    const stuck = todo.map((list, i) => [NAMES[i], list[next[i]]]).filter(([, one]) => one);
    const cause = stuck.filter(([, one]) => one.at.startsWith(ring.bytes > SIZE ? "full" : "empty"));  // the others wait for these
    const late = !ring.says[0].startsWith("deadlock") ? -1 : NAMES.findIndex((_, i) => i > 0 && recorded(ring)[i].length && recorded(ring)[i][0][2] > log[i][0][2]);
    keep(-1, stuck.length ? "A deadlock. These wait for ever: " + stuck.map(([name, one]) => name + " at " + one.words).join(", ") + "."
      : late >= 0 ? "Here all have ended, with wrong data. The lab runs the threads in another order, and there it hangs: " + NAMES[late] + " comes to its first wait(1) after phase 0 has ended, and stays one phase behind."
        : marks.length ? "All have ended, but what is marked went wrong." : "All have ended.", cause.flatMap(([name, one]) => [name, one.at]));
    const first = steps.findIndex(({ wrong }) => wrong), released = ({ who, words }) => who === 0 && words.endsWith("has ended.");
    return { steps, todo, log, stuck: stuck.length > 0, first, tells: first < 0 ? steps.findIndex(released) : first };
  }
  const known = new Map();
  const runOf = (state) => known.get(state.mistake) || known.set(state.mistake, run(ringOf(state))).get(state.mistake);

  // ---------------------------------------------------------------- the picture

  // A stage with its two barriers.
  function card(now, stage, x, width) {
    const colour = (name) => (now.marks.includes(name) ? "bad" : "ink"), red = colour("stage " + stage);
    const parts = [box(x, 1, width, 142, { rx: 4, ...(red === "bad" ? { stroke: red, "stroke-width": 2.5 } : {}) }), text(x + 8, 18, "stage " + stage, { fill: red, "text-anchor": "start", "font-weight": "bold" })];
    const { tile, landed } = now.stages[stage], small = width < 300, edges = [0, 0.21, 0.61, 1].map((part) => x + 64 + part * (width - 68));
    parts.push(box(x + 8, 26, width - 16, 28, tile === null || !landed ? { "stroke-dasharray": "4 3" } : hue(tile + 1, TILES + 1)),
      text(x + width / 2, 45, tile === null ? "empty" : "tile " + tile + (landed ? "" : " in flight")));
    const columns = [0, 1, 2].map((k) => [edges[k] + 2, edges[k + 1] - edges[k] - 4, (edges[k] + edges[k + 1]) / 2]), over = now.barriers["full[" + stage + "]"].bytes < 0;
    [small ? "bit" : "phase bit", small ? "to arrive" : "still to arrive", over ? (small ? "" : "bytes ") + "too many" : small ? "bytes" : "bytes left"].forEach((words, k) =>
      parts.push(text(columns[k][2], 74, words, { fill: over && k === 2 ? "bad" : "quiet", "data-room": columns[k][1] })));
    ["full", "empty"].forEach((kind, row) => {
      const name = kind + "[" + stage + "]", one = now.barriers[name], y = 82 + 29 * row;
      parts.push(text(x + 8, y + 18, name, { "text-anchor": "start", fill: colour(name) }));
      [one.phase % 2 + "", one.missing + (small ? " left" : " of " + one.of), kind === "full" ? Math.abs(one.bytes) : ""].forEach((value, k) => {
        const [from, wide, middle] = columns[k];
        if (value !== "") parts.push(box(from, y, wide, 25, colour(name) === "bad" ? { stroke: "bad", "stroke-width": 2.5 } : {}), text(middle, y + 17, value, { "data-room": wide - 4 }));
      });
    });
    return parts;
  }

  function draw(state, width) {
    const { steps, todo, first, tells } = runOf(state), now = steps[Math.min(state.step, steps.length - 1)], gap = 10, wide = (width - gap) / 2;
    const parts = [...card(now, 0, 1, wide - 1), ...card(now, 1, wide + gap, wide - 1)], last = state.step === steps.length - 1;
    let y = 162;
    for (const words of wrapped(RULE, Math.floor(width / 6.4))) {
      parts.push(text(2, y, words, { "text-anchor": "start" }));
      y += 17;
    }
    y -= 4;
    // A click on a row leads to what it does next.
    const row = (i, name, words, quiet, note = "") => {
      const marked = now.marks.includes(name), then = steps.findIndex(({ who }, step) => step > state.step && who === i);
      parts.push(group({ "data-row": i, ...(then < 0 ? {} : { "data-pick": "step=" + then }) },
        box(1, y, width - 2, 28, { rx: 4, fill: "var(--x-paper)", ...(now.who === i ? { stroke: now.wrong ? "bad" : "ink", "stroke-width": 2.5 } : {}) }),
        text(9, y + 19, name, { fill: marked ? "bad" : "ink", "text-anchor": "start", "font-weight": "bold" }),
        text(80, y + 19, words, { "text-anchor": "start", fill: quiet ? "quiet" : "ink" }),
        text(width - 9, y + 19, note || (marked ? "read wrong data" : ""), { "text-anchor": "end", "font-weight": "bold", fill: marked && (last || !note) ? "bad" : "ink" })));
      y += 33;
    };
    NAMES.forEach((name, i) => {
      const one = todo[i][now.next[i]];
      row(i, name, one ? (now.who === i ? "done; next: " : "next: ") + one.words : "has ended", !one,
        now.waits[i] ? "bit " + one.parity + (!last ? ": waits" : now.marks.includes(name) ? ": hangs" : ": hangs too") : "");
    });
    row(NAMES.length, "copies", now.copies.map(({ tile }) => "tile " + tile).join(", ") || "none in flight", !now.copies.length);
    // What to look for; from the step on that shows it, the answer.
    const [, asked, why] = MISTAKES[state.mistake], told = state.step >= tells;
    const [question, answer] = [asked, (first < 0 ? "Answer: " : "Why: ") + why].map((words) => wrapped(words, Math.floor(width / 6.4)));
    (told ? answer : question).forEach((words, k) => parts.push(text(2, y + 17 * (k + 1), words, { "text-anchor": "start", ...(!told ? { "font-weight": "bold" } : first < 0 ? {} : { fill: "bad" }) })));
    y += 17 * Math.max(question.length, answer.length);
    return { svg: parts.join(""), height: y + 10, says: "Step " + state.step + " of " + (steps.length - 1) + ". " +
      (state.step && state.step === startOf(state) ? "(Moved to just before the mistake shows.) " : "") + now.words,
      folded: { title: "What the lab says of this kernel", lines: ringOf(state).says } };
  }

  // What the lab recorded of each warp, in the form of run()'s log: for the test.
  const CALLS = { 2: "arrive", 3: "wait", 4: "load" }, BARRIERS = ["full[0]", "empty[0]", "full[1]", "empty[1]"];
  const recorded = (ring) => ring.warps.map((warp) => warp.filter(([kind]) => CALLS[kind]).map(([kind, barrier, count, bytes]) =>
    [CALLS[kind], BARRIERS[barrier], kind === 3 ? count : bytes]));

  const RULE = "wait(p) waits while the phase bit is p. When no arrivals and no bytes are left the phase ends: the bit flips, and the counts start again. On a new barrier wait(1) passes.";
  const MISTAKES = {  // the label, what to look for, the answer, and the step before its cause, where that comes first
    none: ["none", "The producer runs two tiles ahead. Which arrivals does it wait for then?",
      "before tile 2 it waits for both consumer warps to arrive at empty[0], that is, until both have read tile 0; before tile 3 the same at empty[1]."],
    "producer parity": ["producer waits for parity 0 first", "Whose arrivals could end phase 0 of empty[0]?",
      "the producer waits for the end of phase 0 of empty, but consumers arrive there only after a copy, which never begins."],
    "consumer parity": ["consumers wait for parity 1 first", "What is in stage 0 when warp 1 reads it?", "on a new barrier wait(1) returns at once, so a warp reads a stage before its tile has landed.", 1],
    "dropped arrival": ["warp 2 does not arrive", "How many arrivals does empty[0] get?", "a phase of empty ends after two arrivals, and only warp 1 arrives; so the producer waits for ever.", 11],
    "one arrival": ["empty expects 1 arrival", "How many phases of empty[0] do the two arrivals end?",
      "two warps arrive, and each arrival ends a phase. If the producer does not look between the two arrivals, it sees bit 0 again and waits for ever.", 11],
    "more bytes": ["full expects 1024 bytes", "How many bytes of full[0] are left when tile 0 has landed?", "a copy brings 512 bytes, so the phase of full never ends.", 6],
    "fewer bytes": ["full expects 256 bytes", "How many bytes of full[0] are left when tile 0 has landed?",
      "a copy brings 512 bytes; those that its phase did not expect count for the next one, which ends before its tile has landed."],
  };
  const startOf = (state) => MISTAKES[state.mistake][3] ?? Math.max(0, runOf(state).first - 1);
  Explorer.define({
    name: "stages", title: "A ring that can be broken", main: "step", draw, rings, run, recorded,
    changed(before, state) {  // to the step before the cause
      if (state.mistake !== before.mistake) state.step = startOf(state);
    },
    fields: [
      { key: "mistake", label: "Mistake", value: "none", choices: rings.map(({ name }) => [name, MISTAKES[name][0]]) },
      { key: "step", label: "Step", value: 0, still: 12, play: 3, single: true, range: (state) => [0, runOf(state).steps.length - 1] },
    ],
  });
})();
