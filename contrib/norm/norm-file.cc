/*
 * Sends one file to a multicast group with NORM (RFC 5740), or receives one, with NORM's congestion control:
 *
 *     c++ -O2 -o norm-file norm-file.cc -lnorm      (apt-get install libnorm-dev)
 *     norm-file receive INTERFACE GROUP PORT FOLDER
 *     norm-file send INTERFACE GROUP PORT FILE
 *
 * The header of NORM 1.5 is one of C++. Debian has NORM's library, but no program that delivers files. Both sides run until they are
 * killed, so start them with timeout. A receiver prints, once a second, how many bytes of its file it has: "received BYTES".
 */
#include <normApi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

/* Bytes that a sender or receiver may keep, and its socket's buffer. */
enum { MEMORY_BYTES = 64 << 20, SOCKET_BYTES = 16 << 20 };
/* Payload of a packet in bytes, blocks of packets, and the repair packets that can be made for each block. */
enum { SEGMENT_BYTES = 1400, BLOCK_PACKETS = 64, PARITY_PACKETS = 16 };
/* A packet may pass so many routers. */
enum { HOPS = 32 };

static int fail(const char *what)
{
    fprintf(stderr, "norm-file: %s\n", what);
    return 1;
}

/* Bytes of the file that have come. */
static NormSize received(NormObjectHandle object)
{
    return object == NORM_OBJECT_INVALID ? 0 : NormObjectGetSize(object) - NormObjectGetBytesPending(object);
}

int main(int count, char **words)
{
    if (count != 6)
        return fail("expected: send|receive INTERFACE GROUP PORT FILE|FOLDER");
    int sends = strcmp(words[1], "send") == 0;
    NormInstanceHandle instance = NormCreateInstance();
    NormSessionHandle session = NormCreateSession(instance, words[3], (unsigned short)atoi(words[4]), (NormNodeId)getpid());
    if (session == NORM_SESSION_INVALID)
        return fail("no session: name a multicast group and a port");
    NormSetMulticastInterface(session, words[2]);
    NormSetTTL(session, HOPS);
    if (sends) {
        NormSetCongestionControl(session, true, true);
        if (!NormStartSender(session, (NormSessionId)getpid(), MEMORY_BYTES, SEGMENT_BYTES, BLOCK_PACKETS, PARITY_PACKETS, 0))
            return fail("the sender did not start");
        NormSetTxSocketBuffer(session, SOCKET_BYTES);
        if (NormFileEnqueue(session, words[5], "file", 4) == NORM_OBJECT_INVALID)
            return fail("the file cannot be sent: name one that can be read");
    } else {
        NormSetCacheDirectory(instance, words[5]);
        if (!NormStartReceiver(session, MEMORY_BYTES))
            return fail("the receiver did not start");
        NormSetRxSocketBuffer(session, SOCKET_BYTES);
    }
    NormObjectHandle object = NORM_OBJECT_INVALID;
    int descriptor = NormGetDescriptor(instance);
    time_t told = 0;
    for (;;) {
        fd_set ready;
        FD_ZERO(&ready);
        FD_SET(descriptor, &ready);
        struct timeval second = { 1, 0 };
        if (select(descriptor + 1, &ready, NULL, NULL, &second) > 0) {
            NormEvent event;
            if (NormGetNextEvent(instance, &event, false) && event.type == NORM_RX_OBJECT_NEW)
                object = event.object;
        }
        if (!sends && time(NULL) != told) {
            told = time(NULL);
            printf("received %lld\n", (long long)received(object));
            fflush(stdout);
        }
    }
}
