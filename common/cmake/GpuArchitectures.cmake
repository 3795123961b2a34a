# Which architectures kernels are compiled for. Included by Gpu.cmake, and by a test that brings
# other tools.

# Whether NVCC makes code for an ARCHITECTURE such as sm_90a.
function(fa_nvcc_knows RESULT NVCC ARCHITECTURE)
  execute_process(COMMAND "${NVCC}" --dryrun -E -x cu /dev/null -arch=${ARCHITECTURE}
                  RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(status EQUAL 0)
    set(${RESULT} ON PARENT_SCOPE)
  else()
    set(${RESULT} OFF PARENT_SCOPE)
  endif()
endfunction()

# fa_gpu_architectures(RESULT NVCC SMI): the value of CMAKE_CUDA_ARCHITECTURES. An explicit one and
# that of the environment (CUDAARCHS) are kept. Otherwise it is what the GPUs need that SMI, an
# nvidia-smi, lists: 9.0 becomes 90a, since Hopper's instructions are in sm_90a only, and so do
# newer ones that have such a variant. A GPU that is newer than NVCC gets the newest PTX. Where no
# GPU is known it is 80 and 90a; 80 without a suffix is also PTX, from which drivers make code for
# newer GPUs. Empty when no GPU can be compiled for: a warning says why.
function(fa_gpu_architectures RESULT NVCC SMI)
  foreach(given "${CMAKE_CUDA_ARCHITECTURES}" "$ENV{CUDAARCHS}")
    if(NOT given STREQUAL "")
      set(${RESULT} "${given}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(capabilities "")
  if(SMI)
    execute_process(COMMAND "${SMI}" --query-gpu=compute_cap --format=csv,noheader
                    RESULT_VARIABLE status OUTPUT_VARIABLE capabilities ERROR_QUIET
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    string(REGEX REPLACE "[ \r]*\n" ";" capabilities "${capabilities}")
    if(NOT status EQUAL 0 OR NOT "${capabilities}" MATCHES "^[0-9]+\\.[0-9](;[0-9]+\\.[0-9])*$")
      message(STATUS
              "This nvidia-smi does not tell compute capabilities: kernels are compiled for GPUs "
              "of all kinds. -DCMAKE_CUDA_ARCHITECTURES=... saves time.")
      set(capabilities 7.5 8.0 9.0)
    endif()
  else()
    set(capabilities 8.0 9.0)
  endif()
  list(REMOVE_DUPLICATES capabilities)
  list(SORT capabilities COMPARE NATURAL)

  execute_process(COMMAND "${NVCC}" --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  string(REGEX MATCHALL "[0-9]+" known "${known}")
  list(SORT known COMPARE NATURAL)
  set(architectures "")
  foreach(capability IN LISTS capabilities)
    string(REPLACE "." "" number "${capability}")
    set(chosen "")
    if(number LESS 75)
      message(WARNING
              "A GPU of compute capability ${capability} is not used: kernels need 7.5 or newer.")
      continue()
    endif()
    if(NOT number LESS 90)
      fa_nvcc_knows(has_variant "${NVCC}" sm_${number}a)
      if(has_variant)
        set(chosen ${number}a)
      endif()
    endif()
    if(NOT chosen)
      fa_nvcc_knows(is_known "${NVCC}" sm_${number})
      if(is_known)
        set(chosen ${number})
      endif()
    endif()
    if(NOT chosen)  # the newest that is older
      foreach(older IN LISTS known)
        if(older LESS number)
          set(chosen ${older}-virtual)
        endif()
      endforeach()
      if(chosen)
        message(STATUS
                "${NVCC} does not know compute capability ${capability}: "
                "the driver makes code of PTX for it.")
      endif()
    endif()
    if(chosen)
      list(APPEND architectures ${chosen})
    else()
      list(GET known 0 oldest)
      message(WARNING
              "A GPU of compute capability ${capability} is not used: ${NVCC} makes code for "
              "sm_${oldest} and newer. Set CUDA_HOME to an older CUDA Toolkit.")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES architectures)
  set(${RESULT} "${architectures}" PARENT_SCOPE)
endfunction()
