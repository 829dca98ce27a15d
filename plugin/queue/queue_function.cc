/*
  The functions of the queue are loadable (UDFs): this interface is public and does not change with the
  server. They access a connection through functions that the server exports, never through a member of THD.

  The server evaluates a constant function in WHERE once, after the tables are opened and before a row is
  read; this makes SELECT ... WHERE queue_wait('t') work. Anywhere else the server may evaluate the function
  for each row, and a second queue_wait() would consume the rows of the first; so each function keeps its
  result until the statement is over.
*/
#define MYSQL_SERVER 1

#include <my_global.h>

#include <string>
#include <vector>

#include "sql_class.h"
#include "sql_acl.h"
#include "sql_parse.h"

#include "queue_connection.h"
#include "queue_function.h"
#include "queue_opened.h"
#include "queue_transaction.h"

/* The server's priority queues define a macro of this name. */
#undef queue_end

extern "C" {
/* Exported by the server, but not declared in its headers. */
CHARSET_INFO *thd_charset(THD *thd);
int thd_is_connected(THD *thd);
}

/* How long queue_wait() waits when no time is given. */
static const longlong timeout_default_s= 60;

static const longlong timeout_max_s= LONGLONG_MAX / 1000;

/* The most arguments: the tables to wait on, and the time. */
static const uint arguments_max= 64;

queue_calls queue_called;

static void raise(const rq_error &error)
{
  my_printf_error(ER_GET_ERRMSG, "Queue: %s", MYF(0), error.text);
}

/* One use of a function in a statement: its arguments, and its result once there is one. */
struct Call {
  const char *name;
  std::vector<bool> known; /* which arguments had a value before execution */
  bool done= false, is_null= false;
  longlong value= 0;
  std::string text; /* the value of a function that returns a string */

  Call(const char *name, const UDF_ARGS *args) : name(name)
  {
    for (uint at= 0; at < args->arg_count; at++)
      known.push_back(args->args[at] != nullptr);
  }

  longlong null()
  {
    is_null= true;
    return 0;
  }

  /* False with an error when an argument depends on a row. */
  bool is_constant(const UDF_ARGS *args) const
  {
    for (uint at= 0; at < args->arg_count; at++)
      if (args->args[at] && !known[at]) {
        my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to %s: they must be constants", MYF(0), name);
        return false;
      }
    return true;
  }
};

/* An argument as text in UTF-8; the server passes strings in the character set of the connection. */
static std::string text_of(THD *thd, const UDF_ARGS *args, uint at)
{
  if (!args->args[at])
    return std::string();
  const char *bytes= args->args[at];
  const uint32 length= static_cast<uint32>(args->lengths[at]);
  CHARSET_INFO *from= thd_charset(thd);
  std::string text(static_cast<size_t>(length) * 4, 0);
  uint errors;
  text.resize(my_convert(&text[0], static_cast<uint32>(text.size()), &my_charset_utf8mb4_bin, bytes, length, from,
                         &errors));
  return text;
}

static longlong integer_of(const UDF_ARGS *args, uint at)
{
  return args->args[at] ? *reinterpret_cast<const longlong *>(args->args[at]) : 0;
}

/* Whether READ_ONLY forbids the call; true with an error. */
static bool is_read_only(THD *thd)
{
  if (!thd->is_read_only_ctx())
    return false;
  my_error(ER_OPTION_PREVENTS_STATEMENT, MYF(0), "--read-only");
  return true;
}

static int still_there(void *context)
{
  THD *thd= static_cast<THD *>(context);
  return !thd_killed(thd) && thd_is_connected(thd);
}

/* Ends the owned rows, `within` the transaction if their queue takes part in transactions. True with an
   error. */
static bool end_owned(THD *thd, queue_connection *mine, bool within)
{
  within= within && rq_owns_transactional(mine->session);
  if (within && !queue_join(thd))
    return true;
  rq_error error;
  const int code= (within ? rq_tx_end : rq_end)(mine->session, &error);
  if (code)
    raise(error);
  return code != RQ_OK;
}

