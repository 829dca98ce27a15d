/*
  information_schema.QUEUES: the queues that were used since the start, and their contents.
  information_schema.QUEUE_OWNED: the rows that somebody owns.
  information_schema.QUEUE_READERS: what each reader has before it.
  information_schema.QUEUE_TIMES: how long rows waited and were worked on.
*/
#include "queue_server.h"

#include <string>
#include <vector>

#include "sql_i_s.h"
#include "sql_show.h"
#include "sql_table.h"
#include "sql_acl.h"
#include "sql_parse.h"
#include "tztime.h"

#include "queue_opened.h"
#include "queue_schema.h"

namespace Show {

static ST_FIELD_INFO queues_fields[]= {Column("TABLE_SCHEMA", Varchar(NAME_CHAR_LEN), NOT_NULL),
                                       Column("TABLE_NAME", Varchar(NAME_CHAR_LEN), NOT_NULL),
                                       Column("WAITING", ULonglong(), NOT_NULL),
                                       Column("OWNED", ULonglong(), NOT_NULL),
                                       Column("OLDEST", Datetime(0), NULLABLE),
                                       Column("WAITERS", ULonglong(), NOT_NULL),
                                       Column("BYTES", ULonglong(), NOT_NULL),
                                       Column("LIVE_BYTES", ULonglong(), NOT_NULL),
                                       Column("MEMORY", ULonglong(), NOT_NULL),
                                       Column("ROWS_WRITTEN", ULonglong(), NOT_NULL),
                                       Column("ROWS_REMOVED", ULonglong(), NOT_NULL),
                                       Column("BATCHES", ULonglong(), NOT_NULL),
                                       Column("OLDEST_AGE", ULonglong(), NULLABLE),
                                       Column("WRITTEN_PER_SECOND", ULonglong(), NOT_NULL),
                                       Column("REMOVED_PER_SECOND", ULonglong(), NOT_NULL),
                                       Column("LEASED", ULonglong(), NOT_NULL),
                                       Column("DUE_LATER", ULonglong(), NOT_NULL),
                                       Column("LEASES_EXPIRED", ULonglong(), NOT_NULL),
                                       Column("LEASES_FAILED", ULonglong(), NOT_NULL),
                                       Column("TRIES_CUT", ULonglong(), NOT_NULL),
                                       Column("DEAD", ULonglong(), NOT_NULL),
                                       Column("BURIED", ULonglong(), NOT_NULL),
                                       Column("BEHIND", ULonglong(), NOT_NULL),
                                       Column("LEFT_OUT", ULonglong(), NOT_NULL),
                                       Column("KEPT", ULonglong(), NOT_NULL),
                                       Column("KEPT_BYTES", ULonglong(), NOT_NULL),
                                       Column("REPLAYED", ULonglong(), NOT_NULL),
                                       Column("KEYS_BUSY", ULonglong(), NOT_NULL),
                                       Column("TRANSACTIONS", ULonglong(), NOT_NULL),
                                       Column("PREPARED", ULonglong(), NOT_NULL),
                                       Column("IN_DOUBT", ULonglong(), NOT_NULL),
                                       Column("PAUSED", ULonglong(), NOT_NULL),
                                       Column("KEYS_PAUSED", ULonglong(), NOT_NULL),
                                       Column("SYNCS", ULonglong(), NOT_NULL),
                                       CEnd()};

static ST_FIELD_INFO owned_fields[]= {Column("TABLE_SCHEMA", Varchar(NAME_CHAR_LEN), NOT_NULL),
                                      Column("TABLE_NAME", Varchar(NAME_CHAR_LEN), NOT_NULL),
                                      Column("READER", Varchar(NAME_CHAR_LEN), NOT_NULL),
                                      Column("ROW_ID", ULonglong(), NOT_NULL),
                                      Column("CONNECTION_ID", ULonglong(), NOT_NULL),
                                      Column("SINCE", Datetime(3), NOT_NULL),
                                      Column("UNTIL", Datetime(3), NULLABLE),
                                      Column("FAILED", ULonglong(), NOT_NULL),
                                      CEnd()};

static ST_FIELD_INFO readers_fields[]= {Column("TABLE_SCHEMA", Varchar(NAME_CHAR_LEN), NOT_NULL),
                                        Column("TABLE_NAME", Varchar(NAME_CHAR_LEN), NOT_NULL),
                                        Column("READER", Varchar(NAME_CHAR_LEN), NOT_NULL),
                                        Column("OLDEST", Datetime(0), NULLABLE),
                                        Column("OLDEST_AGE", ULonglong(), NULLABLE),
                                        Column("WAITING", ULonglong(), NOT_NULL),
                                        Column("OWNED", ULonglong(), NOT_NULL),
                                        Column("NEXT_ROW_ID", ULonglong(), NOT_NULL),
                                        CEnd()};

static ST_FIELD_INFO times_fields[]= {Column("TABLE_SCHEMA", Varchar(NAME_CHAR_LEN), NOT_NULL),
                                      Column("TABLE_NAME", Varchar(NAME_CHAR_LEN), NOT_NULL),
                                      Column("KIND", Varchar(NAME_CHAR_LEN), NOT_NULL),
                                      Column("BELOW_MS", ULonglong(), NULLABLE),
                                      Column("COUNT", ULonglong(), NOT_NULL),
                                      CEnd()};

} // namespace Show

