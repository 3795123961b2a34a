// What this browser remembers of its reader: predictions, which pages were read to their end, and where the reader was
// last. It is kept in the browser's storage and sent nowhere. Without storage nothing of this is shown.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const NAME = "flash-attention-course";
  const recall = () => ({ predictions: {}, read: [], last: null, ...JSON.parse(localStorage.getItem(NAME) || "{}") });
  const keep = (change) => {
    try {
      const memory = recall();
      change(memory);
      localStorage.setItem(NAME, JSON.stringify(memory));
    } catch (error) { /* full, or forbidden since */ }
  };
  const top = new URL(document.documentElement.dataset.content_root || "./", location.href).href;
  const pageOf = (address) => address.startsWith(top) &&
    address.slice(top.length).replace(/[?#].*/, "").replace(/(^|\/)$/, "$1index.html");
  const page = pageOf(location.href), article = document.querySelector("article"), title = article && article.querySelector("h1");
  let memory;
  try {
    memory = recall();
    localStorage.setItem(NAME, JSON.stringify(memory));
  } catch (error) {
    return;
  }
  if (!title || !document.querySelector("link[rel=next], link[rel=prev]")) return;  // no page of the course
  const make = (name, attributes, ...content) => {
    const made = Object.assign(document.createElement(name), attributes);
    made.append(...content);
    return made;
  };
  const words = (heading) => heading.textContent.replace(/#$/, "");

  // A field before the answer of each prediction. Unfolded, the answer begins with what was predicted.
  const parts = [...article.querySelectorAll(".part.predict, details")], counts = {};
  parts.forEach((part, i) => {
    const answer = parts[i + 1];
    if (part.localName === "details" || !answer || answer.localName !== "details") return;
    const section = page + "#" + part.closest("section").id, key = section + "." + (counts[section] = (counts[section] || 0) + 1);
    const field = make("textarea", { rows: 2, value: memory.predictions[key] || "", autocomplete: "off" });
    const said = make("p", { className: "predicted", hidden: true });
    const compare = () => {
      said.hidden = !field.value.trim();
      said.textContent = "Your prediction: " + field.value;
    };
    field.addEventListener("input", () => {
      keep((one) => (one.predictions[key] = field.value));
      compare();
    });
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      answer.open = true;
    });
    compare();
    answer.before(make("label", { className: "prediction" }, "Your prediction", field, make("small", {}, "Enter opens the answer. Kept in this browser only.")));
    answer.querySelector("summary").after(said);
  });

  // A tick where a page is linked that was read to its end.
  const tick = (read) => {
    for (const link of document.querySelectorAll(".sidebar-tree a.reference, article td p > a:first-child")) {
      if (!read.includes(pageOf(link.href)) || link.hash || link.querySelector(".read")) continue;
      link.append(make("span", { className: "read", title: "You have read this page" }, " \u2713"));
    }
  };
  tick(memory.read);
  const end = article.appendChild(make("div", {}));
  new IntersectionObserver(([seen]) => {
    if (!seen.isIntersecting || (!scrollY && document.documentElement.scrollHeight > innerHeight)) return;
    keep((one) => one.read.includes(page) || one.read.push(page));
    tick([page]);
  }).observe(end);

  // The front page says where its reader was.
  if (page === "index.html") {
    if (!memory.last) return;
    const forget = make("button", { type: "button" }, "forget");
    const link = make("a", { href: top + memory.last.address }, memory.last.words);
    const note = make("p", { className: "last" }, "You were at ", link, ". This browser remembers it, your predictions and what you have read: ", forget, ".");
    forget.addEventListener("click", () => {
      localStorage.removeItem(NAME);
      location.reload();
    });
    title.after(note);
    return;
  }
  addEventListener("pagehide", () => {
    const passed = [...article.querySelectorAll("section[id] > :is(h1, h2, h3)")].filter((one) => one.getBoundingClientRect().top < 120);
    const heading = passed.pop() || title, lesson = /^\d\d(?=_.*\/[^i])/.exec(page);
    const place = (lesson ? "lesson " + lesson[0] + ", " : "") + words(title) + (heading === title ? "" : ": " + words(heading));
    keep((one) => (one.last = { address: page + (heading === title ? "" : "#" + heading.parentNode.id), words: place }));
  });
});
