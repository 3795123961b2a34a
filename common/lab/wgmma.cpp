#include "common/lab/wgmma.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/lab/lab_thread.hpp"
#include "common/lab/operand.hpp"

namespace fa::lab {
namespace {

constexpr std::size_t kChunk = Operand::kChunk;
constexpr std::size_t kMostDepth = 32;  // of a wgmma, along K, with operands of 8 bits
// An accumulator in flight: a NaN that signals, so that arithmetic with it gives another one.
constexpr std::uint32_t kPoisonedSum = 0xffbfffff;

// The fragment of A in registers, as in mma.m16n8k16, or with operands of 8 bits in mma.m16n8k32:
// to[k * kRows + row].
template <class T>
void fetch_fragments(const std::array<const std::uint32_t*, kWarpSize>& a, float* to) {
  constexpr std::size_t together = 4 / sizeof(T);  // of a register
  for (std::size_t lane = 0; lane < kWarpSize; ++lane) {
    const std::size_t g = lane / 4, t = lane % 4;
    float elements[4 * together];
    widen<T>(a[lane], elements);
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t e = 0; e < together; ++e) {
        const std::size_t k = together * (t + 4 * (i / 2)) + e;
        to[k * kRows + g + 8 * (i % 2)] = elements[together * i + e];
      }
    }
  }
}

// The same with operands of 8 bits: the products, which are exact, and what the sum was are shifted
// to the largest exponent among them, cut off kFp8FractionBits behind its point, and added.
void multiply_8_bits(const float* a, const float* b, std::size_t cols, float* tile) {
  constexpr std::size_t together = 8, depth = kMostDepth;
  const auto power_of_two = [](int exponent) {
    const std::int32_t bits = (exponent + 127) * (1 << 23);
    float result;
    std::memcpy(&result, &bits, sizeof result);
    return result;
  };
  const auto special = [](float x) { return std::abs(x) < INFINITY ? 0.0f : x; };  // or NaN
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t first = 0; first < cols; first += together) {
      float* const at = tile + row * cols + first;
      float summands[depth + 1][together], largest[together], not_finite[together] = {};
      std::memcpy(summands[depth], at, sizeof summands[depth]);
      for (std::size_t i = 0; i < together; ++i) largest[i] = std::abs(summands[depth][i]);
      for (std::size_t k = 0; k < depth; ++k) {
        const float operand = a[k * kRows + row];
        const float* const of_b = b + k * cols + first;
        for (std::size_t i = 0; i < together; ++i) {
          const float product = operand * of_b[i];
          summands[k][i] = product;
          largest[i] = std::max(largest[i], std::abs(product));
          not_finite[i] += special(product);
        }
      }
      float to_units[together], unit[together];  // the last place, and its inverse
      for (std::size_t i = 0; i < together; ++i) {
        std::int32_t bits;
        std::memcpy(&bits, &largest[i], sizeof bits);
        const int exponent = std::max((bits >> 23) - 127, -100);
        unit[i] = power_of_two(exponent - kFp8FractionBits);
        to_units[i] = power_of_two(kFp8FractionBits - exponent);
      }
      std::int32_t sum[together] = {};
      for (std::size_t k = 0; k <= depth; ++k) {
        for (std::size_t i = 0; i < together; ++i) {
          sum[i] += static_cast<std::int32_t>(summands[k][i] * to_units[i]);
        }
      }
      for (std::size_t i = 0; i < together; ++i) {
        at[i] = static_cast<float>(sum[i]) * unit[i] + not_finite[i] + special(summands[depth][i]);
      }
    }
  }
}

// Visits the elements of a lane's sums: its index, and where it stands in a tile.
template <class Visit>
void for_sums(std::size_t lane, std::size_t cols, Visit visit) {
  const std::size_t g = lane / 4, t = lane % 4;
  for (std::size_t j = 0; j < cols / 8; ++j) {
    for (std::size_t h = 0; h < 2; ++h) {
      for (std::size_t e = 0; e < 2; ++e) {
        visit(4 * j + 2 * h + e, (8 * h + g) * cols + 8 * j + 2 * t + e);
      }
    }
  }
}

