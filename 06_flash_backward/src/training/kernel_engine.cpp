#include <stdexcept>
#include <string>

#include "06_flash_backward/src/training/train.hpp"

namespace fa::backward {
namespace {

// A rung, or what is chosen instead where the backend cannot run it.
Rung find_rung(const Backend& backend, const std::string& name) {
  for (const Rung& rung : backend.rungs) {
    if (rung.name == name) return rung;
  }
  return backend.dispatched(true, backend.properties);
}

Problem problem_of(View<const float, 4> q, View<const float, 4> k, View<const float, 4> v,
                   const AttentionOptions& options, Type type) {
  if (options.scale || options.dropout_keep.data() != nullptr) {
    throw std::invalid_argument(
        "the kernels support no dropout mask and no scale other than 1 / sqrt(head_dim)");
  }
  Problem problem;
  problem.shape = attention_shape(q.shape(), k.shape(), v.shape());
  problem.type = type;
  problem.causal = options.causal;
  return problem;
}

Tensor<float, 4> rounded(View<const float, 4> view, Type type) {
  auto tensor = converted<float>(view);
  return type == Type::kFloat32 ? tensor : attention::rounded(tensor, type);
}

}  // namespace

AttentionEngine<float> kernel_engine(const Backend& backend, Type type) {
  const Rung rung =
      find_rung(backend, type == Type::kFloat32 ? "03_two_kernels" : "07_deterministic");
  using In = View<const float, 4>;
  return {[run = backend.forward, type](In q, In k, In v,
                                        const AttentionOptions& options) -> naive::Forward<float> {
            auto [o, lse] = run(problem_of(q, k, v, options, type),
                                {rounded(q, type), rounded(k, type), rounded(v, type)});
            return {std::move(o), std::move(lse)};
          },
          [rung, type](In q, In k, In v, In o, View<const float, 3> lse, In d_o,
                       const AttentionOptions& options) -> naive::Gradients<float> {
            auto [d_q, d_k, d_v] = rung.run(problem_of(q, k, v, options, type),
                                            {{rounded(q, type), rounded(k, type), rounded(v, type)},
                                             converted<float>(o),
                                             converted<float>(lse),
                                             rounded(d_o, type)});
            return {std::move(d_q), std::move(d_k), std::move(d_v)};
          }};
}

}  // namespace fa::backward
