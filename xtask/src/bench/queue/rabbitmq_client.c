/*
  The leanest client that there is for RabbitMQ: librabbitmq, a thread for each connection.

  rabbitmq_client PORT MODE CONNECTIONS SECONDS BATCH COUNT

  "publish" publishes BATCH messages to the quorum queue `bench` and waits until all of them are confirmed; "take" fetches as
  many ahead, and acknowledges BATCH messages with one acknowledgement, which the server does not answer. Ends when the time is
  over or all connections together had COUNT messages. Prints messages and seconds.
*/
#include "clients.h"
#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_tcp_socket.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define BODY 80
#define BATCH_MAX 1000

static int port, takes, batch;

static void fail(const char *what)
{
  fprintf(stderr, "RabbitMQ: %s failed\n", what);
  exit(1);
}

static void check(amqp_connection_state_t link, const char *what)
{
  if (amqp_get_rpc_reply(link).reply_type != AMQP_RESPONSE_NORMAL)
    fail(what);
}

static amqp_connection_state_t connect_to(void)
{
  amqp_connection_state_t link = amqp_new_connection();
  amqp_socket_t *socket = amqp_tcp_socket_new(link);
  if (!socket || amqp_socket_open(socket, "127.0.0.1", port))
    fail("connecting");
  if (amqp_login(link, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest").reply_type != AMQP_RESPONSE_NORMAL)
    fail("the login");
  amqp_channel_open(link, 1);
  check(link, "opening a channel");
  amqp_table_entry_t type = {.key = amqp_cstring_bytes("x-queue-type"),
                             .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes("quorum")}};
  const amqp_table_t arguments = {1, &type};
  amqp_queue_declare(link, 1, amqp_cstring_bytes("bench"), 0, 1, 0, 0, arguments);
  check(link, "declaring the queue");
  return link;
}

/* Publishes a batch; the first message of a channel has the tag 1. */
static void publish(amqp_connection_state_t link, uint64_t first)
{
  static const char body[BODY + 1] = "00000000000000000000000000000000000000000000000000000000000000000000000000000000";
  const amqp_basic_properties_t lasting = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG, .delivery_mode = 2};
  const amqp_bytes_t bytes = {BODY, (void *) body};
  char confirmed[BATCH_MAX] = {0};
  for (int i = 0; i < batch; i++)
    if (amqp_basic_publish(link, 1, amqp_empty_bytes, amqp_cstring_bytes("bench"), 0, 0, &lasting, bytes))
      fail("publishing");
  for (int missing = batch; missing;) {
    amqp_frame_t frame;
    if (amqp_simple_wait_frame(link, &frame) || frame.frame_type != AMQP_FRAME_METHOD
        || frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
      fail("a confirmation");
    const amqp_basic_ack_t *ack = frame.payload.method.decoded;
    const uint64_t last = ack->delivery_tag - first;
    for (uint64_t i = ack->multiple ? 0 : last; i <= last; i++)
      if (!confirmed[i]) {
        confirmed[i] = 1;
        missing--;
      }
    amqp_maybe_release_buffers(link);
  }
}

/* Takes a batch. */
static void take(amqp_connection_state_t link)
{
  for (int i = 0; i < batch; i++) {
    amqp_envelope_t envelope;
    struct timeval patience = {10, 0};
    amqp_maybe_release_buffers(link);
    if (amqp_consume_message(link, &envelope, &patience, 0).reply_type != AMQP_RESPONSE_NORMAL)
      fail("waiting for a message");
    if (i == batch - 1 && amqp_basic_ack(link, 1, envelope.delivery_tag, 1))
      fail("an acknowledgement");
    amqp_destroy_envelope(&envelope);
  }
}

static void *worker(void *unused)
{
  (void) unused;
  amqp_connection_state_t link = connect_to();
  if (takes) {
    amqp_basic_qos(link, 1, 0, (uint16_t) batch, 0);
    check(link, "limiting what is fetched");
  } else {
    amqp_confirm_select(link, 1);
    check(link, "asking for confirmations");
  }
  pthread_barrier_wait(&start);
  if (takes) {
    amqp_basic_consume(link, 1, amqp_cstring_bytes("bench"), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    check(link, "consuming");
  }
  const double until = now() + seconds;
  for (uint64_t first = 1; now() < until; first += batch) {
    if (takes)
      take(link);
    else
      publish(link, first);
    if (__atomic_add_fetch(&had, batch, __ATOMIC_RELAXED) >= wanted)
      break;
  }
  amqp_destroy_connection(link);
  return NULL;
}

int main(int argc, char **argv)
{
  if (argc < 7)
    return 2;
  port = atoi(argv[1]);
  takes = !strcmp(argv[2], "take");
  const int connections = atoi(argv[3]);
  seconds = atof(argv[4]);
  batch = atoi(argv[5]);
  wanted = atol(argv[6]);
  if (batch < 1 || batch > BATCH_MAX)
    return 2;
  run_all(connections, worker);
  return 0;
}
