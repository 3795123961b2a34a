// The search: ranks the sections of all pages (search_data.js) by BM25, headings before text, and shows the best pages
// with an excerpt. Works from files; q= in the address holds the words.
"use strict";
(() => {
  const SHOWN = 20, SECTIONS = 3;
  const GROUP = { "For contributors": 0.4, "For teachers": 0.8, "Reference": 0.75, "Start here": 0.8, Exercises: 0.5 };
  const input = document.getElementById("course-query");
  const list = document.getElementById("course-results");
  const count = document.getElementById("course-count");
  const words = (text) => text.replace(/([a-z])([A-Z][a-z])/g, "$1 $2").toLowerCase().normalize("NFKD").match(/[a-z0-9]+/g) || [];
  // Plural and -ing, -ed forms meet their stems.
  const stem = (word) => {
    if (word.length > 5 && word.endsWith("ing")) word = word.slice(0, -3);
    else if (word.length > 4 && word.endsWith("ies")) word = word.slice(0, -3) + "y";
    else if (word.length > 4 && word.endsWith("ed")) word = word.slice(0, -2);
    else if (word.length > 3 && word.endsWith("s") && !word.endsWith("ss")) word = word.slice(0, -1);
    return word.length > 4 && word.endsWith("e") ? word.slice(0, -1) : word;
  };
  const stems = (text) => words(text).map(stem);
  const SMALL = new Set("a an and by for from how in is of on or the to what where which with".split(" "));

  // One document per section: its words with weights. A page's title counts for its first section.
  const documents = [], frequency = new Map();
  let total = 0;
  for (const [url, title, group, sections] of window.coursePages) {
    sections.forEach(([anchor, heading, text, code], i) => {
      const weights = new Map();
      const add = (list, weight) => {
        for (const word of list) weights.set(word, (weights.get(word) || 0) + weight);
      };
      const body = stems(text);
      add(body, 1);
      add(stems(code), 0.3);
      add(stems(heading), i === 0 ? 12 : 8);
      if (i > 0) add(stems(title), 2);
      for (const word of weights.keys()) frequency.set(word, (frequency.get(word) || 0) + 1);
      total += body.length;
      documents.push({
        url, title, group, anchor, heading, text, weights, length: body.length, first: i === 0,
        phrase: " " + body.join(" ") + " ", headingPhrase: " " + stems(heading).join(" ") + " ",
      });
    });
  }
  const vocabulary = [...frequency.keys()];
  const average = total / documents.length;

  // The words of the index that a word of the query stands for: itself, or those that it begins.
  const meant = (word, last) => {
    if (frequency.has(word) && !(last && word.length < 3)) return [word];
    return word.length < 2 ? [] : vocabulary.filter((known) => known.startsWith(word)).slice(0, 50);
  };

  const search = (query) => {
    let asked = words(query);
    if (asked.some((word) => !SMALL.has(word))) asked = asked.filter((word) => !SMALL.has(word));
    asked = asked.map(stem);
    if (!asked.length) return [];
    const alternatives = asked.map((word, i) => meant(word, i === asked.length - 1));
    const phrase = " " + asked.join(" ") + " ";
    const pages = new Map();
    for (const doc of documents) {
      let score = 0, matched = 0;
      for (const known of alternatives) {
        let best = 0;
        for (const word of known) {
          const weight = doc.weights.get(word);
          if (!weight) continue;
          const n = frequency.get(word);
          const rarity = Math.log(1 + (documents.length - n + 0.5) / (n + 0.5));
          const norm = 0.4 + 0.6 * (doc.length + 30) / (average + 30);
          best = Math.max(best, rarity * weight * 2.2 / (weight + 1.2 * norm));
        }
        if (best) matched += 1;
        score += best;
      }
      if (!matched) continue;
      score *= (matched / asked.length) ** 3;
      if (asked.length > 1 && doc.phrase.includes(phrase)) score *= 1.5;
      if (doc.headingPhrase.includes(phrase)) score *= doc.first ? 2 : 1.8;
      score *= GROUP[doc.group] || 1;
      if (!pages.has(doc.url)) pages.set(doc.url, []);
      pages.get(doc.url).push({ doc, score });
    }
    const ranked = [...pages.values()].map((hits) => {
      hits.sort((a, b) => b.score - a.score);
      // A page about the words has more than one section with them.
      const score = hits.slice(0, 4).reduce((sum, hit, i) => sum + hit.score * [1, 0.3, 0.15, 0.1][i], 0);
      return { hits, score };
    });
    return ranked.sort((a, b) => b.score - a.score).slice(0, SHOWN);
  };

  const names = (query) => {
    const wanted = query.trim().toLowerCase().replace(/\(\)$/, "");
    if (wanted.length < 3) return [];
    return window.courseNames
      .filter(([name]) => name.toLowerCase().split("::").pop().startsWith(wanted) || name.toLowerCase() === wanted)
      .sort((a, b) => a[0].length - b[0].length)
      .slice(0, 5);
  };

  const element = (tag, text, more) => Object.assign(document.createElement(tag), { textContent: text }, more);
  const excerpt = (text, query) => {
    const asked = new Set(stems(query));
    const tokens = text.split(/(\s+)/);
    const hit = (token) => stems(token).some((word) => asked.has(word));
    let best = 0, most = -1;
    for (let i = 0; i < tokens.length; i += 10) {
      const here = tokens.slice(i, i + 60).filter(hit).length;
      if (here > most) { most = here; best = i; }
    }
    const shown = element("p", "", { className: "course-excerpt" });
    if (best) shown.append("… ");
    for (const token of tokens.slice(best, best + 70)) {
      shown.append(hit(token) ? element("mark", token) : token);
    }
    if (tokens.length > best + 70) shown.append(" …");
    return shown;
  };

  const show = () => {
    const query = input.value;
    const found = search(query);
    list.replaceChildren();
    for (const { hits } of found) {
      const { doc } = hits[0];
      const item = document.createElement("li");
      const head = document.createElement("p");
      head.className = "course-hit";
      head.append(element("a", doc.title, { href: doc.url + (doc.first ? "" : "#" + doc.anchor) }));
      if (!doc.first) head.append(" › " + doc.heading);
      head.append(element("span", doc.group, { className: "course-group" }));
      item.append(head, excerpt(doc.text, query));
      const others = hits.slice(1, SECTIONS).filter((hit) => hit.score > hits[0].score / 3);
      if (others.length) {
        const also = element("p", "Also: ", { className: "course-also" });
        others.forEach((hit, i) => {
          if (i) also.append(", ");
          also.append(element("a", hit.doc.heading, { href: hit.doc.url + "#" + hit.doc.anchor }));
        });
        item.append(also);
      }
      list.append(item);
    }
    const code = names(query);
    if (code.length) {
      const item = element("li", "", { className: "course-names" });
      const line = element("p", "In the code: ", { className: "course-hit" });
      code.forEach(([name, url], i) => {
        if (i) line.append(", ");
        line.append(element("a", name, { href: "reference/" + url }));
      });
      item.append(line);
      list.append(item);
    }
    const number = found.length === SHOWN ? `The ${SHOWN} best pages` : `${found.length} pages`;
    count.textContent = query.trim() ? (found.length || code.length ? number : "No page has these words.") : "";
    const address = new URL(location);
    if (query) address.searchParams.set("q", query);
    else address.searchParams.delete("q");
    history.replaceState(null, "", address);
  };

  input.value = new URLSearchParams(location.search).get("q") || "";
  input.addEventListener("input", show);
  document.getElementById("course-search").addEventListener("submit", (event) => event.preventDefault());
  show();
})();
