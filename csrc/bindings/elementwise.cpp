// SPDX-License-Identifier: Apache-2.0
//
// Norms, gates, activations and rotary embedding for Python. Arrays have one to three axes, the
// last one contiguous; heads and tokens may lie apart.

#include "kernels/elementwise.h"

#include <nanobind/stl/string_view.h>

#include "bindings/plan.h"
#include "kernels/rope.h"

namespace junto {

namespace {

using In = nb::ndarray<const float, nb::device::cpu>;
using Out = nb::ndarray<float, nb::device::cpu>;

template <class A>
std::string shape_of(const A& array) {
  std::string text = "(";
  for (std::size_t i = 0; i < array.ndim(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(array.shape(i));
  return text + ")";
}

template <class A>
void check_axes(const char* where, const A& array) {
  const std::size_t n = array.ndim();
  if (n < 1 || n > 3)
    throw std::invalid_argument(std::string(where) + ": an array of shape " + shape_of(array) +
                                ", expected one to three axes");
  if (array.size() > 0 && array.shape(n - 1) > 1 && array.stride(n - 1) != 1)
    throw std::invalid_argument(std::string(where) + ": the values of a row must lie together");
}

// All axes but the last must agree; the last is n, or 1 where a column is allowed.
template <class A, class B>
void check_same(const char* where, const A& array, const B& like, bool column = false) {
  bool same = array.ndim() == like.ndim();
  for (std::size_t i = 0; same && i < like.ndim(); ++i)
    same =
        array.shape(i) == like.shape(i) || (column && i + 1 == like.ndim() && array.shape(i) == 1);
  if (!same)
    throw std::invalid_argument(std::string(where) + ": shapes " + shape_of(array) + " and " +
                                shape_of(like) + " do not fit");
}

template <class T, class A>
RowsOf<T> rows_of(const A& a) {
  switch (a.ndim()) {
    case 1:
      return {a.data(), 1, 0, 0};
    case 2:
      return {a.data(), 1, a.stride(0), 0};
    default:
      return {a.data(), size(a, 1) < 1 ? 1 : size(a, 1), a.stride(0), a.stride(1)};
  }
}

// x and y filled in, the rest empty.
ElementwiseParams params_of(const char* where, const In& x, const Out& y) {
  check_axes(where, x);
  check_axes(where, y);
  check_same(where, y, x);
  ElementwiseParams p{};
  p.n = size(x, x.ndim() - 1);
  p.n_row = p.n == 0 ? 0 : static_cast<std::int64_t>(x.size()) / p.n;
  p.x = rows_of<const float>(x);
  p.y = rows_of<float>(y);
  return p;
}

void add_other(const char* where, const In& other, const In& x, bool column, ElementwiseParams* p) {
  check_axes(where, other);
  check_same(where, other, x, column);
  p->other = rows_of<const float>(other);
  p->other_is_column = column && size(other, other.ndim() - 1) == 1;
}

using Kernel = void(const ElementwiseParams&, ThreadPool&);

void run(Kernel* kernel, const ElementwiseParams& params, ThreadPool& pool) {
  kernel(params, pool);
}

void run_rms_norm(std::string_view level,
                  ThreadPool& pool,
                  const In& x,
                  const Array<const float, 1>& weight,
                  float eps,
                  const Out& y) {
  ElementwiseParams p = params_of("rms_norm", x, y);
  check_equal("rms_norm", "weight", size(weight, 0), "values of a row", p.n);
  p.weight = weight.data();
  p.eps = eps;
  run(JUNTO_CHOOSE(find_level(level), rms_norm), p, pool);
}

void run_layer_norm(std::string_view level,
                    ThreadPool& pool,
                    const In& x,
                    const Array<const float, 1>& weight,
                    const Array<const float, 1>& bias,
                    float eps,
                    const Out& y) {
  ElementwiseParams p = params_of("layer_norm", x, y);
  check_equal("layer_norm", "weight", size(weight, 0), "values of a row", p.n);
  check_equal("layer_norm", "bias", size(bias, 0), "values of a row", p.n);
  p.weight = weight.data();
  p.bias = bias.data();
  p.eps = eps;
  run(JUNTO_CHOOSE(find_level(level), layer_norm), p, pool);
}

void run_gated_rms_norm(std::string_view level,
                        ThreadPool& pool,
                        const In& x,
                        const Array<const float, 1>& weight,
                        const In& gate,
                        float eps,
                        const Out& y) {
  ElementwiseParams p = params_of("gated_rms_norm", x, y);
  add_other("gated_rms_norm", gate, x, false, &p);
  check_equal("gated_rms_norm", "weight", size(weight, 0), "values of a row", p.n);
  p.weight = weight.data();
  p.eps = eps;
  run(JUNTO_CHOOSE(find_level(level), gated_rms_norm), p, pool);
}

void run_sigmoid_gate(
    std::string_view level, ThreadPool& pool, const In& x, const In& gate, const Out& y) {
  ElementwiseParams p = params_of("sigmoid_gate", x, y);
  add_other("sigmoid_gate", gate, x, true, &p);
  run(JUNTO_CHOOSE(find_level(level), sigmoid_gate), p, pool);
}

void run_swiglu(std::string_view level,
                ThreadPool& pool,
                const In& gate,
                const In& up,
                float limit,
                float alpha,
                const Out& y) {
  ElementwiseParams p = params_of("swiglu", gate, y);
  add_other("swiglu", up, gate, false, &p);
  p.limit = limit;
  p.alpha = alpha;
  const Level chosen = find_level(level);
  run(limit > 0 ? JUNTO_CHOOSE(chosen, clamped_swiglu) : JUNTO_CHOOSE(chosen, swiglu), p, pool);
}

void run_gelu(std::string_view level, ThreadPool& pool, const In& x, const Out& y) {
  const ElementwiseParams p = params_of("gelu", x, y);
  run(JUNTO_CHOOSE(find_level(level), gelu), p, pool);
}

void run_add(std::string_view level, ThreadPool& pool, const In& a, const In& b, const Out& y) {
  ElementwiseParams p = params_of("add", a, y);
  add_other("add", b, a, false, &p);
  const Level chosen = find_level(level);
  run(JUNTO_CHOOSE(chosen, add), p, pool);
}

void run_delta_gates(std::string_view level,
                     ThreadPool& pool,
                     const Array<const float, 2>& alpha,
                     const Array<const float, 2>& beta,
                     const Array<const float, 1>& ssm_a,
                     const Array<const float, 1>& ssm_dt,
                     const Array<float, 2>& decay,
                     const Array<float, 2>& open) {
  check_same("delta_gates", beta, alpha);
  check_same("delta_gates", decay, alpha);
  check_same("delta_gates", open, alpha);
  check_equal("delta_gates", "ssm_a", size(ssm_a, 0), "heads", size(alpha, 1));
  check_equal("delta_gates", "ssm_dt", size(ssm_dt, 0), "heads", size(alpha, 1));
  const DeltaGatesParams p{size(alpha, 0),
                           size(alpha, 1),
                           alpha.data(),
                           beta.data(),
                           ssm_a.data(),
                           ssm_dt.data(),
                           decay.data(),
                           open.data()};
  const Level chosen = find_level(level);
  JUNTO_CHOOSE(chosen, delta_gates)(p, pool);
}

void run_rope_table(const Array<const std::int32_t, 1>& positions,
                    const Array<const double, 1>& inv_freq,
                    double scale,
                    const Array<float, 2>& cos,
                    const Array<float, 2>& sin) {
  for (const Array<float, 2>* table : {&cos, &sin}) {
    check_equal("rope_table", "rows of a table", size(*table, 0), "positions", size(positions, 0));
    check_equal("rope_table", "columns of a table", size(*table, 1), "pairs", size(inv_freq, 0));
  }
  const nb::gil_scoped_release release;
  rope_table(positions.data(),
             size(positions, 0),
             inv_freq.data(),
             size(inv_freq, 0),
             scale,
             cos.data(),
             sin.data());
}

void run_rope(std::string_view level,
              ThreadPool& pool,
              const In& x,
              const Array<const float, 2>& cos,
              const Array<const float, 2>& sin,
              bool adjacent,
              const Out& y) {
  check_axes("rope", x);
  check_axes("rope", y);
  check_same("rope", y, x);
  check_same("rope", sin, cos);
  check_equal("rope", "axes of x", static_cast<std::int64_t>(x.ndim()), "expected", 3);
  check_equal("rope", "rows of the table", size(cos, 0), "tokens", size(x, 0));
  if (size(cos, 1) > size(x, 2) / 2)
    throw std::invalid_argument("rope: " + std::to_string(size(cos, 1)) +
                                " pairs do not fit heads of " + std::to_string(size(x, 2)));
  const RopeParams p{size(x, 0),
                     size(x, 1),
                     size(x, 2),
                     size(cos, 1),
                     x.data(),
                     x.stride(0),
                     x.stride(1),
                     y.data(),
                     y.stride(0),
                     y.stride(1),
                     cos.data(),
                     sin.data(),
                     adjacent};
  const Level chosen = find_level(level);
  JUNTO_CHOOSE(chosen, rope)(p, pool);
}

void bind_rope(nb::module_& m) {
  m.def("rope_table",
        &run_rope_table,
        nb::arg("positions").noconvert(),
        nb::arg("inv_freq").noconvert(),
        nb::arg("scale"),
        nb::arg("cos").noconvert(),
        nb::arg("sin").noconvert(),
        "Fill cos and sin [n_tok, n_pair] of position * inv_freq, times scale; in float64 inside.");
  m.def("rope",
        &Launch<&run_rope>::call,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("x").noconvert(),
        nb::arg("cos").noconvert(),
        nb::arg("sin").noconvert(),
        nb::arg("adjacent"),
        nb::arg("y").noconvert(),
        "Turn the first 2 * n_pair values of each head: x [n_tok, n_head, head_dim] into y.");
}

}  // namespace

void bind_elementwise(nb::module_& m) {
  m.def("rms_norm",
        &Launch<&run_rms_norm>::call,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("x").noconvert(),
        nb::arg("weight").noconvert(),
        nb::arg("eps"),
        nb::arg("y").noconvert(),
        "y = x / sqrt(mean(x^2) + eps) * weight over the last axis.");
  m.def("layer_norm",
        &Launch<&run_layer_norm>::call,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("x").noconvert(),
        nb::arg("weight").noconvert(),
        nb::arg("bias").noconvert(),
        nb::arg("eps"),
        nb::arg("y").noconvert(),
        "y = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias over the last axis.");
  m.def("gated_rms_norm",
        &Launch<&run_gated_rms_norm>::call,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("x").noconvert(),
        nb::arg("weight").noconvert(),
        nb::arg("gate").noconvert(),
        nb::arg("eps"),
        nb::arg("y").noconvert(),
        "y = rms_norm(x) * silu(gate).");
  m.def("sigmoid_gate",
        &Launch<&run_sigmoid_gate>::call,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("x").noconvert(),
        nb::arg("gate").noconvert(),
        nb::arg("y").noconvert(),
        "y = x * sigmoid(gate); gate has the shape of x, or one column.");
  m.def("swiglu",
        &Launch<&run_swiglu>::call,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("gate").noconvert(),
        nb::arg("up").noconvert(),
        nb::arg("limit"),
        nb::arg("alpha"),
        nb::arg("y").noconvert(),
        "y = silu(gate) * up; with a limit above 0 gpt-oss's clamped form.");
  m.def("gelu",
        &Launch<&run_gelu>::call,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("x").noconvert(),
        nb::arg("y").noconvert(),
        "y = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), the tanh form of GELU.");
  m.def("add",
        &Launch<&run_add>::call,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("a").noconvert(),
        nb::arg("b").noconvert(),
        nb::arg("y").noconvert(),
        "y = a + b.");
  m.def("delta_gates",
        &Launch<&run_delta_gates>::call,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("alpha").noconvert(),
        nb::arg("beta").noconvert(),
        nb::arg("ssm_a").noconvert(),
        nb::arg("ssm_dt").noconvert(),
        nb::arg("decay").noconvert(),
        nb::arg("open").noconvert(),
        "decay = ssm_a * softplus(alpha + ssm_dt), open = sigmoid(beta).");
  bind_rope(m);
}

}  // namespace junto
