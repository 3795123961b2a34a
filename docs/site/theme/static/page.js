// Tables: where rows are blocks, each cell has its heading; of results, a click on a heading sorts the rows, a field
// above long tables filters them. And what scrolls by itself can be reached by Tab.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.stacked")) {
    const heads = [...table.tHead?.rows[0].cells || []].map((head) => head.textContent.trim());
    for (const row of table.tBodies[0].rows) {
      [...row.cells].forEach((cell, i) => {
        if (!cell.textContent.trim()) cell.classList.add("empty");
        else if (heads[i] && (i || cell.matches(".text-right"))) cell.dataset.head = heads[i];
      });
    }
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const text = (row, i) => row.cells[i].textContent.trim();
    [...table.tHead.rows[0].cells].forEach((head, i) => {
      if (!head.textContent.trim()) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.firstElementChild ? head.firstElementChild.childNodes : head.childNodes);
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        // Numbers first from large to small, then back, then as printed.
        const numeric = head.classList.contains("text-right");
        const order = numeric ? ["descending", "ascending"] : ["ascending", "descending"];
        const next = order[order.indexOf(now) + 1];
        if (next) head.setAttribute("aria-sort", next);
        const sign = next === "descending" ? -1 : 1;
        const value = (row) => numeric ? parseFloat(text(row, i)) : text(row, i);
        const sorted = !next ? rows : [...rows].sort((a, b) => {
          const [x, y] = [value(a), value(b)];
          if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
          return x < y ? -sign : x > y ? sign : 0;
        });
        body.append(...sorted);
      });
    });
    const label = (table.closest(".table-wrapper") || table).previousElementSibling;
    const field = label && label.matches(".results-filter") && label.querySelector("input");
    if (field) {
      field.addEventListener("input", () => {
        const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
        for (const row of rows) {
          const all = row.textContent.toLowerCase();
          row.hidden = !words.every((word) => all.includes(word));
        }
      });
    }
  }

  const boxes = [...document.querySelectorAll("pre, .table-wrapper, .formula, .drawing, .explorer-view")];
  const faded = (box) => {
    box.classList.toggle("more-left", box.scrollLeft > 1);
    box.classList.toggle("more-right", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
  };
  const reachable = () => {
    const wide = boxes.map((box) => box.scrollWidth > box.clientWidth);
    boxes.forEach((box, i) => {
      if (wide[i]) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
      faded(box);
    });
  };
  for (const box of boxes) box.addEventListener("scroll", () => faded(box), { passive: true });
  reachable();
  addEventListener("resize", reachable);
  for (const box of document.querySelectorAll("details")) box.addEventListener("toggle", reachable);
});

// The sidebar shows where the page is among the others.
document.addEventListener("DOMContentLoaded", () => {
  const bar = document.querySelector(".sidebar-scroll"), here = bar && bar.querySelector("li.current-page");
  if (!here) return;
  const below = here.getBoundingClientRect().top - bar.getBoundingClientRect().top - bar.clientHeight / 2;
  if (below > 0) bar.scrollTop += below;
});

// The arrow keys lead to the neighbours, unless something uses them: what is focused, a page that
// scrolls sideways.
document.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
  if (!step || event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (event.target !== document.body && event.target !== document.documentElement) return;
  if (!getSelection().isCollapsed) return;
  const page = document.documentElement;
  if (page.scrollWidth > page.clientWidth) return;
  const link = document.querySelector(`.related-pages .${step}-page`);
  if (link) location.href = link.href;
});