/* NULL, as Q4M returns; the owned rows are consumed nevertheless. */
static longlong refuse_wait(THD *thd, Call *call, queue_connection *mine, const char *why)
{
  if (why)
    queue_warn(thd, why);
  end_owned(thd, mine, queue_in_transaction(thd));
  return call->null();
}

/* Whether a wait is a part of the transaction: it takes from a queue that takes part in transactions, or ends
   rows of one. Outside of a transaction the rows stay owned after the statement. */
static bool waits_within(THD *thd, queue_connection *mine, const std::vector<rq_target> &targets)
{
  bool some= rq_owns_transactional(mine->session);
  for (const rq_target &target : targets)
    some= some || rq_is_transactional(target.queue);
  return some && queue_in_transaction(thd);
}

static longlong wait_for(THD *thd, Call *call, queue_connection *mine, const std::vector<rq_target> &targets,
                         size_t rows_max, longlong seconds)
{
  const longlong timeout_ms= seconds <= 0 ? 0 : MY_MIN(seconds, timeout_max_s) * 1000;
  int outcome= RQ_TIMED_OUT;
  size_t target= 0;
  rq_error error;
  const bool within= waits_within(thd, mine, targets);
  if (within && !queue_join(thd))
    return call->null();
  const char *before= thd_proc_info(thd, "Waiting in queue_wait");
  thd_wait_begin(thd, THD_WAIT_SLEEP);
  const int code= rq_wait(mine->session, targets.data(), targets.size(), rows_max, within, timeout_ms, still_there, thd,
                          &outcome, &target, &error);
  thd_wait_end(thd);
  thd_proc_info(thd, before);
  if (code == RQ_CONDITION)
    return refuse_wait(thd, call, mine, error.text);
  if (code) {
    raise(error);
    return call->null();
  }
  if (outcome == RQ_INTERRUPTED) {
    /* Null when the client went away: there is nobody to tell. */
    if (const int why= thd->killed_errno())
      my_error(why, MYF(0));
    return call->null();
  }
  queue_mark_owner(thd);
  if (outcome == RQ_TAKEN)
    mine->taken= thd->in_sub_stmt ? queue_taken_inside : thd->query_id;
  if (outcome == RQ_GONE)
    queue_warn(thd, "a table was dropped while it was waited for");
  return outcome == RQ_TAKEN ? static_cast<longlong>(target) + 1 : 0;
}

/* Waits on the tables from argument `first` on; with several arguments the last one is the time. */
static longlong wait(THD *thd, Call *call, const UDF_ARGS *args, uint first, size_t rows_max)
{
  queue_connection *mine= queue_connection_of(thd);
  if (!mine || is_read_only(thd))
    return call->null();
  if (mine->reading) {
    queue_warn(thd, "queue_wait() after rows of a queue were read; it belongs in WHERE, or in a statement of its own");
    return call->null();
  }
  const uint last= args->arg_count - 1;
  const bool timed= last > first;
  if (timed && !args->args[last])
    return refuse_wait(thd, call, mine, "the time to wait is NULL");
  const uint tables= timed ? last - first : 1;
  std::vector<queue_opened> opened(tables);
  std::vector<std::string> arguments(tables);
  std::vector<rq_target> targets;
  for (uint at= 0; at < tables; at++) {
    arguments[at]= text_of(thd, args, first + at);
    const std::string &argument= arguments[at];
    const size_t colon= argument.find(':');
    if (!opened[at].open(thd, argument.substr(0, colon), SELECT_ACL | DELETE_ACL))
      return refuse_wait(thd, call, mine, nullptr);
    rq_slice condition= {nullptr, 0};
    if (colon != std::string::npos)
      condition= {reinterpret_cast<const uchar *>(argument.data()) + colon + 1, argument.size() - colon - 1};
    targets.push_back({opened[at].queue, condition});
  }
  return wait_for(thd, call, mine, targets, rows_max, timed ? integer_of(args, last) : timeout_default_s);
}

