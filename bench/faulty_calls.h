/* Put before a C source by `-include`: its system calls fail now and then.

   As the systems that they ask may: interrupted, without space, without descriptors, having done
   a part. `faulty_chance` says how many of 65,536 do, `faulty_state` is where the numbers come
   from; both are set by whoever plays (sanitized.py). */

#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#define _TIME_BITS 64

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t faulty_state, faulty_chance;

/* The next number of a sequence that all threads share (splitmix64). */
static inline uint64_t faulty_number(void)
{
    const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t number = __atomic_add_fetch(&faulty_state, step, __ATOMIC_RELAXED);
    number = (number ^ (number >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ (number >> 27)) * UINT64_C(0x94d049bb133111eb);
    return number ^ (number >> 31);
}

static inline int faulty_strikes(void)
{
    return faulty_chance != 0 && (faulty_number() & 0xffff) < faulty_chance;
}

static inline int faulty_errno(void)
{
    static const int numbers[] = { EACCES, EIO, EINTR, ELOOP, EMFILE, ENOENT, ENOSPC, ESTALE };
    errno = numbers[faulty_number() % (sizeof numbers / sizeof *numbers)];
    return -1;
}

/* Returns how many bytes are moved of those that were asked for: now and then a part of them. */
static inline size_t faulty_part(size_t size)
{
    return size != 0 && faulty_strikes() ? (size_t)(faulty_number() % size) : size;
}

#define openat(...) (faulty_strikes() ? faulty_errno() : openat(__VA_ARGS__))
#define fstat(...) (faulty_strikes() ? faulty_errno() : fstat(__VA_ARGS__))
#define fstatat(...) (faulty_strikes() ? faulty_errno() : fstatat(__VA_ARGS__))
#define fchmod(...) (faulty_strikes() ? faulty_errno() : fchmod(__VA_ARGS__))
#define ftruncate(...) (faulty_strikes() ? faulty_errno() : ftruncate(__VA_ARGS__))
#define futimens(...) (faulty_strikes() ? faulty_errno() : futimens(__VA_ARGS__))
#define fcntl(...) (faulty_strikes() ? faulty_errno() : fcntl(__VA_ARGS__))
#define pread(fd, to, size, at) \
    (faulty_strikes() ? faulty_errno() : pread(fd, to, faulty_part(size), at))
#define pwrite(fd, from, size, at) \
    (faulty_strikes() ? faulty_errno() : pwrite(fd, from, faulty_part(size), at))
/* What could not be closed is closed all the same. */
#define close(fd) (close(fd) != 0 || faulty_strikes() ? faulty_errno() : 0)
#define recv(fd, to, size, flags) \
    (faulty_strikes() ? faulty_errno() : recv(fd, to, faulty_part(size), flags))
#define send(fd, from, size, flags) \
    (faulty_strikes() ? faulty_errno() : send(fd, from, faulty_part(size), flags))
#define malloc(...) (faulty_strikes() ? NULL : malloc(__VA_ARGS__))
#define realloc(...) (faulty_strikes() ? NULL : realloc(__VA_ARGS__))
#define calloc(...) (faulty_strikes() ? NULL : calloc(__VA_ARGS__))
#define pthread_create(...) (faulty_strikes() ? EAGAIN : pthread_create(__VA_ARGS__))
