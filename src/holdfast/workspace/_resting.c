/* Asks whether anybody has an open file open for writing, by a lease that is given back at once.
 *
 * What `lease_in_python` does, in one call; resting.py says why. No Python in here: it is a plain
 * shared library, so one build serves every interpreter.
 */

#define _GNU_SOURCE /* F_SETSIG, F_SETLEASE */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

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
#endif

/* What this was built from, for the test that finds a stale build. */
#ifndef SOURCE_DIGEST
#define SOURCE_DIGEST ""
#endif
const char holdfast_resting_source[] = SOURCE_DIGEST;
