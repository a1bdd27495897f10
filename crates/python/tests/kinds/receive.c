/* Receives: receive FOLDER TICKET OLD. Drafts are refused, and files of radar/ get another name. */
#include <stdio.h>
#include <string.h>
#include <treecast.h>

static bool is_wanted(struct treecast_offer *offer, void *context)
{
    (void)context;
    if (strncmp(offer->name, "radar/", 6) == 0)
        offer->new_name = "archive/radar";
    return !strstr(offer->name, ".tmp");
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return fprintf(stderr, "receive FOLDER TICKET OLD\n"), 2;
    struct treecast_receiver_options options = {
        .interface = "lo", .into = argv[1], .ticket = argv[2], .old = argv[3], .reconnect_ms = 60000,
        .accept = is_wanted};
    struct treecast_receiver *receiver = treecast_receiver_join(&options);
    if (!receiver)
        return fprintf(stderr, "%s\n", treecast_error()), 1;
    struct treecast_receiver_event event;
    while (treecast_receiver_next_event(receiver, &event, -1) > 0)
        if (event.text)
            printf("%s\n", event.text);
    struct treecast_receiver_progress progress;
    treecast_receiver_get_progress(receiver, &progress);
    int result = treecast_receiver_wait(receiver, NULL);
    if (result)
        fprintf(stderr, "%s\n", treecast_error());
    printf("%d bytes, %d objects\n", (int)progress.bytes, (int)progress.objects);
    treecast_receiver_free(receiver);
    return result != 0;
}
