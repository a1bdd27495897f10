/* Finds sessions by announcements and by a short code, and takes one by a standing receiver: find FOLDER */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <treecast.h>

static const char *const loopback[] = {"lo", NULL};

struct found {
    const char *ticket, *sender;
    bool is_there;
};

static bool look(const struct treecast_announced *announced, void *context)
{
    struct found *found = context;
    if (strcmp(announced->ticket, found->ticket))
        return true;
    assert(strcmp(announced->name, "images") == 0 && strcmp(announced->sender, found->sender) == 0);
    found->is_there = true;
    return false;
}

static struct treecast_standing *standing(const char *state, const char *into, const char *sender)
{
    const char *senders[] = {sender, NULL};
    struct treecast_standing_rule rule = {.senders = senders, .into = into, .session = "image*"};
    struct treecast_standing *started = treecast_standing_start(&(struct treecast_standing_options){
        .state = state, .name = "lab1", .interfaces = loopback, .rules = &rule, .rule_count = 1});
    if (!started)
        printf("%s\n", treecast_error());
    assert(started);
    return started;
}

static void expect(struct treecast_standing *standing, const char *word, struct treecast_standing_event *event)
{
    assert(treecast_standing_next_event(standing, event, -1) == 1);
    if (strcmp(event->event, word))
        printf("%s in place of %s: %s\n", event->event, word, event->text ? event->text : "");
    assert(strcmp(event->event, word) == 0);
}

int main(int argc, char **argv)
{
    assert(argc == 2);
    char own[256], key[300], into[256], state[256], sender[128];
    snprintf(own, sizeof own, "%s/own", argv[1]);
    snprintf(key, sizeof key, "%s/key.pem", own);
    snprintf(into, sizeof into, "%s/into", argv[1]);
    snprintf(state, sizeof state, "%s/state", argv[1]);
    /* A standing receiver makes a key, which is used as the sender's below. */
    struct treecast_standing *maker = standing(own, into, "tck1.ANago1m8WJu2mDfQHMV28WV25Tqgw6sGiSw81_Da2wBAx2xv");
    snprintf(sender, sizeof sender, "%s", treecast_standing_key(maker));
    treecast_standing_free(maker);

    struct treecast_group *group = treecast_group_start(&(struct treecast_group_options){
        .interface = "lo", .key = key, .announce = "images", .code = true});
    assert(group);
    char ticket[4096];
    int64_t length = treecast_ask_code(treecast_group_code(group), loopback, 0, ticket, sizeof ticket);
    if (length < 0)
        printf("%s\n", treecast_error());
    assert(length == (int64_t)strlen(ticket) && strcmp(ticket, treecast_group_ticket(group)) == 0);
    assert(treecast_ask_code(treecast_group_code(group), loopback, 0, ticket, 8) == -1 && strstr(treecast_error(), "bytes"));
    struct treecast_group_event given;
    do
        assert(treecast_group_next_event(group, &given, -1) == 1);
    while (given.kind != TREECAST_GROUP_EVENT_KIND_CODE_GIVEN);
    struct found found = {.ticket = treecast_group_ticket(group), .sender = sender};
    while (!found.is_there)
        assert(treecast_discover(loopback, 1000, look, &found) >= 0);
    treecast_group_free(group);

    struct treecast_standing *lab = standing(state, into, sender);
    struct treecast_standing_event event;
    expect(lab, "started", &event);
    group = treecast_group_start(&(struct treecast_group_options){
        .interface = "lo", .key = key, .announce = "images", .to_standing = treecast_standing_key(lab)});
    assert(group && treecast_send_memory(group, "image", "bytes", 5, -1) == 0);
    treecast_group_close(group);
    assert(treecast_group_wait(group, NULL) == 0);
    treecast_group_free(group);
    expect(lab, "began", &event);
    expect(lab, "received", &event);
    assert(strcmp(event.name, "images") == 0 && strcmp(event.sender, sender) == 0 && strcmp(event.into, into) == 0);
    assert(event.files == 1 && event.bytes == 5);
    treecast_standing_stop(lab);
    expect(lab, "stopped", &event);
    assert(treecast_standing_next_event(lab, &event, -1) == 0 && treecast_standing_wait(lab) == 0);
    treecast_standing_free(lab);
    puts("done");
    return 0;
}
