// What the programs here share: arrays on the device, and the test of what a kernel leaves in one.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

template <class T>
T *on_device(const std::vector<T> &host) {
  T *device;
  cudaMalloc(&device, host.size() * sizeof(T));
  cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice);
  return device;
}
template <class T>
std::vector<T> on_host(const T *device, int n) {
  std::vector<T> host(n);
  if (cudaMemcpy(host.data(), device, n * sizeof(T), cudaMemcpyDeviceToHost) != cudaSuccess) exit(1);
  return host;
}
// value(0), value(1), ...
template <class T = float, class Value>
std::vector<T> numbers(int n, Value value) {
  std::vector<T> result(n);
  for (int i = 0; i < n; ++i) result[i] = value(i);
  return result;
}
// Says how many elements are not value(0), value(1), ...; the program's exit status.
template <class T, class Value>
int check(const T *device, int n, Value value, double most = 0) {
  int wrong = 0;
  const std::vector<T> host = on_host(device, n);
  for (int i = 0; i < n; ++i) wrong += !(std::fabs(double(host[i]) - double(value(i))) <= most);
  printf("%d of %d elements are wrong\n", wrong, n);
  return wrong != 0;
}
