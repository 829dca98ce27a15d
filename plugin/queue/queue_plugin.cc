/* The plugin: what it declares to the server, SHOW ENGINE QUEUE STATUS, and collations for the core. */
#include "queue_server.h"

#include <string>

#include "sql_plugin.h"
#include "create_options.h"
#include <mysql/plugin_audit.h>

#include "ha_queue.h"
#include "queue_function.h"
#include "queue_recovery.h"
#include "queue_schedule.h"
#include "queue_schema.h"
#include "queue_transaction.h"

static ha_create_table_option queue_table_options[]= {
    HA_TOPTION_ENUM("sync", sync, "always,interval,none", 0),
    HA_TOPTION_NUMBER("tries", tries, 0, 0, UINT_MAX32, 1),
    HA_TOPTION_STRING("backoff", backoff),
    HA_TOPTION_STRING("dead", dead),
    HA_TOPTION_STRING("failed", failed),
    HA_TOPTION_STRING("why", why),
    HA_TOPTION_STRING("token", token),
    HA_TOPTION_STRING("due", due),
    HA_TOPTION_STRING("priority", priority),
    HA_TOPTION_NUMBER("age", age, 0, 0, 31536000, 1),
    HA_TOPTION_STRING("fifo", fifo),
    HA_TOPTION_NUMBER("concurrency", concurrency, 1, 1, 1000, 1),
    HA_TOPTION_STRING("dedupe", dedupe),
    HA_TOPTION_NUMBER("dedupe_for", dedupe_for, queue_dedupe_for, 0, 31536000, 1),
    HA_TOPTION_NUMBER("keep", keep, 0, 0, 315360000, 1),
    HA_TOPTION_STRING("rate", rate),
    HA_TOPTION_STRING("rate_key", rate_key),
    HA_TOPTION_STRING("readers", readers),
    HA_TOPTION_END};

static_assert(RQ_SYNC_ALWAYS == 0 && RQ_SYNC_INTERVAL == 1 && RQ_SYNC_NONE == 2, "the order of these words");

/* SHOW ENGINE QUEUE STATUS
   ----------------------------------------------------------------------------------------- */

/* A counter of the core, and the name under which it is shown. */
struct Shown {
  const char *name;
  uint64_t rq_status::*value;
};

static const Shown shown_queues[]= {
    {"waiting", &rq_status::waiting},
    {"owned", &rq_status::owned},
    {"leased", &rq_status::leased},
    {"delayed", &rq_status::delayed},
    {"dead", &rq_status::dead},
    {"behind", &rq_status::behind},
    {"keys_busy", &rq_status::keys_busy},
    {"keys_paused", &rq_status::keys_paused},
    {"transactions", &rq_status::transactions},
    {"prepared", &rq_status::prepared},
    {"in_doubt", &rq_status::in_doubt},
    {"kept", &rq_status::kept},
    {"waiters", &rq_status::waiters},
    {"paused", &rq_status::paused},
    {"bytes", &rq_status::bytes},
    {"bytes_live", &rq_status::live_bytes},
    {"bytes_kept", &rq_status::kept_bytes},
    {"memory", &rq_status::memory},
    {"written_per_second", &rq_status::written_per_s},
    {"removed_per_second", &rq_status::removed_per_s}};

static const Shown shown_log[]= {
    {"append", &rq_status::batches},
    {"remove", &rq_status::removals},
    {"sys_read", &rq_status::reads},
    {"read_cachehit", &rq_status::read_hits},
    {"sys_write", &rq_status::writes},
    {"sys_sync", &rq_status::syncs},
    {"rows_written", &rq_status::rows_written},
    {"rows_removed", &rq_status::rows_removed},
    {"compacted", &rq_status::compacted},
    {"checkpoints", &rq_status::checkpoints},
    {"maintenance_errors", &rq_status::maintenance_errors}};

static const Shown shown_waiting[]= {
    {"wait_immediate", &rq_status::wait_immediate},
    {"wait_delayed", &rq_status::wait_delayed},
    {"wait_timeout", &rq_status::wait_timeout},
    {"handed_over", &rq_status::handed_over},
    {"restored_by_abort", &rq_status::restored_by_abort},
    {"restored_by_close", &rq_status::restored_by_close},
    {"evaluation", &rq_status::evaluations},
    {"compile", &rq_status::compiles},
    {"compile_cachehit", &rq_status::compile_hits},
    {"duplicates", &rq_status::duplicates},
    {"left_out", &rq_status::left_out},
    {"replayed", &rq_status::replayed},
    {"leases", &rq_status::leases},
    {"leases_expired", &rq_status::leases_expired},
    {"leases_failed", &rq_status::leases_failed},
    {"leases_refused", &rq_status::leases_refused},
    {"tries_cut", &rq_status::tries_cut},
    {"buried", &rq_status::dead_lettered}};

