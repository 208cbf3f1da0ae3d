/* Stands in for the engine's program: has the engine run in a fork of a process that has already loaded it.

     warm_engine SOCKET PROGRAM [ARGUMENT...]

   SOCKET is a name in the abstract namespace, so that nothing has to be removed.

   If this program is called as `python`, it also stands in for the Python in the first line of a program. The link `real`
   next to it then names that Python, and the link `socket` next to the program names the socket. Anything else that it
   is asked to run runs under the real Python.

   `warm_engines.py` is the other side. This process represents the engine: it passes on its folder, environment, limits
   and descriptors, except the one named by WARM_ENGINE_KEEPS, which is then closed as soon as this process ends. It
   forwards each signal, and ends as the engine ends. If it is killed, so is the engine, which has the reading end of a
   pipe whose writing end is here. If the other side is gone, or cannot be the required engine, this process becomes the
   program itself. */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define MOST_DESCRIPTORS 200
#define LIMITS 16

extern char **environ;
static volatile pid_t engine;
static const int handed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT};

static void hand_on(int number) { kill(engine, number); }

static void add(FILE *order, const char *text) { fwrite(text, 1, strlen(text) + 1, order); }

static int send_order(int link, const char *content, size_t size, const int *descriptors, int count) {
    char space[CMSG_SPACE(sizeof(int) * MOST_DESCRIPTORS)] = {0};
    unsigned length = (unsigned)size;
    struct iovec part = {&length, sizeof length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space};
    message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int) * count);
    memcpy(CMSG_DATA(head), descriptors, sizeof(int) * count);
    if (sendmsg(link, &message, MSG_NOSIGNAL) != sizeof length) return 0;
    while (size) {
        ssize_t sent = send(link, content, size, MSG_NOSIGNAL);
        if (sent <= 0) return 0;
        content += sent, size -= (size_t)sent;
    }
    return 1;
}

/* Read one line of the answer: a letter and a number. */
static char answer(int link, int *number) {
    char line[32];
    size_t length = 0;
    for (;;) {
        ssize_t got = read(link, line + length, 1);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0 || length == sizeof line - 1) return 0;
        if (line[length] == '\n') break;
        length++;
    }
    line[length] = 0;
    *number = atoi(line + 1);
    return line[0];
}

/* A version is the same in every environment, and is asked for in one that lacks what the loaded engine has read. */
static void complete_environment(char **words) {
    if (!words[0] || !words[1] || strcmp(words[1], "--version") || words[2]) return;
    setenv("LC_ALL", "C.UTF-8", 1);
    setenv("TZ", "UTC", 1);
    setenv("BORG_HOST_ID", "not needed", 0);
}

static int open_descriptors(int *descriptors, int most, int but) {
    DIR *folder = opendir("/proc/self/fd");
    const char *own = getenv("WARM_ENGINE_KEEPS");
    int count = 0, kept = own ? atoi(own) : -1;
    if (!folder) return -1;
    for (struct dirent *entry; (entry = readdir(folder));) {
        int number = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || number == dirfd(folder) || number == but || number == kept) continue;
        if (count == most) { count = -1; break; }
        descriptors[count++] = number;
    }
    closedir(folder);
    return count;
}

static int ask(const char *place, char **words, int *life) {
    int descriptors[MOST_DESCRIPTORS], pipe_ends[2], count;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int link = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strncpy(address.sun_path + 1, place, sizeof address.sun_path - 2);
    socklen_t length = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(address.sun_path + 1);
    if (link < 0 || connect(link, (struct sockaddr *)&address, length)) return -1;
    if ((count = open_descriptors(descriptors, MOST_DESCRIPTORS - 1, link)) < 0) return -1;
    if (pipe2(pipe_ends, O_CLOEXEC)) return -1;
    *life = pipe_ends[1];

    char *content = NULL, *here = getcwd(NULL, 0);
    size_t size = 0;
    FILE *order = open_memstream(&content, &size);
    mode_t mask = umask(0);
    umask(mask);
    if (!here || !order) return -1;
    add(order, here);
    fprintf(order, "%u%c%d%c", (unsigned)mask, 0, getpriority(PRIO_PROCESS, 0), 0);
    for (int which = 0; which < LIMITS; which++) {
        struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
        getrlimit((__rlimit_resource_t)which, &limit);
        fprintf(order, "%lld %lld%c", (long long)limit.rlim_cur, (long long)limit.rlim_max, 0);
    }
    fprintf(order, "%d%c", count, 0);
    for (int which = 0; which < count; which++) fprintf(order, "%d%c", descriptors[which], 0);
    int arguments = 0;
    while (words[arguments]) arguments++;
    fprintf(order, "%d%c", arguments, 0);
    for (int which = 0; which < arguments; which++) add(order, words[which]);
    for (char **variable = environ; *variable; variable++) add(order, *variable);
    fclose(order);

    descriptors[count++] = pipe_ends[0];
    int sent = send_order(link, content, size, descriptors, count);
    close(pipe_ends[0]);
    return sent ? link : -1;
}

/* The target of a link in the folder of a file; NULL if there is none. */
static char *link_beside(const char *file, const char *name) {
    const char *end = strrchr(file, '/');
    char place[4096], said[4096];
    if (!end || snprintf(place, sizeof place, "%.*s/%s", (int)(end - file), file, name) >= (int)sizeof place) return NULL;
    ssize_t length = readlink(place, said, sizeof said);
    return length < 0 || length == sizeof said ? NULL : strndup(said, (size_t)length);
}

int main(int argc, char **argv) {
    int life = -1, number = 0, code;
    sigset_t all, before;
    const char *name = strrchr(argv[0], '/');
    int is_python = name && !strcmp(name, "/python");
    char *real = is_python ? link_beside(argv[0], "real") : NULL;
    if (argc < (is_python ? 1 : 3) || (is_python && !real)) return 2;
    char *place = !is_python ? argv[1] : argc > 1 ? link_beside(argv[1], "socket") : NULL;
    char **words = argv + (is_python ? 1 : 2), **itself = is_python ? argv : words;
    if (is_python) argv[0] = real;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    if (place) complete_environment(words);
    int link = place ? ask(place, words, &life) : -1;
    if (link < 0 || answer(link, &number) != 'P') {
        sigprocmask(SIG_SETMASK, &before, NULL);
        execv(itself[0], itself);
        perror(itself[0]);
        return 127;
    }
    engine = number;
    struct sigaction action = {.sa_handler = hand_on};
    for (size_t which = 0; which < sizeof handed_on / sizeof *handed_on; which++) sigaction(handed_on[which], &action, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    switch (answer(link, &code)) {
    case 'E': _exit(code);
    case 'S':
        signal(code, SIG_DFL);
        kill(getpid(), code);
        pause();
    }
    kill(engine, SIGKILL); /* the other side is gone */
    return 2;
}