static longlong evaluate_queue_wait(THD *thd, Call *call, const UDF_ARGS *args)
{
  queue_called.wait++;
  return wait(thd, call, args, 0, 1);
}

static longlong evaluate_queue_wait_n(THD *thd, Call *call, const UDF_ARGS *args)
{
  queue_called.wait++;
  const longlong rows= integer_of(args, 0);
  if (rows < 1) {
    my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to queue_wait_n: at least one row", MYF(0));
    return call->null();
  }
  return wait(thd, call, args, 1, static_cast<size_t>(rows));
}

static longlong evaluate_queue_end(THD *thd, Call *call, const UDF_ARGS *)
{
  queue_called.end++;
  queue_connection *mine= queue_connection_of(thd);
  if (!mine || is_read_only(thd) || end_owned(thd, mine, true))
    return call->null();
  return 1;
}

/* The connection, or null with an error when it is not in owner mode. */
static queue_connection *owner(THD *thd, const Call *call)
{
  queue_connection *mine= queue_connection_of(thd);
  if (mine && rq_is_owner(mine->session))
    return mine;
  my_printf_error(ER_CANT_INITIALIZE_UDF, "Can't initialize function '%s'; not in owner mode", MYF(0), call->name);
  return nullptr;
}

static longlong evaluate_queue_abort(THD *thd, Call *call, const UDF_ARGS *)
{
  queue_called.abort++;
  queue_connection *mine= owner(thd, call);
  rq_error error;
  if (!mine)
    return call->null();
  if (rq_abort(mine->session, &error)) {
    raise(error);
    return call->null();
  }
  return 1;
}

static longlong evaluate_queue_rowid(THD *thd, Call *call, const UDF_ARGS *)
{
  queue_called.rowid++;
  queue_connection *mine= owner(thd, call);
  const uint64_t row= mine ? rq_owned_row(mine->session) : 0;
  return row ? static_cast<longlong>(row) : call->null();
}

static longlong evaluate_queue_set_srcid(THD *thd, Call *call, const UDF_ARGS *args)
{
  queue_called.set_srcid++;
  queue_connection *mine= queue_connection_of(thd);
  const longlong slot= args->args[0] ? integer_of(args, 0) : -1;
  const std::string mode= text_of(thd, args, 1);
  if (!mine)
    return call->null();
  const longlong row= args->args[2] ? integer_of(args, 2) : -1;
  if (slot < 0 || slot > 63 || (mode != "a" && mode != "w") || row < 0) {
    queue_warn(thd, "the slot must be 0 to 63, the mode 'a' or 'w', and the row number not negative");
    return call->null();
  }
  rq_set_origin(mine->session, static_cast<uint32_t>(slot), mode == "w", static_cast<uint64_t>(row));
  return 1;
}

/* What a relay passes to queue_set_origin() at the other end, for the row that this connection owns. */
static longlong evaluate_queue_origin(THD *thd, Call *call, const UDF_ARGS *)
{
  queue_connection *mine= owner(thd, call);
  rq_error text, error;
  if (!mine)
    return call->null();
  const int code= rq_origin(mine->session, &text, &error);
  if (code == RQ_OK) {
    call->text= text.text;
    return 1;
  }
  if (code != RQ_END)
    raise(error);
  return call->null();
}

static longlong evaluate_queue_set_origin(THD *thd, Call *call, const UDF_ARGS *args)
{
  queue_connection *mine= queue_connection_of(thd);
  const std::string text= text_of(thd, args, 0);
  if (!mine)
    return call->null();
  if (rq_set_origin_text(mine->session, {reinterpret_cast<const uchar *>(text.data()), text.size()}) == RQ_OK)
    return 1;
  queue_warn(thd, "this is not a text that queue_origin() returned");
  return call->null();
}

