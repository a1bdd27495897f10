/* Functions that the session calls use its functions; children that were forked have the parent's pointers; the process ends in the
 * middle. processes PART */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <treecast.h>
#include <unistd.h>

static void doze(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static struct treecast_group *start(void)
{
    struct treecast_group *group = treecast_group_start(&(struct treecast_group_options){.interface = "lo", .rate_max = true});
    assert(group);
    return group;
}

static struct treecast_receiver *join(struct treecast_group *group, treecast_on_event on_event, void *context)
{
    struct treecast_receiver *receiver = treecast_receiver_join(&(struct treecast_receiver_options){
        .interface = "lo", .ticket = treecast_group_ticket(group), .on_event = on_event, .context = context});
    assert(receiver);
    return receiver;
}

/* A child can use none of the parent's objects, and frees nothing of them. */
static void fork_in_the_middle(void)
{
    struct treecast_group *group = start();
    struct treecast_receiver *receiver = join(group, NULL, NULL);
    assert(treecast_send_memory(group, "before", "x", 1, -1) == 0);
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        if (child == 0) {
            struct treecast_group_event event;
            assert(treecast_group_next_event(group, &event, -1) == -2 && strstr(treecast_error(), "forked"));
            assert(treecast_send_memory(group, "child", "x", 1, -1) == -1);
            assert(treecast_group_wait(group, NULL) == -1 && treecast_receiver_wait(receiver, NULL) == -1);
            assert(treecast_group_stop(group) == -1 && treecast_receiver_leave(receiver) == -1);
            treecast_group_free(group);
            treecast_receiver_free(receiver);
            /* It may have objects of its own. */
            struct treecast_group *own = start();
            struct treecast_receiver *own_receiver = join(own, NULL, NULL);
            assert(treecast_send_memory(own, "own", "x", 1, -1) == 0);
            treecast_group_close(own);
            assert(treecast_group_wait(own, NULL) == 0 && treecast_receiver_wait(own_receiver, NULL) == 0);
            treecast_receiver_free(own_receiver);
            treecast_group_free(own);
            exit(0);
        }
        int status;
        assert(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    assert(treecast_send_memory(group, "after", "x", 1, -1) == 1);
    treecast_group_close(group);
    assert(treecast_group_wait(group, NULL) == 0);
    struct treecast_receiver_report report;
    assert(treecast_receiver_wait(receiver, &report) == 0 && report.objects == 2);
    treecast_receiver_free(receiver);
    treecast_group_free(group);
}

static _Atomic(struct treecast_receiver *) mine;
static atomic_int refused;
static atomic_bool is_over;

/* Waits for its own session, and frees the receiver. */
static void on_event(const struct treecast_receiver_event *event, void *context)
{
    struct treecast_receiver *receiver;
    struct treecast_receiver_event next;
    const struct treecast_receiver_event *events;
    if (event->kind != TREECAST_RECEIVER_EVENT_KIND_RECEIVED)
        return;
    while (!(receiver = mine))
        doze();
    refused += treecast_receiver_wait(receiver, NULL) == -1 && strstr(treecast_error(), "another thread");
    refused += treecast_receiver_next_event(receiver, &next, -1) == -2;
    refused += treecast_receiver_next_batch(receiver, UINT64_MAX, &events) == -2;
    if (context)
        treecast_receiver_free(receiver);
    is_over = true;
}

static void wait_in_its_own_function(bool frees)
{
    struct treecast_group *group = start();
    mine = NULL;
    refused = 0;
    is_over = false;
    mine = join(group, on_event, frees ? "frees" : NULL);
    assert(treecast_send_memory(group, "object", "x", 1, -1) == 0);
    treecast_group_close(group);
    treecast_group_wait(group, NULL);
    while (!is_over)
        doze();
    assert(refused == 3);
    assert(treecast_receiver_wait(mine, NULL) == (frees ? -1 : 0));
    treecast_receiver_free(mine);
    treecast_group_free(group);
}

static void block(const struct treecast_receiver_event *event, void *context)
{
    (void)event, (void)context;
    pause();
}

/* The process ends while sessions run, and one of them is in a function of the program's. */
static void exit_in_the_middle(void)
{
    struct treecast_group *group = start();
    join(group, NULL, NULL);
    join(group, block, NULL);
    struct treecast_group_event event;
    assert(treecast_send_memory(group, "object", "x", 1, -1) == 0);
    assert(treecast_group_next_event(group, &event, -1) == 1);
    exit(0);
}

static struct treecast_group *shared;
static struct treecast_receiver *listener;

static void *send_many(void *first)
{
    for (int at = 0; at < 100; at++) {
        char name[32];
        snprintf(name, sizeof name, "%s/%d", (const char *)first, at);
        assert(treecast_send_memory(shared, name, "bytes", 5, -1) >= 0);
    }
    return NULL;
}

/* Looks until the objects are freed in another thread. */
static void *look(void *unused)
{
    (void)unused;
    struct treecast_group_progress progress;
    struct treecast_receiver_progress come;
    while (treecast_group_get_progress(shared, &progress) == 0)
        ;
    while (treecast_receiver_get_progress(listener, &come) == 0)
        ;
    return NULL;
}

/* Waits for events that never come, until the receiver is freed in another thread. */
static void *wait_for_events(void *unused)
{
    (void)unused;
    struct treecast_receiver_event event;
    while (treecast_receiver_next_event(listener, &event, -1) > 0)
        ;
    return NULL;
}

static void several_threads(void)
{
    shared = start();
    listener = join(shared, NULL, NULL);
    pthread_t threads[6];
    pthread_create(&threads[0], NULL, look, NULL);
    pthread_create(&threads[1], NULL, wait_for_events, NULL);
    for (int at = 2; at < 6; at++)
        pthread_create(&threads[at], NULL, send_many, (char *[]){"a", "b", "c", "d"}[at - 2]);
    for (int at = 2; at < 6; at++)
        pthread_join(threads[at], NULL);
    int done = 0;
    struct treecast_group_event event;
    while (done < 400 && treecast_group_next_event(shared, &event, -1) > 0)
        done += event.kind == TREECAST_GROUP_EVENT_KIND_DONE && event.complete == 1;
    assert(done == 400);
    treecast_receiver_free(listener);
    treecast_group_free(shared);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

int main(int argc, char **argv)
{
    const char *part = argc == 2 ? argv[1] : "";
    if (strcmp(part, "fork") == 0)
        fork_in_the_middle();
    else if (strcmp(part, "wait") == 0)
        wait_in_its_own_function(false), wait_in_its_own_function(true);
    else if (strcmp(part, "threads") == 0)
        several_threads();
    else if (strcmp(part, "exit") == 0)
        exit_in_the_middle();
    else
        return 2;
    puts("done");
    return 0;
}
