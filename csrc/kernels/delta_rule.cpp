// SPDX-License-Identifier: Apache-2.0
//
// Gated delta rule on anchored chunks. With M0 the state at the anchor, G the log-decay cumulated
// since then and (k_j, u_j) the list of later tokens,
//
//   pred_t = e^G_t k_t.M0 + sum over j < t  of e^(G_t - G_j) (k_t.k_j) u_j
//   u_t    = beta_t (v_t - pred_t)
//   y_t    = e^G_t q_t.M0 + sum over j <= t of e^(G_t - G_j) (q_t.k_j) u_j
//
// and after 64 tokens M0 <- e^G_64 M0 + sum of e^(G_64 - G_j) k_j u_j. Decode is a prefill of one
// token and gives the same bits. G is cumulated in float64, so that one strong decay does not blur
// the gentle ones after it.
//
// Threads own (span, key head, share of its value heads): each value head has its state and list to
// itself. The list of keys belongs to all shares, hence it is written last, in a loop of its own.
//
// Source: arXiv 2412.06464, expanded over the tokens since the anchor.

#include "kernels/delta_rule.h"

#include <cstring>
#include <memory>
#include <new>

#include "kernels/delta_chunk.h"

namespace junto::JUNTO_ISA {

namespace {

constexpr std::align_val_t kLine{64};

struct Release {
  void operator()(float* p) const { ::operator delete[](p, kLine); }
};
using Floats = std::unique_ptr<float[], Release>;

Floats allocate(int64_t n) {
  return Floats(
      static_cast<float*>(::operator new[](static_cast<std::size_t>(n) * sizeof(float), kLine)));
}

int64_t whole_vectors(int64_t n) { return (n + 15) / 16 * 16; }

// Rows of n values, `stride` apart, to rows padded with zeros.
void pad_rows(const float* from, int64_t n_row, int64_t n, int64_t stride, float* to) {
  const int64_t n_padded = whole_vectors(n);
  for (int64_t r = 0; r < n_row; ++r)
    for (int64_t i = 0; i < n; i += 16)
      store(to + r * n_padded + i, load_up_to(from + r * stride + i, n - i));
}

void unpad_rows(const float* from, int64_t n_row, int64_t n, int64_t stride, float* to) {
  const int64_t n_padded = whole_vectors(n);
  for (int64_t r = 0; r < n_row; ++r)
    for (int64_t i = 0; i < n; i += 16)
      store_up_to(to + r * stride + i, load(from + r * n_padded + i), n - i);
}

// How much scratch a call needs: new tokens of its longest piece, and whether any chunk folds.
struct Extent {
  int64_t n_new = 0;
  bool folds = false;

  explicit Extent(const DeltaRuleParams& p) {
    for (int64_t i = 0; i < p.n_span; ++i) {
      n_new = std::max(n_new, std::min(kList, p.spans[i].n_tok));
      folds = folds || p.spans[i].start + p.spans[i].n_tok > kList;
    }
  }
};

// The scratch of one thread, and the walk over one span.
class Walker {
 public:
  Walker(const DeltaRuleParams& params, const Extent& extent) : p_(params) {
    c_.s_k = p_.s_k;
    c_.n_k = whole_vectors(p_.s_k);
    c_.n_v = whole_vectors(p_.s_v);
    const int64_t n = extent.n_new, n_fold = extent.folds ? kList : 0;
    const int64_t n_old_k = c_.n_k == p_.s_k ? 0 : kList * c_.n_k;
    const int64_t n_old_v = c_.n_v == p_.s_v ? 0 : kList * c_.n_v;
    const int64_t n_state = c_.n_v == p_.s_v ? 0 : p_.s_k * c_.n_v;
    const struct {
      float** part;
      int64_t n;
    } parts[] = {{&c_.new_keys, n * c_.n_k},
                 {&c_.new_queries, n * c_.n_k},
                 {&c_.new_u, n * c_.n_v},
                 {&c_.pairs, n * 2 * kList},
                 {&c_.weights, n * 2 * kList},
                 {&c_.sums, n * 2 * c_.n_v},
                 {&c_.fold_keys, n_fold * c_.n_k},
                 {&c_.fold_u, n_fold * c_.n_v},
                 {&old_keys_, n_old_k},
                 {&old_u_, n_old_v},
                 {&state_, n_state}};
    int64_t total = 0;
    for (const auto& part : parts) total += part.n;
    floats_ = allocate(total);
    float* next = floats_.get();
    for (const auto& part : parts) {
      *part.part = next;
      next += part.n;
    }
    std::fill(c_.total, c_.total + kList, 0.0);
  }

