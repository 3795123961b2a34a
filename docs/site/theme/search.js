// How the search ranks: whole headings, then words of headings, then text; of the like, lessons before exercises.
var Scorer = {
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
  score: ([page, , , , score, , kind]) =>
    (kind === "title" ? 2 : 1) * score - (/exercises\/|results\/|appendix|errata|contributing|quiz/.test(page) ? 1 : 0),
};
