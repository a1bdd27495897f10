/* Sends files: send_files INTERFACE RECEIVERS FILE... The first line is the ticket. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <treecast.h>

int main(int argc, char **argv)
{
    if (argc < 4)
        return fprintf(stderr, "send_files INTERFACE RECEIVERS FILE...\n"), 2;
    struct treecast_group_options options = {.interface = argv[1], .wait = atoi(argv[2])};
    struct treecast_group *group = treecast_group_start(&options);
    if (!group)
        return fprintf(stderr, "%s\n", treecast_error()), 1;
    printf("%s\n", treecast_group_ticket(group));
    fflush(stdout);

    for (int at = 3; at < argc; at++)
        if (treecast_send_file(group, argv[at], NULL, 50.0) < 0)
            fprintf(stderr, "%s\n", treecast_error());
    treecast_group_close(group);

    struct treecast_group_event event;
    while (treecast_group_next_event(group, &event, -1) > 0)
        if (event.kind == TREECAST_GROUP_EVENT_KIND_DONE)
            printf("%s is at %" PRIu32 " receivers\n", event.name, event.complete);
    int result = treecast_group_wait(group, NULL);
    treecast_group_free(group);
    return result != 0;
}
