// SPDX-License-Identifier: Apache-2.0
//
// Attention over the paged cache for Python.

#include "kernels/attention.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <optional>
#include <type_traits>
#include <vector>

#include "bindings/bindings.h"

namespace junto {

// The 16 bits of a float16.
struct Half {
  std::uint16_t bits;
};

}  // namespace junto

template <>
struct nanobind::detail::dtype_traits<junto::Half> {
  static constexpr dlpack::dtype value{static_cast<std::uint8_t>(dlpack::dtype_code::Float), 16, 1};
  static constexpr auto name = const_name("float16");
};

namespace junto {

namespace {

constexpr std::int64_t kPositions = 64;

// One row a span: first row in the batch, number of rows, position of the first, first block of its
// table, number of blocks in it.
using Spans = nb::ndarray<const std::int32_t, nb::shape<-1, 5>, nb::c_contig, nb::device::cpu>;

template <class T>
void check_sizes(const Array<const float, 3>& q,
                 const Array<const float, 3>& k,
                 const Array<const float, 3>& v,
                 const Array<T, 4>& k_pool,
                 const Array<T, 4>& v_pool,
                 const Array<float, 3>& y) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    check_equal("attention", "an axis of y", size(y, axis), "of q", size(q, axis));
    check_equal("attention", "an axis of v", size(v, axis), "of k", size(k, axis));
  }
  check_equal("attention", "rows of k", size(k, 0), "rows of q", size(q, 0));
  check_equal("attention", "head_dim of k", size(k, 2), "head_dim of q", size(q, 2));
  const std::int64_t n_head_kv = size(k, 1), head_dim = size(k, 2);
  if (n_head_kv < 1 || head_dim < 1 || size(q, 1) < 1 || size(q, 1) % n_head_kv != 0)
    throw std::invalid_argument("attention: " + std::to_string(size(q, 1)) + " heads of " +
                                std::to_string(head_dim) + " do not group by " +
                                std::to_string(n_head_kv) + " key heads");
  check_equal("attention", "blocks of v_pool", size(v_pool, 0), "of k_pool", size(k_pool, 0));
  for (const Array<T, 4>* pool : {&k_pool, &v_pool})
    check_equal("attention", "key heads of a pool", size(*pool, 1), "of k", n_head_kv);
  check_equal("attention", "axis 2 of k_pool", size(k_pool, 2), "head_dim", head_dim);
  check_equal("attention", "axis 3 of k_pool", size(k_pool, 3), "block size", kPositions);
  check_equal("attention", "axis 2 of v_pool", size(v_pool, 2), "block size", kPositions);
  check_equal("attention", "axis 3 of v_pool", size(v_pool, 3), "head_dim", head_dim);
}

void check_span(const AttentionSpan& span, std::int64_t n_block, std::int64_t window) {
  const auto shown = [&] {
    return "attention: span at row " + std::to_string(span.row) + " of " +
           std::to_string(span.n_tok) + " rows from position " + std::to_string(span.pos);
  };
  if (span.n_tok < 1 || span.pos < 0)
    throw std::invalid_argument(shown() + ": expected at least 1 row and position 0");
  const std::int64_t oldest = window == 0 ? 0 : std::max<std::int64_t>(0, span.pos - window + 1);
  if (span.first_block < 0 || oldest / kPositions < span.first_block ||
      (span.pos + span.n_tok - 1) / kPositions >= span.first_block + n_block)
    throw std::invalid_argument(shown() + ": its table of " + std::to_string(n_block) +
                                " blocks from block " + std::to_string(span.first_block) +
                                " does not cover what it sees");
}

