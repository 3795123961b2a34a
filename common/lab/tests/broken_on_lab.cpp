// broken_on_lab [NAME]: what the watched lab says of the broken kernels and of their right twins,
// one line of JSON for each. broken_on_lab NAME --text: what it finds in a broken one, for people.
#include <cstdio>
#include <exception>
#include <string>

#include <fmt/format.h>

#include "common/gpu/tests/broken.cuh"
#include "common/lab/watch.hpp"

namespace fa::on_watched_lab {
namespace {

void report(const BrokenKernel& kernel, bool broken) {
  const lab::Watch watch;
  kernel.run(broken);
  const std::string json = watch.report().json();
  fmt::print(
      "{{\"name\": \"{}\", \"version\": \"{}\", \"wrong\": \"{}\", \"kind\": "
      "\"{}\", \"report\": {}}}\n",
      kernel.name, broken ? "broken" : "right", kernel.wrong, kernel.kind,
      json.substr(0, json.find('\n')));
}

//! [watch]
void print_findings(const BrokenKernel& kernel) {
  const lab::Watch watch;
  kernel.run(true);
  fmt::print("{}", watch.report().findings_text());
}
//! [watch]

int main_on_lab(const std::string& name, bool for_people) {
  bool any = false;
  for (const BrokenKernel& kernel : broken_kernels()) {
    if (!name.empty() && kernel.name != name) continue;
    any = true;
    if (for_people) {
      print_findings(kernel);
      continue;
    }
    report(kernel, false);
    report(kernel, true);
  }
  if (any) return 0;
  fmt::print(stderr, "broken_on_lab: there is no broken kernel {}\n", name);
  return 2;
}

}  // namespace
}  // namespace fa::on_watched_lab

int main(int argc, char** argv) {
  try {
    const std::string name = argc > 1 ? argv[1] : "";
    const bool for_people = argc == 3 && std::string(argv[2]) == "--text";
    return fa::on_watched_lab::main_on_lab(name, for_people);
  } catch (const std::exception& error) {
    fmt::print(stderr, "broken_on_lab: {}\n", error.what());
    return 2;
  }
}
