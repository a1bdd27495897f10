/* Sends with all signals at their default actions, while a stranger speaks nonsense to the control port and resets. */
#include <arpa/inet.h>
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <treecast.h>
#include <unistd.h>

/* The port on which this process listens for receivers. */
static int control_port(void)
{
    for (int fd = 3; fd < 256; fd++) {
        int listens = 0;
        struct sockaddr_storage address;
        socklen_t length = sizeof listens, size = sizeof address;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) || !listens)
            continue;
        if (getsockname(fd, (struct sockaddr *)&address, &size))
            continue;
        if (address.ss_family == AF_INET6)
            return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
        if (address.ss_family == AF_INET)
            return ntohs(((struct sockaddr_in *)&address)->sin_port);
    }
    return -1;
}

/* Sends octets like a TLS record, then FIN and RST, so that the answer meets a connection that is gone. */
static void attack(int port)
{
    static const unsigned char record[10] = {22, 3, 1, 0, 5, 1, 0, 0, 1, 0};
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_port = htons(port)};
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    assert(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    assert(send(fd, record, sizeof record, MSG_NOSIGNAL) == sizeof record);
    shutdown(fd, SHUT_WR);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(fd);
}

/* The main thread gets the signals of the process, and threads of the library none: they block them. */
static volatile sig_atomic_t came;
static pthread_t home;

static void note(int number)
{
    (void)number;
    came += pthread_equal(pthread_self(), home) ? 1 : 1000;
}

int main(void)
{
    home = pthread_self();
    signal(SIGPIPE, SIG_DFL);
    for (int round = 0; round < 2; round++) {
        struct treecast_group_options options = {.interface = "lo", .rate_max = true, .plain = round == 1};
        struct treecast_group *group = treecast_group_start(&options);
        assert(group);
        int port = control_port();
        assert(port > 0);
        for (int count = 0; count < 100; count++)
            attack(port);
        struct treecast_receiver_options join = {.ticket = treecast_group_ticket(group), .interface = "lo"};
        struct treecast_receiver *receiver = treecast_receiver_join(&join);
        assert(receiver);
        assert(treecast_send_memory(group, "object", "bytes", 5, -1) == 0);
        for (int count = 0; count < 100; count++)
            attack(port);
        treecast_group_close(group);
        assert(treecast_group_wait(group, NULL) == 0);
        assert(treecast_receiver_wait(receiver, NULL) == 0);
        treecast_receiver_free(receiver);
        treecast_group_free(group);
    }

    struct sigaction action = {.sa_handler = note};
    sigaction(SIGUSR1, &action, NULL);
    struct treecast_group *group = treecast_group_start(&(struct treecast_group_options){.interface = "lo"});
    assert(group);
    for (int count = 0; count < 200; count++) {
        /* It is pending for the process, and goes to a thread that does not block it. */
        sigset_t only;
        sigemptyset(&only);
        sigaddset(&only, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &only, NULL);
        kill(getpid(), SIGUSR1);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        assert(came == count);
        pthread_sigmask(SIG_UNBLOCK, &only, NULL);
        assert(came == count + 1);
    }
    treecast_group_free(group);
    puts("done");
    return 0;
}
