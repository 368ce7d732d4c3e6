// SPDX-License-Identifier: Apache-2.0
//
// Packed weights, linear and experts for Python.

#include "kernels/matmul.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "bindings/plan.h"
#include "kernels/checksum.h"
#include "kernels/experts.h"

namespace junto {

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 40;  // no size of a weight reaches this

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

const TypeInfo& checked_type(std::string_view type,
                             std::int64_t n_expert,
                             std::int64_t n_out,
                             std::int64_t n_in) {
  const TypeInfo* info = find_type(type);
  if (info == nullptr)
    throw std::invalid_argument("PackedMatrix: no kernel for type '" + std::string(type) + "'");
  if (n_expert < 1 || n_out < 1 || n_in < 1 || n_in % info->unit != 0 || n_expert > kMost / n_out ||
      n_expert * n_out > kMost / n_in)
    throw std::invalid_argument("PackedMatrix: shape (" + std::to_string(n_expert) + ", " +
                                std::to_string(n_out) + ", " + std::to_string(n_in) +
                                ") does not fit type " + std::string(type) +
                                ", whose rows come in " + std::to_string(info->unit) + "s");
  return *info;
}

std::size_t packed_size(std::string_view type,
                        std::int64_t n_expert,
                        std::int64_t n_out,
                        std::int64_t n_in) {
  return PackedMatrix::n_bytes(checked_type(type, n_expert, n_out, n_in), n_expert, n_out, n_in);
}

void make_packed(PackedMatrix* self,
                 std::string_view type,
                 std::int64_t n_expert,
                 std::int64_t n_out,
                 std::int64_t n_in,
                 const std::optional<Bytes>& data) {
  const TypeInfo& info = checked_type(type, n_expert, n_out, n_in);
  if (data) {
    const std::size_t expected = PackedMatrix::n_bytes(info, n_expert, n_out, n_in);
    check_equal("PackedMatrix",
                "bytes of data",
                size(*data, 0),
                "expected",
                static_cast<std::int64_t>(expected));
  }
  new (self) PackedMatrix(info, n_expert, n_out, n_in, data ? data->data() : nullptr);
}

// The packed form as bytes, which live as long as any view of them.
nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>> packed_bytes(nb::handle self) {
  const auto& w = nb::cast<const PackedMatrix&>(self);
  return {w.data(), {w.n_bytes()}, self};
}

// `rows` [n_out, bytes of a row]; rows may lie apart, the bytes of one may not.
using Rows = nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::device::cpu>;

void check_rows(const char* op, const PackedMatrix& w, std::int64_t expert, const Rows& rows) {
  const std::int64_t row_bytes = w.n_unit() * w.info().stored_bytes;
  check_equal(op, "rows", size(rows, 0), "n_out", w.n_out());
  check_equal(op, "bytes of a row", size(rows, 1), "expected", row_bytes);
  if (rows.stride(1) != 1 && row_bytes > 1)
    throw std::invalid_argument(std::string(op) + ": the bytes of a row must lie together");
  if (expert < 0 || expert >= w.n_expert())
    throw std::invalid_argument(std::string(op) + ": expert " + std::to_string(expert) + " of " +
                                std::to_string(w.n_expert()));
}

void fill(PackedMatrix& w, std::int64_t expert, const Rows& rows, ThreadPool& pool) {
  if (w.is_borrowed()) throw std::invalid_argument("fill: the matrix lies in memory of others");
  check_rows("fill", w, expert, rows);
  const nb::gil_scoped_release release;
  w.fill(expert, rows.data(), rows.stride(0), pool);
}

std::uint64_t run_checksum(const Bytes& data, ThreadPool& pool) {
  const nb::gil_scoped_release release;
  return checksum(data.data(), size(data, 0), pool);
}

void check_linear(const PackedMatrix& w,
                  const Array<const float, 2>& x,
                  const std::optional<Array<const float, 1>>& bias,
                  const Array<float, 2>& y) {
  check_equal("linear", "columns of x", size(x, 1), "n_in", w.n_in());
  check_equal("linear", "columns of y", size(y, 1), "n_out", w.n_out());
  check_equal("linear", "rows of y", size(y, 0), "rows of x", size(x, 0));
  check_equal("linear", "experts of the weight", w.n_expert(), "expected", 1);
  if (bias) check_equal("linear", "bias", size(*bias, 0), "n_out", w.n_out());
}

void run_linear(std::string_view level,
                ThreadPool& pool,
                const PackedMatrix& w,
                const Array<const float, 2>& x,
                const std::optional<Array<const float, 1>>& bias,
                const Array<float, 2>& y) {
  check_linear(w, x, bias, y);
  const Level chosen = find_level(level);
  const LinearParams params{
      &w, x.data(), size(x, 0), size(x, 1), bias ? bias->data() : nullptr, y.data()};
  JUNTO_CHOOSE(chosen, linear)(params, pool);
}

void check_experts(const ExpertsParams& p, std::int64_t n_embd) {
  const PackedMatrix &gate = *p.gate, &up = *p.up, &down = *p.down;
  for (const PackedMatrix* w : {&up, &down})
    check_equal("experts", "experts of a weight", w->n_expert(), "of gate", gate.n_expert());
  check_equal("experts", "n_in of gate", gate.n_in(), "columns of x", n_embd);
  check_equal("experts", "n_in of up", up.n_in(), "columns of x", n_embd);
  check_equal("experts", "n_out of up", up.n_out(), "n_out of gate", gate.n_out());
  check_equal("experts", "n_in of down", down.n_in(), "n_out of gate", gate.n_out());
  check_equal("experts", "n_out of down", down.n_out(), "columns of x", n_embd);
  for (std::int64_t i = 0; i < p.n_tok * p.n_used; ++i)
    if (p.expert_ids[i] < 0 || p.expert_ids[i] >= gate.n_expert())
      throw std::invalid_argument("experts: id " + std::to_string(p.expert_ids[i]) + " of " +
                                  std::to_string(gate.n_expert()) + " experts");
}

using Bias = std::optional<Array<const float, 2>>;

const float* check_bias(const char* name, const Bias& bias, const PackedMatrix& w) {
  if (!bias) return nullptr;
  check_equal("experts", name, size(*bias, 0), "n_expert", w.n_expert());
  check_equal("experts", name, size(*bias, 1), "n_out", w.n_out());
  return bias->data();
}

void run_experts(std::string_view level,
                 ThreadPool& pool,
                 const Array<const float, 2>& x,
                 const Array<const std::int64_t, 2>& ids,
                 const Array<const float, 2>& weights,
                 const PackedMatrix& gate,
                 const PackedMatrix& up,
                 const PackedMatrix& down,
                 float limit,
                 float alpha,
                 const Bias& bias_gate,
                 const Bias& bias_up,
                 const Bias& bias_down,
                 const Array<float, 2>& y) {
  check_equal("experts", "rows of expert_ids", size(ids, 0), "rows of x", size(x, 0));
  check_equal("experts", "rows of weights", size(weights, 0), "rows of x", size(x, 0));
  check_equal("experts", "columns of weights", size(weights, 1), "of expert_ids", size(ids, 1));
  check_equal("experts", "rows of y", size(y, 0), "rows of x", size(x, 0));
  check_equal("experts", "columns of y", size(y, 1), "columns of x", size(x, 1));
  const ExpertsParams params{x.data(),
                             ids.data(),
                             weights.data(),
                             size(x, 0),
                             size(ids, 1),
                             &gate,
                             &up,
                             &down,
                             check_bias("bias of gate", bias_gate, gate),
                             check_bias("bias of up", bias_up, up),
                             check_bias("bias of down", bias_down, down),
                             limit,
                             alpha,
                             y.data()};
  check_experts(params, size(x, 1));
  const Level chosen = find_level(level);
  JUNTO_CHOOSE(chosen, experts)(params, pool);
}

}  // namespace

