// SPDX-License-Identifier: Apache-2.0
//
// float32 to float16 and bfloat16: the nearest, ties to even.

#include "kernels/quantize_lanes.h"

namespace junto::JUNTO_ISA {

namespace {

constexpr int kGroup = 512;
constexpr float kLargestBf16 = 0x1.fep127f;

void to_f16(const float* x, const float*, u8* out) {
  for (int i = 0; i < kGroup; i += 16) {
    alignas(32) u16 halves[16];
    store_f16(halves, load(x + i));
    std::memcpy(out + 2 * i, halves, sizeof halves);
  }
}

void to_bf16(const float* x, const float*, u8* out) {
  for (int i = 0; i < kGroup; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    const auto half = static_cast<u16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    std::memcpy(out + 2 * i, &half, sizeof half);
  }
}

}  // namespace

std::vector<Quantizer> plain_quantizers() {
  return {{"F16", 1, 2, kGroup, kLargestF16, &to_f16},
          {"BF16", 1, 2, kGroup, kLargestBf16, &to_bf16}};
}

}  // namespace junto::JUNTO_ISA