  // All tokens of a span for one key head and its value heads first, first + step, ...
  void run(const DeltaSpan& span, int64_t key_head, int64_t first, int64_t step) {
    int64_t start = span.start;
    point_at_old_keys(span, key_head);
    // A list that is full makes a first piece without tokens, which only folds.
    for (int64_t done = 0; done < span.n_tok; start = 0) {
      c_.n_old = start;
      c_.n_new = std::min(kList - start, span.n_tok - done);
      take_keys(span.row + done, key_head);
      pair_keys(c_);
      done += c_.n_new;
      for (int64_t head = first; head < p_.n_head_v; head += step)
        run_head(span, span.row + done - c_.n_new, head, done == span.n_tok);
    }
  }

 private:
  void point_at_old_keys(const DeltaSpan& span, int64_t key_head) {
    const int64_t stride = p_.n_head_k * p_.s_k;
    const float* keys = p_.list_k + span.slot * kList * stride + key_head * p_.s_k;
    const bool padded = c_.n_k != p_.s_k;
    if (padded) pad_rows(keys, span.start, p_.s_k, stride, old_keys_);
    for (int64_t j = 0; j < span.start; ++j)
      c_.key[j] = padded ? old_keys_ + j * c_.n_k : keys + j * stride;
  }

  void take_keys(int64_t row, int64_t key_head) {
    const float scale = 1.0f / std::sqrt(static_cast<float>(p_.s_k));
    for (int64_t t = 0; t < c_.n_new; ++t) {
      const int64_t at = key_head * p_.s_k;
      normalise(p_.k + (row + t) * p_.k_stride + at, p_.s_k, 1.0f, c_.new_keys + t * c_.n_k);
      normalise(p_.q + (row + t) * p_.q_stride + at, p_.s_k, scale, c_.new_queries + t * c_.n_k);
      c_.key[c_.n_old + t] = c_.new_keys + t * c_.n_k;
    }
  }

  void run_head(const DeltaSpan& span, int64_t row, int64_t head, bool last) {
    float* stored = p_.state + (span.slot * p_.n_head_v + head) * p_.s_k * p_.s_v;
    const bool padded = c_.n_v != p_.s_v;
    if (padded) pad_rows(stored, p_.s_k, p_.s_v, p_.s_v, state_);
    float* state = padded ? state_ : stored;

    float* list_u = p_.list_u + (span.slot * kList * p_.n_head_v + head) * p_.s_v;
    float* list_decay = p_.list_decay + span.slot * kList * p_.n_head_v + head;
    point_at_u(list_u, padded);
    cumulate(list_decay, p_.decay + row * p_.decay_stride + head);
    weigh_pairs(c_);
    sum_state(c_, state);
    correct(c_,
            {p_.v + row * p_.v_stride + head * p_.s_v,
             p_.beta + row * p_.beta_stride + head,
             p_.y + row * p_.y_stride + head * p_.s_v,
             p_.v_stride,
             p_.beta_stride,
             p_.y_stride,
             p_.s_v});
    if (last) {
      const int64_t stride = p_.n_head_v * p_.s_v;
      unpad_rows(c_.new_u, c_.n_new, p_.s_v, stride, list_u + c_.n_old * stride);
      for (int64_t t = 0; t < c_.n_new; ++t)
        list_decay[(c_.n_old + t) * p_.n_head_v] = p_.decay[(row + t) * p_.decay_stride + head];
    } else {
      fold(c_, state);
      if (padded) unpad_rows(state_, p_.s_k, p_.s_v, p_.s_v, stored);
    }
  }