/* All but the time of the oldest row, which has no meaning for several queues together. */
static_assert(sizeof(rq_status) == sizeof(uint64_t) * (1 + array_elements(shown_queues) + array_elements(shown_log) +
                                                       array_elements(shown_waiting) + 2 * RQ_CLASSES),
              "a number of rq_status is not shown");

/* The end of a class of times, as in `waited_10ms`. */
static std::string class_name(const char *kind, size_t of)
{
  const ulonglong end= rq_class_end(of);
  if (!end)
    return std::string(kind) + "_longer";
  static const struct {
    ulonglong ms;
    const char *name;
  } units[]= {{86400000, "d"}, {3600000, "h"}, {60000, "min"}, {1000, "s"}, {1, "ms"}};
  const auto *unit= units;
  while (end % unit->ms)
    unit++;
  return std::string(kind) + "_" + std::to_string(end / unit->ms) + unit->name;
}

static bool queue_show_status(handlerton *, THD *thd, stat_print_fn *print, enum ha_stat_type type)
{
  if (type != HA_ENGINE_STATUS)
    return false;
  rq_status sum{};
  rq_get_total(&sum);
  std::string text;
  auto line= [&text](const char *name, ulonglong value) {
    char buffer[80];
    snprintf(buffer, sizeof(buffer), "%-24s%llu\n", name, value);
    text+= buffer;
  };
  text+= "Queues\n";
  for (const Shown &shown : shown_queues)
    line(shown.name, sum.*shown.value);
  text+= "Log\n";
  for (const Shown &shown : shown_log)
    line(shown.name, sum.*shown.value);
  text+= "Waiting\n";
  for (const Shown &shown : shown_waiting)
    line(shown.name, sum.*shown.value);
  text+= "Times\n";
  for (size_t of= 0; of < RQ_CLASSES; of++)
    line(class_name("waited", of).c_str(), sum.waited[of]);
  for (size_t of= 0; of < RQ_CLASSES; of++)
    line(class_name("worked", of).c_str(), sum.worked[of]);
  text+= "Functions\n";
  line("queue_wait", queue_called.wait);
  line("queue_end", queue_called.end);
  line("queue_abort", queue_called.abort);
  line("queue_rowid", queue_called.rowid);
  line("queue_set_srcid", queue_called.set_srcid);
  line("queue_lease", queue_called.lease);
  line("tokens", queue_called.token);
  return print(thd, STRING_WITH_LEN("QUEUE"), "", 0, text.data(), static_cast<uint>(text.size()));
}

/* Collations for the core
   ------------------------------------------------------------------------------------------ */

static int server_equal(uint32_t collation, rq_slice one, rq_slice other)
{
  CHARSET_INFO *cs= get_charset(collation, MYF(0));
  return cs && !cs->strnncollsp(one.bytes, one.len, other.bytes, other.len);
}

static long server_encode(uint32_t collation, rq_slice literal, unsigned char *out, size_t room)
{
  CHARSET_INFO *cs= get_charset(collation, MYF(0));
  if (!cs)
    return -1;
  uint errors= 0;
  uint32 length= my_convert(reinterpret_cast<char *>(out), static_cast<uint32>(room), cs,
                            reinterpret_cast<const char *>(literal.bytes), static_cast<uint32>(literal.len),
                            &my_charset_utf8mb4_bin, &errors);
  return errors ? -1 : static_cast<long>(length);
}

static int server_like(uint32_t collation, rq_slice text, int padded, rq_slice pattern, uint32_t escape)
{
  CHARSET_INFO *cs= get_charset(collation, MYF(0));
  const auto chars= [](const uchar *bytes) { return reinterpret_cast<const char *>(bytes); };
  const int sign= static_cast<int>(escape);
  if (cs && padded)
    text.len= cs->lengthsp(chars(text.bytes), text.len);
  return cs && !cs->wildcmp(chars(text.bytes), chars(text.bytes + text.len), chars(pattern.bytes),
                            chars(pattern.bytes + pattern.len), sign, sign == '_' ? -1 : '_', sign == '%' ? -1 : '%');
}

static long server_decode(uint32_t collation, rq_slice text, unsigned char *out, size_t room)
{
  CHARSET_INFO *cs= get_charset(collation, MYF(0));
  if (!cs)
    return -1;
  uint errors= 0;
  uint32 length= my_convert(reinterpret_cast<char *>(out), static_cast<uint32>(room), &my_charset_utf8mb4_bin,
                            reinterpret_cast<const char *>(text.bytes), static_cast<uint32>(text.len), cs, &errors);
  return errors ? -1 : static_cast<long>(length);
}

