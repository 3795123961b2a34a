// The tile stepper: shows window.tileSteps, what lesson 03's program wrote of its runs, one step at a time. It computes
// nothing of its own; every number on the page stands in the data.
(function () {
  "use strict";
  const data = window.tileSteps;
  const root = document.getElementById("stepper");
  if (!data || !root) return;

  const state = { mask: "full", tiles: "4x4", show: "s", step: 0, row: null, timer: null };
  const pause = 1400;  // milliseconds for a step while playing
  const part = (name) => document.getElementById("stepper-" + name);
  const tilesOf = (run) => run.block_m + "x" + run.block_n;
  const theRun = () => data.runs.find((run) => run.mask === state.mask && tilesOf(run) === state.tiles);

  // ---------------------------------------------------------------- words and numbers

  const minus = (text) => text.replace(/^-(?=0?\.?0*$)/, "").replace("-", "\u2212");  // no -0.00
  // null stands for the maximum of no keys.
  const shown = (x, digits) => (x === null ? "\u2212\u221e" : minus(x.toFixed(digits)));
  const narrow = (x) => shown(x, 2).replace(/^(\u2212?)0\./, "$1.");  // .12, for the many numbers of O
  const small = (x) => minus(x.toExponential(1));
  const quoted = (word) => "\u2018" + word + "\u2019";
  const span = (words, first, count) =>
    count === 1 ? quoted(words[first]) : quoted(words[first]) + " to " + quoted(words[first + count - 1]);

  // Orange above 0, blue below.
  function paint(cell, x, largest) {
    const share = Math.min(1, Math.abs(x) / largest) || 0;
    cell.style.backgroundColor = "rgba(" + (x < 0 ? "42, 111, 184" : "217, 114, 43") + ", " + (0.6 * share).toFixed(3) + ")";
  }
  const largestOf = (rows) => Math.max(...rows.map((row) => Math.max(...row.map((x) => Math.abs(x ?? 0)))));

  function element(name, parent, classes, text) {
    const made = document.createElement(name);
    if (classes) made.className = classes;
    if (text !== undefined) made.textContent = text;
    parent.appendChild(made);
    return made;
  }
  // A cell that shows a number of the data, and says which.
  function cell(row, field, i, j, text, classes) {
    const made = element("td", row, classes, text);
    made.dataset.field = field;
    made.dataset.i = i;
    if (j !== null) made.dataset.j = j;
    return made;
  }

  const rises = (step, i) => step.m_before[i] !== null && step.m[i] > step.m_before[i];
  const seesNone = (step, i) => step.s[i].every((x) => x === null);

  // The row that is told about: the chosen one, else the one whose maximum rises most.
  function rowOf(step) {
    if (state.row !== null) return Math.min(state.row, step.queries - 1);
    if (step.kind !== "tile") return 0;
    let best = 0, most = 0;
    for (let i = 0; i < step.queries; ++i) {
      const rise = rises(step, i) ? step.m[i] - step.m_before[i] : 0;
      if (rise > most) [best, most] = [i, rise];
    }
    return best;
  }

  function sentence(run, step) {
    const queries = span(data.queries, step.query, step.queries);
    if (step.kind === "skipped") {
      return "No query of " + queries + " may see a key of " + span(data.keys, step.key, step.keys) +
        ": the mask hides the whole tile, so it is skipped. Nothing is loaded and nothing computed.";
    }
    const i = rowOf(step);
    const row = "Row " + quoted(data.queries[step.query + i]) + ": ";
    if (step.kind === "finish") {
      const end = "Queries " + queries + " have met all keys. Each row of O is divided by its l, once. " + row +
        (step.l[i] === 0 ? "no key was seen, so O is 0 and LSE \u2212\u221e."
          : "l = " + shown(step.l[i], 3) + ", and LSE = m + ln l = " + shown(step.lse[i], 3) + ".");
      return step.query + step.queries < data.queries.length ? end : end +
        " The run is over: its O is at most " + small(run.max_error_o) + " away from lesson 01 in float64 (allowed " +
        small(run.allowed_o) + ").";
    }
    const meet = "Queries " + queries + " meet keys " + span(data.keys, step.key, step.keys) + ". ";
    if (seesNone(step, i)) return meet + row + "all of these keys are masked, so m, l and O stay as they are.";
    if (step.m_before[i] === null) {
      return meet + row + "these are its first keys. The maximum becomes " + shown(step.m[i], 3) +
        "; what was there before is multiplied by exp(\u2212\u221e) = 0. Then l = " + shown(step.l[i], 3) + " and O = P V.";
    }
    const count = step.m.filter((_, r) => rises(step, r)).length;
    if (!rises(step, i)) {
      return meet + (count === 0 ? "No maximum rises. " : "") + row + "the maximum stays " + shown(step.m[i], 3) +
        ", so the rescale factor is 1. The tile only adds: l goes from " + shown(step.l_before[i], 3) + " to " +
        shown(step.l[i], 3) + ", and P V is added to O.";
    }
    return meet + row + "the maximum rises from " + shown(step.m_before[i], 3) + " to " + shown(step.m[i], 3) +
      ", so O and l are multiplied by exp(" + shown(step.m_before[i], 3) + " \u2212 " + shown(step.m[i], 3).replace("\u2212", "(\u2212") +
      (step.m[i] < 0 ? ")" : "") + ") = " + shown(step.rescale[i], 4) + ". Then the tile is added: l = " +
      shown(step.l[i], 3) + ", and O gets P V. The maximum rises in " + count + " of " + step.queries + " rows.";
  }

  // ---------------------------------------------------------------- the three tables

  function emptied(name) {
    const table = part(name);
    for (const child of [...table.children]) if (child.tagName !== "CAPTION") child.remove();
    return table;
  }

  // The map's cells stay, so that their colours can change gently.
  const mapCells = [];
  function makeMap() {
    const table = part("map");
    const head = element("tr", element("thead", table));
    element("th", head);
    for (const key of data.keys) element("span", element("th", head, "column"), "", key);
    const body = element("tbody", table);
    data.queries.forEach((query, i) => {
      const row = element("tr", body);
      element("th", row, "row", query);
      mapCells.push(data.keys.map((_, j) => cell(row, "map", i, j)));
    });
  }

  function drawMap(run, now) {
    for (const made of mapCells.flat()) {
      made.className = "";
      made.style.backgroundColor = "";
    }
    const largest = Math.max(...run.steps.map((step) => (step.s ? largestOf(step.s) : 0)));
    run.steps.slice(0, state.step + 1).forEach((step) => {
      if (step.kind === "finish") return;
      const isNow = step === now;
      for (let r = 0; r < step.queries; ++r) {
        for (let c = 0; c < step.keys; ++c) {
          const at = mapCells[step.query + r][step.key + c];
          if (step.kind === "skipped") at.classList.add("skipped");
          else if (step.s[r][c] === null) at.classList.add("masked");
          else paint(at, step.s[r][c], largest);
          at.classList.add(isNow ? "now" : "past");
          if (!isNow) continue;
          if (r === 0) at.classList.add("edge", "top");
          if (r === step.queries - 1) at.classList.add("edge", "bottom");
          if (c === 0) at.classList.add("edge", "left");
          if (c === step.keys - 1) at.classList.add("edge", "right");
        }
      }
      // With a mask a tile ends at the last key that one of its queries sees.
      const end = Math.min(step.key + run.block_n, data.keys.length);
      for (let j = step.key + step.keys; j < end; ++j) {
        for (let r = 0; r < step.queries; ++r) {
          mapCells[step.query + r][j].classList.add("skipped", isNow ? "now" : "past");
        }
      }
    });
    [...part("map").tBodies[0].rows].forEach((row, i) =>
      row.classList.toggle("chosen", now.kind !== "skipped" && i === now.query + rowOf(now)));
  }

  function rowHead(row, step, i) {
    const button = element("button", element("th", row, "row"), "", data.queries[step.query + i]);
    button.type = "button";
    button.dataset.row = i;
    button.setAttribute("aria-pressed", i === rowOf(step));
    if (i === rowOf(step)) row.classList.add("chosen");
  }

  function change(row, field, i, before, after, digits, rising) {
    const made = cell(row, field, i, null, undefined, rising ? "rises" : "");
    element("span", made, "before", shown(before, digits) + " \u2192");
    element("span", made, "after", shown(after, digits));
  }

  function drawTile(step) {
    const table = emptied("tile");
    const head = element("tr", element("thead", table));
    const body = element("tbody", table);
    element("th", head);
    if (step.kind === "skipped") {
      element("td", element("tr", body), "empty", "skipped");
      return;
    }
    if (step.kind === "finish") {
      for (const name of ["m", "l", "LSE"]) element("th", head, "column", name);
      for (let i = 0; i < step.queries; ++i) {
        const row = element("tr", body);
        rowHead(row, step, i);
        for (const field of ["m", "l", "lse"]) cell(row, field, i, null, shown(step[field][i], 3));
      }
      return;
    }
    table.classList.toggle("wide", step.keys > 8);
    for (let j = 0; j < step.keys; ++j) element("th", head, "column", data.keys[step.key + j]);
    for (const name of ["m", "rescale", "l"]) element("th", head, "column", name);
    const largest = state.show === "s" ? largestOf(step.s) : 1;
    for (let i = 0; i < step.queries; ++i) {
      const row = element("tr", body);
      rowHead(row, step, i);
      for (let j = 0; j < step.keys; ++j) {
        const x = step[state.show][i][j];
        const isMasked = step.s[i][j] === null;
        const made = cell(row, state.show, i, j, isMasked && state.show === "s" ? "" : shown(x, 2),
          "score" + (j === 0 ? " first" : "") + (isMasked ? " masked" : ""));
        if (!isMasked) paint(made, x, largest);
      }
      const rising = rises(step, i);
      change(row, "m", i, step.m_before[i], step.m[i], 3, rising);
      cell(row, "rescale", i, null, shown(step.rescale[i], 4), rising ? "rises" : "");
      change(row, "l", i, step.l_before[i], step.l[i], 3, false);
    }
  }

  function drawO(step) {
    const table = emptied("o");
    const parts = step.kind === "tile"
      ? [["o_before", "O before"], ["o_rescaled", "O \u00d7 rescale"], ["o", "O + P V"]]
      : step.kind === "finish" ? [["o_before", "O"], ["o", "O / l, the output"]] : [];
    // One scale for what is not yet divided; the output has its own.
    const shared = Math.max(...parts.map(([field]) =>
      step.kind === "finish" && field === "o" ? 0 : largestOf(step[field])));
    for (const [field, name] of parts) {
      const body = element("tbody", table);
      const title = element("th", element("tr", body), "part");
      title.colSpan = data.head_dim + 1;
      element("span", title, "", name);
      const largest = step.kind === "finish" && field === "o" ? largestOf(step.o) : shared;
      step[field].forEach((values, i) => {
        const row = element("tr", body, i === rowOf(step) ? "chosen" : "");
        element("th", row, "row", data.queries[step.query + i]);
        values.forEach((x, j) => paint(cell(row, field, i, j, narrow(x)), x, largest));
      });
    }
  }

  // ---------------------------------------------------------------- what the reader does

  function draw() {
    const run = theRun();
    const last = run.steps.length - 1;
    state.step = Math.max(0, Math.min(state.step, last));
    const step = run.steps[state.step];
    const focused = part("tile").contains(document.activeElement) ? document.activeElement.dataset.row : undefined;
    drawMap(run, step);
    drawTile(step);
    drawO(step);
    if (focused !== undefined) {
      const again = part("tile").querySelector('button[data-row="' + Math.min(focused, step.queries - 1) + '"]');
      (again || root).focus({ preventScroll: true });
    }
    root.dataset.step = state.step;  // for scripts that read the page
    root.dataset.run = data.runs.indexOf(run);
    root.dataset.row = rowOf(step);
    const count = "step " + (state.step + 1) + " of " + (last + 1);
    part("count").textContent = count;
    part("slider").max = last;
    part("slider").value = state.step;
    part("slider").setAttribute("aria-valuetext", count);
    part("first").disabled = part("previous").disabled = state.step === 0;
    part("last").disabled = part("next").disabled = state.step === last;
    part("says").textContent = sentence(run, step);
  }

  function go(step) {
    state.step = step;
    draw();
  }

  function stop() {
    clearInterval(state.timer);
    state.timer = null;
    part("play").textContent = "play";
    part("says").setAttribute("aria-live", "polite");
  }
  function play() {
    if (state.step === theRun().steps.length - 1) go(0);
    part("play").textContent = "stop";
    part("says").setAttribute("aria-live", "off");  // a reader of screens would never come to an end
    state.timer = setInterval(() => {
      go(state.step + 1);
      if (state.step === theRun().steps.length - 1) stop();
    }, pause);
  }
  const toggle = () => (state.timer === null ? play() : stop());

  const moves = {
    first: () => go(0),
    previous: () => go(state.step - 1),
    next: () => go(state.step + 1),
    last: () => go(Infinity),
  };
  for (const name of Object.keys(moves)) {
    part(name).addEventListener("click", () => {
      stop();
      moves[name]();
      // A button that is now without use would swallow the next key.
      if (part(name).disabled) root.focus({ preventScroll: true });
    });
  }
  part("play").addEventListener("click", toggle);
  part("slider").addEventListener("input", () => {
    stop();
    go(Number(part("slider").value));
  });
  part("tile").addEventListener("click", (event) => {
    const button = event.target.closest("button[data-row]");
    if (!button) return;
    state.row = Number(button.dataset.row);
    draw();
  });

  function otherRow(by) {
    const step = theRun().steps[state.step];
    state.row = (rowOf(step) + by + step.queries) % step.queries;
    draw();
  }
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const at = event.target;
    if (!root.contains(at)) return;
    if (at.tagName === "INPUT") {  // the slider and the choices know the arrows themselves
      if (!(at.type === "range" && event.key === " ")) return;
    }
    if (event.key === " " && at.tagName === "BUTTON") return;
    const keys = {
      ArrowLeft: moves.previous, ArrowRight: moves.next, Home: moves.first, End: moves.last, " ": toggle,
      ArrowUp: () => otherRow(-1), ArrowDown: () => otherRow(1),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    if (event.key !== " ") stop();
    keys[event.key]();
  });

  // Buttons of which one is pressed; `choices` are [value, words].
  function offer(name, choices) {
    for (const [value, words] of choices) {
      const label = element("label", part(name));
      const input = element("input", label);
      input.type = "radio";
      input.name = "stepper-" + name;
      input.value = value;
      input.checked = state[name] === value;
      label.append(words);
      input.addEventListener("change", () => {
        stop();
        const now = theRun().steps[state.step];
        state[name] = value;
        if (name === "show") return draw();
        // As near as may be to where the reader was.
        const near = theRun().steps.findIndex((step) => step.query + step.queries > now.query &&
          (now.kind === "finish" ? step.kind === "finish" : step.key + step.keys > now.key));
        state.row = null;
        go(Math.max(0, near));
      });
    }
  }
  const different = (values) => [...new Set(values)];
  offer("mask", different(data.runs.map((run) => run.mask)).map((mask) => [mask, mask]));
  offer("tiles", different(data.runs.map(tilesOf)).map((tiles) => [tiles, tiles.replace("x", " \u00d7 ")]));
  offer("show", [["s", "scores S"], ["p", "probabilities P"]]);
  makeMap();
  root.classList.add("stepper-on");
  draw();
})();
