/*
  The leanest client that there is for statements in the text protocol: libmariadb, a thread for each connection.

  queue_client SOCKET TABLE MODE CONNECTIONS SECONDS [COUNT]

  Every connection repeats what MODE says until the time is over or COUNT messages were had by all of them together. TABLE is
  the queue, in the database bench.
  Prints messages, seconds and, for "handoff", microseconds at the median and at 99 of 100.
*/
#include "clients.h"
#include <mariadb/mysql.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char *socket_path, *table, *mode;

static void fail(MYSQL *link, const char *sql)
{
  fprintf(stderr, "%.100s: %s\n", sql, mysql_error(link));
  exit(1);
}

static MYSQL *connect_to(void)
{
  MYSQL *link = mysql_init(NULL);
  if (!mysql_real_connect(link, NULL, "root", NULL, "bench", 0, socket_path, 0))
    fail(link, "connect");
  return link;
}

/* Runs a statement; returns its rows, and puts the first value of the last one into `value`. */
static long run(MYSQL *link, const char *sql, char *value)
{
  if (mysql_real_query(link, sql, strlen(sql)))
    fail(link, sql);
  if (value)
    value[0] = 0;
  if (!mysql_field_count(link))
    return 0;
  MYSQL_RES *result = mysql_use_result(link);
  MYSQL_ROW row;
  long rows = 0;
  while ((row = mysql_fetch_row(result))) {
    rows++;
    if (value && row[0])
      snprintf(value, 64, "%s", row[0]);
  }
  if (mysql_errno(link))
    fail(link, sql);
  mysql_free_result(result);
  return rows;
}

static char *rows_of(int rows)
{
  char *sql = malloc(128 + rows * 120), *at = sql + sprintf(sql, "INSERT INTO %s (v, body) VALUES ", table);
  for (int i = 0; i < rows; i++)
    at += sprintf(at, "%s(%d,'%080d')", i ? "," : "", i, i);
  return sql;
}

/* One message of InnoDB, as its users take them; 0 when there is none. */
static long skip_locked(MYSQL *link)
{
  char id[64], sql[128];
  run(link, "BEGIN", NULL);
  long rows = run(link, "SELECT id, body FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED", id);
  if (rows) {
    snprintf(sql, sizeof(sql), "DELETE FROM jobs WHERE id = %s", id);
    run(link, sql, NULL);
  }
  run(link, "COMMIT", NULL);
  return rows;
}

/* Leases up to so many messages as JSON and, unless `kept`, ends them; 0 when there are none. */
static long lease(MYSQL *link, int rows, int kept)
{
  static __thread char sql[1 << 16];
  snprintf(sql, sizeof(sql), "SELECT queue_lease_json(3600, %d, '%s', 0)", rows, table);
  if (mysql_real_query(link, sql, strlen(sql)))
    fail(link, sql);
  MYSQL_RES *result = mysql_store_result(link);
  const MYSQL_ROW row = mysql_fetch_row(result);
  static const char before[] = "\"token\":\"";
  char *to = sql + sprintf(sql, "SELECT queue_ack('");
  long got = 0;
  for (const char *at = row[0]; (at = strstr(at, before)); got++) {
    at += sizeof(before) - 1;
    const long len = strchr(at, '"') - at;
    to += sprintf(to, "%s%.*s", got ? "," : "", (int) len, at);
  }
  mysql_free_result(result);
  if (!got || kept)
    return got;
  sprintf(to, "')");
  char value[64];
  run(link, sql, value);
  if (atol(value) != got) {
    fprintf(stderr, "%s of %ld tokens were good\n", value, got);
    exit(1);
  }
  return got;
}

/* One small change of InnoDB, each in a row of its own as a rule, after `select` if there is one: both or neither. 0 when that had
   no row. */
static long update(MYSQL *link, const char *select)
{
  static __thread unsigned seed;
  char sql[128];
  if (!seed)
    seed = (unsigned) (uintptr_t) link;
  long rows = 1;
  run(link, "BEGIN", NULL);
  if (select)
    rows = run(link, select, NULL);
  if (rows) {
    snprintf(sql, sizeof(sql), "UPDATE work SET n = n + 1 WHERE id = %d", rand_r(&seed) % 100000 + 1);
    run(link, sql, NULL);
  }
  run(link, "COMMIT", NULL);
  return rows;
}

/* A row, and a function that does nothing. */
static const char floor_select[] = "SELECT * FROM memory WHERE queue_end()";

