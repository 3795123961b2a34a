#!/usr/bin/env bash
# Times a newcomer's first minutes in this clone, and writes a record as in docs/results.
#   first_minutes.sh RECORD.json [--tests]
# Everything that was built here goes first. For a bare machine of two cores, with a container:
#   docker run --rm --cpuset-cpus 0,1 -v "$PWD:/source:ro" -v /tmp:/out debian:12 sh -c 'apt-get update &&
#     apt-get install -y git && git clone /source /course && /course/common/cli/tests/first_minutes.sh /out/record.json'
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
record=$(realpath "$1")
with_tests=${2:-}
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
rows=()

now() { local t=$EPOCHREALTIME; echo $((${t%[.,]*} * 10 + 10#${t#*[.,]} / 100000)); }  # tenths of a second
# row WHAT TENTHS
row() {
  rows+=("    {\"what\": \"$1\", \"seconds\": $(($2 / 10)).$(($2 % 10))}")
  printf '%6d.%d s  %s\n' $(($2 / 10)) $(($2 % 10)) "$1"
}
# Runs ./learn ARGUMENTS; notes when the packages were there, the first check, and the end.
timed_run() {
  local name=$1 begin packages='' first='' line last=''
  shift
  begin=$(now)
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    last=$line
    case $line in
      "Configuring in"*) packages=$(now) ;;
      PASS*) [ -n "$first" ] || first=$(now) ;;
    esac
  done < <(./learn "$@" 2>&1; echo "status $?")
  [ "$last" = "status 0" ] || { tail -n 40 "$log" >&2; echo "./learn $* failed: $last" >&2; exit 1; }
  [ -z "$packages" ] || row "$name: packages" $((packages - begin))
  [ -z "$first" ] || row "$name: first checked result after that" $((first - ${packages:-begin}))
  row "$name: all of it" $(($(now) - begin))
}

rm -rf build/learn
timed_run "./learn lab FILE.cu, from nothing" lab common/lab/cuda/tests/right/02_sgemm_shared.cu
timed_run "./learn lab, another file" lab common/lab/cuda/tests/right/09_attention_half.cu
rm -rf build/learn
timed_run "./learn run, from nothing" run
timed_run "./learn run, again" run
if [ "$with_tests" = --tests ]; then timed_run "./learn test" test; fi

cat >"$record" <<END
{
  "processor": "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)",
  "cores": $(nproc),
  "system": "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)",
  "compiler": "$(g++ --version | head -n 1)",
  "gpu": "$(nvidia-smi -L 2>/dev/null | sed -n '1s/ (UUID.*//p')",
  "commit": "$(git rev-parse --short HEAD)",
  "date": "$(date +%F)",
  "command": "common/cli/tests/first_minutes.sh",
  "measurements": [
$(IFS=$'\n'; printf '%s' "${rows[*]}" | sed '$!s/$/,/')
  ]
}
END
