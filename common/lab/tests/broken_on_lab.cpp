// broken_on_lab [NAME]: what the watched lab says of the broken kernels, one line of JSON for each.
// broken_on_lab NAME --text: what it finds in a broken one, for people;
// NAME may also be that of a broken kernel for Hopper. broken_on_lab --hopper: these, as a table.
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/gpu/tests/broken_hopper.cuh"
#include "common/lab/watch.hpp"

namespace fa::on_watched_lab {
namespace {

void report(const BrokenKernel& kernel) {
  const lab::Watch watch;
  kernel.run(true);
  const std::string json = watch.report().json();
  fmt::print("{{\"name\": \"{}\", \"wrong\": \"{}\", \"report\": {}}}\n", kernel.name, kernel.wrong,
             json.substr(0, json.find('\n')));
}

// What is found; a deadlock ends the launch with an error instead.
void print_findings(const BrokenKernel& kernel) {
  const lab::Watch watch;
  try {
    kernel.run(true);
    fmt::print("{}", watch.report().findings_text());
  } catch (const std::runtime_error& error) {
    fmt::print("{}\n", error.what());
  }
}

int print_hopper_table() {
  fmt::print("{:<24}  {:<10}  {}\n", "broken kernel", "found as", "mistake");
  fmt::print("{:-<24}  {:-<10}  {:-<47}\n", "", "", "");
  for (const BrokenHopperKernel& kernel : broken_hopper_kernels()) {
    const lab::Watch watch;
    std::string kind = "nothing";
    try {
      kernel.run(true);
    } catch (const std::runtime_error&) {
      kind = "deadlock";
    }
    const auto findings = watch.report().findings;
    if (!findings.empty()) kind = findings.front().kind;
    fmt::print("{:<24}  {:<10}  {}\n", kernel.name, kind, kernel.wrong);
  }
  return 0;
}

int main_on_lab(const std::string& name, bool for_people) {
  if (name == "--hopper") return print_hopper_table();
  std::vector<BrokenKernel> kernels = broken_kernels();
  if (for_people) {
    for (const BrokenHopperKernel& kernel : broken_hopper_kernels()) kernels.push_back(kernel);
  }
  bool any = false;
  for (const BrokenKernel& kernel : kernels) {
    if (!name.empty() && kernel.name != name) continue;
    any = true;
    for_people ? print_findings(kernel) : report(kernel);
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
