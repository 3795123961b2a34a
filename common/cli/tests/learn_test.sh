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

# A fresh machine: a copy of the script with two lessons, and a PATH that holds only what is put there.
# The tools log how they are called.
new_machine() {
  rm -rf "$scratch/m"
  root="$scratch/m/my repo"  # a space in the path, as people have
  bin=$scratch/m/bin
  log=$scratch/m/log
  mkdir -p "$root/01_alpha" "$root/02_beta" "$root/common/cmake" "$bin" "$scratch/m/installed"
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
  fake g++ 'if [ "$1" = -dumpversion ]; then echo "${GXX_SAYS:-12}"; else echo "g++ 12"; fi'
  fake ninja 'echo 1.11'
  fake python3 'echo "Python 3.11"'
  fake ctest 'exit "${CTEST_STATUS:-0}"'
  fake cmake '
    case $1 in
      --version) echo "cmake version ${CMAKE_SAYS:-3.25.1}" ;;
      -S) mkdir -p "$4"; touch "$4/CMakeCache.txt" "$4/build.ninja" ;;
      --build)
        for lesson in 01_alpha 02_beta; do
          mkdir -p "$2/$lesson"
          printf "#!/bin/sh\necho \"this is $lesson\" \"\$@\"\n[ \"\$1\" = --summary ] || exit 0\nprintf \"PASS\\\\t$lesson\\\\tsome check\\\\t1.0e-07\\\\t2.0e-07\\\\n\" >>\"\$2\"\nexit \${STATUS_$lesson:-0}\n" >"$2/$lesson/$lesson"
          chmod +x "$2/$lesson/$lesson"
        done ;;
    esac'
  local package
  awk '$1 == "run" && $3 ~ "/" {print $2}' "$repository/common/cmake/packages.txt" | while read -r package; do
    touch "$scratch/m/installed/$package"
  done
}

# learn ARGUMENTS: runs the script; sets `status` and `output` (both streams).
learn() {
  output=$(cd / && PATH=$bin "$root/learn" "$@" 2>&1 </dev/null)
  status=$?
}
expect() {  # expect NAME CONDITION...
  local name=$1
  shift
  if "$@"; then
    printf 'ok: %s\n' "$name"
  else
    printf 'FAILED: %s\n  status %s, output:\n%s\n  calls:\n%s\n' "$name" "$status" "$output" "$(tail -n 5 "$log")"
    failures=$((failures + 1))
  fi
}
says() { [[ $output == *"$1"* ]]; }
called() { grep -qF -- "$1" "$log"; }
status_is() { [ "$status" -eq "$1" ]; }
both() { "$1" "$2" && "$3" "$4"; }
not() { ! "$@"; }
is_gone() { [ ! -e "$1" ]; }
not_called() { ! called "$1"; }
does_not_say() { ! says "$1"; }

new_machine
give_tools
learn
expect "without a command it explains itself" both status_is 0 says "usage: ./learn"
learn dance
expect "an unknown command is refused" both status_is 2 says "unknown command 'dance'"
learn run 07
expect "an unknown lesson is refused, with the list" both status_is 2 says "no lesson '07'; allowed are 01_alpha 02_beta"
learn run --fast
expect "an unknown option is refused" both status_is 2 says "unknown option '--fast'"
learn --no-install run 1
expect "options may come first" both status_is 0 says "this is 01_alpha"
learn run --help
expect "--help after a command explains as well" both status_is 0 says "usage: ./learn"

