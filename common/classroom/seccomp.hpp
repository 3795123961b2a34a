/// @file
/// A filter of system calls, for confine and for the process that runs the student's code.
#pragma once

#if defined(__linux__)
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace fa::classroom {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;
#endif

/// No network, no other process group, so that ending the process group ends everything; and with
/// `only_own_signals` no signals to others.
/// @return false where the system cannot do it
inline bool deny_system_calls(bool only_own_signals) {
  if (kArchitecture == 0) return false;
  constexpr auto number = offsetof(seccomp_data, nr);
  constexpr auto architecture = offsetof(seccomp_data, arch);
  constexpr auto first = offsetof(seccomp_data, args);
  const auto refuse = SECCOMP_RET_ERRNO | (EPERM & SECCOMP_RET_DATA);
  const auto self = static_cast<std::uint32_t>(getpid());
  std::vector<sock_filter> code;
  const auto add = [&](int op, std::uint32_t k, int yes = 0, int no = 0) {
    code.push_back({static_cast<std::uint16_t>(op), static_cast<std::uint8_t>(yes),
                    static_cast<std::uint8_t>(no), k});
  };
  const auto load = [&](std::size_t offset) {
    add(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
  };
  const int equals = BPF_JMP | BPF_JEQ | BPF_K, returns = BPF_RET | BPF_K;
  load(architecture);
  add(equals, kArchitecture, 1, 0);
  add(returns, refuse);
  load(number);
#if defined(__x86_64__)
  add(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);  // the x32 numbers
  add(returns, refuse);
#endif
  for (const long call : std::initializer_list<long>{
           SYS_socket, SYS_tkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_ptrace,
           SYS_process_vm_readv, SYS_process_vm_writev, SYS_setsid, SYS_setpgid, SYS_unshare,
           SYS_setns, SYS_mount, SYS_umount2, SYS_bpf, SYS_keyctl, 424L /* pidfd_send_signal */,
           425L /* io_uring_setup */, 434L /* pidfd_open */, 438L /* pidfd_getfd */}) {
    add(equals, static_cast<std::uint32_t>(call), 0, 1);
    add(returns, refuse);
  }
  // These only for the own process, 0 included: kill's is the own group, prlimit64's the caller.
  for (const long call : std::initializer_list<long>{SYS_kill, SYS_tgkill, SYS_prlimit64}) {
    if (!only_own_signals) break;
    add(equals, static_cast<std::uint32_t>(call), 0, 5);
    load(first);
    add(equals, self, 2, 0);
    add(equals, 0, 1, 0);
    add(returns, refuse);
    add(returns, SECCOMP_RET_ALLOW);
  }
  add(returns, SECCOMP_RET_ALLOW);
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

}  // namespace fa::classroom
#endif