Operand operand(const WgmmaQueue::Setting& setting, std::uint64_t descriptor, WgmmaType type,
                bool mn_major, const SourceLocation& location) {
  return {setting.shared, setting.shared_bytes, descriptor, type, mn_major, location};
}

}  // namespace

void WgmmaQueue::begin(const Setting& setting, const WgmmaShape& shape,
                       const std::array<WgmmaLane, kWarpSize>& lanes,
                       const SourceLocation& location) {
  Wgmma wgmma{shape, {}, nullptr, location, {}};
  for (std::size_t lane = 0; lane < kWarpSize; ++lane) {
    wgmma.a[lane] = lanes[lane].a;
  }
  const auto known = std::find_if(sums_.begin(), sums_.end(),
                                  [&](const Sums& sums) { return sums.lanes[0] == lanes[0].sums; });
  const std::size_t count = static_cast<std::size_t>(shape.sums);
  if (known != sums_.end()) {
    wgmma.sums = &*known;
  } else {
    sums_.push_back({});
    Sums& sums = sums_.back();
    sums.cols = shape.cols();
    sums.half = shape.half_sums;
    sums.tile.resize(kRows * sums.cols);
    for (std::size_t lane = 0; lane < kWarpSize; ++lane) {
      sums.lanes[lane] = lanes[lane].sums;
      if (shape.adds) {
        for_sums(lane, sums.cols, [&](std::size_t i, std::size_t of_tile) {
          sums.tile[of_tile] =
              sums.half ? static_cast<float>(reinterpret_cast<half*>(lanes[lane].sums)[i])
                        : lanes[lane].sums[i];
        });
      }
      for (std::size_t i = 0; i < count; ++i) {
        std::memcpy(lanes[lane].sums + i, &kPoisonedSum, sizeof kPoisonedSum);
      }
    }
    wgmma.sums = &sums;
  }
  ++wgmma.sums->in_flight;
  wgmma.sums->last = location;
  if (observer != nullptr) {
    note_uses(setting, wgmma);
    if (wgmma.a[0] != nullptr) {
      for (const std::uint32_t* a : wgmma.a) {
        wgmma.a_before.insert(wgmma.a_before.end(), a, a + 4);
      }
    }
  }
  open_.push_back(std::move(wgmma));
}

// Some compilers let the observer see only some of the accesses to registers: what they left is
// seen here.
void WgmmaQueue::check(const Sums& sums) {
  for (const float* of_lane : sums.lanes) {
    for (std::size_t i = 0; i < sums.cols / (sums.half ? 4 : 2); ++i) {
      std::uint32_t bits;
      std::memcpy(&bits, of_lane + i, sizeof bits);
      if (bits == kPoisonedSum) continue;
      observer->registers_changed(
          sums.last,
          "accumulators of this wgmma() were written while it was in flight; "
          "a wgmma_wait() is probably missing");
      return;
    }
  }
}
void WgmmaQueue::check(const Wgmma& wgmma) {
  for (std::size_t i = 0; i < wgmma.a_before.size(); ++i) {
    if (wgmma.a[i / 4][i % 4] == wgmma.a_before[i]) continue;
    observer->registers_changed(wgmma.location,
                                "the left operand of this wgmma(), in registers, was overwritten "
                                "while it was in flight; a wgmma_wait() is probably missing");
    return;
  }
}

// Reports to the observer what a wgmma reads from now on, and which registers it has.
void WgmmaQueue::note_uses(const Setting& setting, const Wgmma& wgmma) const {
  const WgmmaShape& shape = wgmma.shape;
  std::vector<const void*> read;
  const auto reads = [&](const std::byte* at, std::size_t, std::size_t) { read.push_back(at); };
  if (wgmma.a[0] == nullptr) {
    // All 64 rows: PTX does not promise that a warp reads its own ones only.
    operand(setting, shape.a, shape.type, shape.mn_major_a, wgmma.location)
        .for_chunks(0, 4 * std::size_t{kRows}, reads);
  }
  operand(setting, shape.b, shape.type_b, shape.mn_major_b, wgmma.location)
      .for_chunks(0, shape.cols(), reads);
  observer->async_uses(this, AsyncUse::kWgmma, committed_ + 1, read, kChunk, wgmma.location);
  for (std::size_t lane = 0; lane < kWarpSize; ++lane) {
    const int thread = setting.first_thread + static_cast<int>(lane);
    observer->registers_lent(thread, wgmma.sums->lanes[lane],
                             sizeof(float) * static_cast<std::size_t>(shape.sums), LentTo::kSums,
                             this, committed_ + 1, wgmma.location);
    if (wgmma.a[lane] != nullptr) {
      observer->registers_lent(thread, wgmma.a[lane], kChunk, LentTo::kOperand, this,
                               committed_ + 1, wgmma.location);
    }
  }
}

