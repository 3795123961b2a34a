// The arrow keys, Page Up and Page Down turn the slides.
"use strict";
(() => {
  const slides = [...document.querySelectorAll(".slide")];
  document.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1 }[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    const now = slides.findLastIndex((slide) => slide.getBoundingClientRect().top <= 5);
    const next = slides[Math.min(slides.length - 1, Math.max(0, now + step))];
    next.scrollIntoView({ behavior: "instant" });
    event.preventDefault();
  });
})();