  void point_at_u(const float* list_u, bool padded) {
    const int64_t stride = p_.n_head_v * p_.s_v;
    if (padded) pad_rows(list_u, c_.n_old, p_.s_v, stride, old_u_);
    for (int64_t j = 0; j < c_.n_old; ++j)
      c_.u[j] = padded ? old_u_ + j * c_.n_v : list_u + j * stride;
    for (int64_t t = 0; t < c_.n_new; ++t) c_.u[c_.n_old + t] = c_.new_u + t * c_.n_v;
  }

  void cumulate(const float* list_decay, const float* new_decay) {
    double total = 0.0;
    for (int64_t j = 0; j < c_.n_old; ++j)
      c_.total[j] = total += static_cast<double>(list_decay[j * p_.n_head_v]);
    for (int64_t t = 0; t < c_.n_new; ++t)
      c_.total[c_.n_old + t] = total += static_cast<double>(new_decay[t * p_.decay_stride]);
  }

  const DeltaRuleParams& p_;
  Chunk c_;
  Floats floats_;
  float* old_keys_ = nullptr;  // [64, n_k], [64, n_v] and [S_k, n_v]: padded copies of what is
  float* old_u_ = nullptr;     // stored, where its sizes are no whole vectors
  float* state_ = nullptr;
};

// The keys of the last piece of a span, for the next call.
void keep_keys(const DeltaRuleParams& p, const DeltaSpan& span, int64_t key_head, float* padded) {
  const int64_t end = span.start + span.n_tok;
  const int64_t n_left = (end - 1) % kList + 1;  // entries of the list afterwards
  const int64_t n_new = std::min(n_left, span.n_tok);
  for (int64_t t = 0; t < n_new; ++t) {
    const int64_t row = span.row + span.n_tok - n_new + t, entry = n_left - n_new + t;
    normalise(p.k + row * p.k_stride + key_head * p.s_k, p.s_k, 1.0f, padded);
    const int64_t at = (span.slot * kList + entry) * p.n_head_k + key_head;
    std::memcpy(p.list_k + at * p.s_k, padded, static_cast<std::size_t>(p.s_k) * sizeof(float));
  }
}

}  // namespace

void gated_delta_rule(const DeltaRuleParams& p, ThreadPool& pool) {
  const Extent extent(p);
  const auto walkers =
      std::make_unique<std::unique_ptr<Walker>[]>(static_cast<std::size_t>(pool.size()));
  for (int i = 0; i < pool.size(); ++i)
    walkers[static_cast<std::size_t>(i)] = std::make_unique<Walker>(p, extent);

  // Few units leave threads idle; more of them compute the dots of a key head again.
  const int64_t n_unit = p.n_span * p.n_head_k, ratio = p.n_head_v / p.n_head_k;
  const int64_t n_share = n_unit >= 4 * pool.size() ? 1 : ratio;
  pool.loop(n_unit * n_share, 1, [&](int64_t unit, int64_t, int thread) {
    const int64_t share = unit % n_share, head = unit / n_share % p.n_head_k;
    walkers[static_cast<std::size_t>(thread)]->run(p.spans[unit / n_share / p.n_head_k],
                                                   head,
                                                   head + share * p.n_head_k,
                                                   n_share * p.n_head_k);
  });
  const int64_t n_padded = whole_vectors(p.s_k);
  const Floats padded = allocate(pool.size() * n_padded);
  pool.loop(
      n_unit,
      std::max<int64_t>(n_unit / pool.size(), 1),
      [&](int64_t first, int64_t last, int thread) {
        for (int64_t unit = first; unit < last; ++unit)
          keep_keys(
              p, p.spans[unit / p.n_head_k], unit % p.n_head_k, padded.get() + thread * n_padded);
      });
}

}  // namespace junto::JUNTO_ISA
