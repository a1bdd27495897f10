/* Each function with each bad argument: it fails with a reason, and what is well goes on. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <treecast.h>

static int failures;

/* The call has failed as it should, and the reason names what is wrong. */
static void check(int line, bool has_failed, const char *says)
{
    if (!has_failed || !strstr(treecast_error(), says)) {
        printf("line %d: failed: %d, the reason is: %s\n", line, has_failed, treecast_error());
        failures++;
    }
}
#define REFUSED(failed, says) check(__LINE__, failed, says)
#define NO_GROUP(...) (treecast_group_start(&(struct treecast_group_options){__VA_ARGS__}) == NULL)
#define NO_RECEIVER(...) (treecast_receiver_join(&(struct treecast_receiver_options){__VA_ARGS__}) == NULL)
#define NO_STANDING(...) (treecast_standing_start(&(struct treecast_standing_options){__VA_ARGS__}) == NULL)
#define NO_RULE(folder, ...) NO_STANDING(.state = folder, .rule_count = 1, .rules = &(struct treecast_standing_rule){__VA_ARGS__})

static const char *const odd = "\xff\xfe";
static const char *const none[] = {NULL};
static const char *const nowhere[] = {"nowhere0", NULL};

static void options_of_groups(void)
{
    REFUSED(NO_GROUP(.interface = "nowhere0"), "nowhere0");
    REFUSED(NO_GROUP(.interface = odd), "UTF-8");
    REFUSED(NO_GROUP(.interface = ""), "");
    REFUSED(NO_GROUP(.rate_bps = 1), "the rate 1");
    REFUSED(NO_GROUP(.rate_bps = UINT64_MAX), "the rate");
    REFUSED(NO_GROUP(.retx_factor = NAN), "NaN");
    REFUSED(NO_GROUP(.retx_factor = -1), "-1");
    REFUSED(NO_GROUP(.retx_factor = INFINITY), "inf");
    REFUSED(NO_GROUP(.group = "odd"), "odd");
    REFUSED(NO_GROUP(.group = ""), "expected an address");
    REFUSED(NO_GROUP(.group = "10.0.0.1"), "10.0.0.1");
    REFUSED(NO_GROUP(.group = odd), "UTF-8");
    REFUSED(NO_GROUP(.fanout = "pigeon"), "pigeon");
    REFUSED(NO_GROUP(.fanout = ""), "no fanout");
    REFUSED(NO_GROUP(.fanout = odd), "UTF-8");
    REFUSED(NO_GROUP(.key = "/no/such/key"), "/no/such/key");
    REFUSED(NO_GROUP(.key = odd), "UTF-8");
    REFUSED(NO_GROUP(.allow = "/no/such/list"), "/no/such/list");
    REFUSED(NO_GROUP(.allow = odd), "");
    REFUSED(NO_GROUP(.plain = true, .allow = "/dev/null"), "no keys");
    REFUSED(NO_GROUP(.compress = 20), "1 to 19");
    REFUSED(NO_GROUP(.compress = INT32_MIN), "1 to 19");
    REFUSED(NO_GROUP(.announce = "two\nlines"), "without control");
    REFUSED(NO_GROUP(.announce = odd), "UTF-8");
    REFUSED(NO_GROUP(.to_standing = "lab1,lab1"), "twice");
    REFUSED(NO_GROUP(.to_standing = odd), "UTF-8");
    const char *const short_limit[] = {"plain", "stall-limit=9", NULL}, *const unknown[] = {"colour=red", NULL};
    REFUSED(NO_GROUP(.options = short_limit), "from 10s to 1d");
    REFUSED(NO_GROUP(.options = unknown), "no option is called colour");
    REFUSED(NO_GROUP(.options = (const char *const[]){odd, NULL}), "UTF-8");
    const char *const missing[] = {"/no/such/path", NULL};
    REFUSED(NO_GROUP(.interface = "lo", .source = {.paths = missing}), "/no/such/path");
    REFUSED(NO_GROUP(.interface = "lo", .source = {.feed_folder = "/no/such/folder"}), "/no/such/folder");
    REFUSED(NO_GROUP(.interface = "lo", .source = {.paths = missing, .session = "/no/such/folder/state"}), "/no/such");
}

