// Graphs that come from a stream: what is launched and copied on it is kept, and runs when the
// graph is launched.
#include <set>
#include <utility>

#include "common/lab/cuda/state.hpp"

using lab_cuda::report;
using lab_cuda::state;

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
void capture_behind(cudaStream_t stream, cudaStream_t other) {
  captured.insert(stream);
  keep(other, [](cudaStream_t before) {
    fa::lab::synchronize(stream_number(before));
    return pending_error();
  });
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
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, cudaGraphNode_t*,
                                 char*, std::size_t) {
  return cudaGraphInstantiate(executable, graph, 0);
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long) {
  return cudaGraphInstantiate(executable, graph, 0);
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (graph == nullptr || nodes != nullptr) return report(cudaErrorInvalidValue);
  *count = graph->nodes.size();
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return lab_cuda::pending_error();
}
// What runs on other streams begins behind what came before on the stream of the launch, and what
// comes later on that begins behind all of it.
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  if (graph == nullptr) return report(cudaErrorInvalidValue);
  std::set<cudaStream_t> others;
  for (const CUgraph_st::Node& node : graph->nodes) {
    const bool first = node.stream == graph->stream;
    if (!first && others.insert(node.stream).second) {
      fa::lab::synchronize(lab_cuda::stream_number(stream));
    }
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
