/* The command `holdfast`, where it can be compiled: hands a command to a process that stays.
 *
 * The conversation of thin.py, to the letter, in a program that starts in a millisecond; a test
 * holds the two against each other, and bench/play_thin.py plays both with whatever a server may
 * say. Whatever is unusual here (another command, a path that has to be normalised, an encoding
 * that is not UTF-8, nobody who answers) is left to Python: `holdfast-python` beside this file,
 * whose first line the installer has made the right one.
 *
 * There is no code of ours to compare here. So a server says which file its client is
 * (installed.py), and this one compares that with itself.
 */

#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define FAILED 1
#define INTERRUPTED 130
#define CLOSED_PIPE 141
#define IN_PYTHON (-1) /* what is answered for a command that is not done here */

#define LONGEST_MESSAGE (1u << 30)
#define LONGEST_ADDRESS 100
#define MOST_FIELDS 16
#define MOST_CODE 255
#define USUAL_WIDTH 80
#define GREETING_TIMEOUT_S 5
#define SHORT_TIMEOUT_S 1

static const char *const HOT[] = {"snapshot", "status", "diff", "log",   "restore", "undo",
                                  "redo",     "show",   "pin",  "unpin", NULL};
static const char *const REPEATABLE[] = {"status", "diff", "log", "show", NULL};
static const char *const ENVIRONMENT[] = {
    "HOLDFAST_DATA", "HOLDFAST_DATABASE_URL", "HOLDFAST_OBJECTS_URL", "XDG_DATA_HOME",
    "NO_COLOR", "TERM", "PWD", "TZ", "HOLDFAST_PAGER", "PAGER",
    /* What a process has for all of its life: OF_A_PROCESS. */
    "HOME", "TMPDIR", "TEMP", "TMP", "SQLITE_TMPDIR", "LD_PRELOAD", "LD_LIBRARY_PATH", NULL};

static int is_in(const char *const *list, const char *word)
{
    for (; *list; list++)
        if (!strcmp(*list, word))
            return 1;
    return 0;
}

/* Text of a variable; empty if it is not set. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

/* Paths: all of them absolute and without `.`, `..` or empty parts. */

typedef struct {
    char text[PATH_MAX];
} Path;

/* Joins a folder and a name; 0 if that is longer than a path may be. */
static int join(Path *path, const char *folder, const char *name)
{
    const char *slash = folder[0] && folder[strlen(folder) - 1] == '/' ? "" : "/";
    int length = snprintf(path->text, sizeof path->text, "%s%s%s", folder, slash, name);
    return length > 0 && (size_t)length < sizeof path->text;
}

/* Says whether normalising would leave a path as it is. */
static int is_normal(const char *path)
{
    if (path[0] == '/')
        path++;
    while (1) {
        size_t length = strcspn(path, "/");
        if (length == 0 || (length == 1 && path[0] == '.') ||
            (length == 2 && path[0] == '.' && path[1] == '.'))
            return 0;
        if (!path[length])
            return 1;
        path += length + 1;
    }
}

/* Goes to the folder that holds this one; 0 from the root. */
static int go_up(Path *path)
{
    char *last = strrchr(path->text, '/');
    if (!last || !path->text[1])
        return 0;
    last[last == path->text] = 0;
    return 1;
}

static int exists(const char *folder, const char *name)
{
    Path path;
    struct stat found;
    return join(&path, folder, name) && !stat(path.text, &found);
}

/* The command line, as roughly as `read_command_line` has it. */

typedef struct {
    const char *name, *directory, *data;
    int is_json;
} Command;

static Command read_command_line(int argc, char **argv)
{
    Command command = {"", "", NULL, 0};
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        command.is_json |= !strcmp(argv[i], "--json");
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
        const char *word = argv[i];
        if (!strcmp(word, "-C"))
            command.directory = i + 1 < argc ? argv[++i] : "";
        else if (!strcmp(word, "--data"))
            command.data = i + 1 < argc ? argv[++i] : "";
        else if (!strcmp(word, "--objects"))
            i++;
        else if (!strncmp(word, "--data=", 7))
            command.data = word + 7;
        else if (!strncmp(word, "-C", 2))
            command.directory = word + 2;
        else if (!command.name[0] && word[0] != '-')
            command.name = word;
    }
    return command;
}

/* Where the vault is: `find_location`, as far as it is plain. */

static int is_own_vault(const char *folder)
{
    struct stat found;
    return !lstat(folder, &found) && S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
           (exists(folder, "catalog.sqlite") || exists(folder, "locks/write"));
}

