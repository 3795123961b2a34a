#!/usr/bin/env bash
# What a new container needs: tools for working on the code, and what ./learn installs itself.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)

$sudo apt-get update
mapfile -t packages < <(awk '$1 ~ /^(editor|mpi|style|nvcc)$/ {print $2}' common/cmake/packages.txt)
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}"

./learn docs  # installs the packages of run, test and docs
./learn run 01

# With a GPU, also the compiler for it: into build/nvcc, where ./learn finds it.
if nvidia-smi -L 2>/dev/null | grep -q 'GPU 0'; then
  common/cmake/fetch_nvcc.sh
fi
./learn doctor