learn run
expect "run runs every lesson in order" both status_is 0 says "this is 01_alpha"
expect "run ends with a count for each lesson" says "01_alpha              1 of 1 checks passed"
expect "... for the last one, too" both says "02_beta               1 of 1 checks passed" says "PASS: all checks passed."
expect "no check has a line of its own" does_not_say "some check"
expect "lessons without kernels do not speak of a GPU" does_not_say "GPU"
mkdir -p "$root/02_beta/kernels"
learn run 02
expect "lessons with kernels do" says "No GPU was used: kernels ran in the lab"
rmdir "$root/02_beta/kernels"
learn run --verbose
expect "--verbose reaches the lessons" both says "this is 01_alpha" says "--verbose"
expect "... and lists each check" both says "PASS    01_alpha  some check" says "PASS    02_beta   some check"
expect "nothing is installed where nothing is missing" not called apt-get
# limited_to VERSION QUOTA PERIOD: a container of cgroups of this version with so much processor time.
limited_to() {
  fake cat "case \$1:$1 in
    */cpu.max:2) echo $2 $3 ;;
    */cpu.max:1) exit 1 ;;
    */cpu.cfs_quota_us:1) printf '%s\\n' $2 $3 ;;
    *) exec $(command -v cat) \"\$@\" ;;
  esac"
}
limited_to 2 150000 100000
fake getconf 'echo 64'
: >"$log"
learn run
expect "a container builds on the cores that it may use" both status_is 0 called "-j 2 "
limited_to 1 90000 100000
: >"$log"
learn run
expect "... with cgroups of version 1, too" both called "-j 1 " not_called "-j 2 "
fake getconf 'echo 2'
ln -sf "$(command -v cat)" "$bin/cat"
: >"$log"
learn run
expect "a second run does not configure again" both status_is 0 not_called "cmake -S"
# While lesson 01 runs, another run of the same copy begins and ends.
fake cmake '[ "$1" != --version ] || echo "cmake version 3.25.1"'
# shellcheck disable=SC2028  # printf in the lesson reads them
echo '#!/bin/sh
printf "PASS\t01_alpha\tsome check\t1.0e-07\t2.0e-07\n" >>"$2"
root=$(dirname "$0")/../../..
[ -e "$root/nested" ] || "$root/learn" run 02 >"$root/nested" 2>&1' >"$root/build/learn/01_alpha/01_alpha"
learn run 01
expect "two runs at once have a table each" both says "01_alpha              1 of 1 checks passed" does_not_say "02_beta"
output=$(cat "$root/nested")
expect "... the other one, too" both says "02_beta               1 of 1 checks passed" does_not_say "01_alpha"
output=$(echo "$root"/build/learn/run/*.tsv)
expect "... and leave one file" [ "$output" = "$root/build/learn/run/summary.tsv" ]
# A build of which lesson 02 becomes ready only after lesson 01 has run.
fake cmake '
  case $* in
    *--build*ready_01_alpha*) touch "$2/run/ready/01_alpha" ;;
    *--build*ready_02_beta*)
      for i in 1 2 3 4 5 6 7 8 9 10; do [ -e "$2/ran" ] || sleep 0.5; done
      [ -e "$2/ran" ] || exit 1
      exit "${SECOND_BUILD:-0}" ;;
    *--version*) echo "cmake version 3.25.1" ;;
  esac'
printf '#!/bin/sh\necho "this is 01_alpha"; touch "%s/build/learn/ran"\n' "$root" >"$root/build/learn/01_alpha/01_alpha"
learn run
expect "lesson 01 runs while lesson 02 compiles" both status_is 0 says "this is 01_alpha"
SECOND_BUILD=1
export SECOND_BUILD
learn run
expect "a build that fails later ends the run, behind lesson 01" both status_is 2 says "this is 01_alpha"
expect "... and says so" both says "the build failed" does_not_say "this is 02_beta"
output=$(echo "$root"/build/learn/run/*.*)
expect "... and leaves no file of its own" [ "$output" = "$root/build/learn/run/summary.tsv" ]
unset SECOND_BUILD
# Lesson 02 is there before lesson 01 has noted its checks, and the build goes on until lesson 02 has run.
fake cmake '
  case $* in
    *--build*ready_01_alpha*) touch "$2/run/ready/01_alpha" ;;
    *--build*ready_02_beta*)
      touch "$2/run/ready/02_beta" "$2/early"
      for i in 1 2 3 4 5 6; do [ -e "$2/ran" ] || sleep 0.5; done
      [ -e "$2/ran" ] || exit 1 ;;
    *--version*) echo "cmake version 3.25.1" ;;
  esac'
rm -f "$root/build/learn/ran" "$root/build/learn/early"
# shellcheck disable=SC2028  # printf in the lesson reads them
echo '#!/bin/sh
until [ -e "${0%/*/*}/early" ]; do sleep 0.1; done
sleep 0.1
printf "PASS\t01_alpha\tsome check\t1.0e-07\t2.0e-07\n" >>"$2"' >"$root/build/learn/01_alpha/01_alpha"
mv "$root/build/learn/02_beta/02_beta" "$root/build/learn/02_beta/kept"
printf '#!/bin/sh\ntouch "%s/build/learn/ran"\n' "$root" >"$root/build/learn/02_beta/02_beta"
chmod +x "$root/build/learn/02_beta/02_beta"
learn run
expect "a lesson that is compiled does not wait for the others" both status_is 0 does_not_say "the build failed"
mv "$root/build/learn/02_beta/kept" "$root/build/learn/02_beta/02_beta"
# A build of what checks of exercises need that is not done when the last lesson has run.
fake cmake '
  case $* in
    *--build*ready_0*) touch "$2/run/ready/01_alpha" "$2/run/ready/02_beta" ;;
    *"--target classroom"*) sleep 1; touch "$2/checks" ;;
    *--version*) echo "cmake version 3.25.1" ;;
  esac'