static int find_location(Path *location, const char *here, const char *named)
{
    const char *given = named && named[0] ? named : "";
    if (!given[0] && (variable("HOLDFAST_CONFIG")[0] || variable("HOLDFAST_DATABASE_URL_FILE")[0]))
        return 0; /* A file says where it is. */
    if (!given[0])
        given = variable("HOLDFAST_DATABASE_URL");
    if (!given[0])
        given = variable("HOLDFAST_DATA");
    if (given[0]) {
        if (strstr(given, "://") || given[0] == '~' || !is_normal(given))
            return 0;
        return given[0] == '/' ? join(location, "/", given + 1) : join(location, here, given);
    }
    Path folder;
    if (!join(&folder, "/", here + 1))
        return 0;
    do {
        if (!join(location, folder.text, ".holdfast"))
            return 0;
        if (is_own_vault(location->text))
            return 1;
    } while (go_up(&folder));
    const char *home = variable("XDG_DATA_HOME");
    if (home[0] == '/')
        return is_normal(home) && join(location, home, "holdfast");
    home = variable("HOME");
    return home[0] == '/' && is_normal(home) && join(location, home, ".local/share/holdfast");
}

/* Where processes are left behind, if it is fit for that: `runtime_directory`. */
static const char *runtime_directory(void)
{
    static char own[64];
    if (variable("XDG_RUNTIME_DIR")[0])
        return variable("XDG_RUNTIME_DIR");
    snprintf(own, sizeof own, "/tmp/holdfast-%ju", (uintmax_t)geteuid());
    return own;
}

/* Whether a process that was left behind is wanted: `may_stay`. */
static int may_stay(void)
{
    const char *said = variable("CI");
    if (said[0] && strcmp(said, "0") && strcmp(said, "false"))
        return 0;
    char self[32];
    snprintf(self, sizeof self, "%ju", (uintmax_t)geteuid());
    if (getenv("SUDO_UID") && strcmp(getenv("SUDO_UID"), self))
        return 0;
    said = variable("HOLDFAST_STAY");
    size_t digits = strspn(said, "0123456789");
    if (said[digits] || digits > 9 || (digits && strspn(said, "0") == digits))
        return 0;
    /* In a folder of everybody's, a link is another's. */
    struct stat session;
    said = runtime_directory();
    int follow = variable("XDG_RUNTIME_DIR")[0] ? 0 : AT_SYMLINK_NOFOLLOW;
    return said[0] == '/' && !fstatat(AT_FDCWD, said, &session, follow) &&
           S_ISDIR(session.st_mode) && session.st_uid == geteuid() && !(session.st_mode & 077);
}

/* Whether Python would write UTF-8, and would run the code that was installed with this. */
static int is_usual_python(void)
{
    if (variable("PYTHONIOENCODING")[0] || variable("PYTHONUTF8")[0] || variable("PYTHONHOME")[0])
        return 0;
    const char *named = variable("LC_ALL");
    if (!named[0])
        named = variable("LC_CTYPE");
    if (!named[0])
        named = variable("LANG");
    const char *coding = strchr(named, '.');
    if (coding ? strncasecmp(coding, ".utf-8", 6) && strncasecmp(coding, ".utf8", 5)
               : named[0] && strcmp(named, "C") && strcmp(named, "POSIX"))
        return 0;
    for (const char *at = variable("PYTHONPATH"); at[0];) {
        Path entry;
        struct stat found;
        size_t length = strcspn(at, ":");
        if (length >= sizeof entry.text - 1)
            return 0;
        memcpy(entry.text, at, length);
        strcpy(entry.text + length, length ? "" : ".");
        /* An archive may hold anything. */
        if (!stat(entry.text, &found) && !S_ISDIR(found.st_mode))
            return 0;
        if (exists(entry.text, "holdfast") || exists(entry.text, "holdfast.py"))
            return 0;
        at += length + (at[length] == ':');
    }
    return 1;
}

/* Messages: their length, then each field with its own. */

typedef struct {
    unsigned char *bytes;
    uint32_t length, count;
    struct {
        const unsigned char *bytes;
        uint32_t length;
    } fields[MOST_FIELDS];
} Message;

static uint32_t number_at(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static int receive_exactly(int fd, unsigned char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t part = recv(fd, bytes, length, 0);
        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            return 0;
        bytes += part;
        length -= (size_t)part;
    }
    return 1;
}

static void let_go(Message *message)
{
    free(message->bytes);
    message->bytes = NULL;
}

