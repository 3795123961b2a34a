// What drive_site.py asks of a page: each function returns a few faults.
"use strict";
window.pageFaults = (() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const words = (element, most = 40) => element.textContent.trim().replace(/\s+/g, " ").slice(0, most);
  const name = (image) => (image.currentSrc || image.src).split("/").pop();

  // Where an element is in the window, and the text between two offsets of a node of text.
  const box = (element) => element.getBoundingClientRect();
  const range = (node, from, to) => {
    const found = document.createRange();
    found.setStart(node, from);
    found.setEnd(node, to);
    return found;
  };
  // The texts of the page, without code and drawings.
  const texts = () => {
    const found = [], walk = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      if (!walk.currentNode.parentElement.closest("pre, code, script, svg, .explorer")) found.push(walk.currentNode);
    }
    return found;
  };

  // What sticks out to the right of the window, unless something around it scrolls or cuts it.
  const clipped = () => {
    const width = document.documentElement.clientWidth, found = [];
    const kept = (element) => {
      for (let around = element; around && around.tagName !== "ARTICLE"; around = around.parentElement) {
        const style = getComputedStyle(around);
        if (style.overflowX !== "visible" || style.position === "absolute") return true;
      }
      return false;
    };
    if (document.documentElement.scrollWidth > width) found.push("the page is wider than its window");
    for (const element of all("article *")) {
      if (element.namespaceURI !== "http://www.w3.org/1999/xhtml") continue;
      if (box(element).width && box(element).right > width + 1 && !kept(element)) found.push(`${element.tagName} ${words(element)}`);
    }
    return found.slice(0, 3);
  };

  // [how many formulas there are, how many that should be seen are not drawn].
  const formulas = () => {
    const shown = all("math").filter((math) => math.checkVisibility({ contentVisibilityAuto: true }));
    return [all("math").length, shown.filter((math) => !box(math).width).length];
  };

  // Gaps in formulas that TeX would not leave: beside infinity, before a point at the end, between + and =, all in
  // parts of the size of a letter.
  const gaps = () => {
    const found = [];
    for (const one of all("math mo, math mi")) {
      const next = one.nextElementSibling, text = one.textContent.trim();
      if (!next || next.localName === "mspace" || !box(one).width) continue;
      const gap = (box(next).left - box(one).right) / parseFloat(getComputedStyle(one).fontSize);
      const after = next.textContent.trim(), before = one.previousElementSibling;
      const sign = "\u2212+\u00b1".includes(text) && after === "\u221e";
      const first = !before || /^[=,(]$/.test(before.textContent);
      if ((sign && first || after === ".") && gap > 0.1) found.push(`${text} ${after}`);
      if ("+\u2212*".includes(text) && after === "=") found.push(`${text} ${after}`);
    }
    return found.slice(0, 3);
  };

  // Drawings and other pictures: the width of the text, and what is wrong with them.
  const drawings = (dark) => {
    const found = [];
    for (const around of all(".drawing")) {
      const image = around.querySelector("img"), hidden = around.scrollWidth - around.clientWidth;
      if (!around.checkVisibility()) continue;
      if (hidden > 1 && innerWidth > 800) found.push(`${name(image)} is cut by ${hidden} pixels`);
      if (hidden > 1 && (around.tabIndex < 0 || !around.matches(".more-right"))) found.push(`${name(image)} does not show that it scrolls`);
    }
    for (const image of all("article img")) {
      const scheme = getComputedStyle(image);
      if (scheme.colorScheme !== (dark ? "dark" : "light") || scheme.filter !== "none") {
        found.push(`${name(image)} has not the palette of the page`);
      }
    }
    return [document.querySelector("article").clientWidth, found.slice(0, 3)];
  };

  // On a wide page: tables of up to TABLE_COLUMNS columns fit.
  const TABLE_COLUMNS = 12;
  const tables = () => all("article .table-wrapper table").filter((table) => {
    const around = table.parentElement;
    return around.scrollWidth > around.clientWidth + 1 && table.rows[0].cells.length <= TABLE_COLUMNS;
  }).map((table) => `a table is cut: ${words(table)}`).slice(0, 3);

  // On a phone.
  const phones = () => {
    const found = [];
    for (const table of all("article .table-wrapper table")) {
      const around = table.parentElement, title = words(table, 30), names = [...table.querySelectorAll("tbody td:first-child")];
      const letters = (cell) => parseFloat(getComputedStyle(cell).fontSize);
      const squeezed = !table.matches(".stacked") && names.some((cell) =>
        cell.offsetWidth < 7 * letters(cell) && range(cell, 0, cell.childNodes.length).getBoundingClientRect().height > 2.5 * 1.5 * letters(cell));
      if (squeezed) found.push(`a squeezed first column: ${title}`);
      if (around.scrollWidth <= around.clientWidth + 1) continue;
      const long = [...table.querySelectorAll("td + td")].some((cell) => cell.textContent.length > 60);
      if (long) found.push(`a table with sentences is cut: ${title}`);
      if (around.tabIndex < 0 || !around.matches(".more-right")) found.push(`not seen to scroll: ${title}`);
      if (getComputedStyle(names[0]).position !== "sticky") found.push(`the first column goes: ${title}`);
      if (names[0].offsetWidth > 0.6 * around.clientWidth) found.push(`a wide first column: ${title}`);
    }
    for (const word of all("article .pre")) {
      if (/^-[\w-]+$/.test(word.textContent) && word.getClientRects().length > 1) found.push(`${word.textContent} is broken`);
    }
    const boxes = all(".mobile-header svg").filter((icon) => icon.checkVisibility()).map(box).sort((a, b) => a.left - b.left);
    boxes.forEach((one, i) => {
      if (one.width < 20 || i && one.left < boxes[i - 1].right + 6) found.push("icons are squeezed");
    });
    return found.slice(0, 5);
  };

  // Where a line ends and should not: before the punctuation of a formula, behind the sign of infinity.
  const ends = () => {
    const found = [];
    for (const math of all("article math:not([display=block])")) {
      const next = math.nextSibling;
      if (next?.nodeType !== 3 || !/^[.,;:!?)]/.test(next.data) || !box(math).width) continue;
      if (range(next, 0, 1).getBoundingClientRect().left < box(math).right - 1) found.push(`a line begins with '${next.data.slice(0, 12)}'`);
    }
    for (const text of texts()) {
      for (const match of text.data.matchAll(/[-\u2212](?=inf)/g)) {
        if (range(text, match.index, match.index + 4).getClientRects().length > 1) found.push(`a line ends behind the sign of '${text.data.slice(match.index, match.index + 12)}'`);
      }
    }
    return found.slice(0, 3);
  };

  // Figures whose unit may begin the next line.
  const units = () => texts().flatMap((text) => text.data.match(/\d (?:%|[GT]B\/s|TFLOP\/s|ms|hours)(?!\w)/g) || []).slice(0, 3);

  // On paper: tables, listings and formulas that would lose their right side, and what is longer than half a page and
  // may not be divided.
  const HALF = 480;
  const paper = () => [
    ...all("article :is(table, pre, math[display=block])").filter((one) => box(one).right > document.documentElement.clientWidth + 1)
      .map((one) => `too wide: ${one.tagName} ${words(one)}`),
    ...all("article :is(table, pre, ul, ol)").filter((one) => box(one).height > HALF && getComputedStyle(one).breakInside === "avoid")
      .map((one) => `in one piece: ${one.tagName} ${words(one)}`),
  ].slice(0, 3);

  return { clipped, formulas, gaps, drawings, tables, phones, ends, units, paper };
})();
