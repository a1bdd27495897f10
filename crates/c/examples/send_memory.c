/* Sends numbers from memory: send_memory INTERFACE RECEIVERS COUNT. The first line is the ticket. */
#include <stdio.h>
#include <stdlib.h>
#include <treecast.h>

int main(int argc, char **argv)
{
    if (argc != 4)
        return fprintf(stderr, "send_memory INTERFACE RECEIVERS COUNT\n"), 2;
    struct treecast_group_options options = {.interface = argv[1], .wait = atoi(argv[2])};
    struct treecast_group *group = treecast_group_start(&options);
    if (!group)
        return fprintf(stderr, "%s\n", treecast_error()), 1;
    printf("%s\n", treecast_group_ticket(group));
    fflush(stdout);

    int count = atoi(argv[3]), result = 0;
    char(*products)[16] = calloc(count, sizeof *products), name[32];
    for (int at = 0; at < count && result >= 0; at++) {
        int length = snprintf(products[at], sizeof products[at], "%d\n", at);
        snprintf(name, sizeof name, "product/%d", at);
        result = treecast_send_memory(group, name, products[at], length, 10.0);
    }
    treecast_group_close(group);
    result = treecast_group_wait(group, NULL);
    treecast_group_free(group); /* The group has let go of the products. */
    free(products);
    return result != 0;
}