/*
  In WHERE the statement sees the rows of the table from this number on, including rows that others own.
  Returns the number of the row before which the walk ends, also after rows were read: the same in the list of
  the SELECT as in its WHERE.
*/
static longlong evaluate_queue_peek(THD *thd, Call *call, const UDF_ARGS *args)
{
  queue_connection *mine= queue_connection_of(thd);
  if (!mine)
    return call->null();
  if (mine->reading)
    return mine->peeked;
  queue_opened table;
  if (!table.open(thd, text_of(thd, args, 0), SELECT_ACL))
    return call->null();
  const longlong from= integer_of(args, 1);
  mine->peeked= static_cast<longlong>(rq_peek(mine->session, table.queue, from < 0 ? 0 : static_cast<uint64_t>(from)));
  return mine->peeked;
}

static longlong evaluate_queue_compact(THD *thd, Call *call, const UDF_ARGS *args)
{
  queue_opened table;
  rq_error error;
  if (is_read_only(thd) || !table.open(thd, text_of(thd, args, 0), DELETE_ACL))
    return call->null();
  if (rq_compact(table.queue, &error)) {
    raise(error);
    return call->null();
  }
  return 1;
}

/* A transaction that is in doubt: an administrator decides what the server has forgotten. */
static longlong evaluate_queue_resolve(THD *thd, Call *call, const UDF_ARGS *args)
{
  const std::string name= text_of(thd, args, 0), decision= text_of(thd, args, 1);
  if (check_global_access(thd, SUPER_ACL))
    return call->null();
  if (decision != "commit" && decision != "rollback") {
    queue_warn(thd, "the decision must be 'commit' or 'rollback'");
    return call->null();
  }
  const int code= queue_resolve_in_doubt(name, decision == "commit");
  if (!code)
    return 1;
  queue_warn(thd, code < 0 ? "no transaction of this name is in doubt; the error log names those that are, at each start"
                           : "it could not be written, and is still in doubt; the error log says why");
  return call->null();
}

static longlong evaluate_queue_stats(THD *thd, Call *call, const UDF_ARGS *args)
{
  queue_opened table;
  if (!table.open(thd, text_of(thd, args, 0), SELECT_ACL))
    return call->null();
  rq_status status;
  rq_get_status(table.queue, &status);
  const std::pair<const char *, ulonglong> lines[]= {
      {"rows_written", status.rows_written},           {"rows_removed", status.rows_removed},
      {"wait_immediate", status.wait_immediate},       {"wait_delayed", status.wait_delayed},
      {"wait_timeout", status.wait_timeout},           {"restored_by_abort", status.restored_by_abort},
      {"restored_by_close", status.restored_by_close}, {"bytes_total", status.bytes},
      {"bytes_removed", status.bytes - MY_MIN(status.bytes, status.live_bytes)}};
  for (const auto &line : lines)
    call->text+= std::string(line.first) + ": " + std::to_string(line.second) + "\n";
  return 1;
}

/* Begins a use of a function; true with a message when its arguments are wrong. */
static my_bool begin(UDF_INIT *init, const UDF_ARGS *args, char *message, const char *name, uint at_least, uint at_most)
{
  if (args->arg_count < at_least || args->arg_count > at_most) {
    snprintf(message, MYSQL_ERRMSG_SIZE, "%u arguments; it takes %u%s", args->arg_count, at_least,
             at_most > at_least ? " or more" : "");
    return 1;
  }
  init->maybe_null= 1;
  init->max_length= 1024;
  init->ptr= reinterpret_cast<char *>(new (std::nothrow) Call(name, args));
  return !init->ptr;
}

static void end(UDF_INIT *init)
{
  delete reinterpret_cast<Call *>(init->ptr);
  init->ptr= nullptr;
}

