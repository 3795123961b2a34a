/// @file
/// The tables of a functor in the memory of a device. Compiled once for each backend: see
/// common/gpu/target.hpp.
#pragma once

#include <vector>

#include "05_flash_forward/src/functors.hpp"
#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {

/// A functor's tables on the device.
class DeviceFunctor {
 public:
  /// Copies the tables.
  DeviceFunctor(const FunctorSpec& spec, const flash::functors::FunctorTables& tables)
      : spec_(spec),
        documents_(copied(tables.documents)),
        slopes_(copied(tables.slopes)),
        sinks_(copied(tables.sinks)),
        bias_(copied(tables.bias)),
        blocks_(copied(tables.blocks)),
        bits_(copied(tables.bits)) {
    spec_.documents = documents_.data();
    spec_.slopes = slopes_.data();
    spec_.sinks = sinks_.data();
    spec_.bias = bias_.data();
    spec_.blocks = blocks_.data();
    spec_.bits = bits_.data();
  }
  /// With pointers of the device.
  const FunctorSpec& spec() const { return spec_; }

 private:
  template <class E>
  static DeviceBuffer<E> copied(const std::vector<E>& from) {
    DeviceBuffer<E> to(static_cast<std::int64_t>(from.size()));
    if (!from.empty()) to.upload(from.data());
    return to;
  }

  FunctorSpec spec_;
  DeviceBuffer<std::int32_t> documents_;
  DeviceBuffer<float> slopes_, sinks_, bias_;
  DeviceBuffer<unsigned char> blocks_;
  DeviceBuffer<std::uint32_t> bits_;
};

}  // namespace fa::FA_TARGET
