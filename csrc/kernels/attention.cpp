// SPDX-License-Identifier: Apache-2.0
//
// Causal grouped-query attention over a paged cache, with a sliding window and sinks.
//
// Each 64-position block gives a query a partial softmax of its own (attention_block.h). Blocks are
// folded in order into their range (16 blocks, aligned to position 0), ranges in order into the
// row, then the sink joins and y = o / l. Queries that see a block from afar read its codes
// (attention_codes.h), those near it its float16; which depends on their blocks alone. So none of
// this depends on who shares the tile, so decode, any cut of a prompt and any number of threads
// give the same bits.
//
// Threads: pieces are (span, key head, tile of query rows). A span that fits one tile has few
// pieces and perhaps a long past, so there each range is a piece too, and one more loop folds them.

#include "kernels/attention.h"

#include <algorithm>
#include <new>
#include <vector>

#include "kernels/attention_block.h"
#include "kernels/attention_codes.h"

namespace junto::JUNTO_ISA {

namespace {

using std::size_t;

constexpr int64_t kRange = 16;           // blocks
constexpr int64_t kTilePairs = 64;       // about how many pairs share one reading of a block
constexpr int64_t kSmallWork = 1 << 17;  // products of one call that one thread does alone
constexpr int64_t kFewRows = 16;         // rows that one thread stores alone

// Rows row, row + 1, ... of a span, and the query heads of one key head.
struct Tile {
  int64_t span, head_kv, row, n_row;
};

// Ranges first <= r < last of a tile. Range r of a split tile leaves its partial at `shared`, else
// (-1) the piece covers all ranges and writes y.
struct Piece {
  Tile tile;
  int64_t first, last;
  int64_t shared;
};

// A tile whose ranges were pieces: their partials lie one after the other.
struct Split {
  Tile tile;
  int64_t n_range;
  int64_t shared;
};

// Positions of a span in one block, to be stored for one key head.
struct Fresh {
  int64_t span, head_kv, first, last;
};

// A block of a span that ages in this call, for one key head.
struct Ageing {
  int64_t span, head_kv, block;
};

// Aligned to a vector, not cleared.
struct Floats {
  explicit Floats(int64_t n)
      : data(static_cast<float*>(::operator new(sizeof(float) * size_t(n), kAlignment))) {}
  ~Floats() { ::operator delete(data, kAlignment); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;

  static constexpr std::align_val_t kAlignment{64};
  float* data;
};

void narrow_row(const float* from, float* to, int64_t n) { std::copy_n(from, n, to); }
void narrow_row(const float* from, f16* to, int64_t n) {
  int64_t d = 0;
  for (; d + 16 <= n; d += 16) store_f16(to + d, load(from + d));
  if (d == n) return;
  f16 lanes[16];
  store_f16(lanes, load_part(from + d, static_cast<int>(n - d)));
  std::copy_n(lanes, n - d, to + d);
}

template <class T>
class Attention {
 public:
  explicit Attention(const AttentionParams& params)
      : p_(params), n_group_(p_.n_head / p_.n_head_kv), width_(whole_vectors(p_.head_dim)) {
    for (int64_t i = 0; i < p_.n_span; ++i) plan(i);
  }

  void run(ThreadPool& pool) {
    n_scratch_ = max_pair_ * (width_ + kPositions) + 3 * Partial::n_float(max_pair_, width_);
    n_scratch_ = whole_vectors(n_scratch_);
    const Floats memory(n_shared_ + n_scratch_ * pool.size());
    shared_ = memory.data;
    each(pool, fresh_, n_row_ <= kFewRows, [&](const Fresh& f, float* s) { keep(f, s); });
    each(pool, ageing_, false, [&](const Ageing& x, float*) { let_age(x); });
    each(pool, pieces_, n_product_ <= kSmallWork, [&](const Piece& x, float* s) { attend(x, s); });
    each(pool, splits_, n_product_ <= kSmallWork, [&](const Split& x, float* s) { join(x, s); });
  }

 private:
  const AttentionSpan& span(const Tile& tile) const { return p_.spans[tile.span]; }
  int64_t first_pos(const Tile& tile) const { return span(tile).pos + tile.row; }
  int64_t oldest(int64_t pos) const {
    return p_.window == 0 ? 0 : std::max<int64_t>(0, pos - p_.window + 1);
  }
  int64_t first_block(const Tile& tile) const { return oldest(first_pos(tile)) / kPositions; }
  int64_t last_block(const Tile& tile) const {
    return (first_pos(tile) + tile.n_row - 1) / kPositions;
  }

