#!/usr/bin/env bash
# Tests of ./learn: the real script on a machine made of stand-ins, so that nothing is installed or built.
#   learn_test.sh REPOSITORY
# shellcheck disable=SC2016  # the bodies of the stand-ins are expanded when they run
set -uo pipefail
unset LEARN_NO_INSTALL CXX  # the reader of the test may have set them

repository=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0
export CUDA_HOME=$scratch/m/cuda  # not this machine's

# A fresh machine: a copy of the script with two lessons, and a PATH that holds only logging tools.
new_machine() {
  rm -rf "$scratch/m"
  root="$scratch/m/my repo"  # a space in the path, as people have
  bin=$scratch/m/bin
  log=$scratch/m/log
  mkdir -p "$root/01_alpha" "$root/02_beta/kernels" "$root/common/cmake" "$bin" "$scratch/m/installed"
  touch "$root"/{,01_alpha/,02_beta/}CMakeLists.txt "$log"
  cp "$repository/learn" "$root/learn"
  cp "$repository/common/cmake/packages.txt" "$root/common/cmake/"
  local tool
  for tool in bash env cat sed sort awk grep basename dirname readlink mkdir mv rm head tail tr tee wc id touch chmod sleep nice find \
    xargs cksum; do
    ln -s "$(command -v "$tool")" "$bin/$tool"
  done
  fake uname 'if [ "$1" = -s ]; then echo Linux; else echo "Linux x86_64"; fi'
  fake getconf 'echo 2'
  fake id 'echo 0'
  fake dpkg-query "[ -e '$scratch/m/installed'/\"\${@: -1}\" ] && echo installed"
  fake apt-get "for word in \"\$@\"; do touch '$scratch/m/installed'/\"\$word\"; done"
  fake sudo 'while [ "$1" = -n ]; do shift; done; "$@"'
}
# fake NAME BODY: a tool that logs its call.
fake() {
  rm -f "$bin/$1"
  printf '#!%s\nprintf "%%s\\n" "%s $*" >>"%s"\n%s\n' "$(command -v bash)" "$1" "$log" "$2" >"$bin/$1"
  chmod +x "$bin/$1"
}
# Everything that ./learn run needs; `cmake --build` makes lesson programs that print their arguments.
give_tools() {
  fake g++ 'if [ "$1" = -dumpversion ]; then echo 12; else echo "g++ 12"; fi'
  fake ninja 'echo 1.11'
  fake python3 'echo "ran python3 $*"; exit "${PYTHON_STATUS:-0}"'
  fake ctest 'exit "${CTEST_STATUS:-0}"'
  fake cmake '
    case $1 in
      --version) echo "cmake version 3.25.1" ;;
      -S) mkdir -p "$4"; echo "CMAKE_HOME_DIRECTORY:INTERNAL=$2" >"$4/CMakeCache.txt"; touch "$4/build.ninja"
        exit "${CONFIGURE_STATUS:-0}" ;;
      --build)
        for lesson in 01_alpha 02_beta; do
          mkdir -p "$2/$lesson"
          printf "#!/bin/sh\necho \"this is $lesson\" \"\$@\"\n[ \"\$1\" = --summary ] || exit 0\nprintf \"PASS\\\\t$lesson\\\\tsome check\\\\t1.0e-07\\\\t2.0e-07\\\\n\" >>\"\$2\"\nexit \${STATUS_$lesson:-0}\n" >"$2/$lesson/$lesson"
          chmod +x "$2/$lesson/$lesson"
        done
        exit "${BUILD_STATUS:-0}" ;;
    esac'
  local package
  awk '$1 == "run" && $3 ~ "/" {print $2}' "$repository/common/cmake/packages.txt" | while read -r package; do
    touch "$scratch/m/installed/$package"
  done
}