/* Reads the next message; 0 if the other side has gone or talks nonsense. */
static int receive(int fd, Message *message)
{
    unsigned char head[4];
    message->bytes = NULL;
    message->count = 0;
    if (!receive_exactly(fd, head, 4) || number_at(head) > LONGEST_MESSAGE)
        return 0;
    message->length = number_at(head);
    message->bytes = malloc(message->length ? message->length : 1);
    if (!message->bytes || !receive_exactly(fd, message->bytes, message->length))
        goto nonsense;
    for (uint32_t at = 0; at < message->length; message->count++) {
        if (message->length - at < 4 || message->count == MOST_FIELDS)
            goto nonsense;
        uint32_t length = number_at(message->bytes + at);
        at += 4;
        if (length > message->length - at)
            goto nonsense;
        message->fields[message->count].bytes = message->bytes + at;
        message->fields[message->count].length = length;
        at += length;
    }
    return 1;
nonsense:
    let_go(message);
    return 0;
}

static int says(const Message *message, uint32_t field, const char *text)
{
    return field < message->count && message->fields[field].length == strlen(text) &&
           !memcmp(message->fields[field].bytes, text, strlen(text));
}

/* The socket. */

static int connect_to(int folder, const char *path, const char *name, int timeout_s)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    Path joined;
    if (!join(&joined, path, name))
        return -1;
    if (strlen(joined.text) > LONGEST_ADDRESS)
        snprintf(joined.text, sizeof joined.text, "/proc/self/fd/%d/%s", folder, name);
    memcpy(address.sun_path, joined.text, strlen(joined.text) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    struct timeval patience = {.tv_sec = timeout_s};
    if (!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) &&
        !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) &&
        !connect(fd, (struct sockaddr *)&address, sizeof address))
        return fd;
    close(fd);
    return -1;
}

/* Adds which inode is at a path, or that there is none. */
static void add_place(char *text, size_t size, const char *path)
{
    struct stat found;
    size_t length = strlen(text);
    const char *space = length ? " " : "";
    if (stat(path, &found))
        snprintf(text + length, size - length, "%smissing", space);
    else
        snprintf(text + length, size - length, "%s%ju %ju", space, (uintmax_t)found.st_dev,
                 (uintmax_t)found.st_ino);
}

/* Says whether a server is that of this directory, or vault, and of this installation. */
static int greets(int fd, const char *path, const char *where, const char *self)
{
    Message message;
    if (!receive(fd, &message))
        return 0;
    int is_ours = self[0] && says(&message, 0, "holdfast") && says(&message, 2, path) &&
                  says(&message, 3, where) && says(&message, 5, self);
    let_go(&message);
    struct timeval forever = {0};
    return is_ours && !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof forever) &&
           !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &forever, sizeof forever);
}

/* Opens a folder of sockets, if it is this user's alone; else -1. */
static int open_folder(const char *path)
{
    struct stat found;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &found) || found.st_uid != geteuid() || (found.st_mode & 077))) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Connects to whoever listens in a folder by the name of a path; else -1. */
static int connect_by(int folder, const char *folder_path, const char *path, int timeout_s)
{
    struct stat found;
    char name[32];
    uint64_t hash = 0xCBF29CE484222325u;
    for (const unsigned char *byte = (const unsigned char *)path; *byte; byte++)
        hash = (hash ^ *byte) * 0x100000001B3u;
    snprintf(name, sizeof name, "%016jx.sock", (uintmax_t)hash);
    if (fstatat(folder, name, &found, AT_SYMLINK_NOFOLLOW))
        return -1;
    return connect_to(folder, folder_path, name, timeout_s);
}

static int greeted(int fd, const char *path, const char *where, const char *self)
{
    if (greets(fd, path, where, self))
        return fd;
    close(fd);
    return -1;
}

/* Returns a connection to whoever watches a directory, or the nearest above, or all; else -1. */
static int reach(const Path *location, const char *here, const char *self)
{
    Path folder, up;
    if (!join(&folder, location->text, "run") || !join(&up, "/", here + 1))
        return -1;
    char where[256] = "";
    int run = open_folder(folder.text), fd = -1;
    if (run >= 0) {
        do
            fd = connect_by(run, folder.text, up.text, GREETING_TIMEOUT_S);
        while (fd < 0 && go_up(&up));
        close(run);
    }
    if (fd >= 0) {
        add_place(where, sizeof where, up.text);
        return greeted(fd, up.text, where, self);
    }
    if (!may_stay() || !join(&folder, runtime_directory(), "holdfast"))
        return -1;
    int left = open_folder(folder.text);
    if (left < 0)
        return -1;
    fd = connect_by(left, folder.text, location->text, SHORT_TIMEOUT_S);
    close(left);
    if (fd < 0)
        return -1;
    add_place(where, sizeof where, location->text);
    add_place(where, sizeof where, "/");
    add_place(where, sizeof where, "/proc/self/ns/mnt");
    return greeted(fd, location->text, where, self);
}