/* Stands for NULL. */
static const ulonglong no_value= ULLONG_MAX;

/* A row of one of the tables. */
struct Line {
  std::vector<std::string> names; /* of the database, the table, and perhaps a reader or a kind of times */
  std::vector<ulonglong> values;
};

static Line line_of(rq_slice folder)
{
  const auto names= queue_names_of({reinterpret_cast<const char *>(folder.bytes), folder.len});
  return {{names.first, names.second}, {}};
}

static int collect_queue(void *context, rq_slice folder, const rq_status *status)
{
  Line line= line_of(folder);
  const ulonglong now= my_hrtime().val / 1000, oldest= status->oldest_ms;
  line.values= {status->waiting,
                status->owned,
                oldest ? oldest : no_value,
                status->waiters,
                status->bytes,
                status->live_bytes,
                status->memory,
                status->rows_written,
                status->rows_removed,
                status->batches,
                oldest ? (now - MY_MIN(now, oldest)) / 1000 : no_value,
                status->written_per_s,
                status->removed_per_s,
                status->leased,
                status->delayed,
                status->leases_expired,
                status->leases_failed,
                status->tries_cut,
                status->dead,
                status->dead_lettered,
                status->behind,
                status->left_out,
                status->kept,
                status->kept_bytes,
                status->replayed,
                status->keys_busy,
                status->transactions,
                status->prepared,
                status->in_doubt,
                status->paused,
                status->keys_paused,
                status->syncs};
  static_cast<std::vector<Line> *>(context)->push_back(line);
  return 0;
}

static int collect_owned(void *context, rq_slice folder, const rq_owned *owned)
{
  Line line= line_of(folder);
  line.names.emplace_back(reinterpret_cast<const char *>(owned->reader.bytes), owned->reader.len);
  line.values= {owned->row, owned->connection, owned->since_ms, owned->until_ms ? owned->until_ms : no_value,
                owned->failed};
  static_cast<std::vector<Line> *>(context)->push_back(line);
  return 0;
}

static int collect_reader(void *context, rq_slice folder, const rq_reader *reader)
{
  Line line= line_of(folder);
  line.names.emplace_back(reinterpret_cast<const char *>(reader->name.bytes), reader->name.len);
  const ulonglong now= my_hrtime().val / 1000, oldest= reader->oldest_ms;
  line.values= {oldest ? oldest : no_value, oldest ? (now - MY_MIN(now, oldest)) / 1000 : no_value, reader->waiting, reader->owned,
                reader->next};
  static_cast<std::vector<Line> *>(context)->push_back(line);
  return 0;
}