void WgmmaQueue::compute(const Setting& setting, const Wgmma& wgmma) const {
  constexpr std::size_t most = 256;
  const WgmmaShape& shape = wgmma.shape;
  Sums& sums = *wgmma.sums;
  const std::size_t cols = sums.cols;
  float a[kMostDepth * kRows] = {};
  thread_local std::array<float, kMostDepth * most> b;
  with_type(shape.type, [&](auto element) {
    using T = decltype(element);
    if (wgmma.a[0] != nullptr) {
      fetch_fragments<T>(wgmma.a, a);
    } else {
      operand(setting, shape.a, shape.type, shape.mn_major_a, wgmma.location)
          .fetch<T>(static_cast<std::size_t>(setting.first_row), kRows, a, kRows);
    }
  });
  with_type(shape.type_b, [&](auto element) {
    operand(setting, shape.b, shape.type_b, shape.mn_major_b, wgmma.location)
        .fetch<decltype(element)>(0, cols, b.data(), cols);
  });
  if (!shape.adds) std::fill(sums.tile.begin(), sums.tile.end(), 0.0f);
  if (shape.negates) {
    for (float& element : a) element = -element;
  }
  const std::size_t bytes = bytes_of(shape.type);
  if (bytes == 1) {
    multiply_8_bits(a, b.data(), cols, sums.tile.data());
  } else if (bytes == 4) {
    multiply<8, 8>(a, b.data(), cols, sums.tile.data());
  } else if (cols % 16 == 0) {
    multiply<16>(a, b.data(), cols, sums.tile.data());
  } else {
    multiply<8>(a, b.data(), cols, sums.tile.data());
  }
  if (!sums.half) return;
  for (float& sum : sums.tile) sum = static_cast<float>(half(sum));
}

void WgmmaQueue::commit() {
  groups_.push_back(std::exchange(open_, {}));
  ++committed_;
}

void WgmmaQueue::wait(const Setting& setting, std::size_t pending) {
  while (groups_.size() > pending) {
    for (const Wgmma& wgmma : groups_.front()) {
      if (observer != nullptr) check(wgmma);
      compute(setting, wgmma);
      --wgmma.sums->in_flight;
    }
    groups_.pop_front();
    ++ended_;
  }
  for (auto sums = sums_.begin(); sums != sums_.end();) {
    if (sums->in_flight > 0) {
      ++sums;
      continue;
    }
    if (observer != nullptr) check(*sums);
    for (std::size_t lane = 0; lane < kWarpSize; ++lane) {
      for_sums(lane, sums->cols, [&](std::size_t i, std::size_t of_tile) {
        const float sum = sums->tile[of_tile];
        if (sums->half) {
          reinterpret_cast<half*>(sums->lanes[lane])[i] = half(sum);
        } else {
          sums->lanes[lane][i] = sum;
        }
      });
    }
    sums = sums_.erase(sums);
  }
}

void WgmmaQueue::clear() {
  open_.clear();
  groups_.clear();
  sums_.clear();
  committed_ = ended_ = 0;
}

const SourceLocation* WgmmaQueue::uncommitted() const {
  return open_.empty() ? nullptr : &open_.front().location;
}

const SourceLocation* WgmmaQueue::unfinished() const {
  for (const auto& group : groups_) {
    if (!group.empty()) return &group.front().location;
  }
  return nullptr;
}

}  // namespace fa::lab
