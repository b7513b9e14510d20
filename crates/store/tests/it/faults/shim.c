/*
 * A disk that can be watched and can fail, under a program that does not know of it.
 *
 * Loaded with LD_PRELOAD. It does not interpose the functions of libc: the engine replaces its most
 * important file by a rename that goes through rustix, which on Linux issues the system call itself
 * and is out of reach of any symbol. Instead the constructor installs a seccomp filter that turns
 * every system call that changes a file system into a SIGSYS, and the handler carries the call out,
 * recorded or failed as the environment says. What came through libc and what did not are one.
 *
 * Only paths under FAULTS_ROOT are touched; everything else passes through. What is under the root
 * when a recorded program starts enters the record first, as written and synced: so a recovery can
 * be recorded like any other run.
 *
 *   FAULTS_ROOT            the folder that is watched; must exist
 *   FAULTS_RECORD          append a record of every change to this file (outside the root)
 *   FAULTS_ACKS            a write to this file (outside the root) enters the record as a promise
 *   FAULTS_DISK_BYTES      once so many bytes were written, writes and extensions fail with ENOSPC
 *   FAULTS_DISK_FREE       while a file of this name exists the disk is not full after all
 *   FAULTS_SYNC_FAILS_AT   the k-th fsync or fdatasync (from 1) fails with EIO; later ones succeed,
 *                          as on Linux
 *   FAULTS_WRITE_FAILS_AT  the same for a write
 *   FAULTS_SYNC_DELAY_US   every sync takes so much longer; other threads go on meanwhile
 *   FAULTS_SYNC_SKIP       syncs reach no disk: faster, and the record is the same
 *   FAULTS_SECONDS         the program is ended by SIGALRM after so long
 *   FAULTS_NAME            faults (not the record) are for files whose name ends so, e.g. ".jnl"
 *
 * What it cannot do: follow a child (the filter outlives execve, the handler does not: a program
 * under the shim must not start another), or a program without a dynamic loader. Calls whose effect
 * it could not record are refused under the root rather than missed: copy_file_range, sendfile and
 * splice (callers fall back to write), symlinks, openat2, io_uring, exchanging renames, moves over
 * the edge of the root, punched holes, shared writable mappings. Not recorded, and so never counted
 * as a promise kept: sync, syncfs, sync_file_range, O_SYNC and O_DSYNC.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* ---- The gate: the one place whose system calls the filter lets pass. ---- */

long faults_gate(long nr, long a, long b, long c, long d, long e, long f);
extern const char faults_gate_after[];

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
__asm__(".text\n.hidden faults_gate\n.hidden faults_gate_after\n"
        ".globl faults_gate\n.type faults_gate,@function\nfaults_gate:\n"
        "mov %rdi,%rax\nmov %rsi,%rdi\nmov %rdx,%rsi\nmov %rcx,%rdx\nmov %r8,%r10\nmov %r9,%r8\n"
        "mov 8(%rsp),%r9\nsyscall\n"
        ".globl faults_gate_after\nfaults_gate_after:\nret\n");
#define ARG(uc, i) ((long)(uc)->uc_mcontext.gregs[(const int[]){REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9}[i]])
#define RESULT(uc) ((uc)->uc_mcontext.gregs[REG_RAX])
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
__asm__(".text\n.hidden faults_gate\n.hidden faults_gate_after\n"
        ".globl faults_gate\n.type faults_gate,%function\nfaults_gate:\n"
        "mov x8,x0\nmov x0,x1\nmov x1,x2\nmov x2,x3\nmov x3,x4\nmov x4,x5\nmov x5,x6\nsvc #0\n"
        ".globl faults_gate_after\nfaults_gate_after:\nret\n");
#define ARG(uc, i) ((long)(uc)->uc_mcontext.regs[i])
#define RESULT(uc) ((uc)->uc_mcontext.regs[0])
#else
#error "the fault shim knows x86_64 and aarch64"
#endif

