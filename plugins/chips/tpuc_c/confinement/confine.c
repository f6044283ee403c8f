/* Runs a command that nobody vouches for with limits:

   confine MEMORY SECONDS FILE FORKS WRITABLE READABLE_COUNT READABLE... COMMAND...

   MEMORY: bytes of address space, 0 for no limit; SECONDS: of the processor; FILE: bytes of a file; FORKS: 1 if the
   command may start others; WRITABLE: the folder that it may write to, "" for none; READABLE: what it may read.
   What a kernel does not have is left out: namespaces, Landlock and seccomp are Linux's.
   Exits as the command does, with 128 and the signal where one ended it, with 125 where limits cannot be set. */
#if defined(__linux__)
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__linux__)
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

enum { FAILED = 125, ARGUMENTS = 7 };

static int limited(int what, uint64_t soft, uint64_t hard) {
  struct rlimit limit;
  limit.rlim_cur = (rlim_t)soft;
  limit.rlim_max = (rlim_t)hard;
  return setrlimit(what, &limit);
}

#if defined(__linux__)

/* Landlock, by numbers of the kernel's interface: older headers do not have it. */
struct ruleset { uint64_t files, networks; };
struct __attribute__((packed)) beneath { uint64_t allowed; int32_t parent; };
enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446, BENEATH = 1 };
enum { EXECUTE = 1, WRITE_FILE = 2, READ_FILE = 4, READ_DIR = 8, REMOVE_FILE = 32, MAKE_FILE = 256, TRUNCATE = 1 << 14 };

static void allow(int rules, const char* path, uint64_t rights) {
  struct beneath rule;
  struct stat found;
  if (!*path || (rule.parent = open(path, O_PATH | O_CLOEXEC)) < 0) return;
  if (fstat(rule.parent, &found) == 0 && !S_ISDIR(found.st_mode)) rights &= EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE;
  rule.allowed = rights;
  (void)syscall(ADD_RULE, rules, BENEATH, &rule, 0);
  close(rule.parent);
}

static void enclose(const char* writable, char** readable, int count) {
  const long version = syscall(CREATE_RULESET, NULL, 0, 1);
  if (version < 1) return;
  struct ruleset wanted = {(UINT64_C(1) << 13) - 1, 0};
  if (version >= 2) wanted.files |= 1 << 13;
  if (version >= 3) wanted.files |= TRUNCATE;
  const size_t size = version >= 4 ? sizeof(wanted) : sizeof(wanted.files);
  if (version >= 4) wanted.networks = 3;
  const int rules = (int)syscall(CREATE_RULESET, &wanted, size, 0);
  if (rules < 0) return;
  for (int i = 0; i < count; ++i) allow(rules, readable[i], EXECUTE | READ_FILE | READ_DIR);
  allow(rules, "/dev/null", READ_FILE | WRITE_FILE);
  allow(rules, writable, (READ_FILE | READ_DIR | WRITE_FILE | REMOVE_FILE | MAKE_FILE | TRUNCATE) & wanted.files);
  (void)syscall(RESTRICT_SELF, rules, 0);
  close(rules);
}

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#endif

#if defined(MACHINE)
enum { FILTERS = 1 };
static const int FORBIDDEN[] = {
    SYS_socket, SYS_socketpair, SYS_ptrace, SYS_unshare, SYS_setns, SYS_mount, SYS_keyctl, SYS_add_key, SYS_bpf,
    SYS_perf_event_open, SYS_process_vm_readv, SYS_process_vm_writev, SYS_setsid, SYS_setpgid, SYS_kill, SYS_shmget,
    SYS_shmat, SYS_msgget, SYS_semget, 425 /* io_uring_setup */,
};
static const int FORKING[] = {
    SYS_clone, 435 /* clone3 */,
#if defined(SYS_fork)
    SYS_fork, SYS_vfork,
#endif
};
#else
enum { FILTERS = 0 };
#endif

/* Calls that a function on arrays does not need fail. Where the machine is not known, nothing is filtered. */
static int filtered(int may_fork) {
#if defined(MACHINE)
  enum { COUNT = sizeof(FORBIDDEN) / sizeof(int), FORKS = sizeof(FORKING) / sizeof(int) };
  struct sock_filter code[2 * (COUNT + FORKS) + 8];
  const struct sock_filter refuse = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  unsigned short n = 0;
  code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
  code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0);
  code[n++] = refuse;
  code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);
  code[n++] = refuse;
  for (size_t i = 0; i < COUNT + (may_fork ? 0 : FORKS); ++i) {
    const int call = i < COUNT ? FORBIDDEN[i] : FORKING[i - COUNT];
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1);
    code[n++] = refuse;
  }
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {n, code};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
#else
  (void)may_fork;
  return 0;
#endif
}

#endif

static int status_of(pid_t child) {
  int status;
  pid_t ended;
  while ((ended = wait(&status)) != child)
    if (ended < 0) return FAILED;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int count, char** values) {
  if (count <= ARGUMENTS) return FAILED;
  const uint64_t memory = strtoull(values[1], NULL, 10), seconds = strtoull(values[2], NULL, 10);
  const uint64_t file = strtoull(values[3], NULL, 10);
  const int may_fork = atoi(values[4]), readable = atoi(values[6]);
  if (readable < 0 || readable > count - ARGUMENTS - 1) return FAILED;
  char** const command = values + ARGUMENTS + readable;
  if (limited(RLIMIT_CORE, 0, 0) || limited(RLIMIT_FSIZE, file, file) || limited(RLIMIT_CPU, seconds, seconds + 1) ||
      limited(RLIMIT_NOFILE, 64, 64))
    return FAILED;
  if (memory && limited(RLIMIT_AS, memory, memory)) return FAILED;
  umask(077);
#if defined(__linux__)
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_PDEATHSIG, SIGKILL)) return FAILED;
  enclose(values[5], values + ARGUMENTS, readable);
  /* Where calls are filtered, a command that starts no others needs no namespaces. */
  if ((may_fork || !FILTERS) && unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWIPC))
    (void)!unshare(CLONE_NEWPID | CLONE_NEWIPC);
#endif
  /* The first process of a namespace takes all others with it when it ends. */
  const pid_t first = fork();
  if (first < 0) return FAILED;
  if (first) return status_of(first);
#if defined(__linux__)
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) || prctl(PR_SET_DUMPABLE, 0)) return FAILED;
#endif
  const pid_t child = fork();
  if (child < 0) return FAILED;
  if (child) return status_of(child);
#if defined(__linux__)
  (void)filtered(may_fork);
#endif
  execv(command[0], command);
  return FAILED;
}