/* The request. */

typedef struct {
    unsigned char *bytes;
    size_t length, room;
    int is_broken; /* there was no memory */
} Buffer;

static void add_number(unsigned char *bytes, uint32_t number)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(number >> (24 - 8 * i));
}

static void add(Buffer *buffer, const char *text, const char *more)
{
    size_t first = strlen(text), second = strlen(more), length = first + second;
    if (buffer->is_broken || length > LONGEST_MESSAGE / 4 || buffer->length > LONGEST_MESSAGE / 2) {
        buffer->is_broken = 1;
        return;
    }
    size_t needed = buffer->length + 4 + length;
    if (needed > buffer->room) {
        unsigned char *larger = realloc(buffer->bytes, needed * 2);
        if (!larger) {
            buffer->is_broken = 1;
            return;
        }
        buffer->bytes = larger;
        buffer->room = needed * 2;
    }
    add_number(buffer->bytes + buffer->length, (uint32_t)length);
    memcpy(buffer->bytes + buffer->length + 4, text, first);
    memcpy(buffer->bytes + buffer->length + 4 + first, more, second);
    buffer->length = needed;
}

static int width(void)
{
    struct winsize size;
    for (int fd = 1; fd <= 2; fd++)
        if (!ioctl(fd, TIOCGWINSZ, &size))
            return size.ws_col ? size.ws_col : USUAL_WIDTH;
    return USUAL_WIDTH;
}

static int send_request(int fd, int argc, char **argv, const char *cwd)
{
    Buffer buffer = {0};
    char text[128];
    int variables = 0;
    for (const char *const *name = ENVIRONMENT; *name; name++)
        variables += getenv(*name) != NULL;
    mode_t mask = umask(077);
    umask(mask);
    add(&buffer, "", ""); /* room for the length of all */
    snprintf(text, sizeof text, "%d %d %d utf-8 %u", isatty(1), isatty(2), width(), (unsigned)mask);
    add(&buffer, text, "");
    add(&buffer, cwd, "");
    snprintf(text, sizeof text, "%d", variables);
    add(&buffer, text, "");
    for (const char *const *name = ENVIRONMENT; *name; name++)
        if (getenv(*name)) {
            snprintf(text, sizeof text, "%s=", *name);
            add(&buffer, text, getenv(*name));
        }
    for (int i = 1; i < argc; i++)
        add(&buffer, argv[i], "");
    int is_sent = !buffer.is_broken;
    if (is_sent)
        add_number(buffer.bytes, (uint32_t)(buffer.length - 4));
    for (size_t at = 0; is_sent && at < buffer.length;) {
        ssize_t part = send(fd, buffer.bytes + at, buffer.length - at, MSG_NOSIGNAL);
        if (part >= 0)
            at += (size_t)part;
        else if (errno != EINTR)
            is_sent = 0;
    }
    free(buffer.bytes);
    return is_sent;
}

/* The answer. */

/* Writes all of it; returns 0, or the number of the error. */
static int write_all(int fd, const unsigned char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t part = write(fd, bytes, length);
        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0)
            return errno;
        bytes += part;
        length -= (size_t)part;
    }
    return 0;
}

static int exit_code(const Message *message)
{
    int code = 0;
    uint32_t digits = message->fields[1].length;
    if (digits == 0 || digits > 9)
        return -1;
    for (uint32_t i = 0; i < digits; i++) {
        unsigned char digit = message->fields[1].bytes[i];
        if (digit < '0' || digit > '9')
            return -1;
        code = code * 10 + (digit - '0');
    }
    return code > MOST_CODE ? -1 : code;
}

static int tell(const Message *message, int code)
{
    for (uint32_t i = 0; i < 2; i++) {
        int problem =
            write_all((int)i + 1, message->fields[2 + i].bytes, message->fields[2 + i].length);
        if (problem == EPIPE)
            return CLOSED_PIPE;
        if (problem) {
            dprintf(2, "holdfast: what it has to say cannot be written: %s\n", strerror(problem));
            return FAILED;
        }
    }
    return code;
}

