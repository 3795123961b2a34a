#include "common/lab/record.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/lab/bulk_copy.hpp"

namespace fa::lab {
namespace {

int index_in(std::vector<const void*>& known, const void* one) {
  const auto found = std::find(known.begin(), known.end(), one);
  const auto index = static_cast<int>(found - known.begin());
  if (found == known.end()) known.push_back(one);
  return index;
}

std::size_t warp_of(const Thread& thread) {
  return static_cast<std::size_t>(thread.place / kWarpSize);
}

}  // namespace

Recorder* recorder = nullptr;

void Recorder::block_begins(std::size_t warps) {
  for (std::size_t warp = 0; warp < work_.size(); ++warp) flush(warp);
  blocks_.push_back({std::vector<std::vector<Step>>(warps)});
  work_.assign(warps, Step());
  barriers_.clear();
}

void Recorder::flush(std::size_t warp) {
  const Step work = std::exchange(work_[warp], {});
  std::vector<Step>& steps = blocks_.back().warps[warp];
  if (work.exponentials > 0 || work.exchanges > 0) {
    steps.push_back(work);
    steps.back().kind = Step::Kind::kWork;
    steps.back().bytes = 0;
  }
  if (work.bytes > 0) {
    Step change;
    change.kind = work.kind;
    change.bytes = work.bytes;
    steps.push_back(change);
  }
}

void Recorder::add(std::size_t warp, const Step& step) {
  flush(warp);
  blocks_.back().warps[warp].push_back(step);
}

void Recorder::change(std::size_t warp, Step::Kind kind, std::int64_t bytes) {
  if (work_[warp].bytes > 0 && work_[warp].kind != kind) flush(warp);
  work_[warp].kind = kind;
  work_[warp].bytes += bytes;
}

int Recorder::number_of(const void* barrier) {
  return index_in(barriers_, barrier);
}

int Recorder::tensor_of(const void* data) {
  return index_in(tensors_, data);
}

std::vector<BlockRecord> Recorder::take() {
  for (std::size_t warp = 0; warp < work_.size(); ++warp) flush(warp);
  work_.clear();
  return std::exchange(blocks_, {});
}

void record_step(const Thread& thread, Step::Kind kind, int count, int barrier) {
  if (recorder == nullptr) return;
  Step step;
  step.kind = kind;
  step.count = count;
  step.barrier = barrier;
  recorder->add(warp_of(thread), step);
}

void record_mbarrier(const Thread& thread, Step::Kind kind, const void* barrier, int count,
                     std::int64_t bytes) {
  if (recorder == nullptr) return;
  Step step;
  step.kind = kind;
  step.barrier = recorder->number_of(barrier);
  step.count = count;
  step.bytes = bytes;
  recorder->add(warp_of(thread), step);
}

void record_copy(const Thread& thread, Step::Kind kind, const BulkCopy& copy, const void* barrier) {
  if (recorder == nullptr) return;
  Step step;
  step.kind = kind;
  step.bytes = static_cast<std::int64_t>(copy.size);
  step.tensor = copy.of_box() ? recorder->tensor_of(copy.box.data) : -1;
  step.adds = !copy.of_box();
  if (barrier != nullptr) step.barrier = recorder->number_of(barrier);
  recorder->add(warp_of(thread), step);
}

std::vector<BlockRecord> record(const std::function<void()>& work) {
  if (recorder != nullptr) throw std::logic_error("a launch is being recorded already");
  Recorder own;
  recorder = &own;
  struct End {
    ~End() { recorder = nullptr; }
  } end;
  work();
  return own.take();
}

}  // namespace fa::lab
