#include "common/classroom/launches.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "common/lab/sites.hpp"

namespace fa::classroom {

bool find_lines_by([[maybe_unused]] std::string (*lines)(const std::string& addresses)) {
#if defined(FA_LAB_WATCHED)
  lab::own_addr2line = lines;
#endif
  return true;
}

#if defined(FA_LAB_WATCHED)
// Of the bytes that a block loads and stores in global memory, the most that one part of so many
// threads has, as a share.
static double largest_share(const std::vector<lab::Touch>& touches, int threads) {
  std::map<int, std::map<int, double>> blocks;  // bytes by part
  for (const lab::Touch& touch : touches) {
    if (!touch.shared && !touch.landed) blocks[touch.block][touch.thread / threads] += touch.size;
  }
  double most = 0;
  for (const auto& [block, parts] : blocks) {
    double all = 0, largest = 0;
    for (const auto& [part, bytes] : parts) all += bytes, largest = std::max(largest, bytes);
    most = std::max(most, largest / all);
  }
  return most;
}
#endif

Seen watch(const std::function<void()>& work) {
  Seen seen;
#if defined(FA_LAB_WATCHED)
  const lab::Watch watching;
  work();
  seen.watched = true;
  seen.report = watching.report();
  seen.touches = watching.touches();
  seen.of_warp = largest_share(seen.touches, FA_TARGET::kWarp);
  seen.of_thread = largest_share(seen.touches, 1);
  for (const lab::LineTraffic& line : seen.report.traffic) {
    seen.atomics += line.atomics;
    if (line.shared) {
      seen.wavefronts += line.wavefronts;
      seen.ideal += line.ideal;
    } else {
      seen.bytes += line.bytes;
      seen.sectors += line.sectors;
    }
  }
#else
  work();
#endif
  return seen;
}

Launched watched(const std::function<std::vector<double>()>& work) {
  Launched result;
  result.seen = watch([&] { result.out = work(); });
  return result;
}

double rows_ahead(const Seen& seen, int writer, int reader) {
  std::int64_t written = 0;
  for (const lab::Touch& touch : seen.touches) {
    if (!touch.shared || touch.size != sizeof(float)) continue;
    const int warp = touch.thread / FA_TARGET::kWarp;
    if (touch.write && warp == writer) ++written;
    if (!touch.write && warp == reader) break;
  }
  return static_cast<double>(written / FA_TARGET::kWarp);
}

std::string thrown(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

Field::Field(std::int64_t count) : buffer_(count + 2 * kRoom) {}

float* Field::data() {
  return buffer_.data() + kRoom;
}

std::vector<double> Field::numbers() const {
  const std::vector<double> all = from_device(buffer_);
  return {all.begin() + kRoom, all.end() - kRoom};
}

bool Field::written_beside() const {
  const std::vector<double> all = from_device(buffer_);
  const auto written = [](double x) { return !std::isnan(x); };
  return std::any_of(all.begin(), all.begin() + kRoom, written) ||
         std::any_of(all.end() - kRoom, all.end(), written);
}

std::string play(const std::string& bytes_of_puzzle, const Launcher& run) {
  const auto puzzle = unpacked<Puzzle>(bytes_of_puzzle);
  constexpr std::int64_t bytes = sizeof(float);
  Played result;
  std::vector<std::pair<const char*, std::int64_t>> arrays;  // where they are
  result.seen = watch([&] {
    std::vector<FA_TARGET::DeviceBuffer<float>> in;
    std::vector<const float*> pointers;
    for (const std::vector<float>& numbers : puzzle.in) {
      in.push_back(on_device(numbers));
      pointers.push_back(in.back().data());
      arrays.emplace_back(reinterpret_cast<const char*>(pointers.back()),
                          bytes * static_cast<std::int64_t>(numbers.size()));
    }
    FA_TARGET::DeviceBuffer<float> out(puzzle.out);
    arrays.emplace_back(reinterpret_cast<const char*>(out.data()), bytes * puzzle.out);
    run(pointers, out.data(), puzzle.sizes,
        Launch{{puzzle.grid[0], puzzle.grid[1]}, {puzzle.block[0], puzzle.block[1]}});
    result.out = from_device(out);
  });
  const char* shared = nullptr;  // the first word that was touched
  for (const lab::Touch& touch : result.seen.touches) {
    const auto* address = static_cast<const char*>(touch.address);
    if (touch.shared && (shared == nullptr || address < shared)) shared = address;
  }
  for (const lab::Touch& touch : result.seen.touches) {
    if (touch.landed) continue;
    const auto* address = static_cast<const char*>(touch.address);
    Place place{touch.block, touch.thread, -1, 0, touch.write ? 1 : 0};
    if (touch.shared) {
      place.element = (address - shared) / bytes;
    } else {  // out of bounds it belongs to the nearest
      std::int64_t nearest = INT64_MAX;
      for (std::size_t i = 0; i < arrays.size(); ++i) {
        const std::int64_t offset = address - arrays[i].first;
        const std::int64_t away = std::max({std::int64_t{0}, -offset, offset - arrays[i].second});
        if (away >= nearest) continue;
        nearest = away;
        place.array = static_cast<int>(i);
        place.element = offset < 0 ? -((-offset + bytes - 1) / bytes) : offset / bytes;
      }
    }
    for (int done = 0; done < touch.size; done += bytes, ++place.element) {
      result.places.push_back(place);
    }
  }
  return packed(result);
}

}  // namespace fa::classroom