static int listen_to(int fd, const Command *command)
{
    Message message;
    while (receive(fd, &message)) {
        int code = message.count == 4 && says(&message, 0, "exit") ? exit_code(&message) : -1;
        int is_progress = message.count == 2 && says(&message, 0, "err");
        int is_declined = message.count == 1 && says(&message, 0, "no");
        if (is_progress)
            write_all(2, message.fields[1].bytes, message.fields[1].length);
        if (code >= 0)
            code = tell(&message, code);
        let_go(&message);
        if (is_declined)
            return IN_PYTHON;
        if (code >= 0)
            return code;
        if (!is_progress)
            break;
    }
    if (is_in(REPEATABLE, command->name))
        return IN_PYTHON;
    static const char LOST[] =
        "holdfast: the process that answers here ended before it did\n"
        "  The command may have been carried out: look at `holdfast log` before you repeat it.\n";
    static const char LOST_JSON[] =
        "{\"error\": {\"code\": \"answer_lost\", \"message\": \"the process that answers here ended "
        "before it did\", \"hint\": \"The command may have been carried out: look at `holdfast log` "
        "before you repeat it.\"}}\n";
    const char *lost = command->is_json ? LOST_JSON : LOST;
    write_all(2, (const unsigned char *)lost, strlen(lost));
    return FAILED;
}

/* What this file is known by: installed.py. */
static void know_oneself(char *text, size_t size)
{
    struct stat self;
    text[0] = 0;
    if (!stat("/proc/self/exe", &self))
        snprintf(text, size, "%ju %ju %jd %jd", (uintmax_t)self.st_dev, (uintmax_t)self.st_ino,
                 (intmax_t)self.st_mtim.tv_sec * 1000000000 + self.st_mtim.tv_nsec,
                 (intmax_t)self.st_size);
}

/* Has a command done by a process that stays; returns its exit code, or IN_PYTHON. */
int holdfast_thin_1(int argc, char **argv, const char *self)
{
    Path cwd, here, wanted, location;
    Command command = read_command_line(argc, argv);
    if (!is_in(HOT, command.name) || fcntl(1, F_GETFD) < 0 || fcntl(2, F_GETFD) < 0)
        return IN_PYTHON;
    if (!getcwd(cwd.text, sizeof cwd.text) || cwd.text[0] != '/' || command.directory[0] == '~')
        return IN_PYTHON;
    int is_named = command.directory[0] == '/' ? join(&wanted, "/", command.directory + 1)
                                               : join(&wanted, cwd.text, command.directory);
    if (!is_named || !realpath(wanted.text, here.text) || !is_usual_python())
        return IN_PYTHON;
    if (!find_location(&location, here.text, command.data))
        return IN_PYTHON;
    int fd = reach(&location, here.text, self);
    if (fd < 0)
        return IN_PYTHON;
    int code;
    if (send_request(fd, argc, argv, cwd.text))
        code = listen_to(fd, &command);
    else
        code = IN_PYTHON; /* Not all of it was sent: nobody can have begun. */
    close(fd);
    return code;
}

static void be_interrupted(int number)
{
    (void)number;
    _exit(INTERRUPTED);
}

/* Becomes the command in Python: the script beside this file. */
static int run_python(char **argv)
{
    static const char NAME[] = "/holdfast-python";
    char path[PATH_MAX + sizeof NAME];
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);
    if (length > 0 && length < PATH_MAX) {
        path[length] = 0;
        char *last = strrchr(path, '/');
        if (last) {
            memcpy(last, NAME, sizeof NAME);
            argv[0] = path;
            execv(path, argv);
        }
    }
    dprintf(2, "holdfast: %s cannot be started: %s\n  Install holdfast again.\n",
            length > 0 ? path : "holdfast-python", strerror(errno));
    return FAILED;
}

int main(int argc, char **argv)
{
    char self[128];
    struct sigaction before, ours = {.sa_handler = be_interrupted};
    if (!sigaction(SIGINT, NULL, &before) && before.sa_handler == SIG_DFL)
        sigaction(SIGINT, &ours, NULL);
    void (*pipes)(int) = signal(SIGPIPE, SIG_IGN);
    know_oneself(self, sizeof self);
    int code = argc > 0 ? holdfast_thin_1(argc, argv, self) : IN_PYTHON;
    if (code != IN_PYTHON)
        return code;
    signal(SIGPIPE, pipes);
    return run_python(argv);
}

/* What this was built from, for the test that finds a stale build. */
#ifndef SOURCE_DIGEST
#define SOURCE_DIGEST ""
#endif
const char holdfast_thin_source[] = SOURCE_DIGEST;
