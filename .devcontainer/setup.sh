#!/usr/bin/env bash
# What a new container needs: the packages of ./learn, by its own hand, and tools for working on the code.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)

$sudo apt-get update
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
  clangd clang-format gdb python3-pip shellcheck

./learn docs  # installs all that ./learn knows of
./learn run 01

# With a GPU, also the compiler for it: into build/nvcc, where ./learn finds it.
if nvidia-smi -L 2>/dev/null | grep -q 'GPU 0'; then
  common/cmake/fetch_nvcc.sh
fi
./learn doctor
