/* Receives into memory, and takes what has come every 100 ms together: receive_batch INTERFACE FOLDER TICKET.
 * It writes the bytes of each object into the folder, "/" in its name replaced by "_". */
#include <stdio.h>
#include <string.h>
#include <treecast.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc != 4 || chdir(argv[2]))
        return fprintf(stderr, "receive_batch INTERFACE FOLDER TICKET\n"), 2;
    struct treecast_receiver_options options = {.interface = argv[1], .ticket = argv[3]};
    struct treecast_receiver *receiver = treecast_receiver_join(&options);
    if (!receiver)
        return fprintf(stderr, "%s\n", treecast_error()), 1;
    const struct treecast_receiver_event *events;
    for (int64_t count; (count = treecast_receiver_next_batch(receiver, 100, &events)) >= 0;)
        for (const struct treecast_receiver_event *event = events; event < events + count; event++) {
            char name[512];
            if (event->kind != TREECAST_RECEIVER_EVENT_KIND_RECEIVED)
                continue;
            snprintf(name, sizeof name, "%s", event->name);
            for (char *slash; (slash = strchr(name, '/'));)
                *slash = '_';
            FILE *file = fopen(name, "w");
            if (!file || fwrite(event->data, 1, event->bytes, file) != event->bytes || fclose(file))
                return perror(name), 1;
        }
    int result = treecast_receiver_wait(receiver, NULL);
    treecast_receiver_free(receiver);
    return result != 0;
}
