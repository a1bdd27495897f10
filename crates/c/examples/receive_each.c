/* Is asked about each object, and told of it: receive_each INTERFACE FOLDER TICKET. Names that end with .tmp are refused. */
#include <stdio.h>
#include <string.h>
#include <treecast.h>

static bool is_wanted(struct treecast_offer *offer, void *context)
{
    const char *end = strrchr(offer->name, '.');
    return !end || strcmp(end, context) != 0;
}

static void tell(const struct treecast_receiver_event *event, void *context)
{
    (void)context;
    if (event->kind == TREECAST_RECEIVER_EVENT_KIND_RECEIVED)
        printf("%s is there\n", event->path);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return fprintf(stderr, "receive_each INTERFACE FOLDER TICKET\n"), 2;
    struct treecast_receiver_options options = {.interface = argv[1], .into = argv[2], .ticket = argv[3],
        .accept = is_wanted, .on_event = tell, .context = ".tmp"};
    struct treecast_receiver *receiver = treecast_receiver_join(&options);
    int result = receiver ? treecast_receiver_wait(receiver, NULL) : -1;
    if (result)
        fprintf(stderr, "%s\n", treecast_error());
    treecast_receiver_free(receiver);
    return result != 0;
}