#define GATE6(nr, a, b, c, d, e, f, ...) \
    faults_gate((nr), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define GATE(...) GATE6(__VA_ARGS__, 0, 0, 0, 0, 0, 0)

/* ---- What the environment asked for. Nothing below allocates: a trap may come from malloc. ---- */

static char root[PATH_MAX], acks[PATH_MAX];
static size_t root_len;
static const char *suffix, *disk_free;
static uint64_t disk_bytes = UINT64_MAX, sync_fails_at, write_fails_at, sync_delay_us;
static int record_fd = -1, sync_skip;

/* One lock around each call and its record, so that the record is the order of what happened. Only
 * a sync is let go while it lasts: its start and its end are two records. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t written, syncs, writes;

static void die(const char *why) {
    GATE(SYS_write, 2, "fault shim: ", 12);
    GATE(SYS_write, 2, why, strlen(why));
    GATE(SYS_write, 2, "\n", 1);
    abort();
}

/* ---- The record; `power.rs` reads it. Integers are little-endian, as both machines are. ---- */

enum kind {
    CREATE = 1, /* inode, dir, name: an empty file has come to be (no name: O_TMPFILE) */
    MKDIR,      /* inode, dir, name */
    WRITE,      /* inode, offset, data */
    TRUNCATE,   /* inode, offset: the new length */
    RENAME,     /* inode, dir, name, dir2, name2 */
    LINK,       /* inode, dir, name */
    UNLINK,     /* inode, dir, name; of a folder too */
    SYNC_BEGIN, /* inode, offset: which sync */
    SYNC_END,   /* the same, when it has succeeded */
    SYNC_FAIL,  /* the same, when it has not */
    ACK,        /* data */
    ROOT,       /* inode: always the first record */
    START,      /* what was under the root is recorded; the program runs from here */
};

struct header {
    uint32_t kind, name_len, name2_len, data_len;
    uint64_t inode, dir, dir2, offset;
};

struct place {
    int inside;
    uint64_t dir;
    char name[NAME_MAX + 1];
};

static void record(enum kind kind, uint64_t inode, const struct place *one, const struct place *two,
                   uint64_t offset, const struct iovec *data, int data_n, size_t data_len) {
    if (record_fd < 0) return;
    struct header h = {.kind = kind, .inode = inode, .offset = offset, .data_len = data_len};
    struct iovec v[3] = {{&h, sizeof h}};
    int n = 1;
    if (one) {
        h.dir = one->dir;
        h.name_len = strlen(one->name);
        v[n++] = (struct iovec){(void *)one->name, h.name_len};
    }
    if (two) {
        h.dir2 = two->dir;
        h.name2_len = strlen(two->name);
        v[n++] = (struct iovec){(void *)two->name, h.name2_len};
    }
    long want = sizeof h + h.name_len + h.name2_len;
    if (GATE(SYS_writev, record_fd, v, n) != want) die("the record cannot be written");
    for (int i = 0; i < data_n && data_len > 0; i++) {
        size_t part = data[i].iov_len < data_len ? data[i].iov_len : data_len;
        if (part && GATE(SYS_write, record_fd, data[i].iov_base, part) != (long)part)
            die("the record cannot be written");
        data_len -= part;
    }
}

/* ---- Where a descriptor or a path is. Asked of the kernel each time: no table to keep true. ---- */

static int under_root(const char *path) {
    return strncmp(path, root, root_len) == 0 && (path[root_len] == '/' || path[root_len] == 0);
}

/* The path of a descriptor, or an empty string. */
static void path_of(int fd, char out[PATH_MAX]) {
    char link[32];
    char digits[12];
    int n = 0;
    out[0] = 0;
    if (fd < 0) return;
    unsigned rest = fd;
    do digits[n++] = '0' + rest % 10;
    while (rest /= 10);
    memcpy(link, "/proc/self/fd/", 14);
    for (int i = 0; i < n; i++) link[14 + i] = digits[n - 1 - i];
    link[14 + n] = 0;
    long len = GATE(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX - 1);
    out[len > 0 ? len : 0] = 0;
    static const char gone[] = " (deleted)";
    size_t tail = sizeof gone - 1;
    if (len > (long)tail && strcmp(out + len - tail, gone) == 0) out[len - tail] = 0;
}

static struct place place_of(int dirfd, const char *path) {
    struct place p = {0};
    char parent[PATH_MAX], real[PATH_MAX];
    if (!path) return p;
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/') start--;
    size_t len = end - start;
    if (len == 0 || len > NAME_MAX || start >= PATH_MAX) return p;
    memcpy(p.name, path + start, len);
    if (strcmp(p.name, ".") == 0 || strcmp(p.name, "..") == 0) return p;
    memcpy(parent, start ? path : ".", start ? start : 1);
    parent[start ? start : 1] = 0;
    int fd = GATE(SYS_openat, dirfd, parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return p;
    struct stat st;
    path_of(fd, real);
    if (GATE(SYS_fstat, fd, &st) == 0) {
        p.inside = under_root(real);
        p.dir = st.st_ino;
    }
    GATE(SYS_close, fd);
    return p;
}

static int stat_at(int dirfd, const char *path, struct stat *st) {
    return GATE(SYS_newfstatat, dirfd, path, st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Whether faults are meant for this file. */
static int chosen(const char *path) {
    if (!suffix) return 1;
    size_t n = strlen(path), m = strlen(suffix);
    return n >= m && strcmp(path + n - m, suffix) == 0;
}

/* How many bytes the disk still takes. */
static uint64_t room(const char *path) {
    if (disk_bytes == UINT64_MAX || !chosen(path)) return UINT64_MAX;
    if (written < disk_bytes) return disk_bytes - written;
    struct stat st;
    return disk_free && stat_at(AT_FDCWD, disk_free, &st) ? UINT64_MAX : 0;
}

/* ---- The calls. ---- */

static long do_open(int dirfd, const char *path, long flags, long mode) {
    struct place p = {0};
    if (flags & (O_CREAT | O_TRUNC)) p = place_of(dirfd, path);
    int nameless = (flags & O_TMPFILE) == O_TMPFILE;
    if (!p.inside && !nameless) return GATE(SYS_openat, dirfd, path, flags, mode);

    struct stat st;
    pthread_mutex_lock(&lock);
    int was = stat_at(dirfd, path, &st);
    long fd = GATE(SYS_openat, dirfd, path, flags, mode);
    if (fd >= 0 && GATE(SYS_fstat, fd, &st) == 0) {
        char real[PATH_MAX];
        if (nameless) {
            path_of(fd, real);
            if (under_root(real)) record(CREATE, st.st_ino, NULL, NULL, 0, NULL, 0, 0);
        } else if (!was) {
            record(CREATE, st.st_ino, &p, NULL, 0, NULL, 0, 0);
        } else if (flags & O_TRUNC) {
            record(TRUNCATE, st.st_ino, NULL, NULL, 0, NULL, 0, 0);
        }
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

/* Every form of write, as a vector. `at` is where, or -1 for where the file stands. */
static long do_write(int fd, const struct iovec *given, long n, long at) {
    struct iovec v[IOV_MAX];
    char path[PATH_MAX];
    size_t total = 0;
    if (n < 0 || n > IOV_MAX) return -EINVAL;
    for (long i = 0; i < n; i++) {
        v[i] = given[i];
        total += v[i].iov_len;
    }
#define REAL_WRITE() (at < 0 ? GATE(SYS_writev, fd, v, n) : GATE(SYS_pwritev, fd, v, n, at, 0))
    path_of(fd, path);
    if (acks[0] && strcmp(path, acks) == 0) {
        pthread_mutex_lock(&lock);
        long done = REAL_WRITE();
        if (done > 0) record(ACK, 0, NULL, NULL, 0, v, n, done);
        pthread_mutex_unlock(&lock);
        return done;
    }
    if (!under_root(path)) return REAL_WRITE();

    pthread_mutex_lock(&lock);
    long done;
    uint64_t left = room(path);
    if (chosen(path) && ++writes == write_fails_at) {
        done = -EIO;
    } else if (left == 0 && total > 0) {
        done = -ENOSPC;
    } else {
        /* At the edge of a full disk a write comes back short. */
        if (total > left) {
            size_t keep = left;
            for (long i = 0; i < n; i++) {
                if (v[i].iov_len > keep) v[i].iov_len = keep;
                keep -= v[i].iov_len;
            }
        }
        struct stat st;
        long offset = at;
        if (GATE(SYS_fstat, fd, &st) != 0) die("fstat failed on an open file");
        if (GATE(SYS_fcntl, fd, F_GETFL) & O_APPEND) offset = st.st_size;
        else if (at < 0) offset = GATE(SYS_lseek, fd, 0, SEEK_CUR);
        done = REAL_WRITE();
        if (done > 0) {
            if (chosen(path)) written += done;
            record(WRITE, st.st_ino, NULL, NULL, offset, v, n, done);
        }
    }
    pthread_mutex_unlock(&lock);
    return done;
}

/* Sets a length; `grow_only` for fallocate, which never shortens. */
static long do_truncate(int fd, long len, int grow_only) {
    char path[PATH_MAX];
    struct stat st;
    path_of(fd, path);
    if (!under_root(path))
        return grow_only ? GATE(SYS_fallocate, fd, 0, 0, len) : GATE(SYS_ftruncate, fd, len);
    pthread_mutex_lock(&lock);
    long done = GATE(SYS_fstat, fd, &st);
    if (done == 0 && !(grow_only && len <= st.st_size)) {
        if (len > st.st_size && room(path) == 0) {
            done = -ENOSPC;
        } else {
            done = GATE(SYS_ftruncate, fd, len);
            if (done == 0) record(TRUNCATE, st.st_ino, NULL, NULL, len, NULL, 0, 0);
        }
    }
    pthread_mutex_unlock(&lock);
    return done;
}

static long do_truncate_path(const char *path, long len) {
    int fd = GATE(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return fd;
    long done = do_truncate(fd, len, 0);
    GATE(SYS_close, fd);
    return done;
}

static long do_sync(long nr, int fd) {
    char path[PATH_MAX];
    struct stat st;
    path_of(fd, path);
    if (!under_root(path) || GATE(SYS_fstat, fd, &st) != 0) return GATE(nr, fd);

    static uint64_t ids;
    pthread_mutex_lock(&lock);
    uint64_t id = ids++;
    int fails = chosen(path) && ++syncs == sync_fails_at;
    record(SYNC_BEGIN, st.st_ino, NULL, NULL, id, NULL, 0, 0);
    pthread_mutex_unlock(&lock);

    if (sync_delay_us && chosen(path)) {
        struct timespec t = {sync_delay_us / 1000000, sync_delay_us % 1000000 * 1000};
        GATE(SYS_nanosleep, &t, NULL);
    }
    long done = fails ? -EIO : sync_skip ? 0 : GATE(nr, fd);

    pthread_mutex_lock(&lock);
    record(done == 0 ? SYNC_END : SYNC_FAIL, st.st_ino, NULL, NULL, id, NULL, 0, 0);
    pthread_mutex_unlock(&lock);
    return done;
}

static long do_rename(int from_fd, const char *from, int to_fd, const char *to, long flags) {
    struct place a = place_of(from_fd, from), b = place_of(to_fd, to);
    if (!a.inside && !b.inside) return GATE(SYS_renameat2, from_fd, from, to_fd, to, flags);
    if (!a.inside || !b.inside) return -EXDEV;
    if (flags & ~RENAME_NOREPLACE) return -EINVAL;
    struct stat st;
    pthread_mutex_lock(&lock);
    int was = stat_at(from_fd, from, &st);
    long done = GATE(SYS_renameat2, from_fd, from, to_fd, to, flags);
    if (done == 0 && was) record(RENAME, st.st_ino, &a, &b, 0, NULL, 0, 0);
    pthread_mutex_unlock(&lock);
    return done;
}

static long do_link(int from_fd, const char *from, int to_fd, const char *to, long flags) {
    struct place b = place_of(to_fd, to);
    if (!b.inside) return GATE(SYS_linkat, from_fd, from, to_fd, to, flags);
    struct stat st;
    pthread_mutex_lock(&lock);
    long done = GATE(SYS_linkat, from_fd, from, to_fd, to, flags);
    if (done == 0 && stat_at(to_fd, to, &st)) record(LINK, st.st_ino, &b, NULL, 0, NULL, 0, 0);
    pthread_mutex_unlock(&lock);
    return done;
}

static long do_unlink(int dirfd, const char *path, long flags) {
    struct place p = place_of(dirfd, path);
    if (!p.inside) return GATE(SYS_unlinkat, dirfd, path, flags);
    struct stat st;
    pthread_mutex_lock(&lock);
    int was = stat_at(dirfd, path, &st);
    long done = GATE(SYS_unlinkat, dirfd, path, flags);
    if (done == 0 && was) record(UNLINK, st.st_ino, &p, NULL, 0, NULL, 0, 0);
    pthread_mutex_unlock(&lock);
    return done;
}

static long do_mkdir(int dirfd, const char *path, long mode) {
    struct place p = place_of(dirfd, path);
    if (!p.inside) return GATE(SYS_mkdirat, dirfd, path, mode);
    struct stat st;
    pthread_mutex_lock(&lock);
    long done = GATE(SYS_mkdirat, dirfd, path, mode);
    if (done == 0 && stat_at(dirfd, path, &st)) record(MKDIR, st.st_ino, &p, NULL, 0, NULL, 0, 0);
    pthread_mutex_unlock(&lock);
    return done;
}

static long do_fallocate(int fd, long mode, long offset, long len) {
    char path[PATH_MAX];
    path_of(fd, path);
    if (!under_root(path)) return GATE(SYS_fallocate, fd, mode, offset, len);
    return mode == 0 ? do_truncate(fd, offset + len, 1) : -EOPNOTSUPP;
}

/* A call whose effect under the root could not be recorded. */
static long refuse(int fd, long error, long nr, const long a[6]) {
    char path[PATH_MAX];
    path_of(fd, path);
    return under_root(path) ? error : faults_gate(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static const int trapped[] = {
    SYS_openat, SYS_openat2, SYS_write, SYS_writev, SYS_pwrite64, SYS_pwritev, SYS_pwritev2,
    SYS_ftruncate, SYS_truncate, SYS_fsync, SYS_fdatasync, SYS_fallocate, SYS_renameat2,
    SYS_linkat, SYS_unlinkat, SYS_mkdirat, SYS_symlinkat, SYS_copy_file_range, SYS_sendfile,
    SYS_splice, SYS_io_uring_setup,
#ifdef SYS_renameat
    SYS_renameat,
#endif
#ifdef SYS_open /* The old calls, which newer machines do not have. */
    SYS_open, SYS_creat, SYS_rename, SYS_link, SYS_unlink, SYS_mkdir, SYS_rmdir, SYS_symlink,
#endif
};

static long dispatch(long nr, const long a[6]) {
    struct iovec one = {(void *)a[1], a[2]};
    switch (nr) {
    case SYS_openat: return do_open(a[0], (char *)a[1], a[2], a[3]);
    case SYS_openat2: return -ENOSYS;
    case SYS_io_uring_setup: return -ENOSYS;
    case SYS_write: return do_write(a[0], &one, 1, -1);
    case SYS_writev: return do_write(a[0], (struct iovec *)a[1], a[2], -1);
    case SYS_pwrite64: return a[3] < 0 ? -EINVAL : do_write(a[0], &one, 1, a[3]);
    case SYS_pwritev: return a[3] < 0 ? -EINVAL : do_write(a[0], (struct iovec *)a[1], a[2], a[3]);
    case SYS_pwritev2: return a[5] ? -EOPNOTSUPP : do_write(a[0], (struct iovec *)a[1], a[2], a[3]);
    case SYS_ftruncate: return do_truncate(a[0], a[1], 0);
    case SYS_truncate: return do_truncate_path((char *)a[0], a[1]);
    case SYS_fsync:
    case SYS_fdatasync: return do_sync(nr, a[0]);
    case SYS_fallocate: return do_fallocate(a[0], a[1], a[2], a[3]);
    case SYS_renameat2: return do_rename(a[0], (char *)a[1], a[2], (char *)a[3], a[4]);
    case SYS_linkat: return do_link(a[0], (char *)a[1], a[2], (char *)a[3], a[4]);
    case SYS_unlinkat: return do_unlink(a[0], (char *)a[1], a[2]);
    case SYS_mkdirat: return do_mkdir(a[0], (char *)a[1], a[2]);
    case SYS_symlinkat:
        return place_of(a[1], (char *)a[2]).inside ? -EPERM : GATE(nr, a[0], a[1], a[2]);
    case SYS_copy_file_range: return refuse(a[2], -ENOSYS, nr, a);
    case SYS_splice: return refuse(a[2], -EINVAL, nr, a);
    case SYS_sendfile: return refuse(a[0], -EINVAL, nr, a);
    case SYS_mmap: return refuse(a[4], -EACCES, nr, a);
#ifdef SYS_renameat
    case SYS_renameat: return do_rename(a[0], (char *)a[1], a[2], (char *)a[3], 0);
#endif
#ifdef SYS_open
    case SYS_open: return do_open(AT_FDCWD, (char *)a[0], a[1], a[2]);
    case SYS_creat: return do_open(AT_FDCWD, (char *)a[0], O_CREAT | O_WRONLY | O_TRUNC, a[1]);
    case SYS_rename: return do_rename(AT_FDCWD, (char *)a[0], AT_FDCWD, (char *)a[1], 0);
    case SYS_link: return do_link(AT_FDCWD, (char *)a[0], AT_FDCWD, (char *)a[1], 0);
    case SYS_unlink: return do_unlink(AT_FDCWD, (char *)a[0], 0);
    case SYS_rmdir: return do_unlink(AT_FDCWD, (char *)a[0], AT_REMOVEDIR);
    case SYS_mkdir: return do_mkdir(AT_FDCWD, (char *)a[0], a[1]);
    case SYS_symlink:
        return place_of(AT_FDCWD, (char *)a[1]).inside ? -EPERM : GATE(nr, a[0], a[1]);
#endif
    default: die("trapped a call that nobody handles");
    }
    return -ENOSYS;
}

static void on_sigsys(int signal, siginfo_t *info, void *context) {
    (void)signal;
    ucontext_t *uc = context;
    long a[6];
    for (int i = 0; i < 6; i++) a[i] = ARG(uc, i);
    RESULT(uc) = dispatch(info->si_syscall, a);
}

/* ---- Start. ---- */

static void install_filter(void) {
    uint64_t after = (uint64_t)(uintptr_t)faults_gate_after;
    struct sock_filter f[32 + 2 * sizeof trapped / sizeof *trapped];
    int n = 0;
#define LOAD(field) (f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, field))
#define JUMP(op, k, yes, no) (f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | op | BPF_K, k, yes, no))
#define RETURN(what) (f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what))
#define DATA(field) offsetof(struct seccomp_data, field)
    LOAD(DATA(arch));
    JUMP(BPF_JEQ, ARCH, 1, 0);
    RETURN(SECCOMP_RET_ALLOW);
    LOAD(DATA(instruction_pointer));
    JUMP(BPF_JEQ, (uint32_t)after, 0, 3);
    LOAD(DATA(instruction_pointer) + 4);
    JUMP(BPF_JEQ, (uint32_t)(after >> 32), 0, 1);
    RETURN(SECCOMP_RET_ALLOW);
    LOAD(DATA(nr));
    for (size_t i = 0; i < sizeof trapped / sizeof *trapped; i++) {
        JUMP(BPF_JEQ, trapped[i], 0, 1);
        RETURN(SECCOMP_RET_TRAP);
    }
    /* Of mappings only those that could write to a file. */
    JUMP(BPF_JEQ, SYS_mmap, 0, 5);
    LOAD(DATA(args[2]));
    JUMP(BPF_JSET, PROT_WRITE, 0, 3);
    LOAD(DATA(args[3]));
    JUMP(BPF_JSET, MAP_SHARED, 0, 1);
    RETURN(SECCOMP_RET_TRAP);
    RETURN(SECCOMP_RET_ALLOW);

    struct sock_fprog program = {.len = n, .filter = f};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) die("no_new_privs was refused");
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) die("seccomp was refused");
}

/* One file or folder that was there at the start; the root first, a folder before what is in it. */
static int record_found(const char *path, const struct stat *st, int type, struct FTW *where) {
    static char chunk[1 << 20];
    static uint64_t ids = UINT64_MAX / 2; /* apart from the syncs of the program */
    if (where->level == 0) {
        record(ROOT, st->st_ino, NULL, NULL, 0, NULL, 0, 0);
        return 0;
    }
    struct place p = place_of(AT_FDCWD, path);
    record(type == FTW_D ? MKDIR : CREATE, st->st_ino, &p, NULL, 0, NULL, 0, 0);
    if (type == FTW_F) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        off_t at = 0;
        while ((at = lseek(fd, at, SEEK_DATA)) >= 0) { /* holes need no record */
            ssize_t n = pread(fd, chunk, sizeof chunk, at);
            if (n <= 0) break;
            struct iovec v = {chunk, n};
            record(WRITE, st->st_ino, NULL, NULL, at, &v, 1, n);
            at += n;
        }
        close(fd);
        record(TRUNCATE, st->st_ino, NULL, NULL, st->st_size, NULL, 0, 0);
    }
    for (int i = 0; i < 2; i++) {
        uint64_t inode = i ? p.dir : st->st_ino;
        record(SYNC_BEGIN, inode, NULL, NULL, ids, NULL, 0, 0);
        record(SYNC_END, inode, NULL, NULL, ids++, NULL, 0, 0);
    }
    return 0;
}

static uint64_t number(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

__attribute__((constructor)) static void start(void) {
    const char *folder = getenv("FAULTS_ROOT");
    if (!folder) return;
    if (!realpath(folder, root)) die("FAULTS_ROOT does not exist");
    root_len = strlen(root);
    suffix = getenv("FAULTS_NAME");
    disk_free = getenv("FAULTS_DISK_FREE");
    disk_bytes = number("FAULTS_DISK_BYTES", UINT64_MAX);
    sync_fails_at = number("FAULTS_SYNC_FAILS_AT", 0);
    write_fails_at = number("FAULTS_WRITE_FAILS_AT", 0);
    sync_delay_us = number("FAULTS_SYNC_DELAY_US", 0);
    sync_skip = number("FAULTS_SYNC_SKIP", 0) != 0;
    alarm(number("FAULTS_SECONDS", 0));

    const char *promises = getenv("FAULTS_ACKS");
    if (promises) {
        /* It must exist for its real path to be known. */
        int fd = open(promises, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0 || !realpath(promises, acks)) die("FAULTS_ACKS cannot be opened");
        close(fd);
    }
    const char *file = getenv("FAULTS_RECORD");
    if (file) {
        int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        /* A high number, so that the program under test sees the descriptors it expects. */
        record_fd = fcntl(fd, F_DUPFD_CLOEXEC, 512);
        if (record_fd < 0) die("FAULTS_RECORD cannot be opened");
        close(fd);
        if (nftw(root, record_found, 16, FTW_PHYS) != 0) die("FAULTS_ROOT cannot be read");
        record(START, 0, NULL, NULL, 0, NULL, 0, 0);
    }
    struct sigaction action = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO | SA_RESTART};
    if (sigaction(SIGSYS, &action, NULL) != 0) die("SIGSYS cannot be caught");
    install_filter();
}
