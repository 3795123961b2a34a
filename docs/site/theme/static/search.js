// The search: ranks the sections of all pages (search_data.js) by BM25, headings before text, and shows the best pages
// with an excerpt. Works from files; q= in the address holds the words.
"use strict";
(() => {
  const SHOWN = 20, SECTIONS = 3;
  const GROUP = {
    "For contributors": 0.4, "For teachers": 0.8, "Reference": 0.75, "Start here": 0.8, Exercises: 0.5, Results: 0.5, Errata: 0.3,
    Theory: 0.85, Explorers: 0.8, "Front page": 0.5, Quiz: 0.4,
  };
  // Sections that name a subject and do not teach it.
  const MINOR = { references: 0.15, "do now": 0.3, "do it now": 0.3, questions: 0.5, summary: 0.7, "how it is checked": 0.5 };
  // What a term of the glossary gives to the places that teach it, the first one first.
  const TAUGHT = [2.4, 1.7, 1.3];
  const input = document.getElementById("course-query");
  const list = document.getElementById("course-results");
  const count = document.getElementById("course-count");
  const code = document.getElementById("course-code"), term = document.getElementById("course-term");
  // FA-3 is FlashAttention-3, lesson 5 is lesson 05.
  const words = (text) => (text.replace(/\bFA-?(\d)/gi, "FlashAttention-$1").replace(/flash ?attention/gi, "FlashAttention").replace(/([a-z])([A-Z][a-z])/g, "$1 $2")
    .toLowerCase().normalize("NFKD").match(/[a-z0-9]+/g) || []).map((word) => word.replace(/^0(\d)$/, "$1"));
  // Plural and -ing, -ed forms meet their stems.
  const stem = (word) => {
    if (word.length > 5 && word.endsWith("ing")) word = word.slice(0, -3);
    else if (word.length > 4 && word.endsWith("ies")) word = word.slice(0, -3) + "y";
    else if (word.length > 4 && word.endsWith("ed")) word = word.slice(0, -2);
    else if (word.length > 3 && word.endsWith("s") && !word.endsWith("ss")) word = word.slice(0, -1);
    return word.length > 4 && word.endsWith("e") ? word.slice(0, -1) : word;
  };
  const stems = (text) => words(text).map(stem);
  // zig-zag is also found as zigzag.
  const joined = (text) => (text.match(/\b[a-z]+-[a-z]+\b/gi) || []).map((word) => stem(word.toLowerCase().replace("-", "")));
  const SMALL = new Set(("a an and are as at be been by can do does for from has have how i in is it its me my of on or our shall should so than " +
    "that the their then there this to was we were what when where which who why will with would you your " +
    "beside explain explained find mean meaning open please show teach teaches").split(" "));
  const CODE = new Set("class code cuh file function kernel listing program source struct".split(" "));

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
      add(joined(text), 1);
      add(joined(heading), i === 0 ? 12 : 8);
      if (i > 0) add(stems(title), 2);
      for (const word of weights.keys()) frequency.set(word, (frequency.get(word) || 0) + 1);
      total += body.length;
      documents.push({
        url, title, group, anchor, heading, text, weights, length: body.length, first: i === 0,
        phrase: " " + body.join(" ") + " ", headingPhrase: " " + stems(heading).join(" ") + " ",
      });
    });
  }
  // Where a page is in the course: chapters are numbered anew in each lesson.
  const place = ({ url, group }) => (group === "Lessons" ? `Lesson ${url.slice(0, 2)}` : group);
  const vocabulary = [...frequency.keys()];
  const average = total / documents.length;

  // The words of the index that a word of the query stands for: itself, or those that it begins.
  const meant = (word, last) => {
    if (frequency.has(word) && !(last && word.length < 3)) return [word];
    return word.length < 2 ? [] : vocabulary.filter((known) => known.startsWith(word)).slice(0, 50);
  };

  // The words of a question that say what it is about.
  const weighty = (query) => {
    const all = words(query), some = all.filter((word) => !SMALL.has(word));
    return some.length ? some : all;
  };

  const search = (query) => {
    // "lesson 5" says where to look, unless nothing else is asked.
    const lesson = query.match(/\blesson\s+0?(\d)\b/i);
    const rest = lesson ? query.replace(lesson[0], " ") : query;
    const within = lesson && words(rest).some((word) => !SMALL.has(word)) ? "0" + lesson[1] + "_" : null;
    const asked = weighty(within ? rest : query).map(stem), wantsExercise = asked.includes("exercis");
    if (!asked.length) return [];
    const alternatives = asked.map((word, i) => meant(word, i === asked.length - 1));
    const phrase = " " + asked.join(" ") + " ";
    const pages = new Map(), gains = taught(rest);
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
      score *= doc.group === "Exercises" && wantsExercise ? 1 : GROUP[doc.group] || 1;
      if (doc.url.includes("/appendix")) score *= 0.7;
      score *= MINOR[doc.heading.toLowerCase()] || 1;
      score *= gains.get(`${doc.url}#${doc.anchor}`) || 1;
      if (within && doc.url.startsWith(within)) score *= 1.5;
      if (!pages.has(doc.url)) pages.set(doc.url, []);
      pages.get(doc.url).push({ doc, score });
    }
    const ranked = [...pages.values()].map((hits) => {
      hits.sort((a, b) => b.score - a.score);
      // A page about the words has more than one section with them.
      const score = hits.slice(0, 4).reduce((sum, hit, i) => sum + hit.score * [1, 0.3, 0.15, 0.1][i], 0);
      return { hits, score: score * (gains.get(hits[0].doc.url) || 1) };
    });
    return ranked.sort((a, b) => b.score - a.score).slice(0, SHOWN);
  };

  // Names of the code, and files of kernels, that have all the words; those with the fewest others first.
  const names = (query) => {
    const asked = weighty(query).filter((word) => !CODE.has(word));
    if (asked.join("").length < 3) return [];
    const found = [];
    for (const [name, url] of window.courseNames) {
      const short = name.split(/::|\//).pop(), parts = words(short.replace(/_/g, " ").replace(/\.\w+$/, ""));
      const whole = short.toLowerCase().startsWith(query.trim().toLowerCase().replace(/\(\)$/, ""));
      const has = (word) => parts.some((part) => stem(part) === stem(word));
      if (whole || asked.every(has)) found.push([parts.length + name.length / 1000, name, url]);
    }
    return found.sort((a, b) => a[0] - b[0]).slice(0, 5).map(([, name, url]) => [name, url]);
  };

  // The terms of the glossary that the words are, or that begin with them; or else that stand in them.
  const terms = (query) => {
    const phrase = " " + weighty(query).map(stem).join(" ") + " ";
    const found = window.courseTerms.map((entry) => [" " + stems(entry[0].replace(/\(.*?\)/, "")).join(" ") + " ", entry])
      .filter(([known]) => known.trim() && (phrase.includes(known) || (phrase.length > 5 && known.startsWith(phrase))));
    const fit = ([known]) => Math.min(known.length, phrase.length) / Math.max(known.length, phrase.length);
    found.sort((a, b) => fit(b) - fit(a));
    return found.slice(0, 1).filter((one) => fit(one) >= 0.5 || one[0].startsWith(phrase)).map(([, entry]) => entry);
  };
  // How much more the places count that teach the term of the query: its pages, and its sections.
  const taught = (query) => {
    const gains = new Map();
    for (const [, , , places] of terms(query)) {
      places.slice(0, TAUGHT.length).forEach((place, i) => {
        for (const key of [place, place.split("#")[0]]) if (!gains.has(key)) gains.set(key, TAUGHT[i]);
      });
    }
    return gains;
  };

  // How many letters are missing, surplus, wrong or exchanged with their neighbour.
  const distance = (a, b) => {
    let older, old, row = [...b, ""].map((_, j) => j);
    for (let i = 1; i <= a.length; ++i) {
      [older, old, row] = [old, row, [i]];
      for (let j = 1; j <= b.length; ++j) {
        row[j] = Math.min(old[j] + 1, row[j - 1] + 1, old[j - 1] + (a[i - 1] !== b[j - 1]));
        if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) row[j] = Math.min(row[j], older[j - 2] + 1);
      }
    }
    return row[b.length];
  };
  // The query with words of headings and of the glossary for those that no page has; null if it needs none.
  const spelled = [...new Set([...documents.map((doc) => doc.heading), ...window.courseTerms.map(([name]) => name)].flatMap(words))];
  const corrected = (query) => {
    const asked = weighty(query);
    const better = asked.map((word) => {
      if (word.length < 4 || meant(stem(word), true).length) return word;
      const near = spelled.map((known) => [distance(word, known), known]).sort((a, b) => a[0] - b[0])[0];
      return near[0] <= (word.length < 6 ? 1 : 2) ? near[1] : word;
    }).join(" ");
    return better === asked.join(" ") ? null : better;
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
      // Punctuation is not what was found.
      const [, before, word, after] = token.match(/^([^\p{L}\p{N}]*)(.*?)([^\p{L}\p{N}]*)$/su);
      shown.append(...(hit(token) ? [before, element("mark", word), after] : [token]));
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
      head.append(element("span", place(doc), { className: "course-group" }));
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
    term.replaceChildren();
    for (const [name, text, url] of terms(query)) {
      term.append(element("a", name, { href: url }), ": " + text);
    }
    const matching = names(query);
    code.replaceChildren();
    matching.forEach(([name, url], i) => {
      code.append(i ? ", " : "In the code: ", element("a", name, { href: "reference/" + url }));
    });
    const number = found.length === SHOWN ? `The ${SHOWN} best pages` : `${found.length} pages`;
    count.textContent = query.trim() ? (found.length || matching.length ? number : "No page has these words.") : "";
    const better = corrected(query);
    if (better) count.append(" Did you mean ", element("a", better, { href: "?q=" + encodeURIComponent(better) }), "?");
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
