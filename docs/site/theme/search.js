// How the search ranks: whole headings, then words of headings, then text; of the like, lessons before exercises.
var Scorer = {
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
  score: ([page, , , , score, , kind]) =>
    (kind === "title" ? 2 : 1) * score - (/exercises\/|results\/|appendix|errata|contributing|quiz|glossary/.test(page) ? 1 : 0),
};

// Of several words a rare one counts more. Where fewer than three pages have all of them, those with the most follow.
const pagesWith = Search.performTermsSearch;
Search.performTermsSearch = (words, excluded) => {
  const pages = new Map(), counts = new Map();
  let most = 0;
  for (const word of words) {
    const found = pagesWith(new Set([word]), excluded);
    const weight = Math.log(1 + Search._index.docnames.length / (found.length || 1));
    most += weight;
    for (const result of found) {
      const page = pages.get(result[0]) || [...result.with(4, 0)];
      page[4] += weight * result[4];
      pages.set(result[0], page);
      counts.set(page, (counts.get(page) || 0) + 1);
    }
  }
  const third = [...counts.values()].sort((a, b) => b - a)[2] || 1;
  return [...pages.values()].filter((page) => counts.get(page) >= third)
    .map((page) => page.with(4, page[4] / most * counts.get(page) / words.size));
};

// Names of the code have a file of their own, loaded when a word looks like one. They follow the pages.
const queryPages = Search.query;
Search.query = (words) => {
  if (!/[a-z\d][A-Z]|\w_\w/.test(words)) return queryPages(words);
  const names = document.body.appendChild(document.createElement("script"));
  names.onload = names.onerror = () => queryPages(words);
  names.src = document.documentElement.dataset.content_root + "_static/names.js";
};
Search.performObjectSearch = (word) => ((window.codeNames || {})[word] || []).map(([name, page, anchor]) =>
  [page, name, anchor, "in the reference of the code", -1, page, "object"]);