static void options_of_receivers(const char *ticket)
{
    REFUSED(treecast_receiver_join(NULL) == NULL, "`options` is NULL");
    REFUSED(treecast_receiver_join(&(struct treecast_receiver_options){0}) == NULL, "`ticket` is NULL");
    REFUSED(NO_RECEIVER(.ticket = ""), "");
    REFUSED(NO_RECEIVER(.ticket = "no ticket"), "");
    REFUSED(NO_RECEIVER(.ticket = odd), "");
    REFUSED(NO_RECEIVER(.ticket = "@/no/such/file"), "/no/such/file");
    REFUSED(NO_RECEIVER(.ticket = "@"), "");
    REFUSED(NO_RECEIVER(.ticket = ticket, .key = "/no/such/key"), "/no/such/key");
    REFUSED(NO_RECEIVER(.ticket = ticket, .key = odd), "UTF-8");
    REFUSED(NO_RECEIVER(.ticket = ticket, .name = odd), "UTF-8");
    REFUSED(NO_RECEIVER(.ticket = ticket, .interface = odd), "UTF-8");
}

static void options_of_standing_receivers(const char *folder)
{
    const char *const senders[] = {"tck1.ANago1m8WJu2mDfQHMV28WV25Tqgw6sGiSw81_Da2wBAx2xv", NULL}, *const wrong[] = {"odd", NULL};
    REFUSED(treecast_standing_start(NULL) == NULL, "`options` is NULL");
    REFUSED(NO_STANDING(.rule_count = 0), "`state` is NULL");
    REFUSED(NO_STANDING(.state = folder), "without rules");
    REFUSED(NO_STANDING(.state = folder, .rule_count = 1), "rules");
    REFUSED(NO_STANDING(.state = folder, .rule_count = SIZE_MAX), "rules");
    REFUSED(NO_STANDING(.state = folder, .key = "/no/such/key"), "/no/such/key");
    REFUSED(NO_STANDING(.state = folder, .name = odd), "UTF-8");
    REFUSED(NO_STANDING(.state = "/dev/null/folder"), "/dev/null");
    REFUSED(NO_RULE(folder, .into = folder), "`senders` is empty");
    REFUSED(NO_RULE(folder, .into = folder, .senders = none), "`senders` is empty");
    REFUSED(NO_RULE(folder, .into = folder, .senders = wrong), "rule 1");
    REFUSED(NO_RULE(folder, .senders = senders), "`into` is NULL");
    REFUSED(NO_RULE(folder, .senders = senders, .into = folder, .session = "["), "pattern");
    REFUSED(NO_RULE(folder, .senders = senders, .into = folder, .session = odd), "UTF-8");
    REFUSED(NO_RULE(folder, .senders = senders, .into = folder, .owner = "no-such-user"), "no-such-user");
    REFUSED(NO_RULE(folder, .senders = senders, .into = folder, .audience = "friends"), "friends");
    REFUSED(NO_RULE(folder, .senders = senders, .into = folder, .audience = odd), "UTF-8");

    struct treecast_standing *freed = NULL;
    struct treecast_standing_event event;
    for (int round = 0; round < 2; round++) {
        REFUSED(treecast_standing_key(freed) == NULL, "standing receiver");
        REFUSED(treecast_standing_next_event(freed, &event, -1) == -2, "standing receiver");
        REFUSED(treecast_standing_stop(freed) == -1, "standing receiver");
        REFUSED(treecast_standing_wait(freed) == -1, "standing receiver");
        treecast_standing_free(freed);
        struct treecast_standing_rule rule = {.senders = senders, .into = folder, .max_time_ms = UINT64_MAX,
            .command_time_ms = UINT64_MAX, .max_bytes = UINT64_MAX, .max_files = UINT64_MAX};
        freed = treecast_standing_start(&(struct treecast_standing_options){
            .state = folder, .interfaces = nowhere, .at_once = UINT32_MAX, .rules = &rule, .rule_count = 1});
        assert(freed && strncmp(treecast_standing_key(freed), "tck1.", 5) == 0);
        REFUSED(treecast_standing_next_event(freed, NULL, -1) == -2, "`event` is NULL");
        assert(treecast_standing_next_event(freed, &event, -1) == 1 && strcmp(event.event, "started") == 0);
        treecast_standing_free(freed);
    }
}

