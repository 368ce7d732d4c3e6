// SPDX-License-Identifier: Apache-2.0
//
// Bindings of decode.h.

#include "kernels/decode.h"

#include <nanobind/stl/string_view.h>

#include "bindings/bindings.h"

namespace junto {

namespace {

void run_decode_rows(std::string_view level,
                     ThreadPool& pool,
                     std::string_view type,
                     const Array<const std::uint8_t, 2>& rows,
                     const Array<float, 2>& y) {
  const TypeInfo* const info = find_type(type);
  if (info == nullptr)
    throw std::invalid_argument("decode_rows: type " + std::string(type) + " is unknown");
  check_equal("decode_rows", "rows", size(rows, 0), "rows of y", size(y, 0));
  check_equal("decode_rows", "columns of y, beyond units", size(y, 1) % info->unit, "expected", 0);
  const std::int64_t row_bytes = size(y, 1) / info->unit * info->stored_bytes;
  check_equal("decode_rows", "bytes of a row", size(rows, 1), "expected", row_bytes);
  const DecodeParams params{info, rows.data(), row_bytes, size(y, 0), size(y, 1), y.data()};
  const Level chosen = find_level(level);
  const nb::gil_scoped_release release;
  JUNTO_CHOOSE(chosen, decode_rows)(params, pool);
}

}  // namespace

void bind_decode(nb::module_& m) {
  m.def("decode_rows",
        &run_decode_rows,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("type"),
        nb::arg("rows").noconvert(),
        nb::arg("y").noconvert(),
        "Stored rows, uint8 [n_row, bytes of a row], to float32 [n_row, n].");
}

}  // namespace junto