  template <class Items, class F>
  void each(ThreadPool& pool, const Items& items, bool alone, F f) {
    const int64_t n = static_cast<int64_t>(items.size());
    pool.loop(n, alone ? n : 1, [&](int64_t first, int64_t last, int thread) {
      float* scratch = shared_ + n_shared_ + thread * n_scratch_;
      for (int64_t i = first; i < last; ++i) f(items[size_t(i)], scratch);
    });
  }

  void plan(int64_t i) {
    const AttentionSpan& span = p_.spans[i];
    const int64_t tile_rows = std::max<int64_t>(1, kTilePairs / n_group_);
    const int64_t end = span.pos + span.n_tok;
    n_row_ += span.n_tok;
    for (int64_t head_kv = 0; head_kv < p_.n_head_kv; ++head_kv) {
      for (int64_t pos = span.pos, next; pos < end; pos = next) {
        next = std::min(end, (pos / kPositions + 1) * kPositions);
        fresh_.push_back({i, head_kv, pos, next});
      }
      for (int64_t j = 0; j < span.n_new; ++j)
        ageing_.push_back({i, head_kv, p_.aged->n_pinned + span.n_coded + j});
      for (int64_t row = 0; row < span.n_tok; row += tile_rows)
        plan({i, head_kv, row, std::min(tile_rows, span.n_tok - row)});
    }
  }

  void plan(const Tile& tile) {
    const int64_t n_pair = tile.n_row * n_group_;
    const int64_t first = first_block(tile) / kRange, last = last_block(tile) / kRange + 1;
    max_pair_ = std::max(max_pair_, n_pair);
    n_product_ +=
        n_pair * (last_block(tile) + 1 - first_block(tile)) * 2 * kPositions * p_.head_dim;
    if (tile.n_row < span(tile).n_tok || last - first == 1) {
      pieces_.push_back({tile, first, last, -1});
      return;
    }
    splits_.push_back({tile, last - first, n_shared_});
    for (int64_t range = first; range < last; ++range) {
      pieces_.push_back({tile, range, range + 1, n_shared_});
      n_shared_ += whole_vectors(Partial::n_float(n_pair, width_));
    }
  }

  // Where the keys and the values of one block and key head begin in their pools.
  int64_t offset(const AttentionSpan& span, int64_t block, int64_t head_kv) const {
    const bool is_pinned = p_.aged != nullptr && block < p_.aged->n_pinned;
    const int64_t index = is_pinned ? span.pinned[block] : span.blocks[block - span.first_block];
    return (index * p_.n_head_kv + head_kv) * kPositions * p_.head_dim;
  }

  void keep(const Fresh& fresh, float* scratch) {
    const AttentionSpan& span = p_.spans[fresh.span];
    const int64_t to = offset(span, fresh.first / kPositions, fresh.head_kv);
    T* k = static_cast<T*>(p_.k_pool) + to;
    T* v = static_cast<T*>(p_.v_pool) + to;
    T* row = reinterpret_cast<T*>(scratch);
    for (int64_t pos = fresh.first; pos < fresh.last; ++pos) {
      const int64_t lane = pos % kPositions;
      const int64_t from =
          ((span.row + pos - span.pos) * p_.n_head_kv + fresh.head_kv) * p_.head_dim;
      narrow_row(p_.v + from, v + lane * p_.head_dim, p_.head_dim);
      narrow_row(p_.k + from, row, p_.head_dim);
      for (int64_t d = 0; d < p_.head_dim; ++d) k[d * kPositions + lane] = row[d];
    }
  }

  // Keys or values of a block as codes; the one after it is fetched while it is read.
  CodeBlock codes(bool keys, const AttentionSpan& span, int64_t block, int64_t head_kv) const {
    const AgedPools& pools = *p_.aged;
    const int64_t i = block - pools.n_pinned, n_code = kPositions * p_.head_dim;
    const int64_t next = i + 1 < span.n_coded + span.n_new ? i + 1 : i;
    const int64_t here = span.codes[i] * p_.n_head_kv + head_kv;
    const int64_t n_byte = n_code * pools.n_bit / 8;
    return {(keys ? pools.k_codes : pools.v_codes) + here * n_byte,
            (keys ? pools.k_scales : pools.v_scales) + here * (n_code / kScaleGroup),
            (span.codes[next] - span.codes[i]) * p_.n_head_kv * n_byte};
  }