rm -f "$root/build/learn/checks"
learn run
expect "a run does not wait for what checks need" [ ! -e "$root/build/learn/checks" ]
give_tools

# A copy that was moved.
mkdir -p "$root/build/learn/bench"
touch "$root/build/learn/compiled" "$root/build/learn/bench/record.json"
echo "CMAKE_HOME_DIRECTORY:INTERNAL=$root" >"$root/build/learn/CMakeCache.txt"
: >"$log"
learn run 1
expect "in its own folder a build stays" [ -e "$root/build/learn/compiled" ]
expect "... and is not configured again" not_called "cmake -S"
echo "CMAKE_HOME_DIRECTORY:INTERNAL=/old/place" >"$root/build/learn/CMakeCache.txt"
learn run 1
expect "a moved copy says so and builds anew" both status_is 0 says "build/learn was made in /old/place: it is built anew here"
expect "... from nothing" both called "cmake -S $root" is_gone "$root/build/learn/compiled"
expect "... but keeps records" [ -e "$root/build/learn/bench/record.json" ]
learn bench 2
expect "bench needs a GPU" both status_is 2 says "bench measures kernels on an NVIDIA GPU, and this machine has none"
learn trace 1
expect "a lesson without kernels cannot be traced" both status_is 2 says "has no kernels to trace"
mkdir "$root/02_beta/kernels"
learn trace 2 some_kernel
expect "trace runs the lesson" both status_is 0 says "this is 02_beta --device cpu --section trace --kernel some_kernel"
expect "... which writes JSON and a picture" both says "--json $root/build/learn/trace/02_beta/trace.json" says "--svg $root/build/learn/trace/02_beta/banks.svg"
fake nvidia-smi 'echo "GPU 0: a GPU"'
learn bench 2
expect "bench times a lesson and records it" both status_is 0 says "this is 02_beta --device gpu --section time --again --results $root/build/learn/bench/02_beta.json"
expect "... and makes no experiments where there are none" does_not_say "experiments"
mkdir -p "$root/02_beta/src"; touch "$root/02_beta/src/experiments.cpp"
expect "... and what its kernels are made of" both status_is 0 says "this is 02_beta --device gpu --section kernels --results $root/build/learn/bench/02_beta_kernels.json"
learn bench 2
expect "experiments have a record of their own" both status_is 0 says "--section experiments --results $root/build/learn/bench/02_beta_experiments.json"
expect "... and charts" both called "python3 -B -m 02_beta.figures.charts tiles $root/build/learn/bench/02_beta_experiments.json" says "Drawn in $root/build/learn/bench/02_beta_lengths.svg"
expect "... machine code is counted only of Hopper kernels" does_not_say "machine code"
touch "$root/02_beta/kernels/hopper_beta.cuh"
learn bench 2
expect "machine code has a record" both called "python3 -B -m common.bench.machine_code $root/build/learn/02_beta/02_beta --json $root/build/learn/bench/02_beta_machine_code.json" does_not_say "was not counted"
fake python3 'case $* in *machine_code*) echo "nvdisasm is not installed" >&2; exit 77 ;; esac'
learn bench 2
expect "... or bench says why not, and goes on" both status_is 0 says "The machine code of 02_beta was not counted."
fake python3 'echo "Python 3.11"'
mkdir -p "$root/02_beta/interface"; touch "$root/02_beta/interface/example.py"
learn bench 2
expect "a lesson with an interface is timed beside others" both status_is 0 called "python3 -B -m 02_beta.interface.example --library $root/build/learn/02_beta/libflash_attention.so --time --again --points goals,shapes --json $root/build/learn/bench/02_beta_interface.json"
fake python3 '[ "$1" != -c ]'
learn bench 2
expect "... where PyTorch is" both status_is 0 says "PyTorch is not installed: 02_beta is not timed beside others."
touch "$root/02_beta/src/ablations.txt"
learn bench 2
expect "ideas are timed one by one where they are listed" both status_is 0 called "python3 -B -m common.bench.ablations 02_beta --again --json $root/build/learn/bench/02_beta_ablations.json"
touch "$root/02_beta/src/stamped.cuh"
echo FA_CUDA_ARCHITECTURES:INTERNAL=90a >"$root/build/learn/CMakeCache.txt"
printf '#!/bin/sh\necho stamps of 02_beta\n' >"$root/build/learn/02_beta/02_beta_stamped"
chmod +x "$root/build/learn/02_beta/02_beta_stamped"
learn bench 2
expect "... and timelines are measured where there are Hopper kernels" both status_is 0 says "this is 02_beta --device cpu --section timeline --stamps $root/build/learn/bench/02_beta_stamps.tsv"
expect "... from what their program prints" [ "$(cat "$root/build/learn/bench/02_beta_stamps.tsv")" = "stamps of 02_beta" ]
give_tools
rm -f "$bin/nvidia-smi"
touch "$root/build/learn/trace/02_beta/banks.svg"
learn trace 2 other_kernel
expect "the picture of another trace goes" both status_is 0 is_gone "$root/build/learn/trace/02_beta/banks.svg"
touch "$root/02_beta/src/timeline.cpp"
learn trace 2 some_kernel
expect "trace prints the order of operations where the lesson has some" both status_is 0 says "this is 02_beta --device cpu --section timeline --kernel some_kernel"
learn trace 2
expect "... of one kernel" both status_is 0 does_not_say "timeline"
learn trace
learn lab
expect "lab needs a file" both status_is 2 says "'lab' takes a CUDA file"
: >"$log"
learn lab my.cu --counts -- --help
expect "lab builds the lab and runs the file" both called "--target cuda_lab" called "python3 -B -m common.lab.cuda.lab $root/build/learn / my.cu --counts -- --help"
learn lab --help
expect "... and explains itself" called "common.lab.cuda.lab $root/build/learn / --help"
learn trace
expect "trace needs a lesson" both status_is 2 says "'trace' takes a lesson"
fake python3 'echo "ran python3 $* in $PWD"; exit "${PYTHON_STATUS:-0}"'
: >"$log"
learn exercise list --no-install -x
expect "exercise is done by Python, which gets all other arguments" both status_is 0 says "ran python3 -m common.classroom $root/build/learn / exercise list -x in $root"
expect "... and a list needs no build" not_called "cmake --build"
PYTHON_STATUS=1
export PYTHON_STATUS
learn exercise check 03_one_step
expect "a check that fails: exit 1" both status_is 1 says "exercise check 03_one_step"
expect "... after what graders need was built" called "--target classroom"
unset PYTHON_STATUS
: >"$log"
learn grade folder
expect "grade needs the same: nothing is built again" both not_called "cmake" says "grade folder"
echo "CMAKE_HOME_DIRECTORY:INTERNAL=/old/place" >"$root/build/learn/CMakeCache.txt"
learn exercise check 03_one_step
expect "... not even in a copy that was moved" both not_called "cmake" says "exercise check 03_one_step"
echo "# changed" >>"$root/CMakeLists.txt"
learn grade folder
expect "... unless a source has changed" both called "cmake -S" called "--target classroom"
learn classroom export copy
expect "classroom is done by Python too" both status_is 0 says "classroom export copy"
rm -f "$bin/python3"
learn --no-install exercise list
expect "without Python: one sentence, exit 2" both status_is 2 says "'exercise' needs python3"
: >"$log"
learn test
expect "what is installed later is found: it configures again" both called "apt-get install -y --no-install-recommends python3" called "cmake -S"
for form in 2 02 02_beta; do
  learn run "$form"
  expect "lesson form $form" both says "this is 02_beta" does_not_say "this is 01_alpha"
