#!/usr/bin/env bash
# Fetches nvcc, and what it needs to compile and link, into build/nvcc, where CMake looks for it: for machines
# without the CUDA Toolkit. 100 MB are fetched, 270 MB unpacked; nothing is installed in the system.
#   common/cmake/fetch_nvcc.sh [--with-cublas]
# --with-cublas: also cuBLAS, which lesson 04 compares itself with; 420 MB more are fetched, 600 MB unpacked.
# Needs Linux, python3 with pip, and the network. Exit status: 0 all is there, 2 it is not.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
target=$(cd "$here/../.." && pwd)/build/nvcc

die() {
  printf 'fetch_nvcc.sh: %s\n' "$*" >&2
  exit 2
}

case $* in
  '') last=$target/bin/nvcc leave_out="/^nvidia-cublas/,\$d" ;;
  --with-cublas) last=$target/include/cublas_v2.h leave_out="" ;;
  *) die "unknown option '$*'; there is --with-cublas" ;;
esac
if [ -x "$target/bin/nvcc" ] && [ -e "$last" ]; then
  printf 'nvcc is there: %s\n' "$target/bin/nvcc"
  exit 0
fi
[ "$(uname -s)" = Linux ] || die "there is an nvcc for Linux only, not for $(uname -s)"
python3 -m pip --version >/dev/null 2>&1 ||
  die "python3 with pip is needed; on Debian and Ubuntu: sudo apt-get install -y --no-install-recommends python3-pip"

# Unpacked beside the target and then renamed, so that build/nvcc is whole or not there.
new=$target.new
rm -rf "$new"
trap 'rm -rf "$new"' EXIT
# No warning to an administrator: nothing of the system is touched.
PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-compile --no-deps \
  --only-binary :all: --target "$new" \
  --require-hashes --requirement <(sed "$leave_out" "$here/nvcc_requirements.txt") ||
  die "nvcc could not be fetched from the Python package index; the lines above say why"
# Where nvcc looks for libraries, and the names by which they are linked.
ln -s lib "$new/nvidia/cu13/lib64"
for library in "$new"/nvidia/cu13/lib/libcublas*.so.*; do
  if [ -e "$library" ]; then ln -s "${library##*/}" "${library%.so.*}.so"; fi
done
rm -rf "$target"
mv "$new/nvidia/cu13" "$target"
printf 'nvcc is there: %s\n' "$target/bin/nvcc"
