// SPDX-License-Identifier: Apache-2.0
//
// Which instruction sets may be used here. CPUID alone is not enough: a kernel or a hypervisor
// that does not save the wide registers makes the first wide instruction fault, so XCR0 (read by
// XGETBV) must agree. Cheap and stateless; callers keep the answer.
//
// Source: Intel SDM vol. 1, 13.3 (XCR0) and 14.3 (detection of AVX); vol. 2, CPUID leaves 1 and 7;
// Linux, Documentation/arch/arm64/elf_hwcaps.rst.

#include "kernels/cpu_features.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

#include <array>
#include <cstddef>
#include <cstdint>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace junto {

#if defined(__x86_64__) || defined(__i386__)

namespace {

enum Register : std::size_t { kLeaf1Ecx, kLeaf7Ebx, kLeaf7Ecx, kLeaf7Sub1Eax, kNumRegisters };

using Registers = std::array<std::uint32_t, kNumRegisters>;

// Register state that the operating system must save, as bits of XCR0.
constexpr std::uint64_t kXmm = 0x2;
constexpr std::uint64_t kYmm = 0x6;   // xmm, upper halves of ymm
constexpr std::uint64_t kZmm = 0xe6;  // ymm, mask registers, upper halves of zmm, zmm16-31

struct Feature {
  std::string_view name;
  Register where;
  unsigned bit;
  std::uint64_t state;
};

constexpr Feature kFeatures[] = {
    {"sse4_1", kLeaf1Ecx, 19, kXmm},
    {"avx", kLeaf1Ecx, 28, kYmm},
    {"f16c", kLeaf1Ecx, 29, kYmm},
    {"fma", kLeaf1Ecx, 12, kYmm},
    {"avx2", kLeaf7Ebx, 5, kYmm},
    {"avxvnni", kLeaf7Sub1Eax, 4, kYmm},
    {"avx512f", kLeaf7Ebx, 16, kZmm},
    {"avx512dq", kLeaf7Ebx, 17, kZmm},
    {"avx512bw", kLeaf7Ebx, 30, kZmm},
    {"avx512vl", kLeaf7Ebx, 31, kZmm},
    {"avx512vbmi", kLeaf7Ecx, 1, kZmm},
    {"avx512vnni", kLeaf7Ecx, 11, kZmm},
    {"avx512bf16", kLeaf7Sub1Eax, 5, kZmm},
};

constexpr unsigned kOsxsave = 27;  // leaf 1, ecx: XGETBV may be executed

bool has_bit(std::uint32_t word, unsigned bit) { return ((word >> bit) & 1u) != 0; }

// Leaves that the CPU does not have read as zero.
Registers read_cpuid() {
  Registers words{};
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(1, 0, &eax, &ebx, &ecx, &edx) != 0) {
    words[kLeaf1Ecx] = ecx;
  }
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) {
    words[kLeaf7Ebx] = ebx;
    words[kLeaf7Ecx] = ecx;
    const unsigned last_subleaf = eax;
    if (last_subleaf >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0) {
      words[kLeaf7Sub1Eax] = eax;
    }
  }
  return words;
}

// Written as assembly because the intrinsic needs -mxsave for the whole file.
std::uint64_t read_xcr0() {
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

}  // namespace

std::vector<std::string_view> cpu_features() {
  const Registers words = read_cpuid();
  const std::uint64_t saved = has_bit(words[kLeaf1Ecx], kOsxsave) ? read_xcr0() : kXmm;
  std::vector<std::string_view> names;
  for (const Feature& feature : kFeatures) {
    if (has_bit(words[feature.where], feature.bit) && (saved & feature.state) == feature.state) {
      names.push_back(feature.name);
    }
  }
  return names;
}

#elif defined(__aarch64__)

// Advanced SIMD is part of the base architecture. The kernel reports what came later by the names
// that /proc/cpuinfo has: its word counts, since it must save the registers.
std::vector<std::string_view> cpu_features() {
  std::vector<std::string_view> names = {"neon"};
#if defined(__linux__)
  if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) names.push_back("asimddp");
  if ((getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0) names.push_back("i8mm");
#endif
  return names;
}

#else

std::vector<std::string_view> cpu_features() { return {}; }

#endif

}  // namespace junto