/* What one round brings; -1 when there is nothing more. */
static long round_of(MYSQL *link, const char *insert, int rows)
{
  char value[64], sql[128];
  long got;
  if (!strcmp(mode, "select1"))
    return run(link, "SELECT 1", NULL);
  if (!strcmp(mode, "row"))
    return run(link, "SELECT * FROM single", NULL);
  if (!strcmp(mode, "memory"))
    return run(link, "SELECT * FROM memory", NULL);
  if (!strcmp(mode, "floor"))
    return run(link, floor_select, NULL);
  if (!strcmp(mode, "function"))
    return run(link, "SELECT queue_ack('', '', '', '')", NULL);
  if (!strcmp(mode, "answer"))
    return run(link, "SELECT IF(queue_ack('', '', '', ''), '', @answer)", NULL);
  if (!strcmp(mode, "floor2")) {
    run(link, "SELECT queue_end()", value);
    return run(link, "SELECT * FROM memory", NULL);
  }
  if (!strcmp(mode, "update"))
    return update(link, NULL);
  if (!strcmp(mode, "selectupdate"))
    return update(link, floor_select);
  if (!strncmp(mode, "publish", 7)) {
    run(link, insert, NULL);
    return rows;
  }
  if (!strcmp(mode, "one") || !strcmp(mode, "takeupdate")) {
    snprintf(sql, sizeof(sql), "SELECT * FROM %s WHERE queue_wait('%s', 0)", table, table);
    got = !strcmp(mode, "one") ? run(link, sql, NULL) : update(link, sql);
  } else if (!strcmp(mode, "two")) {
    snprintf(sql, sizeof(sql), "SELECT queue_wait('%s', 0)", table);
    run(link, sql, value);
    snprintf(sql, sizeof(sql), "SELECT * FROM %s", table);
    got = value[0] == '1' ? run(link, sql, NULL) : 0;
  } else if (!strcmp(mode, "batch")) {
    snprintf(sql, sizeof(sql), "SELECT * FROM %s WHERE queue_wait_n(100, '%s', 0)", table, table);
    got = run(link, sql, NULL);
  } else if (!strcmp(mode, "skip"))
    got = skip_locked(link);
  else if (!strcmp(mode, "hold"))
    got = lease(link, 100, 1);
  else
    got = lease(link, !strcmp(mode, "lease100") ? 100 : 1, !strcmp(mode, "lease"));
  return got ? got : -1;
}

static void *worker(void *unused)
{
  (void) unused;
  MYSQL *link = connect_to();
  const int rows = !strcmp(mode, "publish100") ? 100 : 1;
  char *insert = rows_of(rows);
  /* As many bytes as a message that is leased. */
  if (!strcmp(mode, "answer"))
    run(link, "SET @answer = REPEAT('x', 162)", NULL);
  if (!strcmp(mode, "skip"))
    run(link, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", NULL);
  pthread_barrier_wait(&start);
  const double until = now() + seconds;
  for (long turn = 0;; turn++) {
    long got = round_of(link, insert, rows);
    if (got < 0)
      break;
    if (__atomic_add_fetch(&had, got, __ATOMIC_RELAXED) >= wanted)
      break;
    if ((turn & 15) == 0 && now() > until)
      break;
  }
  mysql_close(link);
  return NULL;
}

static int ascending(const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;
  return (x > y) - (x < y);
}

/* A waiter: each message carries the time at which its INSERT was sent. */
static double *delays;
static long delayed;

static void *waiter(void *unused)
{
  (void) unused;
  MYSQL *link = connect_to();
  char sent[64];
  pthread_barrier_wait(&start);
  char sql[128];
  snprintf(sql, sizeof(sql), "SELECT body FROM %s WHERE queue_wait('%s', 5)", table, table);
  while (delayed < wanted && run(link, sql, sent)) {
    const double delay = now() - atof(sent);
    delays[delayed] = delay * 1e6;
    __atomic_add_fetch(&delayed, 1, __ATOMIC_RELEASE);
  }
  mysql_close(link);
  return NULL;
}

static int handoff(void)
{
  pthread_t thread;
  char sql[128];
  delays = calloc(wanted, sizeof(*delays));
  pthread_barrier_init(&start, NULL, 2);
  pthread_create(&thread, NULL, waiter, NULL);
  MYSQL *link = connect_to();
  pthread_barrier_wait(&start);
  for (long nth = 0; nth < wanted; nth++) {
    /* Until it waits again, so that the message is handed over and not found. */
    while (__atomic_load_n(&delayed, __ATOMIC_ACQUIRE) < nth)
      ;
    char waiters[64];
    snprintf(sql, sizeof(sql), "SELECT waiters FROM information_schema.queues WHERE table_name = '%s'", table);
    do
      run(link, sql, waiters);
    while (waiters[0] != '1');
    snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES (1, '%.9f')", table, now());
    run(link, sql, NULL);
  }
  pthread_join(thread, NULL);
  qsort(delays, delayed, sizeof(*delays), ascending);
  printf("%ld 0 %.1f %.1f\n", delayed, delays[delayed / 2], delays[delayed * 99 / 100]);
  return 0;
}

int main(int argc, char **argv)
{
  if (argc < 6)
    return 2;
  socket_path = argv[1];
  table = argv[2];
  mode = argv[3];
  const int connections = atoi(argv[4]);
  seconds = atof(argv[5]);
  wanted = argc > 6 ? atol(argv[6]) : INT64_MAX;
  mysql_library_init(0, NULL, NULL);
  if (!strcmp(mode, "handoff"))
    return handoff();
  run_all(connections, worker);
  return 0;
}
