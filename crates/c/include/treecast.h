/* treecast for C. Made by cbindgen from crates/c/src: do not edit.
 *
 * Functions return at once, except those that say that they wait. A function that fails returns NULL or a
 * negative number, and treecast_error() has the reason. Names and texts are UTF-8. Paths are bytes, as the system has them.
 */

#ifndef TREECAST_H
#define TREECAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The kinds of events of a group.
enum treecast_group_event_kind {
  // A receiver is there: `name`.
  TREECAST_GROUP_EVENT_KIND_JOINED,
  // A receiver is gone: `name`. `text` says why.
  TREECAST_GROUP_EVENT_KIND_LEFT,
  // The receivers that the group waits for are there.
  TREECAST_GROUP_EVENT_KIND_STARTED,
  // The group is done with object `id`: `name`, `bytes`, `complete`, `not_wanted`, `failed`. Its memory belongs to the caller
  // again. `text` says why it was not sent to its end; it is NULL if it was. `id` is -1 if the session sends it by itself.
  TREECAST_GROUP_EVENT_KIND_DONE,
  // `text` says what is not as good as it could be.
  TREECAST_GROUP_EVENT_KIND_WARNING,
  // `bytes` is the number of events that were lost, because too many were not read.
  TREECAST_GROUP_EVENT_KIND_MISSED,
  // The receiver at the address `text` has got the ticket by the short code.
  TREECAST_GROUP_EVENT_KIND_CODE_GIVEN,
  // The host at the address `text` has tried a wrong code. `bytes` is the number of attempts that are left. With 0, the code is
  // of no use any more.
  TREECAST_GROUP_EVENT_KIND_CODE_WRONG,
};

// The kinds of events of a receiver.
enum treecast_receiver_event_kind {
  // The sender at the address `text` has admitted this receiver.
  TREECAST_RECEIVER_EVENT_KIND_JOINED,
  // The sender has not been reached for a while. `text` says why.
  TREECAST_RECEIVER_EVENT_KIND_UNREACHABLE,
  // Object `name` with `bytes` begins.
  TREECAST_RECEIVER_EVENT_KIND_ANNOUNCED,
  // Object `name` is complete and verified. It is at `path`, or in memory at `data`.
  TREECAST_RECEIVER_EVENT_KIND_RECEIVED,
  // Object `name` was not wanted.
  TREECAST_RECEIVER_EVENT_KIND_IGNORED,
  // Object `name` cannot be received. `text` says why.
  TREECAST_RECEIVER_EVENT_KIND_FAILED,
  // `text` says what is not as good as it could be.
  TREECAST_RECEIVER_EVENT_KIND_WARNING,
  // `bytes` is the number of events that were lost, because too many were not read.
  TREECAST_RECEIVER_EVENT_KIND_MISSED,
};

// A group of receivers, and the session that sends objects to them. It may be used from several threads; one of them reads
// events.
struct treecast_group;

// A receiver that has joined a group. It may be used from several threads; one of them reads events.
struct treecast_receiver;

// A receiver that stays: it takes announced sessions of senders that it trusts, again and again, and keeps a history. It may be used
// from several threads; one of them reads events.
struct treecast_standing;

// The options of a carousel. Zero is the default.
struct treecast_carousel_options {
  // The number of loops after which the carousel ends. 0: it goes on while somebody listens.
  uint64_t loops;
  // The time in milliseconds without a listener after which the carousel ends. 0: ten seconds.
  uint64_t idle_ms;
};

// What a session sends by itself. treecast_send_file and treecast_send_memory fail if this has more than `paths`.
struct treecast_source {
  // Files and folders that are sent from the beginning: an array that ends with NULL. NULL: none.
  const char *const *paths;
  // A folder whose files are sent, those that are there and those that come, until treecast_group_stop. NULL: none.
  const char *feed_folder;
  // Whether receivers that have older versions of the paths fetch only what differs.
  bool delta;
  // The file that keeps the session's state, so that it can go on with the same paths after treecast_group_stop or a restart.
  // It holds a key. NULL: none.
  const char *session;
  // The options of a carousel, which sends the paths again and again to those who come at any time, and hears nothing of them.
  // NULL: no carousel.
  const struct treecast_carousel_options *carousel;
};