  void let_age(const Ageing& x) {
    const AttentionSpan& span = p_.spans[x.span];
    const int64_t from = offset(span, x.block, x.head_kv);
    const f16* k = static_cast<const f16*>(p_.k_pool) + from;
    const f16* v = static_cast<const f16*>(p_.v_pool) + from;
    const CodeBlock keys = codes(true, span, x.block, x.head_kv);
    const CodeBlock values = codes(false, span, x.block, x.head_kv);
    if (p_.aged->n_bit == 8)
      quantise<8>(k, v, p_.head_dim, keys, values);
    else
      quantise<4>(k, v, p_.head_dim, keys, values);
  }

  struct Work {
    Matrix<float> q, scores;
    Partial block, range, row;
  };
  Work lay_out(float* scratch, int64_t n_pair) const {
    Work w;
    w.q = {scratch, width_};
    w.scores = {w.q.row(n_pair), kPositions};
    float* next = w.scores.row(n_pair);
    for (Partial* part : {&w.block, &w.range, &w.row}) {
      *part = Partial::at(next, n_pair, width_);
      next += Partial::n_float(n_pair, width_);
    }
    return w;
  }

  int64_t place(const Tile& tile, int64_t pair) const {  // of a pair's vector in q and y
    const int64_t row = span(tile).row + tile.row + pair / n_group_;
    return (row * p_.n_head + tile.head_kv * n_group_ + pair % n_group_) * p_.head_dim;
  }

  void attend(const Piece& piece, float* scratch) {
    const Tile& tile = piece.tile;
    const Work w = lay_out(scratch, tile.n_row * n_group_);
    for (int64_t pair = 0; pair < w.row.n_pair; ++pair) {
      const float* q = p_.q + place(tile, pair);
      for (int64_t d = 0; d < p_.head_dim; ++d) w.q.row(pair)[d] = q[d] * p_.scale;
    }
    if (piece.shared >= 0) {
      attend_range(tile, piece.first, w, Partial::at(shared_ + piece.shared, w.row.n_pair, width_));
      return;
    }
    w.row.clear();
    for (int64_t range = piece.first; range < piece.last; ++range) {
      attend_range(tile, range, w, w.range);
      fold(w.row, w.range);
    }
    finish(tile, w.row);
  }

  void join(const Split& split, float* scratch) {
    const Work w = lay_out(scratch, split.tile.n_row * n_group_);
    const int64_t step = whole_vectors(Partial::n_float(w.row.n_pair, width_));
    w.row.clear();
    for (int64_t i = 0; i < split.n_range; ++i)
      fold(w.row, Partial::at(shared_ + split.shared + i * step, w.row.n_pair, width_));
    finish(split.tile, w.row);
  }

  void attend_range(const Tile& tile, int64_t range, const Work& w, const Partial& to) {
    const int64_t first = std::max(range * kRange, first_block(tile));
    const int64_t last = std::min((range + 1) * kRange - 1, last_block(tile));
    to.clear();
    for (int64_t b = first; b <= last; ++b) {
      attend_block(tile, b, w);
      fold(to, w.block);
    }
  }

  Seen seen(const Tile& tile, int64_t block, int64_t row) const {
    const int64_t pos = first_pos(tile) + row, begin = block * kPositions;
    return {std::max<int64_t>(0, oldest(pos) - begin), std::min(kPositions, pos + 1 - begin)};
  }

  void attend_block(const Tile& tile, int64_t b, const Work& w) {
    // Rows that see the block lie side by side, between those before it and those too far behind.
    const int64_t ahead = b * kPositions - first_pos(tile);
    const int64_t first = std::max<int64_t>(0, ahead);
    const int64_t last =
        p_.window == 0 ? tile.n_row : std::min(tile.n_row, ahead + kPositions - 1 + p_.window);
    w.block.clear();
    const int64_t from_afar = std::clamp(first_afar(tile, b), first, last);
    if (first < from_afar) attend_floats(tile, b, first, from_afar, w);
    if (from_afar == last) return;
    if (p_.aged->n_bit == 8)
      attend_codes<8>(tile, b, from_afar, last, w);
    else
      attend_codes<4>(tile, b, from_afar, last, w);
  }