static bool go_on(const struct treecast_announced *announced, void *context)
{
    (void)announced, (void)context;
    return true;
}

static void discovery(void)
{
    const char *const odds[] = {odd, NULL};
    char ticket[8];
    REFUSED(treecast_discover(nowhere, 1, go_on, NULL) == -1, "nowhere0");
    REFUSED(treecast_discover(odds, 1, go_on, NULL) == -1, "UTF-8");
    REFUSED(treecast_discover(NULL, 1, NULL, NULL) == -1, "`on_announced` is NULL");
    assert(treecast_discover(none, 1, go_on, NULL) >= 0);
    REFUSED(treecast_ask_code(NULL, NULL, 1, ticket, sizeof ticket) == -1, "`code` is NULL");
    REFUSED(treecast_ask_code("", NULL, 1, ticket, sizeof ticket) == -1, "");
    REFUSED(treecast_ask_code(odd, NULL, 1, ticket, sizeof ticket) == -1, "UTF-8");
    REFUSED(treecast_ask_code("acorn-acorn-acorn", NULL, 1, NULL, SIZE_MAX) == -1, "");
    REFUSED(treecast_ask_code("no-such-word", NULL, 1, ticket, 0) == -1, "");
}

/* A pointer that was never one, NULL, and one that was freed. */
static void groups_that_are_none(struct treecast_group *group)
{
    struct treecast_group_event event;
    struct treecast_group_progress progress;
    REFUSED(treecast_group_ticket(group) == NULL, "group");
    REFUSED(treecast_group_code(group) == NULL, "group");
    REFUSED(treecast_send_file(group, "/etc/hostname", NULL, -1) == -1, "group");
    REFUSED(treecast_send_memory(group, "x", "x", 1, -1) == -1, "group");
    REFUSED(treecast_group_next_event(group, &event, -1) == -2, "group");
    REFUSED(treecast_group_wait_for_room(group) == -1, "group");
    REFUSED(treecast_group_get_progress(group, &progress) == -1, "group");
    REFUSED(treecast_group_close(group) == -1, "group");
    REFUSED(treecast_group_stop(group) == -1, "group");
    REFUSED(treecast_group_wait(group, NULL) == -1, "group");
    treecast_group_free(group);
}

static void receivers_that_are_none(struct treecast_receiver *receiver)
{
    struct treecast_receiver_event event;
    struct treecast_receiver_progress progress;
    const struct treecast_receiver_event *events;
    REFUSED(treecast_receiver_next_event(receiver, &event, -1) == -2, "receiver");
    REFUSED(treecast_receiver_next_batch(receiver, UINT64_MAX, &events) == -2, "receiver");
    REFUSED(treecast_receiver_get_progress(receiver, &progress) == -1, "receiver");
    REFUSED(treecast_receiver_leave(receiver) == -1, "receiver");
    REFUSED(treecast_receiver_wait(receiver, NULL) == -1, "receiver");
    treecast_receiver_free(receiver);
}