// The options of a group. They have the names of the command's options (`treecast send --help`). Zero and NULL are the defaults:
// `struct treecast_group_options options = {0};`.
struct treecast_group_options {
  // The name of the network interface. NULL: the one of the route.
  const char *interface;
  // The number of receivers with which the session starts. 0: 1.
  uint32_t wait;
  // The time in milliseconds after which the session fails if fewer are there. 0: a minute; a carousel waits for ever.
  uint64_t wait_timeout_ms;
  // The rate, in bits of IP packets a second. 0: what the path to the worst receiver delivers; a carousel sends at 50 Mbit/s.
  uint64_t rate_bps;
  // Whether packets go as fast as the slowest receiver takes them, whatever other traffic there is. rate_bps is not used.
  bool rate_max;
  // The retransmission factor of objects that have none of their own. 0: no limit.
  double retx_factor;
  // The multicast group's address. NULL: a random one.
  const char *group;
  // The multicast group's UDP port. 0: a random one.
  uint16_t port;
  // The way in which a packet reaches many hosts: multicast, unicast, mead, xcast or auto. NULL: multicast.
  const char *fanout;
  // Whether nothing is encrypted, and nobody proves their identity.
  bool plain;
  // The sender's key: its name (`treecast keys`) or its file. NULL: one that is made for the session.
  const char *key;
  // The file with the public keys of the receivers that are admitted. NULL: everybody who has the ticket.
  const char *allow;
  // The level, 1 to 19, at which objects are compressed by zstd. 0: not at all.
  int32_t compress;
  // What the session sends by itself. Zeros: what the program sends.
  struct treecast_source source;
  // The name under which the session is announced on the network, so that treecast_discover and standing receivers find it. An
  // empty name is that of the first path. NULL: it is not announced.
  const char *announce;
  // The standing receivers that the session is for: names or keys with commas between them, or a file with one a line. An empty
  // text: all that trust the key. The session is announced to them. NULL: people.
  const char *to_standing;
  // Whether treecast_group_code gives a short code, by which a receiver on the same network gets the ticket.
  bool code;
  // More options of `treecast send` by their names there: an array of texts such as "stall-limit=2m" that ends with NULL. NULL:
  // none.
  const char *const *options;
};

// An event of a group. Its strings are valid until the next event of the group is read.
struct treecast_group_event {
  enum treecast_group_event_kind kind;
  // The number that treecast_send_file or treecast_send_memory has returned, or -1.
  int64_t id;
  // Size of the object, in bytes.
  uint64_t bytes;
  // The number of receivers that have it, verified.
  uint32_t complete;
  // The number of receivers that did not want it.
  uint32_t not_wanted;
  // The number of receivers that wanted it and do not have it.
  uint32_t failed;
  const char *name;
  const char *text;
};

// How far a group is.
struct treecast_group_progress {
  // Seconds since the first object could leave.
  double seconds;
  // The bytes of objects that have been sent to the group. Retransmissions do not count.
  uint64_t sent_bytes;
  // Total size of all objects so far, in bytes.
  uint64_t bytes;
  // The rate, in bits of IP packets a second. 0 if only receivers limit it.
  uint64_t rate_bps;
  // The number of receivers that are connected.
  uint32_t receivers;
};

// What has come of a group.
struct treecast_group_report {
  // The number of objects, and their total size in bytes.
  uint64_t objects;
  uint64_t bytes;
  // The number of receivers.
  uint64_t receivers;
  // The time from the start to the end, in seconds.
  double seconds;
  // Whether the session was stopped before its end.
  bool is_stopped;
};

// An object that the sender announces. Its pointers are valid until `accept` returns.
struct treecast_offer {
  const char *name;
  // Size of the object, in bytes.
  uint64_t bytes;
  // `accept` may set this to take the object under another name: a relative path with / between folders, which is copied when
  // `accept` returns. NULL: the object keeps its name.
  const char *new_name;
};

