// SPDX-License-Identifier: Apache-2.0

#include "kernels/levels.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/cpu_features.h"

namespace junto {

namespace {

struct Entry {
  std::string_view name;
  Level level;
  std::vector<std::string_view> needs;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> kEntries = {
#if defined(__x86_64__)
      {"avx512",
       Level::avx512,
       {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni", "fma", "f16c"}},
#if defined(JUNTO_EVEX_VNNI)
      {"avxvnni", Level::avxvnni, {"avx2", "fma", "f16c", "avx512f", "avx512vl", "avx512vnni"}},
#else
      {"avxvnni", Level::avxvnni, {"avx2", "fma", "f16c", "avxvnni"}},
#endif
      {"avx2", Level::avx2, {"avx2", "fma", "f16c"}},
#elif defined(__aarch64__)
      {"i8mm", Level::i8mm, {"neon", "asimddp", "i8mm"}},
      {"neon", Level::neon, {"neon", "asimddp"}},
#endif
      {"portable", Level::portable, {}},
  };
  return kEntries;
}

}  // namespace

namespace {

std::vector<std::string_view> levels_of_this_machine() {
  const std::vector<std::string_view> features = cpu_features();
  const auto has = [&](std::string_view name) {
    return std::find(features.begin(), features.end(), name) != features.end();
  };
  std::vector<std::string_view> names;
  for (const Entry& entry : entries())
    if (std::all_of(entry.needs.begin(), entry.needs.end(), has)) names.push_back(entry.name);
  return names;
}

}  // namespace

// Asked once: CPUID leaves a virtual machine, which takes tens of microseconds.
const std::vector<std::string_view>& available_levels() {
  static const std::vector<std::string_view> kNames = levels_of_this_machine();
  return kNames;
}

std::vector<std::pair<std::string_view, std::vector<std::string_view>>> level_needs() {
  std::vector<std::pair<std::string_view, std::vector<std::string_view>>> needs;
  for (const Entry& entry : entries()) needs.emplace_back(entry.name, entry.needs);
  return needs;
}

Level find_level(std::string_view name) {
  std::string known;
  for (const std::string_view available : available_levels()) {
    if (available == name) {
      for (const Entry& entry : entries())
        if (entry.name == name) return entry.level;
    }
    known += known.empty() ? "" : ", ";
    known += available;
  }
  throw std::invalid_argument("level '" + std::string(name) +
                              "' does not run here; this machine has: " + known);
}

}  // namespace junto