void bind_matmul(nb::module_& m) {
  nb::class_<PackedMatrix>(m, "PackedMatrix", "A weight, or a stack of one an expert, packed.")
      .def("__init__",
           &make_packed,
           nb::arg("type"),
           nb::arg("n_expert"),
           nb::arg("n_out"),
           nb::arg("n_in"),
           nb::arg("data").noconvert() = nb::none(),
           nb::keep_alive<1, 6>(),
           "Memory to be filled; or, with `data`, a packed form that lies there already.")
      .def("fill",
           &fill,
           nb::arg("expert"),
           nb::arg("rows").noconvert(),
           nb::arg("pool"),
           "Pack one expert's stored rows, uint8 [n_out, bytes of a row].")
      .def_static("size",
                  &packed_size,
                  nb::arg("type"),
                  nb::arg("n_expert"),
                  nb::arg("n_out"),
                  nb::arg("n_in"),
                  "Bytes that such a matrix takes.")
      .def_prop_ro("data", &packed_bytes, "The packed form, uint8 [n_bytes], read-only.")
      .def_prop_ro(
          "n_bytes",
          [](const PackedMatrix& w) { return w.n_bytes(); },
          "Bytes of the packed form.");
  m.def("checksum",
        &run_checksum,
        nb::arg("data").noconvert(),
        nb::arg("pool"),
        "A number that changes with any byte of uint8 [n]; it finds damage, not malice.");
  m.def("packed_types", &type_names, "Names of the types that PackedMatrix takes.");
  m.def("linear",
        &Launch<&run_linear>::call,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("weight"),
        nb::arg("x").noconvert(),
        nb::arg("bias").noconvert().none(),
        nb::arg("y").noconvert(),
        "y = x @ weight.T + bias.");
  m.def("experts",
        &Launch<&run_experts>::call,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("x").noconvert(),
        nb::arg("expert_ids").noconvert(),
        nb::arg("weights").noconvert(),
        nb::arg("gate"),
        nb::arg("up"),
        nb::arg("down"),
        nb::arg("limit"),
        nb::arg("alpha"),
        nb::arg("bias_gate").noconvert().none(),
        nb::arg("bias_up").noconvert().none(),
        nb::arg("bias_down").noconvert().none(),
        nb::arg("y").noconvert(),
        "Weighted sum of the routed experts' outputs.");
}

}  // namespace junto
