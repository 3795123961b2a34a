// Errors, devices, streams, events and graphs. Every call has ended when it returns.
#include <chrono>
#include <cstdio>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "common/lab/cuda/state.hpp"

using lab_cuda::Card;
using lab_cuda::pending_error;
using lab_cuda::report;
using lab_cuda::state;

struct CUstream_st {
  std::uint64_t number = fa::lab::new_stream();
};
// What an event stands for: the work of a stream until a time.
struct Mark {
  std::uint64_t stream = 0, time = 0;
  void wait() const { state().watch.waited_until(stream, time); }
};
struct CUevent_st {
  bool recorded = false;
  cudaStream_t captured = nullptr;                        // the stream, where a graph is made of it
  std::shared_ptr<Mark> mark = std::make_shared<Mark>();  // a graph may outlive the event
  std::chrono::steady_clock::time_point time;
};

namespace lab_cuda {

std::unique_lock<std::recursive_mutex> lock_card() {
  static std::recursive_mutex mutex;
  return std::unique_lock(mutex);
}

cudaError_t report(cudaError_t error, const std::string& why) {
  if (error == cudaSuccess) return error;
  state().last_error = error;
  state().has_failed = true;
  state().why = why;
  return error;
}
cudaError_t unseen(const char* call, cudaError_t error, Where where) {
  // What follows from a launch that failed has a finding there.
  if (error == cudaSuccess || error == state().sticky || error == cudaErrorNotReady) return error;
  const std::string why = state().why.empty() ? "" : fmt::format(" ({})", state().why);
  state().add("error", where,
              fmt::format("{}() returns {}{}, and the program goes on without looking at it: check "
                          "what each call returns",
                          call, cudaGetErrorName(error), why));
  return error;
}
cudaError_t pending_error() {
  return state().sticky;
}

int blocks_of_sm(int threads, std::size_t shared_bytes) {
  constexpr int of_system = 1024;  // shared memory of each block that CUDA itself takes
  if (threads < 1 || threads > 1024) return 0;
  const int rounded = (threads + 31) / 32 * 32;
  const int by_threads = std::min(Card::kThreadsOfSm / rounded, Card::kBlocksOfSm);
  return std::min(by_threads, Card::kSharedOfSm / (static_cast<int>(shared_bytes) + of_system));
}

std::uint64_t stream_number(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread
             ? 0
             : stream->number;
}

long long clock_now() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

}  // namespace lab_cuda

cudaError_t cudaGetLastError() {
  const cudaError_t error = state().last_error;
  state().last_error = state().sticky;
  return error;
}
cudaError_t cudaPeekAtLastError() {
  return state().last_error;
}
#define LAB_CUDA_CASE(name, number, text) \
  case name:                              \
    return text;
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) { LAB_CUDA_ERRORS(LAB_CUDA_CASE) }
  return "unrecognized error code";
}
#undef LAB_CUDA_CASE
#define LAB_CUDA_CASE(name, number, text) \
  case name:                              \
    return #name;
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) { LAB_CUDA_ERRORS(LAB_CUDA_CASE) }
  return "unrecognized error code";
}
#undef LAB_CUDA_CASE

// ---------------------------------------------------------------- devices

cudaError_t cudaSetDevice(int device) {
  if (device == 0) return pending_error();
  return report(cudaErrorInvalidDevice, fmt::format("there is no device {}, only 0", device));
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return report(cudaErrorInvalidDevice);
  cudaDeviceProp p = {};
  std::snprintf(p.name, sizeof p.name, "%s", Card::kName);
  p.totalGlobalMem = std::size_t{80} << 30;
  p.sharedMemPerBlock = Card::kShared;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.memPitch = 2147483647;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 2147483647;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.clockRate = 1980000;
  p.totalConstMem = 65536;
  p.major = Card::kMajor;
  p.minor = Card::kMinor;
  p.textureAlignment = 512;
  p.deviceOverlap = p.canMapHostMemory = p.concurrentKernels = p.ECCEnabled = 1;
  p.multiProcessorCount = Card::kSms;
  p.asyncEngineCount = 3;
  p.unifiedAddressing = p.managedMemory = p.concurrentManagedAccess = 1;
  p.memoryClockRate = 2619000;
  p.memoryBusWidth = 5120;
  p.l2CacheSize = 50 << 20;
  p.maxThreadsPerMultiProcessor = Card::kThreadsOfSm;
  p.maxBlocksPerMultiProcessor = Card::kBlocksOfSm;
  p.streamPrioritiesSupported = p.cooperativeLaunch = p.memoryPoolsSupported = 1;
  p.globalL1CacheSupported = p.localL1CacheSupported = 1;
  p.sharedMemPerMultiprocessor = Card::kSharedOfSm;
  p.sharedMemPerBlockOptin = Card::kMostShared;
  p.reservedSharedMemPerBlock = 1024;
  *properties = p;
  return pending_error();
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device)) return error;
#define LAB_CUDA_CASE(name, number, field) \
  case name:                               \
    *value = static_cast<int>(p.field);    \
    break;
  switch (attribute) {
    LAB_CUDA_ATTRIBUTES(LAB_CUDA_CASE)
    default:
      return report(cudaErrorInvalidValue);
  }
