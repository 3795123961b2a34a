// Tables of results: a click on a heading sorts the rows. And what scrolls by itself can be reached by Tab.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, i) => {
      if (!head.textContent.trim()) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        // Numbers first from large to small, then back, then as printed.
        const numeric = head.classList.contains("text-right");
        const order = numeric ? ["descending", "ascending"] : ["ascending", "descending"];
        const next = order[order.indexOf(head.getAttribute("aria-sort")) + 1];
        for (const other of heads) other.removeAttribute("aria-sort");
        if (next) head.setAttribute("aria-sort", next);
        const sign = next === "descending" ? -1 : 1;
        const text = (row) => row.cells[i].textContent.trim();
        body.append(...!next ? rows : [...rows].sort((a, b) => sign *
          (numeric ? (parseFloat(text(a)) || 0) - (parseFloat(text(b)) || 0) : text(a).localeCompare(text(b)))));
      });
    });
  }
  const previous = document.querySelector(".prev-page");
  if (previous) previous.parentNode.prepend(previous);  // Tab comes to it first
  const boxes = [...document.querySelectorAll("pre, .table-wrapper, .formula, .drawing")];
  const reachable = () => {
    for (const box of boxes) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };
  reachable();
  addEventListener("resize", reachable);
  for (const box of document.querySelectorAll("details")) box.addEventListener("toggle", reachable);
});
