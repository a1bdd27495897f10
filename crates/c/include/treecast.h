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
  const char *session_file;
  // The options of a carousel, which sends the paths again and again to those who come at any time, and hears nothing of them.
  // NULL: no carousel.
  const struct treecast_carousel_options *carousel;
};

// The options of a group. Zero and NULL are the defaults: `struct treecast_group_options options = {0};`.
struct treecast_group_options {
  // The name of the network interface. NULL: the one of the route.
  const char *interface;
  // The number of receivers with which the session starts. 0: 1.
  uint32_t wait_for;
  // The time in milliseconds after which the session fails if fewer are there. 0: a minute; a carousel waits for ever.
  uint64_t wait_timeout_ms;
  // The rate, in bits of IP packets a second. 0: what the path to the worst receiver delivers; a carousel goes as fast as it can.
  uint64_t rate_bps;
  // Whether packets go as fast as the slowest receiver takes them, whatever other traffic there is. rate_bps is not used.
  bool rate_max;
  // The retransmission factor of objects that have none of their own. 0: no limit.
  double retransmission_factor;
  // The multicast group's address. NULL: a random one.
  const char *address;
  // The multicast group's UDP port. 0: a random one.
  uint16_t port;
  // Whether each receiver gets a copy, in place of multicast.
  bool unicast;
  // Whether nothing is encrypted, and nobody proves their identity.
  bool plain;
  // The sender's key: its name (`treecast keys`) or its file. NULL: one that is made for the session.
  const char *key;
  // The file with the public keys of the receivers that are admitted. NULL: everybody who has the ticket.
  const char *admit;
  // The level, 1 to 19, at which objects are compressed by zstd. 0: not at all.
  int32_t compression;
  // What the session sends by itself. Zeros: what the program sends.
  struct treecast_source source;
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
// So it must return soon, and must not call treecast_receiver_wait and treecast_receiver_free. The event and its pointers are valid
// until it returns. `context` is that of the options.
typedef void (*treecast_on_event)(const struct treecast_receiver_event *event, void *context);

// The options of a receiver. Zero and NULL are the defaults, but `ticket` is needed:
// `struct treecast_receiver_options options = {.ticket = ticket};`.
struct treecast_receiver_options {
  // The ticket of the group: the text, or @ and the path of a file with it.
  const char *ticket;
  // The folder for what comes; it is made if it is missing. NULL: objects come in memory, with the event.
  const char *folder;
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

// The ticket with which receivers join: a line of text. Valid as long as the group.
//
// # Safety
// `group` comes from treecast_group_start, and was not freed.
const char *treecast_group_ticket(const struct treecast_group *group);

// Sends a file, which must not change until it is done. `name` is its name at receivers; NULL: its own. Requests for
// retransmissions are answered for `factor` times as long as its multicast takes; a negative factor is the group's. Returns the
// object's number, or -1.
//
// # Safety
// `group` comes from treecast_group_start, and was not freed. `path` and `name` end with a zero; `name` may be NULL.
int64_t treecast_send_file(const struct treecast_group *group,
                           const char *path,
                           const char *name,
                           double factor);

// Sends `length` bytes from where they are, under a name. They must neither change nor be freed until the event
// TREECAST_GROUP_EVENT_KIND_DONE of this object is read, or treecast_group_free returns. `factor` is that of treecast_send_file.
// Returns the object's number, or -1.
//
// # Safety
// `group` comes from treecast_group_start, and was not freed. `name` ends with a zero. `data` points to `length` bytes that stay as
// they are until the object is done.
int64_t treecast_send_memory(const struct treecast_group *group,
                             const char *name,
                             const void *data,
                             uintptr_t length,
                             double factor);

// Reads the next event. Waits for at most `timeout_ms` milliseconds; a negative number waits until there is one. Returns 1 if there
// is an event, 0 if the session is over and all events have been read, and -1 if none came in time.
//
// # Safety
// `group` comes from treecast_group_start, and was not freed. `event` points to an event that may be written.
int treecast_group_next_event(const struct treecast_group *group,
                              struct treecast_group_event *event,
                              int64_t timeout_ms);

// Waits until another object can be sent, because fewer than 4,096 are not done, or the session is over.
//
// # Safety
// `group` comes from treecast_group_start, and was not freed.
void treecast_group_wait_for_room(const struct treecast_group *group);

// Writes how far the group is.
//
// # Safety
// `group` comes from treecast_group_start, and was not freed. `progress` points to a progress that may be written.
void treecast_group_get_progress(const struct treecast_group *group,
                                 struct treecast_group_progress *progress);

// Takes no more objects. The session ends when all receivers have ended with all objects.
//
// # Safety
// `group` comes from treecast_group_start, and was not freed.
void treecast_group_close(const struct treecast_group *group);

// Stops the session. Receivers keep only what was complete. A feed begins no more files, and finishes those under way, for at most
// 30 s. Receivers of a session with a session file wait for it to go on. Returns at once; treecast_group_wait waits for the end.
//
// # Safety
// `group` comes from treecast_group_start, and was not freed.
void treecast_group_stop(const struct treecast_group *group);

// Waits until the session is over. Returns 0 if every receiver has every object that it wanted, 1 if not, and -1 if nothing could be
// sent, or this was called before. `report` may be NULL.
//
// # Safety
// `group` comes from treecast_group_start, and was not freed. `report` is NULL, or points to a report that may be written.
int treecast_group_wait(const struct treecast_group *group,
                        struct treecast_group_report *report);

// Frees a group. If its session is not over, stops it and waits for its end; receivers then keep only what was complete.
//
// # Safety
// `group` is NULL, or comes from treecast_group_start and was not freed. No other thread uses it.
void treecast_group_free(struct treecast_group *group);

// Joins a group, and begins to receive. NULL if an option cannot be used. A sender that cannot be reached is told by
// treecast_receiver_wait.
//
// # Safety
// `options` points to options whose strings end with a zero.
struct treecast_receiver *treecast_receiver_join(const struct treecast_receiver_options *options);

// Reads the next event. Waits for at most `timeout_ms` milliseconds; a negative number waits until there is one. Returns 1 if there
// is an event, 0 if the session is over and all events have been read, and -1 if none came in time.
//
// # Safety
// `receiver` comes from treecast_receiver_join, and was not freed. `event` points to an event that may be written.
int treecast_receiver_next_event(const struct treecast_receiver *receiver,
                                 struct treecast_receiver_event *event,
                                 int64_t timeout_ms);

// Waits for `period_ms` milliseconds, or until the session is over, and reads all events of that time: the batched notification
// of interdomain-2013, 4.3.1. Returns how many they are, and writes where they are to `events`. They are valid until the next event or batch
// of the receiver is read. Returns -1 if the session is over and all events have been read.
//
// # Safety
// `receiver` comes from treecast_receiver_join, and was not freed. `events` points to a pointer that may be written.
int64_t treecast_receiver_next_batch(const struct treecast_receiver *receiver,
                                     uint64_t period_ms,
                                     const struct treecast_receiver_event **events);

// Writes how far the receiver is.
//
// # Safety
// `receiver` comes from treecast_receiver_join, and was not freed. `progress` points to a progress that may be written.
void treecast_receiver_get_progress(const struct treecast_receiver *receiver,
                                    struct treecast_receiver_progress *progress);

// Leaves the group. Complete objects stay.
//
// # Safety
// `receiver` comes from treecast_receiver_join, and was not freed.
void treecast_receiver_leave(const struct treecast_receiver *receiver);

// Waits until the session is over. Returns 0 if nothing failed and nothing was cut short, 1 if not, and -1 if nothing could be
// received, or this was called before. `report` may be NULL.
//
// # Safety
// `receiver` comes from treecast_receiver_join, and was not freed. `report` is NULL, or points to a report that may be written.
int treecast_receiver_wait(const struct treecast_receiver *receiver,
                           struct treecast_receiver_report *report);

// Frees a receiver. If its session is not over, leaves the group and waits for the end.
//
// # Safety
// `receiver` is NULL, or comes from treecast_receiver_join and was not freed. No other thread uses it.
void treecast_receiver_free(struct treecast_receiver *receiver);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TREECAST_H */