// The function that decides whether an object is wanted. It is called in the session's thread, and must return soon. `context` is
// that of the options.
typedef bool (*treecast_accept)(struct treecast_offer *offer, void *context);

// An event of a receiver. Its pointers are valid until the next event or batch of the receiver is read.
struct treecast_receiver_event {
  enum treecast_receiver_event_kind kind;
  // Size of the object, in bytes.
  uint64_t bytes;
  const char *name;
  const char *path;
  // The bytes of a file in memory. NULL if objects go to a folder.
  const uint8_t *data;
  const char *text;
};

// The function that gets the events of a receiver. It is called in the session's thread, also before treecast_receiver_join returns.
// So it must return soon. treecast_receiver_wait fails there, and treecast_receiver_free does not wait. The event and its pointers are
// valid until it returns. `context` is that of the options.
typedef void (*treecast_on_event)(const struct treecast_receiver_event *event, void *context);

// The options of a receiver. They have the names of the command's options (`treecast receive --help`). Zero and NULL are the
// defaults, but `ticket` is needed:
// `struct treecast_receiver_options options = {.ticket = ticket};`.
struct treecast_receiver_options {
  // The ticket of the group: the text, or @ and the path of a file with it.
  const char *ticket;
  // The folder for what comes; it is made if it is missing. NULL: objects come in memory, with the event.
  const char *into;
  // The name of the network interface. NULL: the one of the route to the sender.
  const char *interface;
  // The receiver's name at the sender. NULL: the host's name and the process's number.
  const char *name;
  // The receiver's key: its name (`treecast keys`) or its file. NULL: one that is made for the session.
  const char *key;
  // Decides which objects are wanted. NULL: all.
  treecast_accept accept;
  // Gets each event, in place of treecast_receiver_next_event and treecast_receiver_next_batch. NULL: these two have them.
  treecast_on_event on_event;
  // What `accept` and `on_event` get. It is used until the receiver is freed.
  void *context;
  // The time in milliseconds for which the receiver tries to reach the sender. 0: half a minute.
  uint64_t connect_timeout_ms;
  // The time in milliseconds for which the receiver tries to reach the sender again when the connection breaks. 0: two minutes;
  // a negative number: it does not try.
  int64_t reconnect_ms;
  // Where older versions of objects are that the sender sends by difference: a file, a block device, or a folder with files of the
  // objects' names. NULL: `folder`.
  const char *old;
};

// How far a receiver is.
struct treecast_receiver_progress {
  // The bytes of objects that are there. Bytes that came twice count once.
  uint64_t bytes;
  // Total size of all objects announced so far, in bytes.
  uint64_t announced_bytes;
  // The bytes that came again, over the control connection.
  uint64_t retransmitted_bytes;
  // The number of objects that are complete and verified.
  uint64_t objects;
};

// What has come to a receiver.
struct treecast_receiver_report {
  // The number of objects that are as the sender has them, and the bytes of files.
  uint64_t objects;
  uint64_t bytes;
  // The number of objects that failed, and of those that were not wanted.
  uint64_t failed;
  uint64_t not_wanted;
  // Whether treecast_receiver_leave ended the session.
  bool has_left;
};

// A session that somebody announces on the network. Its strings are valid until the function returns that gets it.
struct treecast_announced {
  // The session's name.
  const char *name;
  // The ticket, for the options of a receiver.
  const char *ticket;
  // The public key of the sender, which has signed the announcement.
  const char *sender;
  // The number of objects so far, and their total size in bytes.
  uint64_t objects;
  uint64_t bytes;
};

// The function that gets each announced session once. It returns whether to go on. `context` is that of treecast_discover.
typedef bool (*treecast_on_announced)(const struct treecast_announced *announced, void *context);

