// SPDX-License-Identifier: Apache-2.0
//
// The gated delta rule and the short convolution for Python.

#include "kernels/delta_rule.h"

#include <nanobind/stl/string_view.h>

#include <vector>

#include "bindings/plan.h"
#include "kernels/short_conv.h"

namespace junto {

void bind_delta_rule(nb::module_& m);

namespace {

using std::int64_t;

// Rows may lie apart, as slices of wider rows do; the values of one may not.
template <int N>
using Rows = nb::ndarray<const float, nb::ndim<N>, nb::device::cpu>;
using SpanTable = Array<const int64_t, 2>;

[[noreturn]] void refuse(const char* where, const std::string& why) {
  throw std::invalid_argument(std::string(where) + ": " + why);
}

// Distance between rows [..., n], whose values must lie together.
template <class A>
int64_t row_stride(const char* where, const char* name, const A& x) {
  if (x.size() == 0) return 0;
  int64_t together = 1;
  for (std::size_t axis = x.ndim() - 1; axis > 0; --axis) {
    if (size(x, axis) > 1 && x.stride(axis) != together)
      refuse(where, std::string("the values of a row of ") + name + " must lie together");
    together *= size(x, axis);
  }
  return x.stride(0);
}

void check_at_least_one(const char* where, const char* name, int64_t n) {
  if (n < 1)
    refuse(where, std::string(name) + " is " + std::to_string(n) + ", expected at least 1");
}

DeltaSpan read_span(const char* where, const int64_t* row, int64_t index) {
  const int64_t pos = row[3], anchor = row[4];
  if (anchor < 0 || anchor % kDeltaList != 0 || pos < anchor || pos - anchor > kDeltaList)
    refuse(where,
           "span " + std::to_string(index) + " begins at position " + std::to_string(pos) +
               " with its anchor at " + std::to_string(anchor) +
               "; the anchor must be a multiple of 64, at most 64 before it");
  return {row[0], row[1], row[2], pos - anchor};
}

// Spans that cover the rows of the batch one after the other, each in a slot of its own.
std::vector<DeltaSpan> read_spans(const char* where,
                                  const SpanTable& table,
                                  int64_t n_tok,
                                  int64_t n_slot) {
  check_equal(where, "columns of spans", size(table, 1), "slot, row, n_tok, pos, anchor", 5);
  std::vector<DeltaSpan> spans;
  std::vector<bool> taken(static_cast<std::size_t>(n_slot));
  int64_t next = 0;
  for (int64_t i = 0; i < size(table, 0); ++i) {
    const DeltaSpan span = read_span(where, table.data() + 5 * i, i);
    if (span.row != next || span.n_tok < 1 || span.n_tok > n_tok - next)
      refuse(where,
             "span " + std::to_string(i) + " has " + std::to_string(span.n_tok) +
                 " tokens from row " + std::to_string(span.row) + ", expected some from row " +
                 std::to_string(next) + " of " + std::to_string(n_tok));
    if (span.slot < 0 || span.slot >= n_slot || taken[static_cast<std::size_t>(span.slot)])
      refuse(where,
             "span " + std::to_string(i) + " is in slot " + std::to_string(span.slot) +
                 "; slots are 0 to " + std::to_string(n_slot - 1) + ", each for one span");
    taken[static_cast<std::size_t>(span.slot)] = true;
    next += span.n_tok;
    spans.push_back(span);
  }
  check_equal(where, "rows of spans", next, "rows of the batch", n_tok);
  return spans;
}

void check_inputs(const DeltaRuleParams& p,
                  const Rows<3>& q,
                  const Rows<3>& k,
                  const Rows<3>& v,
                  const Rows<2>& decay,
                  const Rows<2>& beta,
                  const Array<float, 3>& y) {
  const char* where = "gated_delta_rule";
  const int64_t n_tok = size(q, 0);
  check_at_least_one(where, "n_head_k", p.n_head_k);
  check_at_least_one(where, "n_head_v", p.n_head_v);
  check_at_least_one(where, "S_k", p.s_k);
  check_at_least_one(where, "S_v", p.s_v);
  check_equal(where, "n_head_v modulo n_head_k", p.n_head_v % p.n_head_k, "expected", 0);
  check_equal(where, "rows of k", size(k, 0), "rows of q", n_tok);
  check_equal(where, "heads of k", size(k, 1), "heads of q", p.n_head_k);
  check_equal(where, "head size of k", size(k, 2), "head size of q", p.s_k);
  check_equal(where, "rows of v", size(v, 0), "rows of q", n_tok);
  check_equal(where, "rows of y", size(y, 0), "rows of q", n_tok);
  check_equal(where, "heads of y", size(y, 1), "heads of v", p.n_head_v);
  check_equal(where, "head size of y", size(y, 2), "head size of v", p.s_v);
  check_equal(where, "rows of decay", size(decay, 0), "rows of q", n_tok);
  check_equal(where, "heads of decay", size(decay, 1), "heads of v", p.n_head_v);
  check_equal(where, "rows of beta", size(beta, 0), "rows of q", n_tok);
  check_equal(where, "heads of beta", size(beta, 1), "heads of v", p.n_head_v);
}

void check_storage(const DeltaRuleParams& p,
                   const Array<float, 4>& state,
                   const Array<float, 4>& list_k,
                   const Array<float, 4>& list_u,
                   const Array<float, 3>& list_decay) {
  const char* where = "gated_delta_rule";
  const int64_t n_slot = size(state, 0);
  check_equal(where, "heads of state", size(state, 1), "heads of v", p.n_head_v);
  check_equal(where, "S_k of state", size(state, 2), "head size of q", p.s_k);
  check_equal(where, "S_v of state", size(state, 3), "head size of v", p.s_v);
  check_equal(where, "slots of list_k", size(list_k, 0), "slots of state", n_slot);
  check_equal(where, "entries of list_k", size(list_k, 1), "expected", kDeltaList);
  check_equal(where, "heads of list_k", size(list_k, 2), "heads of q", p.n_head_k);
  check_equal(where, "head size of list_k", size(list_k, 3), "head size of q", p.s_k);
  check_equal(where, "slots of list_u", size(list_u, 0), "slots of state", n_slot);
  check_equal(where, "entries of list_u", size(list_u, 1), "expected", kDeltaList);
  check_equal(where, "heads of list_u", size(list_u, 2), "heads of v", p.n_head_v);
  check_equal(where, "head size of list_u", size(list_u, 3), "head size of v", p.s_v);
  check_equal(where, "slots of list_decay", size(list_decay, 0), "slots of state", n_slot);
  check_equal(where, "entries of list_decay", size(list_decay, 1), "expected", kDeltaList);
  check_equal(where, "heads of list_decay", size(list_decay, 2), "heads of v", p.n_head_v);
}

void run_gated_delta_rule(std::string_view level,
                          ThreadPool& pool,
                          const Rows<3>& q,
                          const Rows<3>& k,
                          const Rows<3>& v,
                          const Rows<2>& decay,
                          const Rows<2>& beta,
                          const Array<float, 4>& state,
                          const Array<float, 4>& list_k,
                          const Array<float, 4>& list_u,
                          const Array<float, 3>& list_decay,
                          const SpanTable& spans,
                          const Array<float, 3>& y) {
  const char* where = "gated_delta_rule";
  DeltaRuleParams params{q.data(),
                         k.data(),
                         v.data(),
                         decay.data(),
                         beta.data(),
                         y.data(),
                         row_stride(where, "q", q),
                         row_stride(where, "k", k),
                         row_stride(where, "v", v),
                         row_stride(where, "decay", decay),
                         row_stride(where, "beta", beta),
                         size(y, 1) * size(y, 2),
                         state.data(),
                         list_k.data(),
                         list_u.data(),
                         list_decay.data(),
                         nullptr,
                         size(spans, 0),
                         size(q, 1),
                         size(v, 1),
                         size(q, 2),
                         size(v, 2)};
  check_inputs(params, q, k, v, decay, beta, y);
  check_storage(params, state, list_k, list_u, list_decay);
  const std::vector<DeltaSpan> read = read_spans(where, spans, size(q, 0), size(state, 0));
  params.spans = read.data();
  const Level chosen = find_level(level);
  JUNTO_CHOOSE(chosen, gated_delta_rule)(params, pool);
}

void run_short_conv(std::string_view level,
                    ThreadPool& pool,
                    const Rows<2>& x,
                    const Rows<2>& weight,
                    const Array<float, 3>& conv,
                    const SpanTable& spans,
                    const Array<float, 2>& y) {
  const char* where = "short_conv";
  const int64_t n_channel = size(x, 1), n_tap = size(weight, 1);
  check_at_least_one(where, "n_channel", n_channel);
  check_at_least_one(where, "n_tap", n_tap);
  check_equal(where, "rows of weight", size(weight, 0), "columns of x", n_channel);
  check_equal(where, "rows of y", size(y, 0), "rows of x", size(x, 0));
  check_equal(where, "columns of y", size(y, 1), "columns of x", n_channel);
  check_equal(where, "rows of conv", size(conv, 1), "n_tap - 1 + 64", n_tap - 1 + kDeltaList);
  check_equal(where, "columns of conv", size(conv, 2), "columns of x", n_channel);
  const std::vector<DeltaSpan> read = read_spans(where, spans, size(x, 0), size(conv, 0));
  const ShortConvParams params{x.data(),
                               weight.data(),
                               y.data(),
                               row_stride(where, "x", x),
                               n_channel,
                               weight.stride(0),
                               weight.stride(1),
                               conv.data(),
                               read.data(),
                               size(spans, 0),
                               n_channel,
                               n_tap};
  const Level chosen = find_level(level);
  JUNTO_CHOOSE(chosen, short_conv)(params, pool);
}

}  // namespace

void bind_delta_rule(nb::module_& m) {
  m.def("gated_delta_rule",
        &Launch<&run_gated_delta_rule>::call,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("q").noconvert(),
        nb::arg("k").noconvert(),
        nb::arg("v").noconvert(),
        nb::arg("decay").noconvert(),
        nb::arg("beta").noconvert(),
        nb::arg("state").noconvert(),
        nb::arg("list_k").noconvert(),
        nb::arg("list_u").noconvert(),
        nb::arg("list_decay").noconvert(),
        nb::arg("spans").noconvert(),
        nb::arg("y").noconvert(),
        "Write the outputs of the gated delta rule to y; the states and lists of spans advance.\n\n"
        "spans int64 [n_span, 5]: slot, row, n_tok, pos, anchor. Rows of q, k, v, decay and beta\n"
        "may be slices of wider rows.");
  m.def("short_conv",
        &Launch<&run_short_conv>::call,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("x").noconvert(),
        nb::arg("weight").noconvert(),
        nb::arg("conv").noconvert(),
        nb::arg("spans").noconvert(),
        nb::arg("y").noconvert(),
        "Write SiLU of the causal convolution of x to y; x is kept in conv.\n\n"
        "spans as for gated_delta_rule. weight [n_channel, n_tap] may have any strides, and is\n"
        "fastest as the transpose of a contiguous [n_tap, n_channel].");
}

}  // namespace junto