/* Times beyond every clock count as very long, and a session with them is well. */
static void a_session(void)
{
    struct treecast_group *group = treecast_group_start(&(struct treecast_group_options){
        .interface = "lo", .wait_timeout_ms = UINT64_MAX, .fanout = "multicast", .rate_max = true});
    assert(group);
    const char *ticket = treecast_group_ticket(group);
    options_of_receivers(ticket);
    REFUSED(treecast_group_code(group) == NULL, "`code`");
    REFUSED(treecast_send_file(group, NULL, NULL, -1) == -1, "`path` is NULL");
    REFUSED(treecast_send_file(group, "", NULL, -1) == -1, "");
    REFUSED(treecast_send_file(group, "/no/such/file", NULL, -1) == -1, "/no/such/file");
    REFUSED(treecast_send_file(group, odd, NULL, -1) == -1, "");
    REFUSED(treecast_send_file(group, "/etc/passwd", odd, -1) == -1, "UTF-8");
    REFUSED(treecast_send_file(group, "/etc/passwd", "", -1) == -1, "name");
    REFUSED(treecast_send_file(group, "/etc/passwd", "../up", -1) == -1, "../up");
    REFUSED(treecast_send_file(group, "/etc/passwd", NULL, NAN) == -1, "NaN");
    REFUSED(treecast_send_file(group, "/etc/passwd", NULL, INFINITY) == -1, "inf");
    REFUSED(treecast_send_memory(group, NULL, "x", 1, -1) == -1, "`name` is NULL");
    REFUSED(treecast_send_memory(group, "", "x", 1, -1) == -1, "name");
    REFUSED(treecast_send_memory(group, odd, "x", 1, -1) == -1, "UTF-8");
    REFUSED(treecast_send_memory(group, "x", NULL, 1, -1) == -1, "`data`");
    REFUSED(treecast_send_memory(group, "x", NULL, SIZE_MAX, -1) == -1, "`data`");
    REFUSED(treecast_send_memory(group, "x", "x", SIZE_MAX, -1) == -1, "`length`");
    REFUSED(treecast_send_memory(group, "x", "x", SIZE_MAX / 2 + 1, -1) == -1, "`length`");
    REFUSED(treecast_send_memory(group, "x", "x", 1, NAN) == -1, "NaN");
    REFUSED(treecast_group_next_event(group, NULL, 0) == -2, "`event` is NULL");
    REFUSED(treecast_group_get_progress(group, NULL) == -1, "`progress` is NULL");

    struct treecast_receiver *receiver = treecast_receiver_join(&(struct treecast_receiver_options){
        .interface = "lo", .ticket = ticket, .connect_timeout_ms = UINT64_MAX, .reconnect_ms = INT64_MAX});
    assert(receiver);
    REFUSED(treecast_receiver_next_event(receiver, NULL, 0) == -2, "`event` is NULL");
    REFUSED(treecast_receiver_next_batch(receiver, 0, NULL) == -2, "`events` is NULL");
    REFUSED(treecast_receiver_get_progress(receiver, NULL) == -1, "`progress` is NULL");
    assert(treecast_send_memory(group, "x", "x", 1, 0) >= 0);
    struct treecast_group_event event;
    do
        assert(treecast_group_next_event(group, &event, INT64_MAX) == 1);
    while (event.kind != TREECAST_GROUP_EVENT_KIND_DONE);
    assert(event.complete == 1);
    assert(treecast_group_close(group) == 0 && treecast_group_close(group) == 0);
    REFUSED(treecast_send_memory(group, "late", "x", 1, -1) == -1, "closed");
    assert(treecast_group_wait(group, NULL) == 0);
    REFUSED(treecast_group_wait(group, NULL) == -1, "taken");
    REFUSED(treecast_send_memory(group, "late", "x", 1, -1) == -1, "");
    assert(treecast_group_stop(group) == 0 && treecast_group_wait_for_room(group) == 0);
    const struct treecast_receiver_event *events;
    while (treecast_receiver_next_batch(receiver, UINT64_MAX, &events) >= 0)
        ;
    assert(treecast_receiver_wait(receiver, NULL) == 0);
    REFUSED(treecast_receiver_wait(receiver, NULL) == -1, "taken");
    assert(treecast_receiver_leave(receiver) == 0);
    treecast_receiver_free(receiver);
    treecast_group_free(group);
    receivers_that_are_none(receiver);
    groups_that_are_none(group);
}

int main(int argc, char **argv)
{
    assert(argc == 2 && treecast_error() && !*treecast_error());
    treecast_group_free(NULL);
    options_of_groups();
    options_of_standing_receivers(argv[1]);
    discovery();
    groups_that_are_none(NULL);
    groups_that_are_none((struct treecast_group *)&failures);
    receivers_that_are_none(NULL);
    receivers_that_are_none((struct treecast_receiver *)&failures);
    a_session();
    if (!failures)
        puts("done");
    return failures != 0;
}