// A rule of a standing receiver: whose sessions it takes, and what becomes of them. Its fields have the names of the configuration
// file's (`treecast receive --standing`). `senders` and `into` are needed. Zero and NULL are the defaults of the others.
struct treecast_standing_rule {
  // The public keys of the senders that are trusted (`treecast keys show`, `sender` of treecast_announced): an array that ends with
  // NULL.
  const char *const *senders;
  // A pattern of the names of sessions, such as image*. NULL: all.
  const char *session;
  // The folder for what comes.
  const char *into;
  // The owner of what comes: USER, USER:GROUP or :GROUP. NULL: the user of this process.
  const char *owner;
  // Whether existing files stay, and objects of their names are not fetched.
  bool keep_existing;
  // Whether names may begin with a dot at the top of the folder.
  bool hidden;
  // The largest number of objects of a session, and their largest total size in bytes. 0: no limit.
  uint64_t max_files;
  uint64_t max_bytes;
  // The longest time that a session may take, in milliseconds. 0: no limit.
  uint64_t max_time_ms;
  // The words of a program that runs after a session that is complete, an array that ends with NULL. {} in a word stands for the
  // folder. NULL: no program.
  const char *const *command;
  // The longest time that the program may take, in milliseconds. 0: ten minutes.
  uint64_t command_time_ms;
  // Decides which objects are wanted, in a thread of the session's. NULL: all.
  treecast_accept accept;
  // What `accept` gets. It is used until the standing receiver is freed.
  void *context;
  // The audience that a session must have: standing, named (this receiver is named by its sender) or anybody. NULL: standing.
  const char *audience;
  // Whether a session is ignored that began before the last one of this rule and sender.
  bool in_order;
};

// The options of a standing receiver. `state` and rules are needed. Zero and NULL are the defaults of the others.
struct treecast_standing_options {
  // The folder for the history and the key. It is made if it is missing.
  const char *state;
  // The receiver's key: its name (`treecast keys`) or its file. NULL: key.pem in the folder, which is made at the first start.
  const char *key;
  // The receiver's name at senders. NULL: the host's.
  const char *name;
  // The names of the interfaces to listen on: an array that ends with NULL. NULL: all that are up.
  const char *const *interfaces;
  // The largest number of sessions at the same time, at most 64. 0: 4.
  uint32_t at_once;
  // The rules. The first one that takes a session counts.
  const struct treecast_standing_rule *rules;
  // The number of rules.
  uintptr_t rule_count;
};

