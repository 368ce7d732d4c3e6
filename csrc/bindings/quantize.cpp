// SPDX-License-Identifier: Apache-2.0
//
// Quantisation for Python.

#include "kernels/quantize.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <vector>

#include "bindings/bindings.h"

namespace junto {

namespace {

const Quantizer& find_quantizer(const std::vector<Quantizer>& all, std::string_view type) {
  for (const Quantizer& how : all)
    if (how.type == type) return how;
  throw std::invalid_argument("quantize: no type '" + std::string(type) + "'");
}

std::int64_t run_quantize(std::string_view level,
                          ThreadPool& pool,
                          std::string_view type,
                          const Array<const float, 2>& rows,
                          const std::optional<Array<const float, 1>>& importance,
                          const Array<std::uint8_t, 2>& out) {
  const Level chosen = find_level(level);
  const Quantizer& how = find_quantizer(JUNTO_CHOOSE(chosen, quantizers)(), type);
  const std::int64_t n = size(rows, 1);
  if (n % how.n_per_block != 0)
    throw std::invalid_argument("quantize: rows have " + std::to_string(n) + " values, " +
                                std::string(type) + " has blocks of " +
                                std::to_string(how.n_per_block));
  check_equal("quantize", "rows of out", size(out, 0), "rows", size(rows, 0));
  const std::int64_t n_bytes = n / how.n_per_block * how.n_bytes_per_block;
  check_equal("quantize", "columns of out", size(out, 1), "bytes of a row", n_bytes);
  if (importance) check_equal("quantize", "importance", size(*importance, 0), "columns", n);
  const QuantizeParams params{
      rows.data(), size(rows, 0), n, importance ? importance->data() : nullptr, out.data()};
  const nb::gil_scoped_release release;
  return JUNTO_CHOOSE(chosen, quantize)(how, params, pool);
}

std::vector<std::string_view> quantized_types() {
  std::vector<std::string_view> names;
  for (const Quantizer& how : portable::quantizers()) names.push_back(how.type);
  return names;
}

// The largest size of a value that a type takes.
double largest_value(std::string_view type) {
  return static_cast<double>(find_quantizer(portable::quantizers(), type).largest);
}

}  // namespace

void bind_quantize(nb::module_& m) {
  m.def("quantize",
        &run_quantize,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("type"),
        nb::arg("rows").noconvert(),
        nb::arg("importance").noconvert().none(),
        nb::arg("out").noconvert(),
        "Quantise rows [n_row, n] into out [n_row, bytes of a row].\n\n"
        "importance [n]: positive or zero weights of the squared errors, or None.\n"
        "Returns the index of the first value that the type cannot hold, or -1.");
  m.def("quantized_types", &quantized_types, "Types that `quantize` writes.");
  m.def("largest_value",
        &largest_value,
        nb::arg("type"),
        "The largest size of a value that `quantize` takes for a type.");
}

}  // namespace junto
