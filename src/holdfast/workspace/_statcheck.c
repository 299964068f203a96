/* Looks at everything that a stat index knows, and says what differs.
 *
 * The same pass as `_look_in_python` in statcheck.py, with the same answers, in several
 * threads and straight on the index's bytes; statformat.py has their layout. No Python in
 * here: it is a plain shared library, so one build serves every interpreter.
 *
 * Two promises. Nothing outside the buffers is touched, whatever stands in them: the index
 * passed its checksum, but a mistake in the code that wrote it would have passed that too.
 * And no change is missed: what cannot be looked at, for any reason, counts as changed.
 */

#define _GNU_SOURCE /* O_PATH */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
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

/* As _OPEN_FOLDER in statcheck.py. */
#ifdef O_PATH
#define OPEN_FOLDER (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#else
#define OPEN_FOLDER (O_RDONLY | O_NONBLOCK | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#endif

/* As in statformat.py and statcheck.py. */
#define IS_UNSURE(ctime_ns) ((ctime_ns) < 0)
enum { CHANGED = 1, LOST = 2, SHUT = 4 };

#define NANOSECONDS 1000000000LL
#define MAX_THREADS 16
/* Threads take turns at this many shares each: enough that none waits long for the last,
 * few enough that skipping the names before a share of a huge folder costs little. */
#define SHARES_PER_THREAD 16
#define LEAST_SHARE 256

struct folder {
    uint32_t path_bytes, names_bytes, folders_bytes, rows, has, mode;
    int64_t mtime_ns, ctime_ns;
    uint64_t ino;
    int64_t dev;
};

struct row {
    uint32_t mode, nlink;
    int64_t size, mtime_ns, ctime_ns;
    uint64_t ino;
};

_Static_assert(sizeof(struct folder) == 56, "FOLDER in statformat.py");
_Static_assert(sizeof(struct row) == 40, "ROW in statformat.py");

/* A folder to look at. Folders and rows are counted through together, which is what threads
 * share out: a folder with all the files is shared as well as one file in every folder. */
struct place {
    uint64_t count_before; /* of folders and rows to look at */
    uint64_t offset;       /* of its record */
    uint64_t first_row;    /* its first row's place among the flags of rows */
    uint32_t record_bytes, rows, number;
};

struct work {
    int root_fd;
    const unsigned char *records;
    const struct place *places;
    uint64_t place_count, total, share, next;
    unsigned char *folder_flags, *row_flags;
};

/* A record, taken apart and found whole. */
struct record {
    struct folder folder;
    const char *path, *names, *names_end;
    const unsigned char *rows;
};

static int is_time(struct timespec found, int64_t known)
{
    /* The known time is split, not the found one multiplied: that could overflow. */
    int64_t seconds = known / NANOSECONDS, rest = known % NANOSECONDS;
    if (rest < 0) {
        rest += NANOSECONDS;
        seconds -= 1;
    }
    return (int64_t)found.tv_sec == seconds && (int64_t)found.tv_nsec == rest;
}

static int take_apart(const unsigned char *bytes, const struct place *place, struct record *out)
{
    struct folder *folder = &out->folder;
    if (place->record_bytes < sizeof *folder)
        return 0;
    memcpy(folder, bytes, sizeof *folder);
    uint64_t names_at = sizeof *folder + (uint64_t)folder->path_bytes + 1;
    uint64_t rows_at = names_at + folder->names_bytes + folder->folders_bytes;
    if (folder->rows != place->rows
        || rows_at + (uint64_t)folder->rows * sizeof(struct row) > place->record_bytes)
        return 0;
    out->path = (const char *)bytes + sizeof *folder;
    out->names = (const char *)bytes + names_at;
    out->names_end = out->names + folder->names_bytes;
    out->rows = bytes + rows_at;
    return out->path[folder->path_bytes] == '\0';
}

/* Two threads may have a part of the same folder. */
static void flag_folder(struct work *work, const struct place *place, unsigned char flags)
{
    __atomic_fetch_or(&work->folder_flags[place->number], flags, __ATOMIC_RELAXED);
}

static void look_at_rows(struct work *work, const struct place *place,
                         const struct record *record, int fd, uint64_t from, uint64_t to)
{
    const char *name = record->names;
    for (uint64_t i = 0; i < to; i++) {
        const char *end = memchr(name, '\0', (size_t)(record->names_end - name));
        if (end == NULL) { /* fewer names than rows */
            flag_folder(work, place, LOST);
            return;
        }
        if (i >= from) {
            struct row known;
            struct stat found;
            memcpy(&known, record->rows + i * sizeof known, sizeof known);
            if (fstatat(fd, name, &found, AT_SYMLINK_NOFOLLOW) != 0) {
                work->row_flags[place->first_row + i] = CHANGED;
                /* Not just gone: the folder itself keeps us out. */
                if (errno != ENOENT)
                    flag_folder(work, place, CHANGED);
            } else if (IS_UNSURE(known.ctime_ns) || (uint64_t)found.st_ino != known.ino
                       || (uint32_t)found.st_mode != known.mode
                       || (int64_t)found.st_size != known.size
                       || !is_time(CTIME(&found), known.ctime_ns)
                       || !is_time(MTIME(&found), known.mtime_ns)) {
                work->row_flags[place->first_row + i] = CHANGED;
            }
        }
        name = end + 1;
    }
}

