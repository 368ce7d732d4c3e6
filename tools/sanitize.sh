#!/usr/bin/env bash
# Runs pytest where junto's extension was built with sanitizers: tools/sanitize.sh VENV ARGUMENTS...
#
# The interpreter is not instrumented, so the runtime that the extension needs is loaded before it.
# Reports go to files, since a child process may fail unseen; any report fails the run, whatever the
# tests say. GCC's UBSan beside ASan knows no files, so pytest must not capture standard error.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=$1
shift
extension=$(find "$venv" -path '*/junto/_kernels*.so')
runtime=$(ldd "$extension" | awk '/lib[at]san/ { print $3 }')
[ -n "$runtime" ] || { echo "$extension: built without -fsanitize=address or thread" >&2; exit 1; }
# Its hooks look up functions of the C++ library as soon as they start.
cpp_library=$(ldd "$extension" | awk '/libstdc/ { print $3 }')

reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
# Leaks are not looked for: an interpreter frees little at its end. Tests ask for memory that no
# machine has, and expect to be refused.
export ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1:detect_stack_use_after_return=1:\
log_path=$reports/report"
export UBSAN_OPTIONS="print_stacktrace=1"
export TSAN_OPTIONS="halt_on_error=1:suppressions=$PWD/tools/tsan.supp:log_path=$reports/report"
# Python's own allocator hides the ends of small objects.
export PYTHONMALLOC=malloc OPENBLAS_NUM_THREADS=1

# A comparison of speeds means nothing here.
run=("$venv/bin/python" -m pytest -q -p no:faulthandler --capture=sys
  --deselect tests/kernels/test_peaks.py::test_wide_products_are_faster_than_plain_ones
  -m "not slow and not oracle and not gpu and not network" "$@")
# GCC's thread sanitizer finds no room where addresses are spread widely.
case $runtime in
  *tsan*) setarch -R true 2>/dev/null && run=(setarch -R "${run[@]}") ;;
esac

status=0
LD_PRELOAD="$runtime $cpp_library" "${run[@]}" || status=$?
for report in "$reports"/*; do
  [ -e "$report" ] || continue
  cat "$report"
  status=1
done
exit "$status"