// An event of a standing receiver, as the history has it. Its strings are valid until its next event is read. Those that it has not
// are NULL.
struct treecast_standing_event {
  // The time, in seconds since 1970.
  uint64_t at;
  // What has happened, such as started, began, received, interrupted, given_up, ignored, command_run, command_failed or warning.
  const char *event;
  // The session's name and number, and the public key of its sender.
  const char *name;
  const char *session;
  const char *sender;
  // The folder that the session goes to.
  const char *into;
  // The number of files that have come, and their size in bytes.
  uint64_t files;
  uint64_t bytes;
  // The reason or the result, in words.
  const char *text;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Why the last function that failed in this thread has failed: one line. Empty if none has. Valid until the next one fails.
const char *treecast_error(void);

// Opens a group, and starts its session. Receivers can join from then on. NULL if that is not possible. `options` may be NULL.
//
// # Safety
// `options` is NULL, or points to options whose strings end with a zero and whose array of paths ends with NULL.
struct treecast_group *treecast_group_start(const struct treecast_group_options *options);

// The ticket with which receivers join: a line of text. Valid as long as the group. NULL if `group` is none.
const char *treecast_group_ticket(const struct treecast_group *group);

// The short code by which a receiver on the same network gets the ticket: three words (`code` of the options). After five wrong
// guesses it is of no use any more. Valid as long as the group. NULL if the group has none.
const char *treecast_group_code(const struct treecast_group *group);

// Sends a file, which must not change until it is done. `name` is its name at receivers; NULL: its own. Requests for
// retransmissions are answered for `retx_factor` times as long as its multicast takes; a negative factor is the group's. Returns the
// object's number, or -1.
//
// # Safety
// `path` and `name` end with a zero; `name` may be NULL.
int64_t treecast_send_file(const struct treecast_group *group,
                           const char *path,
                           const char *name,
                           double retx_factor);

// Sends `length` bytes from where they are, under a name. They must neither change nor be freed until the event
// TREECAST_GROUP_EVENT_KIND_DONE of this object is read, or treecast_group_free returns. `retx_factor` is that of
// treecast_send_file. Returns the object's number, or -1.
//
// # Safety
// `name` ends with a zero. `data` points to `length` bytes that stay as they are until the object is done; it may be NULL if there
// are none.
int64_t treecast_send_memory(const struct treecast_group *group,
                             const char *name,
                             const void *data,
                             uintptr_t length,
                             double retx_factor);

// Reads the next event. Waits for at most `timeout_ms` milliseconds; a negative number waits until there is one. Returns 1 if there
// is an event, 0 if the session is over and all events have been read, -1 if none came in time, and -2 if the arguments cannot be
// used.
//
// # Safety
// `event` is NULL, or points to an event that may be written.
int treecast_group_next_event(const struct treecast_group *group,
                              struct treecast_group_event *event,
                              int64_t timeout_ms);

// Waits until another object can be sent, because fewer than 4,096 are not done, or the session is over. Returns 0, or -1 if `group`
// is none.
int treecast_group_wait_for_room(const struct treecast_group *group);

// Writes how far the group is. Returns 0, or -1 if the arguments cannot be used.
//
// # Safety
// `progress` is NULL, or points to a progress that may be written.
int treecast_group_get_progress(const struct treecast_group *group,
                                struct treecast_group_progress *progress);

// Takes no more objects. The session ends when all receivers have ended with all objects. Returns 0, or -1 if `group` is none.
int treecast_group_close(const struct treecast_group *group);

// Stops the session. Receivers keep only what was complete. A feed begins no more files, and finishes those under way, for at most
// 30 s. Receivers of a session with a session file wait for it to go on. Returns at once; treecast_group_wait waits for the end.
// Returns 0, or -1 if `group` is none.
int treecast_group_stop(const struct treecast_group *group);

// Waits until the session is over. Returns 0 if every receiver has every object that it wanted, 1 if not, and -1 if nothing could be
// sent, or this was called before, or `group` is none. `report` may be NULL.
//
// # Safety
// `report` is NULL, or points to a report that may be written.
int treecast_group_wait(const struct treecast_group *group,
                        struct treecast_group_report *report);

// Frees a group. If its session is not over, stops it and waits for its end; receivers then keep only what was complete. NULL, and
// a group that was freed before, are left alone. No other thread uses the group meanwhile.
void treecast_group_free(struct treecast_group *group);

// Joins a group, and begins to receive. NULL if an option cannot be used. A sender that cannot be reached is told by
// treecast_receiver_wait.
//
// # Safety
// `options` is NULL, or points to options whose strings end with a zero.
struct treecast_receiver *treecast_receiver_join(const struct treecast_receiver_options *options);

// Reads the next event. Waits for at most `timeout_ms` milliseconds; a negative number waits until there is one. Returns 1 if there
// is an event, 0 if the session is over and all events have been read, -1 if none came in time, and -2 if the arguments cannot be
// used, or this is a function that the session calls.
//
// # Safety
// `event` is NULL, or points to an event that may be written.
int treecast_receiver_next_event(const struct treecast_receiver *receiver,
                                 struct treecast_receiver_event *event,
                                 int64_t timeout_ms);

// Waits for `period_ms` milliseconds, or until the session is over, and reads all events of that time: the batched notification
// of interdomain-2013, 4.3.1. Returns how many they are, and writes where they are to `events`. They are valid until the next event or batch
// of the receiver is read. Returns -1 if the session is over and all events have been read, and -2 if the arguments cannot be used, or
// this is a function that the session calls.
//
// # Safety
// `events` is NULL, or points to a pointer that may be written.
int64_t treecast_receiver_next_batch(const struct treecast_receiver *receiver,
                                     uint64_t period_ms,
                                     const struct treecast_receiver_event **events);

// Writes how far the receiver is. Returns 0, or -1 if the arguments cannot be used.
//
// # Safety
// `progress` is NULL, or points to a progress that may be written.
int treecast_receiver_get_progress(const struct treecast_receiver *receiver,
                                   struct treecast_receiver_progress *progress);

// Leaves the group. Complete objects stay. Returns 0, or -1 if `receiver` is none.
int treecast_receiver_leave(const struct treecast_receiver *receiver);

// Waits until the session is over. Returns 0 if nothing failed and nothing was cut short, 1 if not, and -1 if nothing could be
// received, or this was called before, or is called by a function that the session calls, or `receiver` is none. `report` may be NULL.
//
// # Safety
// `report` is NULL, or points to a report that may be written.
int treecast_receiver_wait(const struct treecast_receiver *receiver,
                           struct treecast_receiver_report *report);

// Frees a receiver. If its session is not over, leaves the group and waits for the end, so that `accept` and `on_event` are not called
// any more. In one of these two, it does not wait: the function that runs is the last one. NULL, and a receiver that was freed before,
// are left alone.
void treecast_receiver_free(struct treecast_receiver *receiver);

// Listens for announced sessions (`announce` of a group's options, `treecast send --announce`) for `time_ms` milliseconds; 0: three
// seconds. `interfaces` are the names of the interfaces to listen on, an array that ends with NULL; NULL: all that are up. Calls
// `on_announced` for each, in this thread. Waits for the end of the time, or until the function returns false. Returns the number of
// sessions, or -1.
//
// # Safety
// `interfaces` is NULL, or points to an array of strings that end with a zero. NULL ends the array. `on_announced` may be called with
// this context.
int64_t treecast_discover(const char *const *interfaces,
                          uint64_t time_ms,
                          treecast_on_announced on_announced,
                          void *context);

// Gets the ticket of the sender on this network that offers it for a short code (treecast_group_code, `treecast send --code`), and
// writes it to `ticket`, which has room for `size` bytes. `interfaces` are those of treecast_discover. Waits for at most `time_ms`
// milliseconds; 0: half a minute. Returns the length of the ticket without the zero that ends it, or -1. 4,096 bytes are enough.
//
// # Safety
// `code` is NULL, or ends with a zero. `interfaces` is NULL, or points to an array of strings that end with a zero. NULL ends the
// array. `ticket` is NULL, or points to `size` bytes that may be written.
int64_t treecast_ask_code(const char *code,
                          const char *const *interfaces,
                          uint64_t time_ms,
                          char *ticket,
                          uintptr_t size);

// Starts a standing receiver. NULL if an option cannot be used. What it meets later is told by events, and by treecast_standing_wait.
//
// # Safety
// `options` is NULL, or points to options whose strings end with a zero, whose arrays of strings end with NULL, and whose `rules` are as
// many as `rule_count` says.
struct treecast_standing *treecast_standing_start(const struct treecast_standing_options *options);

// The public key of the receiver, which senders name to send to it. Valid as long as the standing receiver. NULL if `standing` is none.
const char *treecast_standing_key(const struct treecast_standing *standing);

// Reads the next event. Waits for at most `timeout_ms` milliseconds; a negative number waits until there is one. Returns 1 if there
// is an event, 0 if the receiver has ended and all events have been read, -1 if none came in time, and -2 if the arguments cannot be
// used.
//
// # Safety
// `event` is NULL, or points to an event that may be written.
int treecast_standing_next_event(const struct treecast_standing *standing,
                                 struct treecast_standing_event *event,
                                 int64_t timeout_ms);

// Asks a standing receiver to end. What is under way is taken up again by the next start with the same `state`. Returns at once:
// treecast_standing_wait waits for the end. Returns 0, or -1 if `standing` is none.
int treecast_standing_stop(const struct treecast_standing *standing);

// Waits until a standing receiver has ended. Returns 0, or -1 if it could not run, or this was called before, or `standing` is none.
int treecast_standing_wait(const struct treecast_standing *standing);

// Frees a standing receiver. If it has not ended, stops it and waits for its end. NULL, and one that was freed before, are left alone.
void treecast_standing_free(struct treecast_standing *standing);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TREECAST_H */
