// Text inside of XML and JSON.
#include "common/files/escape.hpp"

#include <doctest/doctest.h>

using namespace fa;

TEST_CASE("XML gets no character that it would take for its own") {
  CHECK(xml_text("a<b> & \"c\"") == "a&lt;b&gt; &amp; &quot;c&quot;");
  CHECK(xml_text("tab\tbell\a") == "tab bell ");
  CHECK(xml_text("QKᵀ") == "QKᵀ");
}

TEST_CASE("JSON gets its quotes, and escapes for what may not stand there") {
  CHECK(json_text("") == "\"\"");
  CHECK(json_text("a \"b\" \\c") == R"("a \"b\" \\c")");
  CHECK(json_text("two\nlines\t") == R"("two\u000alines\u0009")");
  CHECK(json_text("QKᵀ") == "\"QKᵀ\"");
}