static void look_at_folder(struct work *work, const struct place *place, uint64_t from,
                           uint64_t to)
{
    struct record record;
    struct stat found;
    if (!take_apart(work->records + place->offset, place, &record)) {
        flag_folder(work, place, LOST);
        return;
    }
    int fd = openat(work->root_fd, *record.path ? record.path : ".", OPEN_FOLDER);
    if (fd < 0) {
        flag_folder(work, place, LOST | SHUT);
        return;
    }
    const struct folder *known = &record.folder;
    if (fstat(fd, &found) != 0 || (uint64_t)found.st_ino != known->ino
        || (int64_t)found.st_dev != known->dev) {
        flag_folder(work, place, LOST);
    } else {
        if (IS_UNSURE(known->ctime_ns) || (uint32_t)found.st_mode != known->mode
            || !is_time(CTIME(&found), known->ctime_ns)
            || !is_time(MTIME(&found), known->mtime_ns))
            flag_folder(work, place, CHANGED);
        look_at_rows(work, place, &record, fd, from, to);
    }
    close(fd);
}

/* Returns the last place that has no more than `start` before it. */
static uint64_t place_of(const struct work *work, uint64_t start)
{
    uint64_t low = 0, high = work->place_count;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (work->places[middle].count_before <= start)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void *look(void *argument)
{
    struct work *work = argument;
    for (;;) {
        uint64_t start = __atomic_fetch_add(&work->next, work->share, __ATOMIC_RELAXED);
        if (start >= work->total)
            return NULL;
        uint64_t stop = start + work->share < work->total ? start + work->share : work->total;
        for (uint64_t i = place_of(work, start); i < work->place_count; i++) {
            const struct place *place = &work->places[i];
            if (place->count_before >= stop)
                break;
            /* The folder itself counts for one, its rows come after it. */
            uint64_t rows_at = place->count_before + 1;
            uint64_t from = start > rows_at ? start - rows_at : 0;
            uint64_t to = stop > rows_at ? stop - rows_at : 0;
            look_at_folder(work, place, from, to < place->rows ? to : place->rows);
        }
    }
}

/* Notes where the folders to look at are; returns whether the table fits the buffers. */
static int find_places(struct work *work, struct place *places, const unsigned char *table,
                       uint64_t folder_count, uint64_t record_bytes, uint64_t row_count,
                       const uint32_t *only)
{
    uint64_t offset = 0, first_row = 0, found = 0;
    for (uint64_t i = 0; i < folder_count; i++) {
        uint32_t entry[2]; /* bytes of the record, rows */
        memcpy(entry, table + i * sizeof entry, sizeof entry);
        if (entry[0] > record_bytes - offset || entry[1] > row_count - first_row)
            return 0;
        if (only == NULL || (found < work->place_count && only[found] == i)) {
            places[found++] = (struct place){ work->total, offset, first_row, entry[0],
                                              entry[1], (uint32_t)i };
            work->total += 1 + (uint64_t)entry[1];
        }
        offset += entry[0];
        first_row += entry[1];
    }
    return found == work->place_count;
}

static void look_in_threads(struct work *work, uint32_t threads)
{
    pthread_t others[MAX_THREADS];
    uint32_t started = 0;
    if (threads > MAX_THREADS)
        threads = MAX_THREADS;
    if (threads < 1)
        threads = 1;
    work->share = work->total / ((uint64_t)threads * SHARES_PER_THREAD) + 1;
    if (work->share < LEAST_SHARE)
        work->share = LEAST_SHARE;
    /* A thread that cannot be started is no harm: the others do its work. */
    while (started + 1 < threads
           && pthread_create(&others[started], NULL, look, work) == 0)
        started++;
    look(work);
    while (started > 0)
        pthread_join(others[--started], NULL);
}

/* Sets a flag for every folder and, after those, for every row that differs.
 *
 * `only`, unless it is NULL, has the numbers of the folders to look at, ascending. Returns 0,
 * or what kept it from looking; then the flags mean nothing.
 *
 * The number in the name is LAYOUT in statformat.py: a library that was built for another
 * layout is not found, and Python does the work. */
int holdfast_statcheck_2(int root_fd, const unsigned char *table, const unsigned char *records,
                         uint64_t record_bytes, uint64_t folder_count, uint64_t row_count,
                         const uint32_t *only, uint64_t only_count, unsigned char *flags,
                         uint32_t threads)
{
    struct work work = { .root_fd = root_fd, .records = records, .folder_flags = flags,
                         .row_flags = flags + folder_count };
    work.place_count = only == NULL ? folder_count : only_count;
    if (work.place_count == 0)
        return 0;
    struct place *places = calloc(work.place_count, sizeof *places);
    if (places == NULL)
        return ENOMEM;
    int fits = find_places(&work, places, table, folder_count, record_bytes, row_count, only);
    if (fits) {
        work.places = places;
        look_in_threads(&work, threads);
    }
    free(places);
    return fits ? 0 : EINVAL;
}

/* Says whether files are of the times and sizes that they were: 1 if all are.
 *
 * `paths` has one after the other, each with a zero at its end, from the folder or absolute;
 * `states` has the time of modification and the size of each, or a size of -1 where nothing was. */
int holdfast_are_as_they_were(int folder_fd, const char *paths, const int64_t *states,
                              uint32_t count)
{
    for (uint32_t i = 0; i < count; i++, states += 2, paths += strlen(paths) + 1) {
        struct stat found;
        if (fstatat(folder_fd, paths, &found, 0) != 0) {
            if (states[1] != -1)
                return 0;
        } else if ((int64_t)found.st_size != states[1] || !is_time(MTIME(&found), states[0])) {
            return 0;
        }
    }
    return 1;
}

/* What this was built from, for the test that finds a stale build. */
#ifndef SOURCE_DIGEST
#define SOURCE_DIGEST ""
#endif
const char holdfast_statcheck_source[] = SOURCE_DIGEST;
