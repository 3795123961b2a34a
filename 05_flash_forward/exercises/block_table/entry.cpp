#include "common/classroom/prelude_lab.hpp"
#include "student/block_table.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

// The cache begins `far` elements before the one that the kernel is given, and its pages there are
// those with numbers from far / elements of a page on.
FA_ENTRY(gather, [](const std::vector<float>& cache, const std::vector<int>& block_table,
                    const std::vector<int>& lengths, int page_size, std::int64_t far_pages) {
  return watched([&] {
    const auto keys = on_device(cache);
    const auto table = on_device(block_table), of_lengths = on_device(lengths);
    const std::int64_t of_page = std::int64_t{page_size} * kColumns;
    const int batch = static_cast<int>(lengths.size());
    const int most_pages = static_cast<int>(block_table.size()) / batch;
    const auto cache_pages = static_cast<std::int64_t>(cache.size()) / of_page + far_pages;
    DeviceBuffer<float> out(std::int64_t{batch} * most_pages * of_page);
    const Pages pages{keys.data() - far_pages * of_page, table.data(), of_lengths.data(),
                      static_cast<int>(cache_pages),     page_size,    most_pages};
    launch(gather_keys, {{static_cast<unsigned>(batch)}, {kThreads}}, pages, out.data());
    return from_device(out);
  });
});
