/*
  Schedules: a thread of the engine delivers their ticks, by SQL on an internal connection. See queue_schedule.h;
  what is delivered when is decided in the core. And queue_next_tick(), which says when a schedule comes.
*/
#include "queue_server.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <mysql.h>
#include <mysql/service_sql.h>

#include "queue_abi.h"
#include "queue_call.h"
#include "queue_opened.h"
#include "queue_schedule.h"

static std::thread scheduler;
static std::mutex scheduler_lock;
static std::condition_variable scheduler_wakes;
static bool scheduler_stops;

static rq_slice slice_of(const std::string &text)
{
  return {reinterpret_cast<const uchar *>(text.data()), text.size()};
}

static void folder_of(rq_slice database, rq_slice table, rq_error *folder)
{
  const auto text= [](rq_slice name) { return std::string(reinterpret_cast<const char *>(name.bytes), name.len); };
  strmake_buf(folder->text, queue_folder_of_table(text(database), text(table)).c_str());
}

static void tell_log(rq_slice text)
{
  sql_print_warning("Queue: %.*s", static_cast<int>(text.len), reinterpret_cast<const char *>(text.bytes));
}

static bool is_stopping()
{
  std::lock_guard<std::mutex> locked(scheduler_lock);
  return scheduler_stops || abort_loop;
}

/* Runs a statement for the core, on the connection of this pass. */
static unsigned query(void *context, rq_slice sql, rq_each_row_fn each, void *rows, rq_error *failed)
{
  MYSQL *mysql= static_cast<MYSQL *>(context);
  /* A server that stops waits for this thread: what it has not committed is rolled back. */
  if (is_stopping()) {
    strmake_buf(failed->text, "the server stops");
    return ER_QUERY_INTERRUPTED;
  }
  if (mysql_real_query(mysql, reinterpret_cast<const char *>(sql.bytes), static_cast<ulong>(sql.len))) {
    strmake_buf(failed->text, mysql_error(mysql));
    const unsigned code= mysql_errno(mysql);
    return code ? code : static_cast<unsigned>(ER_UNKNOWN_ERROR);
  }
  MYSQL_RES *result= mysql_store_result(mysql);
  if (!result)
    return 0;
  const unsigned fields= mysql_num_fields(result);
  std::vector<rq_slice> values(fields);
  while (MYSQL_ROW row= mysql_fetch_row(result)) {
    const ulong *lengths= mysql_fetch_lengths(result);
    for (unsigned at= 0; at < fields; at++)
      values[at]= {reinterpret_cast<const uchar *>(row[at]), row[at] ? lengths[at] : 0};
    each(rows, values.data(), fields);
  }
  mysql_free_result(result);
  return 0;
}

/* One pass on a connection of its own, so that the thread has none while it sleeps. Returns how many
   milliseconds it may sleep. */
static uint64_t pass(rq_scheduler *runner)
{
  uint64_t sleep_ms= 1000;
  MYSQL *mysql= mysql_init(nullptr);
  if (!mysql)
    return sleep_ms;
  rq_error error;
  if (mysql_real_connect_local(mysql) && rq_scheduler_pass(runner, query, mysql, folder_of, tell_log, &sleep_ms, &error))
    sql_print_error("Queue: schedules: %s", error.text);
  mysql_close(mysql);
  return sleep_ms;
}

static void run_scheduler()
{
  if (my_thread_init())
    return;
  rq_scheduler *runner= rq_scheduler_new();
  uint64_t sleep_ms= 0;
  for (;;) {
    {
      std::unique_lock<std::mutex> locked(scheduler_lock);
      scheduler_wakes.wait_for(locked, std::chrono::milliseconds(sleep_ms), [] { return scheduler_stops; });
      if (scheduler_stops)
        break;
    }
    /* Before that there are no grant tables, and recovery may not be over. */
    sleep_ms= mysqld_server_started ? pass(runner) : 100;
  }
  rq_scheduler_free(runner);
  my_thread_end();
}

bool queue_start_scheduler()
{
  scheduler_stops= false;
  try {
    scheduler= std::thread(run_scheduler);
  } catch (const std::system_error &) {
    return false;
  }
  return true;
}

void queue_stop_scheduler()
{
  {
    std::lock_guard<std::mutex> locked(scheduler_lock);
    scheduler_stops= true;
  }
  scheduler_wakes.notify_all();
  if (scheduler.joinable())
    scheduler.join();
}

/* A time as the server writes it, in UTC; false if the text is none. */
static bool microseconds_of(const std::string &text, int64_t *us)
{
  MYSQL_TIME when{};
  MYSQL_TIME_STATUS status;
  if (str_to_datetime_or_date(text.data(), text.size(), &when, 0, &status) || status.warnings || !when.month || !when.day)
    return false;
  const int64_t days= calc_daynr(when.year, when.month, when.day) - calc_daynr(1970, 1, 1);
  *us= (((days * 24 + when.hour) * 60 + when.minute) * 60 + when.second) * 1000000LL + when.second_part;
  return true;
}

static std::string text_of(int64_t us)
{
  /* Ticks are after 1970 where users are, but a schedule may be asked for an earlier one. */
  int64_t seconds= us / 1000000, rest= us % 1000000;
  if (rest < 0) {
    seconds--;
    rest+= 1000000;
  }
  const time_t at= static_cast<time_t>(seconds);
  tm parts{};
  gmtime_r(&at, &parts);
  char text[64];
  int length= snprintf(text, sizeof(text), "%04d-%02d-%02d %02d:%02d:%02d", parts.tm_year + 1900, parts.tm_mon + 1,
                       parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
  if (rest)
    length+= snprintf(text + length, sizeof(text) - static_cast<size_t>(length), ".%06d", static_cast<int>(rest));
  return {text, static_cast<size_t>(length)};
}

/* queue_next_tick(spec, zone[, after]): takes values of rows too, since it changes nothing. */
extern "C" my_bool queue_next_tick_init(UDF_INIT *init, UDF_ARGS *args, char *message)
{
  if (queue_begin_call(init, args, message, "queue_next_tick", 2, 3))
    return 1;
  queue_returns_text(init);
  queue_text_types(args);
  return 0;
}

extern "C" void queue_next_tick_deinit(UDF_INIT *init) { queue_end_call(init); }

extern "C" char *queue_next_tick(UDF_INIT *init, UDF_ARGS *args, char *, unsigned long *length, char *is_null, char *failed)
{
  THD *thd= _current_thd();
  Call *call= reinterpret_cast<Call *>(init->ptr);
  *is_null= 1;
  for (uint at= 0; at < args->arg_count; at++)
    if (!args->args[at])
      return nullptr;
  const std::string spec= queue_text_of(thd, args, 0), zone= queue_text_of(thd, args, 1);
  int64_t after= INT64_MIN, next= 0;
  rq_error error;
  if (args->arg_count > 2 && !microseconds_of(queue_text_of(thd, args, 2), &after)) {
    my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to queue_next_tick: '%s' is not a time such as "
                    "'2026-01-31 12:00:00'", MYF(0), queue_text_of(thd, args, 2).c_str());
    *failed= 1;
    return nullptr;
  }
  if (rq_next_tick(slice_of(spec), slice_of(zone), after, &next, &error)) {
    my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to queue_next_tick: %s", MYF(0), error.text);
    *failed= 1;
    return nullptr;
  }
  *is_null= 0;
  call->text= text_of(next);
  *length= static_cast<unsigned long>(call->text.size());
  return &call->text[0];
}
