#!/usr/bin/env bash
# Compiles the kernels for AArch64 and runs their tests under qemu: tools/aarch64.sh [PYTEST ARGUMENTS]
#
# In build/aarch64 it makes a small system of Debian's arm64 packages (CPython 3.11 and what that
# needs) and of aarch64 wheels (NumPy, pytest), a cross-compiled extension, and the package around
# it. Packages are taken by apt from the sources that this machine has, so the architecture arm64
# must be known to it. Where a tool is missing it says so and checks nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
  echo "skipped: $*"
  exit 0
}

[ "$(uname -m)" = x86_64 ] || skip "an emulator is for other machines; run \`make test\` here"
command -v aarch64-linux-gnu-g++ >/dev/null ||
  skip "no cross-compiler (apt install g++-aarch64-linux-gnu)"
command -v qemu-aarch64 >/dev/null || skip "no emulator (apt install qemu-user)"
for tool in apt-get dpkg-deb; do
  command -v $tool >/dev/null || skip "no $tool: the system to emulate is made of Debian's packages"
done

build=$PWD/build/aarch64
system=$build/system
packages=$build/packages
suffix=.cpython-311-aarch64-linux-gnu.so
bin=$PWD/.venv/bin

mkdir -p "$build/debian"
if [ ! -e "$system/usr/bin/python3.11" ]; then
  names="libc6 libstdc++6 libgcc-s1 zlib1g libexpat1 libssl3 libffi8 libbz2-1.0 liblzma5 libuuid1
    libsqlite3-0 python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libpython3.11-dev"
  echo "fetching Debian's arm64 packages (15 MB)"
  (cd "$build/debian" && apt-get download -qq $(printf '%s:arm64 ' $names)) 2>"$build/apt.log" ||
    skip "apt has no arm64 packages of Python 3.11 (dpkg --add-architecture arm64; apt-get update)"
  for package in "$build"/debian/*.deb; do dpkg-deb -x "$package" "$system"; done
  # Debian's pyconfig.h looks for the one of its architecture beside python3.11.
  ln -sfn ../aarch64-linux-gnu "$system/usr/include/python3.11/aarch64-linux-gnu"
fi
if [ ! -e "$packages/gguf" ]; then
  "$bin/python" -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]\
["dependencies"], "pytest>=8.3", "hypothesis>=6.100", "gguf>=0.17", sep="\n")' >"$build/requirements.txt"
  "$bin/python" -m pip install -qq --disable-pip-version-check --upgrade --target "$packages" \
    --platform manylinux2014_aarch64 --platform manylinux_2_28_aarch64 --python-version 3.11 \
    --only-binary=:all: -r "$build/requirements.txt"
fi

PATH=$bin:$PATH cmake -G Ninja -S . -B "$build/extension" \
  -DSKBUILD=1 -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
  -DPython_EXECUTABLE="$bin/python" -DPython_INCLUDE_DIR="$system/usr/include/python3.11" \
  -Dnanobind_DIR="$("$bin/python" -m nanobind --cmake_dir)" \
  -DNB_SUFFIX=$suffix -DNB_SUFFIX_S=$suffix >"$build/cmake.log"
"$bin/ninja" -C "$build/extension" --quiet

rm -rf "$build/package"
mkdir -p "$build/package"
cp -rs "$PWD/src/junto" "$build/package/junto"
cp "$build/extension/_kernels$suffix" "$build/package/junto/"

# emulated PROCESSOR ARGUMENTS: runs the interpreter on a processor that qemu plays.
emulated() {
  PYTHONPATH=$build/package:$packages PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1 \
    qemu-aarch64 -cpu "$1" -L "$system" "$system/usr/bin/python3.11" "${@:2}"
}

# expect PROCESSOR LEVELS: what junto finds there, best first.
expect() {
  found=$(emulated "$1" -c 'from junto import _kernels; print(*_kernels.levels())')
  [ "$found" = "$2" ] || { echo "wrong: $1 has levels '$found', expected '$2'"; exit 1; }
  echo "$1: levels $found"
}

test_on() { emulated "$1" -m pytest -q -p no:cacheprovider "${@:2}"; }

expect cortex-a72 "portable"
expect neoverse-n1 "neon portable"
expect max "i8mm neon portable"
if [ $# -gt 0 ]; then
  test_on max "$@"
else
  # A processor refuses what it lacks, so this one proves that neon has no instruction of i8mm.
  test_on neoverse-n1 -k "not portable" tests/kernels
  # i8mm takes all but its products from neon.
  test_on max -k i8mm tests/kernels/test_{matmul,experts,peaks}.py tests/models/test_cpu_backend.py
fi
