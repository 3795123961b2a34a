// Runs inside MathJax's configuration. A formula that is wider than its column is broken into lines;
// no message covers the page while a script loads.
MathJax.Hub.Config({
  messageStyle: "none",
  SVG: { linebreaks: { automatic: true } }
});