/* The plugin
   ------------------------------------------------------------------------------------------------------- */

static handler *queue_create_handler(handlerton *hton, TABLE_SHARE *table, MEM_ROOT *mem_root)
{
  return new (mem_root) ha_queue(hton, table);
}

static const char *queue_extensions[]= {NullS};

static void tell_log(rq_slice text)
{
  sql_print_error("Queue: %.*s", static_cast<int>(text.len), reinterpret_cast<const char *>(text.bytes));
}

/* BACKUP STAGE: queues are copied one after the other, and a row that goes from one to another meanwhile
   could be in none of the copies. */
static void queue_prepare_for_backup()
{
  rq_pause_dead_letters(1);
}

static void queue_end_backup()
{
  rq_pause_dead_letters(0);
}

static int queue_init(void *plugin)
{
  queue_hton= static_cast<handlerton *>(plugin);
  /* queue_wait() could not find a temporary table, and it takes rows from a table as a whole. */
  queue_hton->flags= HTON_TEMPORARY_NOT_SUPPORTED | HTON_NO_PARTITION;
  queue_hton->create= queue_create_handler;
  queue_hton->close_connection= queue_close_connection;
  queue_hton->kill_query= queue_kill_query;
  queue_hton->show_status= queue_show_status;
  queue_hton->table_options= queue_table_options;
  queue_hton->tablefile_extensions= queue_extensions;
  queue_hton->prepare_for_backup= queue_prepare_for_backup;
  queue_hton->end_backup= queue_end_backup;
  queue_set_transactions(queue_hton);
  queue_set_recovery(queue_hton);
  const char *fault= queue_fault();
  const rq_server server= {{reinterpret_cast<const uchar *>(fault), strlen(fault)}, tell_log, server_equal, server_encode,
                            server_like, server_decode};
  rq_error error;
  /* The core's threads must not handle the server's signals. */
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int code= rq_start(&server, queue_open_files(), &error);
  const bool has_scheduler= !code && queue_start_scheduler();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (code) {
    sql_print_error("Queue: %s", error.text);
    return code;
  }
  if (!has_scheduler)
    sql_print_error("Queue: schedules are not run until the next start: there is no thread for them");
  if (queue_recover_decided())
    return 0;
  sql_print_error("Queue: transactions that were committed before a crash can't be written. Remove the cause, such as a full "
                  "disk, and start the server again");
  queue_stop_scheduler();
  rq_stop();
  return 1;
}

static int queue_deinit(void *)
{
  queue_stop_scheduler();
  queue_hton= nullptr;
  return rq_stop();
}

static struct st_mysql_storage_engine queue_engine= {MYSQL_HANDLERTON_INTERFACE_VERSION};

static struct st_mysql_audit queue_audit= {
    MYSQL_AUDIT_INTERFACE_VERSION, nullptr, queue_command_ended, {MYSQL_AUDIT_GENERAL_CLASSMASK}};

static struct st_mysql_information_schema queue_schema= {MYSQL_INFORMATION_SCHEMA_INTERFACE_VERSION};

#define QUEUE_SCHEMA(NAME, WHAT, INIT)                                                                                 \
  {MYSQL_INFORMATION_SCHEMA_PLUGIN, &queue_schema, NAME, "remora", WHAT, PLUGIN_LICENSE_GPL, INIT, nullptr, 0x0001,    \
   nullptr, nullptr, "0.1", MariaDB_PLUGIN_MATURITY_GAMMA}

maria_declare_plugin(queue)
{
  MYSQL_STORAGE_ENGINE_PLUGIN, &queue_engine, "QUEUE", "remora", "A queue that is a table", PLUGIN_LICENSE_GPL,
      queue_init, queue_deinit, 0x0001, nullptr, queue_variables, "0.1", MariaDB_PLUGIN_MATURITY_GAMMA
},
{
  MYSQL_AUDIT_PLUGIN, &queue_audit, "QUEUE_RESET", "remora", "Gives rows of queues back when a connection is reset",
      PLUGIN_LICENSE_GPL, nullptr, nullptr, 0x0001, nullptr, nullptr, "0.1", MariaDB_PLUGIN_MATURITY_GAMMA
},
QUEUE_SCHEMA("QUEUES", "What is in queues", queue_schema_queues_init),
QUEUE_SCHEMA("QUEUE_OWNED", "Rows of queues that somebody owns", queue_schema_owned_init),
QUEUE_SCHEMA("QUEUE_READERS", "What readers of queues have before them", queue_schema_readers_init),
QUEUE_SCHEMA("QUEUE_TIMES", "How long rows of queues waited and were worked on", queue_schema_times_init)
maria_declare_plugin_end;
