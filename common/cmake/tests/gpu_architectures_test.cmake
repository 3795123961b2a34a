# Drives the choice of architectures with stand-ins for nvidia-smi and nvcc.
#   cmake -DSCRATCH=directory -P gpu_architectures_test.cmake
cmake_minimum_required(VERSION 3.22...3.31)
set(FA_GPU OFF)
include("${CMAKE_CURRENT_LIST_DIR}/../Gpu.cmake")
unset(ENV{CUDAARCHS})
file(MAKE_DIRECTORY "${SCRATCH}")

function(fake NAME BODY)
  file(WRITE "${SCRATCH}/${NAME}" "#!/bin/sh\n${BODY}\n")
  file(CHMOD "${SCRATCH}/${NAME}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endfunction()

# An nvcc that knows the architectures given, among which are variants such as 90a.
function(fake_nvcc NAME)
  string(REPLACE ";" " " known "${ARGN}")
  fake(${NAME} "if [ \"$1\" = --list-gpu-arch ]; then
  for known in ${known}; do case $known in *a) ;; *) echo compute_$known ;; esac; done
  exit 0
fi
for known in ${known}; do case \" $* \" in *\" -arch=sm_$known \"*) exit 0 ;; esac; done
echo \"nvcc fatal : Unsupported gpu architecture\" >&2
exit 1")
endfunction()
fake_nvcc(nvcc13 75 80 86 87 88 89 90 100 110 103 120 121 90a 100a 103a 110a 120a 121a)
fake_nvcc(nvcc12 70 75 80 86 87 89 90 90a)
fake_nvcc(nvcc11 70 75 80 86 87 89 90)

# expect(CASE NVCC EXPECTED [a GPU's compute capability...]): without any there is no nvidia-smi.
function(expect CASE NVCC EXPECTED)
  set(smi "")
  if(ARGN)
    string(REPLACE ";" "\\n" lines "${ARGN}")
    set(asked "--query-gpu=compute_cap --format=csv,noheader")
    fake(nvidia-smi "[ \"$*\" = \"${asked}\" ] || exit 1\nprintf '${lines}\\n'")
    set(smi "${SCRATCH}/nvidia-smi")
  endif()
  check("${CASE}" ${NVCC} "${EXPECTED}" "${smi}")
endfunction()
function(check CASE NVCC EXPECTED SMI)
  fa_gpu_architectures(chosen "${SCRATCH}/${NVCC}" "${SMI}")
  if(chosen STREQUAL EXPECTED)
    message("ok: ${CASE}: '${chosen}'")
  else()
    message(SEND_ERROR "${CASE}: chosen was '${chosen}', expected '${EXPECTED}'")
  endif()
endfunction()

expect("H100" nvcc13 "90a" 9.0)
expect("H200, eight of them" nvcc13 "90a" 9.0 9.0 9.0 9.0 9.0 9.0 9.0 9.0)
expect("two equal GPUs" nvcc13 "80" 8.0 8.0)
expect("A100 and H100" nvcc13 "80;90a" 8.0 9.0)
expect("H100 and A100" nvcc13 "80;90a" 9.0 8.0)
expect("T4" nvcc13 "75" 7.5)
expect("RTX 4090" nvcc13 "89" 8.9)
expect("B200" nvcc13 "100a" 10.0)
expect("RTX 5090 and H100" nvcc13 "90a;120a" 12.0 9.0)
expect("B200, for an older nvcc: PTX" nvcc12 "90-virtual" 10.0)
expect("a GPU of the future" nvcc13 "121-virtual" 13.0)
expect("H100, for an nvcc without variants" nvcc11 "90" 9.0)
expect("no GPU" nvcc13 "80;90a")
expect("no GPU, for an nvcc without variants" nvcc11 "80;90")
expect("V100: not used" nvcc13 "" 7.0)
expect("V100 and H100" nvcc13 "90a" 7.0 9.0)
fake_nvcc(nvcc_of_later 80 90 90a)
expect("T4, for an nvcc that has dropped it" nvcc_of_later "" 7.5)
fake(nvidia-smi "echo 'NVIDIA-SMI has failed' ; exit 9")
check("an nvidia-smi that fails" nvcc13 "75;80;90a" "${SCRATCH}/nvidia-smi")
fake(nvidia-smi "echo 'Field \"compute_cap\" is not a valid field to query.'")
check("an nvidia-smi that knows no such field" nvcc13 "75;80;90a" "${SCRATCH}/nvidia-smi")
set(ENV{CUDAARCHS} "89")
expect("the environment goes before the GPU" nvcc13 "89" 9.0)
set(CMAKE_CUDA_ARCHITECTURES "80;86")
expect("an option goes before both" nvcc13 "80;86" 9.0)
