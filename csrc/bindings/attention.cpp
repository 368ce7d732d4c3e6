// SPDX-License-Identifier: Apache-2.0
//
// Attention over the paged cache for Python.

#include "kernels/attention.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>

#include <optional>
#include <type_traits>

#include "bindings/attention_spans.h"
#include "bindings/plan.h"

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

using Sinks = std::optional<Array<const float, 1>>;

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

// The arrays of blocks that have aged: C is int8 for codes of 8 bits, uint8 for two of 4.
template <class C>
struct Codes {
  static constexpr int kBits = std::is_same_v<C, std::int8_t> ? 8 : 4;

  Array<C, 4> k, v;
  Array<Half, 4> k_scales, v_scales;

  std::int64_t n_block() const { return size(k, 0); }

  void check_sizes(std::int64_t n_head_kv, std::int64_t head_dim) const {
    if (head_dim % 32 != 0)
      throw std::invalid_argument("attention: head_dim is " + std::to_string(head_dim) +
                                  ", codes need a multiple of 32");
    const auto check = [&](const char* what, const auto& array, std::int64_t n, std::int64_t m) {
      const std::int64_t expected[] = {n_block(), n_head_kv, n, m};
      for (std::size_t axis = 0; axis < 4; ++axis)
        check_equal("attention", what, size(array, axis), "by the keys", expected[axis]);
    };
    check("an axis of k_codes", k, head_dim * kBits / 8, kPositions);
    check("an axis of v_codes", v, kPositions * kBits / 8, head_dim);
    check("an axis of k_scales", k_scales, head_dim / 32, kPositions);
    check("an axis of v_scales", v_scales, head_dim / 32, kPositions);
  }

  AgedPools pools(std::int64_t n_pinned, std::int64_t n_recent) const {
    return {reinterpret_cast<std::uint8_t*>(k.data()),
            reinterpret_cast<std::uint8_t*>(v.data()),
            reinterpret_cast<std::uint16_t*>(k_scales.data()),
            reinterpret_cast<std::uint16_t*>(v_scales.data()),
            kBits,
            n_pinned,
            n_recent};
  }
};

// The arrays that attention always takes.
template <class T>
struct Rows {
  Array<const float, 3> q, k, v;
  Array<T, 4> k_pool, v_pool;
  Array<float, 3> y;
};

template <class T>
void call_attention(std::string_view level,
                    ThreadPool& pool,
                    const Rows<T>& x,
                    const ReadSpans& read,
                    float scale,
                    std::int64_t window,
                    const Sinks& sinks,
                    const AgedPools* aged) {
  const Level chosen = find_level(level);
  if (sinks) check_equal("attention", "sinks", size(*sinks, 0), "heads of q", size(x.q, 1));
  check_equal("attention", "rows of the spans", read.n_row(), "rows of q", size(x.q, 0));
  const AttentionParams params{x.q.data(),
                               x.k.data(),
                               x.v.data(),
                               x.y.data(),
                               x.k_pool.data(),
                               x.v_pool.data(),
                               std::is_same_v<T, Half>,
                               size(x.q, 1),
                               size(x.k, 1),
                               size(x.q, 2),
                               scale,
                               window,
                               sinks ? sinks->data() : nullptr,
                               read.spans.data(),
                               std::ssize(read.spans),
                               aged};
  JUNTO_CHOOSE(chosen, attention)(params, pool);
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
                   const Blocks& blocks,
                   float scale,
                   std::optional<std::int64_t> window,
                   const Sinks& sinks,
                   const Array<float, 3>& y) {
  check_sizes(q, k, v, k_pool, v_pool, y);
  if (window && (*window < 1 || *window > std::int64_t{1} << 32))
    throw std::invalid_argument("attention: window is " + std::to_string(*window) +
                                ", expected at least 1 position");
  const ReadSpans read = read_spans(spans, blocks, size(k_pool, 0));
  read.check_cover(window.value_or(0));
  const Rows<T> rows{q, k, v, k_pool, v_pool, y};
  call_attention(level, pool, rows, read, scale, window.value_or(0), sinks, nullptr);
}

template <class C>
void run_attention_by_age(std::string_view level,
                          ThreadPool& pool,
                          const Array<const float, 3>& q,
                          const Array<const float, 3>& k,
                          const Array<const float, 3>& v,
                          const Array<Half, 4>& k_pool,
                          const Array<Half, 4>& v_pool,
                          const Spans& spans,
                          const Blocks& blocks,
                          const Array<C, 4>& k_codes,
                          const Array<C, 4>& v_codes,
                          const Array<Half, 4>& k_scales,
                          const Array<Half, 4>& v_scales,
                          const AgedSpans& aged_spans,
                          const Blocks& aged_blocks,
                          std::int64_t n_pinned,
                          std::int64_t n_recent,
                          float scale,
                          const Sinks& sinks,
                          const Array<float, 3>& y) {
  check_sizes(q, k, v, k_pool, v_pool, y);
  const Codes<C> codes{k_codes, v_codes, k_scales, v_scales};
  codes.check_sizes(size(k, 1), size(k, 2));
  const AgedPools aged = codes.pools(n_pinned, n_recent);
  ReadSpans read = read_spans(spans, blocks, size(k_pool, 0));
  let_age(read, aged_spans, aged_blocks, aged, size(k_pool, 0), codes.n_block());
  const Rows<Half> rows{q, k, v, k_pool, v_pool, y};
  call_attention(level, pool, rows, read, scale, 0, sinks, &aged);
}

template <class T>
void bind(nb::module_& m, const char* doc) {
  m.def("attention",
        &Launch<&run_attention<T>>::call,
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

template <class C>
void bind_by_age(nb::module_& m, const char* doc) {
  m.def("attention_by_age",
        &Launch<&run_attention_by_age<C>>::call,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("q").noconvert(),
        nb::arg("k").noconvert(),
        nb::arg("v").noconvert(),
        nb::arg("k_pool").noconvert(),
        nb::arg("v_pool").noconvert(),
        nb::arg("spans").noconvert(),
        nb::arg("blocks").noconvert(),
        nb::arg("k_codes").noconvert(),
        nb::arg("v_codes").noconvert(),
        nb::arg("k_scales").noconvert(),
        nb::arg("v_scales").noconvert(),
        nb::arg("aged_spans").noconvert(),
        nb::arg("aged_blocks").noconvert(),
        nb::arg("n_pinned"),
        nb::arg("n_recent"),
        nb::arg("scale"),
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
  bind_by_age<std::int8_t>(
      m,
      "The same where blocks age: a query of block B sees block b as codes of Q8_0 if b >= "
      "n_pinned\n"
      "and B - b > n_recent, else in the pools, which are float16.\n\n"
      "k_codes [n_code_block, n_head_kv, head_dim, 64], v_codes [n_code_block, n_head_kv, 64,\n"
      "head_dim], scales [n_code_block, n_head_kv, head_dim / 32, 64]. The tables of spans begin\n"
      "behind the pinned blocks. aged_spans [n_span, 3]: pinned blocks, blocks with codes, and "
      "how\n"
      "many of those, at the end, get their codes now; aged_blocks: for each span the pinned\n"
      "blocks, then those with codes.");
  bind_by_age<std::uint8_t>(
      m, "The same with codes of Q4_0, two rows a byte, so that axis 2 is half as long.");
}

}  // namespace junto
