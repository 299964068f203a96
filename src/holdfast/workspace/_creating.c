/* Creates many files where nothing is, and reads them back.
 *
 * What `Writer` does for one file after the other (writing.py), without Python between the
 * system calls. No Python in here: it is a plain shared library, so one build serves every
 * interpreter.
 *
 * Two promises. Nothing is overwritten and no link is followed: every file is made with O_EXCL,
 * relative to a folder that was opened before. And where reading back is asked for, nothing
 * counts as made that was not read, through a descriptor of its own, and found to be what it
 * shall be.
 */

#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#define _TIME_BITS 64 /* where a C library has a choice */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __APPLE__
#define MTIME(status) ((status)->st_mtimespec)
#define CTIME(status) ((status)->st_ctimespec)
#else
#define MTIME(status) ((status)->st_mtim)
#define CTIME(status) ((status)->st_ctim)
#endif

#define CREATE (O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC)
#define READ (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
#define NANOSECONDS 1000000000LL
#define ALL_BITS 07777

/* As in pouring.py: so many zeros, where a multiple of that many bytes begins, become a hole. */
#define HOLE (16 << 10)
#define PIECE (64 << 10)

/* As in creating.py. */
enum { MADE = 0, LEFT = 1, DIFFERS = 2, BROKEN = 3 };

/* As STAMP in creating.py: what tells whether a file is still the one that was read back. */
struct stamp {
    int64_t dev, ino, ctime_s, ctime_ns;
};

struct file {
    int folder;
    const char *name;
    const unsigned char *data;
    uint64_t size;
    uint32_t mode;
    struct timespec mtime;
};

static int has_hole(const struct file *file)
{
    for (uint64_t at = 0; at + HOLE <= file->size; at += HOLE) {
        const unsigned char *piece = file->data + at;
        if (piece[0] == 0 && memcmp(piece, piece + 1, HOLE - 1) == 0)
            return 1;
    }
    return 0;
}

static int fill(int fd, const struct file *file, uint32_t withheld)
{
    for (uint64_t at = 0; at < file->size;) {
        ssize_t written = pwrite(fd, file->data + at, file->size - at, (off_t)at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -1;
        at += (uint64_t)written;
    }
    if ((file->mode & ~withheld) != file->mode && fchmod(fd, (mode_t)file->mode) != 0)
        return -1;
    const struct timespec times[2] = { file->mtime, file->mtime };
    return futimens(fd, times);
}

/* Says whether what is there now is what was to be made. */
static int is_made(const struct file *file, struct stamp *stamp)
{
    unsigned char found[PIECE];
    struct stat status;
    int fd = openat(file->folder, file->name, READ);
    if (fd < 0)
        return 0;
    int same = fstat(fd, &status) == 0 && S_ISREG(status.st_mode)
               && (uint64_t)status.st_size == file->size
               && (status.st_mode & ALL_BITS) == file->mode
               && MTIME(&status).tv_sec == file->mtime.tv_sec
               && MTIME(&status).tv_nsec == file->mtime.tv_nsec;
    for (uint64_t at = 0; same && at < file->size;) {
        ssize_t got = pread(fd, found, sizeof found, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        same = got > 0 && (uint64_t)got <= file->size - at
               && memcmp(found, file->data + at, (size_t)got) == 0;
        at += got > 0 ? (uint64_t)got : 0;
    }
    if (same)
        *stamp = (struct stamp){ (int64_t)status.st_dev, (int64_t)status.st_ino,
                                 CTIME(&status).tv_sec, CTIME(&status).tv_nsec };
    close(fd);
    return same;
}

/* Makes one file; returns 0, or the number of the error that kept it from being filled. */
static int create(const struct file *file, uint32_t withheld, unsigned char *outcome)
{
    int problem = 0;
    if (has_hole(file))
        return 0;
    int fd = openat(file->folder, file->name, CREATE, (mode_t)file->mode);
    if (fd < 0)
        return 0;
    if (fill(fd, file, withheld) != 0)
        problem = errno;
    if (close(fd) != 0 && problem == 0)
        problem = errno;
    *outcome = problem == 0 ? DIFFERS : BROKEN;
    return problem;
}

/* Makes `count` files. For each, the outcome is one of those above: made (and read back, if there
 * are stamps to be noted), left alone (the caller tries, and sees why), made and not what was
 * written, or made and not filled. `withheld` are the bits that the process gives no new file.
 * Returns 0, or the number of the error; files after that one are left.
 *
 * The number in the name is LAYOUT in creating.py: a library that was built for other arguments
 * is not found, and Python does the work. */
int holdfast_create_2(uint64_t count, const int32_t *folders, const char *const *names,
                      const unsigned char *const *contents, const uint64_t *sizes,
                      const uint32_t *modes, const int64_t *mtimes_ns, uint32_t withheld,
                      struct stamp *stamps, unsigned char *outcomes)
{
    memset(outcomes, LEFT, count);
    for (uint64_t i = 0; i < count; i++) {
        int64_t seconds = mtimes_ns[i] / NANOSECONDS, rest = mtimes_ns[i] % NANOSECONDS;
        if (rest < 0) {
            rest += NANOSECONDS;
            seconds -= 1;
        }
        const struct file file = { folders[i], names[i], contents[i], sizes[i], modes[i],
                                   { (time_t)seconds, (long)rest } };
        if ((int64_t)(time_t)seconds != seconds)
            continue;
        int problem = create(&file, withheld, &outcomes[i]);
        if (problem != 0)
            return problem;
        if (outcomes[i] == DIFFERS && (stamps == NULL || is_made(&file, &stamps[i])))
            outcomes[i] = MADE;
    }
    return 0;
}

/* What this was built from, for the test that finds a stale build. */
#ifndef SOURCE_DIGEST
#define SOURCE_DIGEST ""
#endif
const char holdfast_creating_source[] = SOURCE_DIGEST;