#undef LAB_CUDA_CASE
  return pending_error();
}
cudaError_t cudaDeviceSynchronize() {
  const auto lock = lab_cuda::lock_card();
  fa::lab::synchronize();
  return report(pending_error());
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return pending_error();
}

// ---------------------------------------------------------------- streams and events

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = new CUstream_st;
  return pending_error();
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream == nullptr) return report(cudaErrorInvalidResourceHandle);
  return pending_error();  // a graph may still use it
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  fa::lab::synchronize(lab_cuda::stream_number(stream));
  return report(pending_error());
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  fa::lab::synchronize(lab_cuda::stream_number(stream));
  return pending_error();
}
// The host waits as well: the engine has no order between two streams alone.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event != nullptr && lab_cuda::is_captured(event->captured)) {
    lab_cuda::add_to_capture(stream);
    return lab_cuda::keep(stream, [mark = event->mark](cudaStream_t) {
      mark->wait();
      return pending_error();
    });
  }
  return cudaEventSynchronize(event);
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned) {
  callback(stream, pending_error(), data);
  return pending_error();
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return lab_cuda::on(stream, [=](cudaStream_t now) {
    fa::lab::synchronize(lab_cuda::stream_number(now));
    function(data);
    return pending_error();
  });
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return pending_error();
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event == nullptr) return report(cudaErrorInvalidResourceHandle);
  event->captured = lab_cuda::is_captured(stream) ? stream : nullptr;
  event->mark = std::make_shared<Mark>();  // waits for the last one keep theirs
  const auto set = [mark = event->mark](cudaStream_t now) {
    *mark = {lab_cuda::stream_number(now), state().watch.time()};
    return pending_error();
  };
  if (event->captured != nullptr) return lab_cuda::keep(stream, set);
  set(stream);
  event->recorded = true;
  event->time = std::chrono::steady_clock::now();
  return report(pending_error());
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event == nullptr) return report(cudaErrorInvalidResourceHandle);
  if (event->recorded) event->mark->wait();
  return report(pending_error());
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (begin == nullptr || end == nullptr || !begin->recorded || !end->recorded) {
    return report(cudaErrorInvalidResourceHandle);
  }
  state().times_were_asked = true;
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
  return report(pending_error());
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return pending_error();
}

// ---------------------------------------------------------------- graphs

// They come from a stream: what is launched and copied on it is kept, and runs when the graph is
// launched.
struct CUgraph_st {
  cudaStream_t stream = nullptr;  // the one that is captured
  struct Node {
    cudaStream_t stream;
    lab_cuda::Work work;
  };
  std::vector<Node> nodes;
};
struct CUgraphExec_st : CUgraph_st {};

namespace {
cudaGraph_t capture = nullptr;  // of now
std::set<cudaStream_t> captured;
}  // namespace

namespace lab_cuda {

bool is_captured(cudaStream_t stream) {
  return capture != nullptr && captured.count(stream) > 0;
}
cudaError_t keep(cudaStream_t stream, const Work& work) {
  capture->nodes.push_back({stream, work});
  return cudaSuccess;
}
void add_to_capture(cudaStream_t stream) {
  captured.insert(stream);
}

}  // namespace lab_cuda

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream == nullptr || capture != nullptr) {
    return report(cudaErrorStreamCaptureUnsupported);
  }
  capture = new CUgraph_st;
  capture->stream = stream;
  captured = {stream};
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (capture == nullptr || capture->stream != stream) {
    return report(cudaErrorIllegalState);
  }
  *graph = std::exchange(capture, nullptr);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status =
      lab_cuda::is_captured(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  if (graph == nullptr) return report(cudaErrorInvalidValue);
  *executable = new CUgraphExec_st{*graph};
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (graph == nullptr || nodes != nullptr) return report(cudaErrorInvalidValue);
  *count = graph->nodes.size();
  return cudaSuccess;
}
// What runs on other streams begins behind what came before on the stream of the launch, and what
// comes later on that begins behind all of it.
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  if (graph == nullptr) return report(cudaErrorInvalidValue);
  std::set<cudaStream_t> others;
  for (const CUgraph_st::Node& node : graph->nodes) {
    if (node.stream != graph->stream) others.insert(node.stream);
  }
  if (!others.empty()) fa::lab::synchronize(lab_cuda::stream_number(stream));
  for (const CUgraph_st::Node& node : graph->nodes) {
    const bool first = node.stream == graph->stream;
    if (const cudaError_t error = node.work(first ? stream : node.stream)) return error;
  }
  for (cudaStream_t other : others) fa::lab::synchronize(lab_cuda::stream_number(other));
  return lab_cuda::pending_error();
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return lab_cuda::pending_error();
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return lab_cuda::pending_error();
}