std::vector<AttentionSpan> read_spans(const Spans& spans,
                                      const Array<const std::int32_t, 1>& blocks,
                                      std::int64_t n_pool_block,
                                      std::int64_t window) {
  for (std::int64_t i = 0; i < size(blocks, 0); ++i)
    if (blocks.data()[i] < 0 || blocks.data()[i] >= n_pool_block)
      throw std::invalid_argument("attention: block " + std::to_string(blocks.data()[i]) +
                                  " of a pool of " + std::to_string(n_pool_block));
  std::vector<AttentionSpan> read;
  std::int64_t row = 0, used = 0;
  for (std::int64_t i = 0; i < size(spans, 0); ++i) {
    const std::int32_t* s = spans.data() + 5 * i;
    check_equal("attention", "first row of a span", s[0], "end of the one before", row);
    if (s[4] < 0 || s[4] > size(blocks, 0) - used)
      throw std::invalid_argument("attention: tables of " + std::to_string(used + s[4]) +
                                  " blocks, got " + std::to_string(size(blocks, 0)));
    read.push_back({s[0], s[1], s[2], s[3], blocks.data() + used});
    check_span(read.back(), s[4], window);
    row += s[1];
    used += s[4];
  }
  return read;
}

template <class T>
void run_attention(std::string_view level,
                   ThreadPool& pool,
                   const Array<const float, 3>& q,
                   const Array<const float, 3>& k,
                   const Array<const float, 3>& v,
                   const Array<T, 4>& k_pool,
                   const Array<T, 4>& v_pool,
                   const Spans& spans,
                   const Array<const std::int32_t, 1>& blocks,
                   float scale,
                   std::optional<std::int64_t> window,
                   const std::optional<Array<const float, 1>>& sinks,
                   const Array<float, 3>& y) {
  const Level chosen = find_level(level);
  check_sizes(q, k, v, k_pool, v_pool, y);
  if (sinks) check_equal("attention", "sinks", size(*sinks, 0), "heads of q", size(q, 1));
  if (window && (*window < 1 || *window > std::int64_t{1} << 32))
    throw std::invalid_argument("attention: window is " + std::to_string(*window) +
                                ", expected at least 1 position");
  const std::vector<AttentionSpan> read =
      read_spans(spans, blocks, size(k_pool, 0), window.value_or(0));
  const std::int64_t n_row = read.empty() ? 0 : read.back().row + read.back().n_tok;
  check_equal("attention", "rows of the spans", n_row, "rows of q", size(q, 0));
  const AttentionParams params{q.data(),
                               k.data(),
                               v.data(),
                               y.data(),
                               k_pool.data(),
                               v_pool.data(),
                               std::is_same_v<T, Half>,
                               size(q, 1),
                               size(k, 1),
                               size(q, 2),
                               scale,
                               window.value_or(0),
                               sinks ? sinks->data() : nullptr,
                               read.data(),
                               static_cast<std::int64_t>(read.size())};
  const nb::gil_scoped_release release;
  JUNTO_CHOOSE(chosen, attention)(params, pool);
}

template <class T>
void bind(nb::module_& m, const char* doc) {
  m.def("attention",
        &run_attention<T>,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("q").noconvert(),
        nb::arg("k").noconvert(),
        nb::arg("v").noconvert(),
        nb::arg("k_pool").noconvert(),
        nb::arg("v_pool").noconvert(),
        nb::arg("spans").noconvert(),
        nb::arg("blocks").noconvert(),
        nb::arg("scale"),
        nb::arg("window").none(),
        nb::arg("sinks").noconvert().none(),
        nb::arg("y").noconvert(),
        doc);
}

}  // namespace

void bind_attention(nb::module_& m) {
  bind<float>(
      m,
      "Store k and v in the pools, then attend causally, each span to itself, into y.\n\n"
      "k_pool [n_pool_block, n_head_kv, head_dim, 64], v_pool [n_pool_block, n_head_kv, 64,\n"
      "head_dim], float32 in both or float16 in both. spans [n_span, 5]: first row, rows, "
      "position, first block\n"
      "of the table, blocks in it; blocks: the tables one after the other.");
  bind<Half>(m, "The same with float16 pools.");
}

}  // namespace junto