static int collect_times(void *context, rq_slice folder, const rq_status *status)
{
  const Line line= line_of(folder);
  const auto collect= [&](const char *kind, const uint64_t (&times)[RQ_CLASSES]) {
    for (size_t of= 0; of < RQ_CLASSES; of++) {
      Line one= line;
      one.names.emplace_back(kind);
      one.values= {rq_class_end(of) ? rq_class_end(of) : no_value, times[of]};
      static_cast<std::vector<Line> *>(context)->push_back(one);
    }
  };
  collect("waited", status->waited);
  collect("worked", status->worked);
  return 0;
}

/* The values from index `time` to `last` are times in milliseconds since 1970. */
static int store(THD *thd, TABLE *table, const std::vector<Line> &lines, size_t time, size_t last)
{
  for (const Line &line : lines) {
    restore_record(table, s->default_values);
    for (size_t at= 0; at < line.names.size(); at++)
      table->field[at]->store(line.names[at].data(), line.names[at].size(), system_charset_info);
    for (size_t at= 0; at < line.values.size(); at++) {
      Field *field= table->field[at + line.names.size()];
      const ulonglong value= line.values[at];
      if (value == no_value) {
        field->set_null();
        continue;
      }
      field->set_notnull();
      if (at < time || at > last) {
        field->store(static_cast<longlong>(value), true);
        continue;
      }
      MYSQL_TIME when;
      thd->variables.time_zone->gmt_sec_to_TIME(&when, static_cast<my_time_t>(value / 1000));
      when.second_part= static_cast<ulong>(value % 1000 * 1000);
      thd->used|= THD::TIME_ZONE_USED;
      field->store_time(&when);
    }
    if (schema_table_store_record(thd, table))
      return 1;
  }
  return 0;
}

/* Only privileged users may see what others do. */
static bool may_see(THD *thd)
{
  return !check_global_access(thd, PROCESS_ACL, true);
}

static int fill_queues(THD *thd, TABLE_LIST *tables, COND *)
{
  std::vector<Line> lines;
  if (may_see(thd))
    rq_each(collect_queue, &lines);
  return store(thd, tables->table, lines, 2, 2);
}

static int fill_owned(THD *thd, TABLE_LIST *tables, COND *)
{
  std::vector<Line> lines;
  if (may_see(thd))
    rq_each_owned(collect_owned, &lines);
  return store(thd, tables->table, lines, 2, 3);
}

static int fill_readers(THD *thd, TABLE_LIST *tables, COND *)
{
  std::vector<Line> lines;
  if (may_see(thd))
    rq_each_reader(collect_reader, &lines);
  return store(thd, tables->table, lines, 0, 0);
}

static int fill_times(THD *thd, TABLE_LIST *tables, COND *)
{
  std::vector<Line> lines;
  if (may_see(thd))
    rq_each(collect_times, &lines);
  return store(thd, tables->table, lines, 1, 0);
}

int queue_schema_queues_init(void *plugin)
{
  auto *schema= static_cast<ST_SCHEMA_TABLE *>(plugin);
  schema->fields_info= Show::queues_fields;
  schema->fill_table= fill_queues;
  return 0;
}

int queue_schema_owned_init(void *plugin)
{
  auto *schema= static_cast<ST_SCHEMA_TABLE *>(plugin);
  schema->fields_info= Show::owned_fields;
  schema->fill_table= fill_owned;
  return 0;
}

int queue_schema_readers_init(void *plugin)
{
  auto *schema= static_cast<ST_SCHEMA_TABLE *>(plugin);
  schema->fields_info= Show::readers_fields;
  schema->fill_table= fill_readers;
  return 0;
}

int queue_schema_times_init(void *plugin)
{
  auto *schema= static_cast<ST_SCHEMA_TABLE *>(plugin);
  schema->fields_info= Show::times_fields;
  schema->fill_table= fill_times;
  return 0;
}
