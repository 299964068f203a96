/* Asks whether anybody has an open file open for writing, by a lease that is given back at once;
 * and makes a file shorter while, by another one, nobody else can open it.
 *
 * The first is what `lease_in_python` does, in one call; resting.py says why. No Python in here: it
 * is a plain shared library, so one build serves every interpreter.
 */

#define _GNU_SOURCE /* F_SETSIG, F_SETLEASE */
#define _FILE_OFFSET_BITS 64
#define _TIME_BITS 64 /* where a C library has a choice */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef F_SETLEASE
/* Returns 0 if nobody has, or the number of the error: EAGAIN if somebody has.
 *
 * Who opens the file in between sends a signal: one that is ignored unless it is wanted. Giving the
 * lease back forgets the signal, too. */
int holdfast_rest_1(int fd)
{
    fcntl(fd, F_SETSIG, SIGURG);
    if (fcntl(fd, F_SETLEASE, F_RDLCK) != 0)
        return errno;
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return 0;
}

#define NANOSECONDS 1000000000LL

/* The kernel takes a lease away from who does not give it back, after a second at the earliest. */
#define LONGEST_NS (NANOSECONDS / 2)

static int64_t number_of(struct timespec time)
{
    return (int64_t)time.tv_sec * NANOSECONDS + time.tv_nsec;
}

static struct timespec time_of(int64_t number)
{
    /* Before 1970, what is left over is counted forwards all the same. */
    int64_t rest = (number % NANOSECONDS + NANOSECONDS) % NANOSECONDS;
    return (struct timespec){.tv_sec = (number - rest) / NANOSECONDS, .tv_nsec = rest};
}

static int64_t now(void)
{
    struct timespec time = {0};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return number_of(time);
}

/* Writes a content and cuts off what is behind it; returns 0, or the number of the error. */
static int rewrite(int fd, const unsigned char *data, uint64_t size, int64_t mtime_ns, int64_t begun)
{
    for (uint64_t at = 0; at < size;) {
        ssize_t part = pwrite(fd, data + at, size - at, (off_t)at);
        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0)
            return errno;
        if (part == 0)
            return EIO;
        at += (uint64_t)part;
    }
    if (now() - begun > LONGEST_NS)
        return ETIMEDOUT; /* Somebody may have written to its end meanwhile. */
    const struct timespec times[2] = {time_of(mtime_ns), time_of(mtime_ns)};
    return ftruncate(fd, (off_t)size) != 0 || futimens(fd, times) != 0 ? errno : 0;
}

/* Gives a file a content that is shorter than its own, if nobody else has it open and it is as it
 * was: with that size and time of change.
 *
 * Returns 0 if it did. If it did not touch it, the number of an error: ESTALE if it is not as it
 * was, EAGAIN if somebody has it open. Minus the number, if it is neither the old nor the new.
 * Whoever opens the file meanwhile waits until this has returned. */
int holdfast_shorten_1(int fd, const unsigned char *data, uint64_t size, uint64_t old_size,
                       uint64_t ctime_ns, uint64_t mtime_ns)
{
    struct stat found;
    int problem, begun_at_all = 0;
    int64_t begun = now();
    fcntl(fd, F_SETSIG, SIGURG);
    if (fcntl(fd, F_SETLEASE, F_WRLCK) != 0)
        return errno;
    if (fstat(fd, &found) != 0)
        problem = errno;
    else if ((uint64_t)found.st_size != old_size || size > old_size ||
             number_of(found.st_ctim) != (int64_t)ctime_ns)
        problem = ESTALE;
    else {
        begun_at_all = 1;
        problem = rewrite(fd, data, size, (int64_t)mtime_ns, begun);
    }
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return begun_at_all ? -problem : problem;
}
#endif

/* What this was built from, for the test that finds a stale build. */
#ifndef SOURCE_DIGEST
#define SOURCE_DIGEST ""
#endif
const char holdfast_resting_source[] = SOURCE_DIGEST;
