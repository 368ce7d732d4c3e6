// SPDX-License-Identifier: Apache-2.0
//
// Sampling for Python.

#include "kernels/sampling.h"

#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <limits>
#include <vector>

#include "bindings/bindings.h"

namespace junto {

namespace {

// One row a token: temperature, top_k, top_p, min_p, uniform.
using Settings = nb::ndarray<const double, nb::shape<-1, 5>, nb::c_contig, nb::device::cpu>;

SamplingRow read_row(const double* s, std::int64_t row, std::int64_t n_vocab) {
  const auto refuse = [&](const char* name, double value) {
    throw std::invalid_argument("sample: " + std::string(name) + " of row " + std::to_string(row) +
                                " is " + std::to_string(value));
  };
  if (!(s[0] >= 0) || !std::isfinite(s[0])) refuse("temperature", s[0]);
  if (!(s[1] >= 0) || s[1] != std::floor(s[1]) || !std::isfinite(s[1])) refuse("top_k", s[1]);
  if (std::isnan(s[2])) refuse("top_p", s[2]);
  if (std::isnan(s[3])) refuse("min_p", s[3]);
  if (!(s[4] >= 0 && s[4] < 1)) refuse("uniform", s[4]);
  const auto top_k = static_cast<std::int64_t>(std::min(s[1], static_cast<double>(n_vocab)));
  return {s[0], top_k, s[2], s[3], s[4]};
}

std::vector<std::int64_t> run_sample(std::string_view level,
                                     ThreadPool& pool,
                                     const Array<const float, 2>& logits,
                                     const Settings& settings) {
  const std::int64_t n_row = size(logits, 0), n_vocab = size(logits, 1);
  check_equal("sample", "rows of settings", size(settings, 0), "rows of logits", n_row);
  if (n_row > 0 && (n_vocab < 1 || n_vocab > std::numeric_limits<std::int32_t>::max()))
    throw std::invalid_argument("sample: a vocabulary of " + std::to_string(n_vocab));
  std::vector<SamplingRow> rows;
  for (std::int64_t i = 0; i < n_row; ++i)
    rows.push_back(read_row(settings.data() + 5 * i, i, n_vocab));
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(n_row));
  const Level chosen = find_level(level);
  {
    const nb::gil_scoped_release release;
    const LogitScans scans = JUNTO_CHOOSE(chosen, logit_scans)();
    sample(scans, {logits.data(), n_row, n_vocab, rows.data(), tokens.data()}, pool);
  }
  return tokens;
}

}  // namespace

void bind_sampling(nb::module_& m) {
  m.def("sample",
        &run_sample,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("logits").noconvert(),
        nb::arg("settings").noconvert(),
        "One token for each row of logits [n_row, n_vocab].\n\n"
        "settings float64 [n_row, 5]: temperature, top_k, top_p, min_p, uniform in [0, 1).");
}

}  // namespace junto
