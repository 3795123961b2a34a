// Tables and records of measurements, and the resources and options of kernels.
#include "common/cli/table.hpp"

#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/cli/kernels.hpp"
#include "common/cli/program.hpp"
#include "common/testing/process.hpp"

using namespace fa;
using namespace fa::cli;
using namespace fa::testing;

TEST_CASE("a table aligns numbers right and text left") {
  Table table({"mixed", "numbers", "word"});
  table.add({"1", "-1.5", "info"});
  table.add({"x", "+2e-3", "nan?"});
  table.add({"", "inf", "infinite"});
  table.add({"-", "-inf", "-x"});
  table.add({"2", "nan", "n"});
  table.add({"3", "-", "4"});
  table.add({"3", "17 %", "5"});
  CHECK(table.text() ==
        "mixed  numbers  word\n"
        "-----  -------  --------\n"
        "1         -1.5  info\n"
        "x        +2e-3  nan?\n"
        "           inf  infinite\n"
        "-         -inf  -x\n"
        "2          nan  n\n"
        "3            -  4\n"
        "3         17 %  5\n");
}

TEST_CASE("a table counts characters, not bytes") {
  CHECK(display_width("x → größer") == 10);
  Table table({"Größe", "∑"});
  table.add({"größer", "1"});
  table.add({"x", "22"});
  CHECK(table.text() ==
        "Größe    ∑\n"
        "------  --\n"
        "größer   1\n"
        "x       22\n");
}

TEST_CASE("a row that does not fit its table is refused") {
  CHECK_THROWS_AS(Table({"a", "b"}).add({"1"}), std::invalid_argument);
  CHECK(Table({"a", "bcd"}).text() == "a  bcd\n-  ---\n");
}

TEST_CASE("measurements are shown as a table and recorded as JSON") {
  cli::Measurement fast{
      {"kernel", std::string("01 \"fast\"")}, {"milliseconds", 0.1234}, {"tflops", 12.345}};
  cli::add_resources(fast, {128, 49152, 16, 2, 0.25, 384, 3});
  const std::vector<cli::Measurement> rows{
      fast, {{"kernel", std::string("02")}, {"milliseconds", 1.0}, {"tflops", 1.5}}};
  CHECK(cli::table_of(rows, std::vector<std::string>{"kernel"}) ==
        "kernel        ms  TFLOP/s  registers  shared, B  spilled, B  blocks/SM  % of warps\n"
        "---------  -----  -------  ---------  ---------  ----------  ---------  ----------\n"
        "01 \"fast\"  0.123    12.35        128      49152          16          2          25\n"
        "02         1.000     1.50          -          -           -          -           -\n");
  const TemporaryDirectory directory;
  const auto file = directory.path() / "record.json";
  DeviceProperties device;
  device.name = "A GPU";
  device.toolkit = "1.2";
  cli::Record({file.string(), ""}, device, "prog --size 3").add(rows);
  const std::string text = file_bytes(file);
  CAPTURE(text);
  for (const char* part :
       {"\"gpu\": \"A GPU\"", "\"driver\": \"", "\"toolkit\": \"1.2\"", "\"commit\": \"",
        "\"date\": \"20", "\"command\": \"prog --size 3\"",
        "{\"kernel\": \"01 \\\"fast\\\"\", \"milliseconds\": 0.1234, ",
        "\"registers\": 128, \"shared_bytes\": 49152", "\"threads\": 384, \"stages\": 3"}) {
    CHECK(contains(text, part));
  }
}

TEST_CASE("a record is written after each point") {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "record.json";
  const auto row = [](const std::string& group, double ms) {
    return cli::Measurement{{"group", group}, {"milliseconds", ms}};
  };
  cli::Record record({file.string(), "abcdef0"}, {}, "prog");
  record.add({row("one", 1), row("one", 2)});
  CHECK(contains(file_bytes(file), "\"commit\": \"abcdef0\""));
  CHECK(contains(file_bytes(file), "[\n    {\"group\": \"one\", \"milliseconds\": 1},\n"));
  record.add({row("two", 3)});
  CHECK(contains(file_bytes(file), "2},\n    {\"group\": \"two\", \"milliseconds\": 3}\n  ]\n}\n"));
  CHECK(python_says("len(json.load(open(file))[\"measurements\"])", file) == "3\n");
  record.finish();
  CHECK_THROWS_AS(
      cli::Record({(directory.path() / "no" / "file").string(), ""}, {}, "prog").add({}),
      std::runtime_error);
}

TEST_CASE("peaks are known for the compute capabilities of the course") {
  DeviceProperties device;
  device.compute_capability = 90;
  device.sm_count = 132;
  device.clock_hz = 1.83e9;
  // NVIDIA's data sheet of the H100 SXM: 67 and 989 TFLOP/s.
  CHECK(*peak_flops(device, Arithmetic::kTensorCores16) / 1e12 ==
        doctest::Approx(989).epsilon(0.01));
  device.clock_hz = 1.98e9;
  CHECK(*peak_flops(device, Arithmetic::kFloat32) / 1e12 == doctest::Approx(67).epsilon(0.01));
  device.compute_capability = 0;
  CHECK_FALSE(peak_flops(device, Arithmetic::kFloat32).has_value());
}

TEST_CASE("a part of a name selects kernels; one that selects none is refused") {
  KernelOptions options;
  CHECK(options.wants("01_first"));
  CHECK(options.size_or(70) == 70);
  options.kernel = "sec";
  options.size = 3;
  CHECK(options.wants("02_second"));
  CHECK_FALSE(options.wants("01_first"));
  CHECK(options.size_or(70) == 3);
  CHECK_NOTHROW(check_kernel(options, {"01_first", "02_second"}, "04_x"));
  CHECK_THROWS_AS(check_kernel(options, {"01_first"}, "04_x"), std::invalid_argument);
}

TEST_CASE("without a GPU sections use the lab and measure no times") {
  Program program("04_x", "A lesson.");
  const KernelBackends<BackendBase> backends(
      program, {{"lab", true, {}, {}, {}}, {"watched", true, {}, {}, {}}});
  CHECK(backends.used().kind == "lab");
  std::string seen;
  backends.watching([&](const BackendBase& on) { seen = on.kind; })();
  CHECK(seen == "watched");
  KernelOptions options;
  CHECK_FALSE(can_time(program, options));
  options.results = "file.json";
  CHECK_THROWS_AS(can_time(program, options), std::invalid_argument);
}