done

STATUS_01_alpha=1
export STATUS_01_alpha
learn run
expect "a failed check: exit 1, the other lesson and the table still come" both status_is 1 says "FAIL: at least one check failed."
expect "... and the next lesson ran" says "this is 02_beta"
STATUS_01_alpha=2
learn run
expect "a program that could not do it: exit 2, and the table says so" both status_is 2 says "ended with status 2"
unset STATUS_01_alpha

learn test 1
expect "test takes a lesson" both status_is 0 called "-L ^(lesson01)$"
CTEST_STATUS=8
export CTEST_STATUS
learn test
expect "a failing test: exit 1" status_is 1
unset CTEST_STATUS

new_machine
give_tools
rm "$bin/ninja" "$scratch/m/installed/libfmt-dev"
learn run
expect "only what is missing is installed, in one call" called "apt-get install -y --no-install-recommends ninja-build make libfmt-dev"
expect "the command is printed" says "+ env DEBIAN_FRONTEND=noninteractive apt-get install"
expect "root needs no sudo" not called "sudo "

new_machine
give_tools
learn docs
expect "the site needs more, and only that is installed" called "apt-get install -y --no-install-recommends doxygen fonts-stix python3-venv"

new_machine
give_tools
fake id 'echo 1000'
rm "$scratch/m/installed/doctest-dev"
learn run
expect "a user goes through sudo, which must not ask when nobody is there" called "sudo -n env DEBIAN_FRONTEND=noninteractive apt-get install"
new_machine
give_tools
fake id 'echo 1000'
fake sudo 'exit 1'
rm "$bin/g++"
learn run
expect "sudo that refuses: the command for an administrator, exit 2" both status_is 2 says "as administrator: sudo apt-get install"
new_machine
give_tools
fake id 'echo 1000'
rm "$bin/sudo" "$scratch/m/installed/doctest-dev"
learn run
expect "no sudo but all tools: CMake fetches the libraries" both status_is 0 says "fetched by CMake"
rm "$bin/g++"
learn run
expect "no sudo and no compiler: one sentence, exit 2" both status_is 2 says "as administrator: sudo apt-get install"

