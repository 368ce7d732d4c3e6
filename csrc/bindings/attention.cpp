// SPDX-License-Identifier: Apache-2.0
//
// Attention over the paged cache for Python.

#include "kernels/attention.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

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

constexpr std::int64_t kPositions = 64;

// One row a span: first row in the batch, number of rows, position of the first, first block of its
// table, number of blocks in it.
using Spans = nb::ndarray<const std::int32_t, nb::shape<-1, 5>, nb::c_contig, nb::device::cpu>;

using AgedSpans = nb::ndarray<const std::int32_t, nb::shape<-1, 3>, nb::c_contig, nb::device::cpu>;
using Blocks = Array<const std::int32_t, 1>;
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

// Shows a span in messages.
std::string shown(const AttentionSpan& span) {
  return "attention: span at row " + std::to_string(span.row) + " of " +
         std::to_string(span.n_tok) + " rows from position " + std::to_string(span.pos);
}

std::int64_t last_block(const AttentionSpan& span) {
  return (span.pos + span.n_tok - 1) / kPositions;
}

void check_blocks(std::span<const std::int32_t> blocks, std::int64_t n_pool_block) {
  for (const std::int32_t block : blocks)
    if (block < 0 || block >= n_pool_block)
      throw std::invalid_argument("attention: block " + std::to_string(block) + " of a pool of " +
                                  std::to_string(n_pool_block));
}

// The spans of a batch, and how many blocks the table of each has.
struct ReadSpans {
  std::vector<AttentionSpan> spans;
  std::vector<std::int64_t> n_block;

  std::int64_t n_row() const { return spans.empty() ? 0 : spans.back().row + spans.back().n_tok; }

  void check_cover(std::int64_t window) const {
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const AttentionSpan& s = spans[i];
      const std::int64_t oldest = window == 0 ? 0 : std::max<std::int64_t>(0, s.pos - window + 1);
      if (oldest / kPositions < s.first_block || last_block(s) >= s.first_block + n_block[i])
        throw std::invalid_argument(shown(s) + ": its table of " + std::to_string(n_block[i]) +
                                    " blocks from block " + std::to_string(s.first_block) +
                                    " does not cover what it sees");
    }
  }
};

ReadSpans read_spans(const Spans& spans, const Blocks& blocks, std::int64_t n_pool_block) {
  check_blocks({blocks.data(), blocks.size()}, n_pool_block);
  ReadSpans read;
  std::int64_t used = 0;
  for (std::int64_t i = 0; i < size(spans, 0); ++i) {
    const std::int32_t* s = spans.data() + 5 * i;
    check_equal("attention", "first row of a span", s[0], "end of the one before", read.n_row());
    if (s[4] < 0 || s[4] > size(blocks, 0) - used)
      throw std::invalid_argument("attention: tables of " + std::to_string(used + s[4]) +
                                  " blocks, got " + std::to_string(size(blocks, 0)));
    read.spans.push_back({s[0], s[1], s[2], s[3], blocks.data() + used});
    read.n_block.push_back(s[4]);
    if (s[1] < 1 || s[2] < 0)
      throw std::invalid_argument(shown(read.spans.back()) +
                                  ": expected at least 1 row and position 0");
    if (s[3] < 0)
      throw std::invalid_argument(shown(read.spans.back()) + ": its table from block " +
                                  std::to_string(s[3]) + " does not cover what it sees");
    used += s[4];
  }
  return read;
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

// A query of block B sees as floats the pinned blocks and those from B - n_recent on, and between
// them codes.
void check_age(const AttentionSpan& s,
               std::int64_t n_pinned_held,
               std::int64_t n_float,
               const AgedPools& aged) {
  const std::int64_t pinned = aged.n_pinned, own = s.pos / kPositions, last = last_block(s);
  const std::int64_t first_new = pinned + s.n_coded, end_coded = first_new + s.n_new;
  const bool is_pinned = n_pinned_held >= std::min(pinned, last + 1);
  const bool is_near = s.first_block >= pinned &&
                       s.first_block <= std::max(pinned, own - aged.n_recent) &&
                       (last < pinned || s.first_block + n_float > last);
  const bool is_coded = end_coded >= last - aged.n_recent;
  const bool is_full =
      s.n_new == 0 || (first_new >= s.first_block && end_coded * kPositions <= s.pos + s.n_tok);
  if (!(is_pinned && is_near && is_coded && is_full))
    throw std::invalid_argument(shown(s) + ": its tables do not cover what it sees by age");
}

// Gives each span its pinned blocks and those with codes.
void let_age(ReadSpans& read,
             const AgedSpans& spans,
             const Blocks& blocks,
             const AgedPools& aged,
             std::int64_t n_pool_block,
             std::int64_t n_code_block) {
  constexpr std::int64_t most = std::int64_t{1} << 32;
  if (std::min(aged.n_pinned, aged.n_recent) < 0 || std::max(aged.n_pinned, aged.n_recent) > most)
    throw std::invalid_argument("attention: n_pinned is " + std::to_string(aged.n_pinned) +
                                ", n_recent is " + std::to_string(aged.n_recent) +
                                "; expected at least 0");
  check_equal("attention", "aged_spans", size(spans, 0), "spans", std::ssize(read.spans));
  std::span<const std::int32_t> left(blocks.data(), blocks.size());
  for (std::size_t i = 0; i < read.spans.size(); ++i) {
    const std::int32_t *s = spans.data() + 3 * i, n_coded = s[1], n_new = s[2];
    if (s[0] < 0 || n_new < 0 || n_coded < n_new || std::int64_t{s[0]} + n_coded > std::ssize(left))
      throw std::invalid_argument("attention: aged span of " + std::to_string(s[0]) + " and " +
                                  std::to_string(n_coded) + " blocks, " + std::to_string(n_new) +
                                  " of them new, where " + std::to_string(left.size()) +
                                  " are left");
    const auto pinned = left.first(static_cast<std::size_t>(s[0]));
    left = left.subspan(pinned.size());
    const auto coded = left.first(static_cast<std::size_t>(n_coded));
    left = left.subspan(coded.size());
    check_blocks(pinned, n_pool_block);
    check_blocks(coded, n_code_block);
    AttentionSpan& span = read.spans[i];
    span.pinned = pinned.data();
    span.codes = coded.data();
    span.n_coded = n_coded - n_new;
    span.n_new = n_new;
    check_age(span, s[0], read.n_block[i], aged);
  }
}

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
