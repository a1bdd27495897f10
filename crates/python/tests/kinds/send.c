/* Sends by itself: send KIND PATH SESSION_FILE. Stops when its input ends. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <treecast.h>

int main(int argc, char **argv)
{
    if (argc < 4)
        return fprintf(stderr, "send KIND PATH SESSION_FILE\n"), 2;
    const char *kind = argv[1], *paths[] = {argv[2], NULL};
    /* Ten seconds, in which all receivers have started on a busy machine, too. */
    struct treecast_carousel_options carousel = {.loops = 200, .idle_ms = 8000};
    struct treecast_group_options options = {.interface = "lo", .rate_bps = 50000000};
    if (strcmp(kind, "feed") == 0)
        options.source.feed_folder = argv[2];
    else
        options.source.paths = paths;
    options.source.delta = strcmp(kind, "delta") == 0;
    if (strcmp(kind, "session") == 0) {
        options.source.session = argv[3];
        /* Slow enough to be stopped in the middle. */
        options.rate_bps = 5000000;
    }
    if (strcmp(kind, "carousel") == 0)
        options.source.carousel = &carousel;
    options.wait = options.source.carousel ? 1 : 3;
    struct treecast_group *group = treecast_group_start(&options);
    if (!group)
        return fprintf(stderr, "%s\n", treecast_error()), 1;
    printf("%s\n", treecast_group_ticket(group));
    fflush(stdout);

    struct pollfd input = {.fd = 0, .events = POLLIN};
    struct treecast_group_event event;
    for (int came; (came = treecast_group_next_event(group, &event, 50)) != 0; fflush(stdout)) {
        if (came > 0 && event.kind == TREECAST_GROUP_EVENT_KIND_DONE)
            printf("done %s %d at %d\n", event.name, (int)event.id, (int)event.complete);
        if (poll(&input, 1, 0) > 0) {
            treecast_group_stop(group);
            input.fd = -1;
        }
    }
    struct treecast_group_progress progress;
    treecast_group_get_progress(group, &progress);
    struct treecast_group_report report;
    if (treecast_group_wait(group, &report) < 0)
        return fprintf(stderr, "%s\n", treecast_error()), 1;
    printf("sent %d stopped %d\n", (int)progress.sent_bytes, report.is_stopped);
    treecast_group_free(group);
    return 0;
}