new_machine
give_tools
rm "$bin/g++"
learn run --no-install
expect "--no-install installs nothing" both status_is 2 not_called "apt-get"
learn doctor
expect "doctor says what is missing and changes nothing" both status_is 2 says "would install g++"
expect "... indeed" not called "apt-get"
CMAKE_SAYS=3.18.4
export CMAKE_SAYS
learn doctor
expect "an old CMake is found" both status_is 2 says "3.22 or newer is needed"
unset CMAKE_SAYS

new_machine
give_tools
learn doctor
expect "doctor on a machine without a GPU: the lab, watched" both status_is 0 says "watched lab       yes"
expect "... and neither nvcc" says "nvcc              none: kernels run in the lab; common/cmake/fetch_nvcc.sh fetches one"
expect "... nor a GPU" says "GPU               none: kernels run in the lab"
expect "... nor the tools that look at kernels on one" says "compute-sanitizer none"
expect "... so nothing is timed" says "Kernels run in the lab, and are not timed."
fake nvidia-smi 'echo "GPU 0: A GPU (UUID: 1)"'
learn doctor
expect "doctor with a GPU alone asks for nvcc" both says "GPU 0: A GPU" says "on the GPU once there is nvcc"
fake ncu ''
mkdir -p "$CUDA_HOME/bin"
for tool in nvcc compute-sanitizer; do cp "$bin/ncu" "$CUDA_HOME/bin/$tool"; done
learn doctor
expect "doctor finds a toolkit that is not on PATH" both says "nvcc              $CUDA_HOME/bin/nvcc" says "compute-sanitizer $CUDA_HOME/bin/compute-sanitizer"
expect "... and ncu on PATH" says "ncu               $bin/ncu"
expect "... so kernels run on the GPU" says "Kernels run on the GPU and in the lab."
# two_gpus CAPABILITY CAPABILITY: an nvidia-smi for a machine with two GPUs.
two_gpus() {
  fake nvidia-smi "case \$1 in
    -L) echo 'GPU 0: NVIDIA One (UUID: GPU-1)'; echo 'GPU 1: NVIDIA Two (UUID: GPU-2)' ;;
    --query-gpu=compute_cap) echo $1; echo $2 ;;
  esac"
}
# built_for ARCHITECTURES: as if build/learn had been configured so.
built_for() {
  mkdir -p "$root/build/learn"
  printf 'FA_CUDA_ARCHITECTURES:INTERNAL=%s\n' "$1" >"$root/build/learn/CMakeCache.txt"
}
two_gpus 8.0 9.0
learn doctor
expect "doctor lists all GPUs with their compute capability" both says "GPU               GPU 0: NVIDIA One, compute capability 8.0" says "GPU               GPU 1: NVIDIA Two, compute capability 9.0"
expect "... and says nothing of a build that is not there" does_not_say "build/learn "
built_for "80;90a"
learn doctor
expect "doctor says what a build is made for" both status_is 0 says "build/learn       has kernels for the GPU architectures 80;90a"
expect "... and has no complaint when this is right" both does_not_say "no code" does_not_say "rm -r"
built_for "80"
learn doctor
expect "code for sm_80 on a Hopper GPU: what is used, and how to build anew" both says "build/learn has no code for sm_90a: the kernels for sm_80 are used on a GPU of compute capability 9.0." says "rm -r build/learn"
expect "... which is no failure" both status_is 0 does_not_say "nothing runs"
built_for "90"
learn doctor
expect "sm_90 is not sm_90a, nor anything for an older GPU" both says "no code for sm_90a" says "no code for compute capability 8.0: nothing runs on that GPU"
two_gpus 8.9 10.0
built_for "80-real;90a"
learn doctor
expect "real code is for one generation, and sm_90a for one GPU" both says "no code for compute capability 10.0" does_not_say "capability 8.9:"
built_for "75-virtual"
learn doctor
expect "PTX is for all that is newer" does_not_say "no code"
built_for ""
learn doctor
expect "a build without kernels for GPUs says so" says "build/learn       has no kernels for GPUs"
fake nvidia-smi 'case $1 in -L) echo "GPU 0: Old (UUID: 1)" ;; *) echo "Field is not a valid field to query."; exit 2 ;; esac'
learn doctor
expect "an old nvidia-smi tells no compute capability" both says "GPU 0: Old" does_not_say "compute capability"
rm -rf "$root/build"
fake nvidia-smi 'echo "NVIDIA-SMI has failed"; exit 9'
learn doctor
expect "a driver that does not work is no GPU" says "GPU               none"
GXX_SAYS=10.2.1
export GXX_SAYS
learn doctor
expect "doctor doubts that an old g++ can watch, which is no failure" both status_is 0 says "watched lab       perhaps: g++ is version 10.2.1; tried are g++ 11"
unset GXX_SAYS
rm "$bin/g++"
fake clang++ 'if [ "$1" = -dumpversion ]; then echo 12.0.1; else echo "Debian clang version 12.0.1"; fi'
learn doctor
expect "... or an old clang++" says "watched lab       perhaps: clang++ is version 12.0.1"
rm -rf "$CUDA_HOME" "$bin/ncu" "$bin/nvidia-smi"
learn run
touch -t 203701010000 "$root/build/nvcc"
: >"$log"
learn run
expect "an nvcc that was fetched is found: it configures again" both status_is 0 called "cmake -S"