# check 'ARGUMENTS' NAME STATUS [TEXT...]: runs the script with a fresh log, and compares the exit status; each text must
# be in the output or in the calls, and !TEXT in neither. Words NAME=VALUE in front are the script's environment.
check() {
  local name=$2 wanted=$3 words variables=() text failed='' output status
  read -ra words <<<"$1"
  shift 3
  while [[ ${words[0]} == [A-Z]*=* ]]; do variables+=("${words[0]}"); words=("${words[@]:1}"); done
  : >"$log"
  output=$(cd / && env PATH="$bin" "${variables[@]}" "$root/learn" "${words[@]}" 2>&1 </dev/null)
  status=$?
  [ "$status" -eq "$wanted" ] || failed="status $status, not $wanted"
  for text in "$@"; do
    case $output$(<"$log") in
      *"${text#!}"*) [[ $text != !* ]] || failed="has '${text#!}'" ;;
      *) [[ $text == !* ]] || failed="lacks '$text'" ;;
    esac
  done
  if [ -n "$failed" ]; then
    printf 'FAILED: %s: %s\n  output:\n%s\n  calls:\n%s\n' "$name" "$failed" "$output" "$(tail -n 5 "$log")"
    failures=$((failures + 1))
  fi
}

new_machine
give_tools
check "help" "help explains" 0 usage
check "dance" "an unknown command is refused by name" 2 dance
check "run 07" "an unknown lesson is refused, with the allowed ones" 2 07 01_alpha 02_beta
check "run --fast" "an unknown option is refused by name" 2 --fast
for form in 2 02 02_beta; do
  check "--no-install run $form" "lesson form $form" 0 "this is 02_beta" "!this is 01_alpha"
done
check "run" "run runs every lesson and installs nothing where nothing is missing" 0 "this is 01_alpha" "this is 02_beta" !apt-get "!cmake -S"
check "STATUS_01_alpha=1 run" "after a failed check the other lessons still run" 1 "this is 02_beta"
check "BUILD_STATUS=1 run" "a build that fails" 2
check "CTEST_STATUS=8 test" "a failing test" 1
check "test" "test leaves out what is for contributors" 0 "-LE ^contributor$"
check "test 2 --all" "test --all runs all tests of a lesson" 0 "-L ^lesson(02)" "!contributor"
check "bench 2" "bench needs a GPU" 2 GPU
check "bench --stale --list" "figures of changed kernels are listed without a GPU" 0 docs.records.stale
check "trace 2 some_kernel" "trace runs the lesson in the lab" 0 "02_beta --device cpu --section trace" "--kernel some_kernel"
check "lab my.cu --counts -- --help" "lab runs the file" 0 "common.lab.cuda.lab" "my.cu --counts -- --help"
check "PYTHON_STATUS=1 exercise check 03_one_step" "an exercise that fails" 1 "exercise check 03_one_step"
echo "CMAKE_HOME_DIRECTORY:INTERNAL=/old/place" >"$root/build/learn/CMakeCache.txt"
mkdir -p "$root/build/learn/bench"; touch "$root/build/learn/compiled" "$root/build/learn/bench/record.json"
check "run 1" "a moved copy is built anew" 0 "cmake -S"
if [ -e "$root/build/learn/compiled" ] || [ ! -e "$root/build/learn/bench/record.json" ]; then
  echo "FAILED: what was compiled goes, records stay"
  failures=$((failures + 1))
fi
rm -rf "$root/build"
check "CONFIGURE_STATUS=1 run" "a configure that fails" 2
rm "$bin/python3"
check "--no-install exercise list" "exercise without Python" 2 python3
check "test" "what is missing is installed, and the build configured again" 0 "apt-get install -y --no-install-recommends python3" "cmake -S"

new_machine
give_tools
rm "$bin/ninja" "$scratch/m/installed/libfmt-dev"
check "run --no-install" "nothing is installed against the reader's will" 2 "libfmt-dev" "!apt-get update"
check "run" "what is missing is installed" 0 "install -y --no-install-recommends ninja-build make libfmt-dev" !sudo
rm "$bin/g++"
fake id 'echo 1000'
fake sudo 'exit 1'
check "run" "a user who may not install is told what to install" 2 "sudo apt-get install" g++
for system in Darwin:brew MINGW64_NT-10.0:WSL Linux:dnf; do
  rm -f "$bin/apt-get" "$bin/g++"
  fake uname "echo ${system%:*}"
  check "run" "another system is told what to install" 2 "${system#*:}"
done

if [ $failures -gt 0 ]; then
  printf '%s tests of ./learn FAILED\n' "$failures"
  exit 1
fi