  // The first row of a tile, perhaps beyond its last, that sees block b as codes.
  int64_t first_afar(const Tile& tile, int64_t b) const {
    if (p_.aged == nullptr || b < p_.aged->n_pinned) return tile.n_row;
    return (b + p_.aged->n_recent + 1) * kPositions - first_pos(tile);
  }

  bool holds_floats(const AttentionSpan& span, int64_t b) const {
    return b >= span.first_block || (p_.aged != nullptr && b < p_.aged->n_pinned);
  }

  void attend_floats(const Tile& tile, int64_t b, int64_t first, int64_t last, const Work& w) {
    const int64_t here = offset(span(tile), b, tile.head_kv);
    const bool fetch = b < last_block(tile) && holds_floats(span(tile), b + 1);
    const int64_t to_next = fetch ? offset(span(tile), b + 1, tile.head_kv) - here : 0;
    Stored<T> k{{static_cast<const T*>(p_.k_pool) + here, kPositions}, to_next};
    Stored<T> v{{static_cast<const T*>(p_.v_pool) + here, p_.head_dim}, to_next};
    for (int64_t i = first * n_group_, n; i < last * n_group_; i += n) {
      n = std::min(kPairs, last * n_group_ - i);
      std::fill_n(w.scores.row(i), n * kPositions, 0.0f);
      multiply_add<T>(n, {w.q.row(i), width_}, k, w.scores.below(i), 0, p_.head_dim, kPositions);
      Seen of[kPairs];
      for (int64_t j = 0; j < n; ++j) {
        of[j] = seen(tile, b, (i + j) / n_group_);
        soften(w.scores.row(i + j), of[j], w.block.m + i + j, w.block.l + i + j);
      }
      weigh<T>(n, {w.scores.row(i), kPositions}, v, w.block.o.below(i), of, p_.head_dim);
      k.to_next = v.to_next = 0;  // the first pairs have fetched it
    }
  }

  // Such a block lies wholly in the past of its queries, and in the sight of all.
  template <int kBits>
  void attend_codes(const Tile& tile, int64_t b, int64_t first, int64_t last, const Work& w) {
    CodeBlock k = codes(true, span(tile), b, tile.head_kv);
    CodeBlock v = codes(false, span(tile), b, tile.head_kv);
    for (int64_t i = first * n_group_, n; i < last * n_group_; i += n) {
      n = std::min(kPairs, last * n_group_ - i);
      by_number(n, [&](auto pairs) {
        constexpr int N = pairs;
        score_codes<kBits, N>({w.q.row(i), width_}, k, p_.head_dim, w.scores.below(i));
        for (int64_t j = i; j < i + N; ++j)
          soften(w.scores.row(j), {0, kPositions}, w.block.m + j, w.block.l + j);
        const Matrix<const float> weights{w.scores.row(i), kPositions};
        weigh_codes<kBits, N>(weights, v, p_.head_dim, w.block.o.below(i));
      });
      k.to_next = v.to_next = 0;  // the first pairs have fetched it
    }
  }

  void finish(const Tile& tile, const Partial& row) {
    for (int64_t pair = 0; pair < row.n_pair; ++pair) {
      float scale = 1.0f / row.l[pair];
      if (p_.sinks != nullptr) {
        const float sink = p_.sinks[tile.head_kv * n_group_ + pair % n_group_];
        const float top = std::max(row.m[pair], sink);
        const float kept = exp(row.m[pair] - top);
        scale = kept / (row.l[pair] * kept + exp(sink - top));
      }
      float* y = p_.y + place(tile, pair);
      for (int64_t d = 0; d < p_.head_dim; ++d) y[d] = row.o.row(pair)[d] * scale;
    }
  }
  static float exp(float x) {
    alignas(64) float lanes[16];
    store(lanes, JUNTO_ISA::exp(set1(x)));
    return lanes[0];
  }

  const AttentionParams& p_;
  int64_t n_group_, width_;
  int64_t n_row_ = 0, max_pair_ = 0, n_product_ = 0, n_shared_ = 0, n_scratch_ = 0;
  std::vector<Fresh> fresh_;
  std::vector<Ageing> ageing_;
  std::vector<Piece> pieces_;
  std::vector<Split> splits_;
  float* shared_ = nullptr;
};

}  // namespace

void attention(const AttentionParams& params, ThreadPool& pool) {
  if (params.is_f16) {
    Attention<f16>(params).run(pool);
  } else {
    Attention<float>(params).run(pool);
  }
}

}  // namespace junto::JUNTO_ISA