new_machine
rm "$bin/apt-get"
fake uname 'echo Darwin'
learn doctor
expect "doctor says that the lab of macOS is not watched" says "watched lab       no: it asks the loader of Linux where shared memory is"
expect "... so what is left out" says "./learn trace and the counts of memory traffic are left out."
expect "... and what is missing there" both status_is 2 says "brew install cmake"
learn run
expect "macOS is told what to install" both status_is 2 says "brew install cmake"
fake uname 'echo MINGW64_NT-10.0'
learn run
expect "Windows is told to use WSL" both status_is 2 says "WSL"
fake uname 'echo Linux'
learn test
expect "another Linux is told its packages" both status_is 2 says "dnf install"

new_machine
give_tools
mkdir -p "$root/build/learn"
touch "$root/build/learn/CMakeCache.txt"
learn run
expect "a configure that was cut off is done again" both status_is 0 called "cmake -S"
fake cmake 'case $1 in --version) echo "cmake version 3.25.1" ;; -S) echo "no such package"; exit 1 ;; esac'
rm -rf "$root/build"
learn run
expect "a configure that fails is shown whole, exit 2" both status_is 2 says "no such package"

if [ $failures -gt 0 ]; then
  printf '%s tests of ./learn FAILED\n' "$failures"
  exit 1
fi