/* The result, evaluated at the first call. */
static Call *result(UDF_INIT *init, const UDF_ARGS *args, longlong (*evaluate)(THD *, Call *, const UDF_ARGS *))
{
  Call *call= reinterpret_cast<Call *>(init->ptr);
  if (!call->done) {
    call->done= true;
    THD *thd= _current_thd();
    const bool may= call->is_constant(args) && !queue_is_logged_as_text(thd, (std::string(call->name) + "()").c_str());
    call->value= may ? evaluate(thd, call, args) : call->null();
  }
  return call;
}

/* The types in which the server passes the arguments of queue_wait() from `first` on. */
static void wait_types(UDF_ARGS *args, uint first)
{
  for (uint at= first; at < args->arg_count; at++)
    args->arg_type[at]= at > first && at + 1 == args->arg_count ? INT_RESULT : STRING_RESULT;
}

#define QUEUE_FUNCTION(NAME, AT_LEAST, AT_MOST, TYPES)                                                                 \
  extern "C" my_bool NAME##_init(UDF_INIT *init, UDF_ARGS *args, char *message)                                        \
  {                                                                                                                    \
    if (begin(init, args, message, #NAME, AT_LEAST, AT_MOST))                                                          \
      return 1;                                                                                                        \
    TYPES;                                                                                                             \
    return 0;                                                                                                          \
  }                                                                                                                    \
  extern "C" void NAME##_deinit(UDF_INIT *init) { end(init); }

#define QUEUE_INTEGER(NAME, AT_LEAST, AT_MOST, TYPES)                                                                  \
  QUEUE_FUNCTION(NAME, AT_LEAST, AT_MOST, TYPES)                                                                       \
  extern "C" longlong NAME(UDF_INIT *init, UDF_ARGS *args, char *is_null, char *)                                      \
  {                                                                                                                    \
    const Call *call= result(init, args, evaluate_##NAME);                                                             \
    *is_null= call->is_null;                                                                                           \
    return call->value;                                                                                                \
  }

#define QUEUE_STRING(NAME, AT_LEAST, AT_MOST, TYPES)                                                                   \
  QUEUE_FUNCTION(NAME, AT_LEAST, AT_MOST, TYPES)                                                                       \
  extern "C" char *NAME(UDF_INIT *init, UDF_ARGS *args, char *, unsigned long *length, char *is_null, char *)          \
  {                                                                                                                    \
    Call *call= result(init, args, evaluate_##NAME);                                                                   \
    *is_null= call->is_null;                                                                                           \
    *length= static_cast<unsigned long>(call->text.size());                                                            \
    return &call->text[0];                                                                                             \
  }

QUEUE_INTEGER(queue_wait, 1, arguments_max, wait_types(args, 0))
QUEUE_INTEGER(queue_wait_n, 2, arguments_max, (wait_types(args, 1), args->arg_type[0]= INT_RESULT))
QUEUE_INTEGER(queue_end, 0, arguments_max, )
QUEUE_INTEGER(queue_abort, 0, 0, )
QUEUE_INTEGER(queue_rowid, 0, 0, )
QUEUE_INTEGER(queue_set_srcid, 3, 3,
              (args->arg_type[0]= args->arg_type[2]= INT_RESULT, args->arg_type[1]= STRING_RESULT))
QUEUE_INTEGER(queue_peek, 2, 2, (args->arg_type[0]= STRING_RESULT, args->arg_type[1]= INT_RESULT))
QUEUE_INTEGER(queue_compact, 1, 1, args->arg_type[0]= STRING_RESULT)
QUEUE_INTEGER(queue_resolve, 2, 2, args->arg_type[0]= args->arg_type[1]= STRING_RESULT)
QUEUE_INTEGER(queue_set_origin, 1, 1, args->arg_type[0]= STRING_RESULT)
QUEUE_STRING(queue_stats, 1, 1, args->arg_type[0]= STRING_RESULT)
QUEUE_STRING(queue_origin, 0, 0, )
