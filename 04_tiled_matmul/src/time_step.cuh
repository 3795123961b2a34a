/// Checks a step, then prints the milliseconds of C = A B with square matrices of two sizes.
template <class T, class Run>
bool check_and_time(Run run) {
  if (!check_matmul<T>(run)) return false;
  for (const int size : {4096, 8192}) {
    const std::size_t count = std::size_t{1} * size * size;
    const MatmulParams<T> p{device_values<T>(count, 1),
                            device_values<T>(count, 2),
                            device_array<float>(count),
                            size,
                            size,
                            size,
                            size,
                            size,
                            size};
    std::printf("%d: %.4f ms\n", size, milliseconds([&] { run(p); }));
  }
  return true;
}
