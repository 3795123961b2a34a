// What the explorers share: controls, the state in the address, keys, motion, and shapes for drawings.
//
// An explorer calls Explorer.define({name, title, fields, draw, ...}). A field is {key, label, value} with either
// `choices` [[value, words], ...] or `range` (state) => [least, most], with `wide`, the room for its value in digits, and
// for a clock `play` (units per second).
// draw(state, width) returns {svg, height, says}, width where it needs more, and folded: {title, lines} for what unfolds
// below the drawing; it computes nothing that is not a rule or data of the explorer, and draws at the size in which it
// is shown: letters of 12 pixels stay that. `longest` is a sentence as long as any, `second` the field of the keys up
// and down. With `hover` a mouse previews, and a click stays.
window.Explorer = window.Explorer || (() => {
  "use strict";
  const reduced = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  const escaped = (text) =>
    String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const number = (x) => (typeof x === "number" ? String(Math.round(100 * x) / 100) : escaped(x));
  const element = (name, attributes, content) =>
    "<" + name + Object.entries(attributes).map(([key, value]) => " " + key + '="' + number(value) + '"').join("") +
    (content === undefined ? "/>" : ">" + content + "</" + name + ">");

  // Shapes, as text. A colour is a word of the style sheet ("ink", "quiet", "accent", ...) or a hue that lies thinly
  // over the paper, so that text is legible on it in light and dark.
  const ink = (colour) => (/^[a-z]+$/.test(colour) && colour !== "none" ? "var(--x-" + colour + ")" : colour);
  const hue = (k, of = 8) => ({ fill: "hsl(" + Math.round((360 * k) / of) + ",80%,50%)", "fill-opacity": 0.38 });
  const text = (x, y, words, more = {}) =>
    element("text", { x, y, fill: ink(more.fill || "ink"), "font-size": 12, "text-anchor": "middle",
      ...{ ...more, fill: ink(more.fill || "ink") } }, escaped(words));
  const box = (x, y, width, height, more = {}) =>
    element("rect", { x, y, width: Math.max(0, width), height, fill: "none", stroke: ink("line"),
      ...(more.stroke ? { ...more, stroke: ink(more.stroke) } : more) });
  const line = (x1, y1, x2, y2, colour = "line", more = {}) =>
    element("line", { x1, y1, x2, y2, stroke: ink(colour), ...more });
  const group = (attributes, ...parts) => element("g", attributes, parts.join(""));
  // Words in lines of at most so many letters.
  function wrapped(words, most) {
    const lines = [""];
    for (const word of words.split(" ")) {
      if (lines[lines.length - 1].length + word.length + 1 > most) lines.push("");
      lines[lines.length - 1] += (lines[lines.length - 1] ? " " : "") + word;
    }
    return lines;
  }
  const titled = (words, ...parts) => element("g", {}, element("title", {}, escaped(words)) + parts.join(""));

  const picture = (explorer, state, width) => {
    const drawn = { width, ...explorer.draw(state, width) };  // what is wider scrolls
    return { ...drawn, svg: element("svg", {
      xmlns: "http://www.w3.org/2000/svg", width: drawn.width, height: drawn.height,
      viewBox: "0 0 " + drawn.width + " " + drawn.height,
      role: "img", "font-family": "sans-serif", "aria-label": explorer.title + ": " + drawn.says,
    }, drawn.svg) };
  };

  // A reader's font may be wide: what leaves the drawing, or the room that `data-room` gives it, is condensed.
  function condense(drawing) {
    const edge = drawing.getBoundingClientRect();
    for (const one of drawing.querySelectorAll("text")) {
      const { left, right, width } = one.getBoundingClientRect();
      const outside = Math.max(0, edge.left - left, right - edge.right);
      const sides = one.getAttribute("text-anchor") === "middle" ? 2 : 1;
      const room = Math.min(width - sides * outside, one.dataset.room || width);
      if (room < width && room > 0) {
        one.setAttribute("textLength", room);
        one.setAttribute("lengthAdjust", "spacingAndGlyphs");
      }
    }
  }

  function start(root, explorer) {
    const state = Object.fromEntries(explorer.fields.map((field) => [field.key, field.value]));
    const prefix = "#" + explorer.name + ":";
    const make = (name, parent, attributes = {}, words) => {
      const made = parent.appendChild(document.createElement(name));
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      if (words !== undefined) made.textContent = words;
      return made;
    };
    const controls = make("div", root, { class: "explorer-controls" });
    const says = make("p", root, { class: "explorer-says", "aria-live": "polite" });
    const view = make("div", root, { class: "explorer-view", tabindex: "0", role: "group",
      "aria-label": explorer.title + ", drawing; arrow keys change the " + explorer.main + (explorer.second ? " and the " + explorer.second : "") });
    const folded = make("details", root, { class: "explorer-folded", hidden: "" });
    const link = make("a", make("p", root, { class: "explorer-link" }), {}, "Link to this view");
    const inputs = {}, main = explorer.fields.find((field) => field.key === explorer.main);
    let timer = null, kept = null;  // kept: the state that stays, while a mouse previews another

    // Only values that a control allows; others stay as they are.
    const put = (key, value) => {
      const field = explorer.fields.find((one) => one.key === key);
      if (!field) return;
      if (field.choices) {
        const choice = field.choices.find(([one]) => String(one) === String(value));
        if (choice) state[key] = choice[0];
      } else if (value !== "" && Number.isFinite(Number(value))) {
        state[key] = Number(value);
      }
    };
    const address = () =>
      prefix + explorer.fields.map((field) => field.key + "=" + encodeURIComponent(state[field.key])).join("&");

    function show() {
      const shown = (field) => !field.when || field.when(state);
      for (const field of explorer.fields) {
        const input = inputs[field.key];
        if (field.range) {
          const [least, most] = field.range(state);
          state[field.key] = Math.min(most, Math.max(least, state[field.key]));
          Object.assign(input.control, { min: least, max: most, step: field.step || 1 });
          input.output.textContent = field.shown ? field.shown(state[field.key], state) : state[field.key];
          input.control.setAttribute("aria-valuetext", input.output.textContent);
        }
        input.label.hidden = !shown(field);
        input.label.style.display = shown(field) ? "" : "none";
        input.control.value = state[field.key];
      }
      const drawn = picture(explorer, state, Math.max(300, Math.min(820, view.clientWidth || 700)));
      view.innerHTML = drawn.svg;
      condense(view.firstElementChild);
      says.textContent = drawn.says;
      folded.hidden = !drawn.folded;
      const report = JSON.stringify(drawn.folded);
      if (drawn.folded && folded.dataset.report !== report) {  // folded again
        folded.open = false;
        folded.dataset.report = report;
        folded.replaceChildren();
        make("summary", folded, {}, drawn.folded.title);
        for (const words of drawn.folded.lines) make("p", folded, {}, words);
      }
      // What is below stays where it is while a reader steps.
      for (const part of main.range ? [says, view] : [says]) part.style.minHeight = part.getBoundingClientRect().height + "px";
      link.href = address();
      if (reduced() || timer !== null) return;
      const css = (transform) => transform.replace(/([\d.-]+)[ ,]+([\d.-]+)/, "$1px, $2px");
      for (const one of view.querySelectorAll("[data-from]")) {
        const ends = [one.dataset.from, one.getAttribute("transform")].map((place) => ({ transform: css(place) }));
        one.animate(ends, { duration: 700, easing: "ease-in-out" });
      }
    }
    // Room for the longest of its sentences, so that the picture does not move.
    function reserve() {
      const [least, most] = explorer.longest ? [0, 0] : main.range ? main.range(state) : [0, main.choices.length - 1];
      let tall = 0;
      says.style.minHeight = view.style.minHeight = "";
      for (let i = least; i <= most; i += Math.max(1, (most - least) / 40)) {
        const value = main.range ? Math.round(i) : main.choices[Math.round(i)][0];
        says.textContent = explorer.longest || explorer.draw({ ...state, [main.key]: value }, view.clientWidth || 700).says;
        tall = Math.max(tall, says.getBoundingClientRect().height);
      }
      says.style.minHeight = tall + "px";
    }
    function preview(pairs) {
      const before = JSON.stringify(state);
      Object.assign(state, kept);
      kept = pairs.length ? { ...state } : null;
      for (const [key, value] of pairs) put(key, value);
      if (JSON.stringify(state) !== before) show();
    }
    function change(...pairs) {
      Object.assign(state, kept);
      kept = null;
      const before = { ...state };
      for (const [key, value] of pairs) put(key, value);
      if (explorer.changed) explorer.changed(before, state);
      if (pairs.some(([key]) => key !== main.key)) reserve();
      show();
      try {
        history.replaceState(null, "", address());
      } catch (error) { /* a browser that allows no address for files: the link still has it */ }
    }
    function stop() {
      clearInterval(timer);
      timer = null;
      for (const input of Object.values(inputs)) if (input.button) input.button.textContent = "play";
      says.setAttribute("aria-live", "polite");
    }
    function play(field) {
      const [least, most] = field.range(state);
      if (state[field.key] >= most) state[field.key] = least;
      inputs[field.key].button.textContent = "stop";
      says.setAttribute("aria-live", "off");  // a screen reader would never come to an end
      let last = performance.now(), exact = state[field.key];
      timer = setInterval(() => {
        const now = performance.now();
        exact += ((now - last) / 1000) * (typeof field.play === "function" ? field.play(state) : field.play);
        last = now;
        state[field.key] = Math.floor(exact);
        if (exact >= field.range(state)[1]) stop();
        show();
      }, 60);
    }

    for (const field of explorer.fields) {
      const label = make("label", controls);
      make("span", label, {}, field.label);
      const input = { label };
      if (field.choices) {
        input.control = make("select", label, { "data-field": field.key });
        for (const [value, words] of field.choices) make("option", input.control, { value }, words);
      } else {
        input.control = make("input", label, { type: "range", "data-field": field.key, "aria-label": field.label });
        input.output = make("output", label);
        if (field.wide) input.output.style.minWidth = field.wide + "ch";
        if (field.play) {
          input.button = make("button", label, { type: "button" }, "play");
          input.button.addEventListener("click", () => (timer === null ? play(field) : stop()));
        }
        for (const [by, words] of field.single ? [[-1, "back"], [1, "next"]] : []) {
          make("button", label, { type: "button" }, words).addEventListener("click", () => {
            stop();
            change([field.key, state[field.key] + by]);
          });
        }
      }
      input.control.addEventListener("input", () => {
        stop();
        change([field.key, input.control.value]);
      });
      inputs[field.key] = input;
    }
    const picked = ({ target }) => {
      const at = target.closest("[data-pick]");
      return at ? at.dataset.pick.split("&").map((pair) => pair.split("=")) : [];
    };
    view.addEventListener("click", (event) => {
      const pairs = picked(event);
      if (pairs.length) stop();
      if (kept || pairs.some(([key, value]) => String(state[key]) !== value)) change(...pairs);
    });
    view.addEventListener("pointerleave", () => kept && preview([]));
    let pointed = "";  // a pointer that rests points at nothing new when the drawing changes below it
    view.addEventListener("pointerover", (event) => {
      const at = event.clientX + "," + event.clientY;
      if (explorer.hover && event.pointerType === "mouse" && at !== pointed) preview(picked(event));
      pointed = at;
    });
    view.addEventListener("keydown", (event) => {
      if (event.key === " " && inputs[main.key].button) {  // play, stop
        event.preventDefault();
        inputs[main.key].button.click();
        return;
      }
      const second = explorer.fields.find((field) => field.key === explorer.second);
      const down = second && second.range ? -1 : 1;  // as in a list of choices, or as on a slider
      const [field, by] = { ArrowLeft: [main, -1], ArrowRight: [main, 1], ArrowUp: [second, -down], ArrowDown: [second, down],
        Home: [main, -1e9], End: [main, 1e9] }[event.key] || [];
      if (!by || !field || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      stop();
      const at = (kept || state)[field.key];
      if (field.choices) {
        const values = field.choices.map(([value]) => value);
        change([field.key, values[Math.min(values.length - 1, Math.max(0, values.indexOf(at) + by))]]);
      } else {
        change([field.key, at + by * (field.step || 1)]);
      }
    });

    function arrive() {
      if (!location.hash.startsWith(prefix)) return false;
      for (const part of location.hash.slice(prefix.length).split("&")) {
        const [key, value] = part.split("=");
        put(key, decodeURIComponent(value || ""));
      }
      return true;
    }
    window.addEventListener("hashchange", () => arrive() && show());
    let width = 0;
    new ResizeObserver(() => {
      if (view.clientWidth === width) return;
      width = view.clientWidth;
      reserve();
      show();
    }).observe(view);
    root.classList.add("explorer-on");
    const linked = arrive();
    show();
    if (linked) root.scrollIntoView({ block: "start", behavior: "instant" });
    explorer.state = state;  // for scripts that read the page
  }

  // The scripts of an explorer are loaded when a reader comes near it, or has a link to a view of it.
  function load(root) {
    for (const later of root.querySelectorAll("script[type=later]")) {
      const script = document.createElement("script");
      script.async = false;  // the data first
      script.src = later.src;
      later.replaceWith(script);
    }
  }
  const near = new IntersectionObserver((seen) => seen.forEach((one) => one.isIntersecting && load(one.target)),
    { rootMargin: "0px 0px 25% 0px" });
  for (const root of document.querySelectorAll(".explorer")) {
    const linked = location.hash.startsWith("#" + root.id.replace("-explorer", ":"));
    if (linked || root.getBoundingClientRect().top < 1.25 * innerHeight) load(root);
    else near.observe(root);
  }
  // Tab would pass over controls that are not there yet.
  document.addEventListener("keydown", ({ key }) => key === "Tab" && document.querySelectorAll(".explorer").forEach(load),
    { once: true });

  const all = {};
  function define(explorer) {
    all[explorer.name] = explorer;
    const root = document.getElementById(explorer.name + "-explorer");
    if (root) start(root, explorer);
  }

  // The picture of the first state as a file of its own, in the light colours.
  function still(name) {
    const explorer = all[name];
    const state = Object.fromEntries(explorer.fields.map((field) => [field.key, field.still ?? field.value]));
    const light = { ink: "#1b2733", quiet: "#56636f", line: "#b9c2ca", paper: "#ffffff", accent: "#0b62b0",
      bad: "#b00020", good: "#1d7a3a" };
    const drawn = picture(explorer, state, 400);
    return drawn.svg.replace(/var\(--x-(\w+)\)/g, (_, word) => light[word]).replace(/ data-[a-z]+="[^"]*"/g, "")
      .replace(">", ">" + element("rect", { width: drawn.width, height: drawn.height, rx: 6, fill: "#ffffff" }))
      .replace(/></g, ">\n<") + "\n";
  }

  return { define, still, all, text, box, line, group, titled, wrapped, hue, ink, element };
})();
