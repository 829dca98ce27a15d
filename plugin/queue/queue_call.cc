/*
  The functions of the queue are loadable (UDFs): this interface is public and does not change with the
  server. They access a connection through functions that the server exports; has_hung_up() says why it does not.

  The server evaluates a constant function in WHERE once, after the tables are opened and before a row is
  read; this makes SELECT ... WHERE queue_wait('t') work. Anywhere else the server may evaluate the function
  for each row, and a second queue_wait() would consume the rows of the first; so each function keeps its
  result until the statement is over.
*/
#include "queue_server.h"

#include <poll.h>

#include <cmath>
#include <string>

#include "sql_acl.h"
#include "sql_parse.h"
#include "item_func.h"

#include "queue_call.h"
#include "queue_connection.h"
#include "queue_transaction.h"

extern "C" {
/* Exported by the server, but not declared in its headers. */
CHARSET_INFO *thd_charset(THD *thd);
int thd_is_connected(THD *thd);
}

void queue_raise(const rq_error &error)
{
  my_printf_error(ER_GET_ERRMSG, "Queue: %s", MYF(0), error.text);
}

Call::Call(const char *name, const UDF_ARGS *args) : name(name)
{
  for (uint at= 0; at < args->arg_count; at++)
    known.push_back(args->args[at] != nullptr);
}

longlong Call::refuse(THD *thd, uint number, const std::string &why)
{
  static const char *q4m[]= {"queue_wait", "queue_wait_n", "queue_set_srcid", "queue_compact", "queue_stats"};
  bool warns= false;
  for (const char *one : q4m)
    warns= warns || !strcmp(name, one);
  if (number && warns)
    queue_warn(thd, why.c_str(), number);
  else if (number)
    my_printf_error(number, "Queue: %s", MYF(0), why.c_str());
  return null();
}

bool Call::depends_on_row(const UDF_ARGS *args) const
{
  for (uint at= 0; at < args->arg_count; at++)
    if (args->args[at] && !known[at])
      return true;
  return false;
}

bool Call::is_constant(const UDF_ARGS *args) const
{
  for (uint at= 0; at < args->arg_count; at++)
    if (args->args[at] && !known[at]) {
      my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to %s: they must be constants", MYF(0), name);
      return false;
    }
  return true;
}

std::string queue_text_of(THD *thd, const UDF_ARGS *args, uint at)
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

longlong queue_integer_of(const UDF_ARGS *args, uint at)
{
  return args->args[at] ? *reinterpret_cast<const longlong *>(args->args[at]) : 0;
}

bool queue_whole_of(THD *thd, const Call *call, const UDF_ARGS *args, uint at, longlong *number)
{
  const std::string text= queue_text_of(thd, args, at);
  char *end= nullptr;
  errno= 0;
  *number= strtoll(text.c_str(), &end, 10);
  bool whole= end != text.c_str() && !errno;
  if (*end == '.')
    end+= strspn(end + 1, "0") + 1;
  whole= whole && !end[strspn(end, " ")];
  if (!whole && call)
    my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to %s: '%s' is not an integer", MYF(0), call->name, text.c_str());
  return whole;
}

bool queue_seconds_of(THD *thd, const Call *call, const UDF_ARGS *args, uint at, double *seconds)
{
  const std::string text= queue_text_of(thd, args, at);
  int error= 0;
  char *end= const_cast<char *>(text.c_str()) + text.size();
  const size_t spaces= strspn(text.c_str(), " ");
  *seconds= my_strtod(text.c_str() + spaces, &end, &error);
  if (args->args[at] && end != text.c_str() + spaces && !error && !end[strspn(end, " ")])
    return true;
  my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to %s: '%s' is not a time in seconds", MYF(0), call->name,
                  args->args[at] ? text.c_str() : "NULL");
  return false;
}

bool queue_timeout_of(THD *thd, const Call *call, const UDF_ARGS *args, bool timed, uint at, longlong *ms)
{
  double seconds;
  *ms= queue_timeout_default_ms;
  if (!timed)
    return true;
  if (!queue_seconds_of(thd, call, args, at, &seconds))
    return false;
  *ms= seconds <= 0 ? 0 : std::llround(MY_MIN(seconds, queue_timeout_max_s) * 1000);
  return true;
}

/*
  A transaction with REPEATABLE READ or more sees InnoDB as it was at its first read. What this very
  statement begins to read is not old.
*/
bool queue_has_snapshot(THD *thd)
{
  if (!queue_in_transaction(thd) || thd->tx_isolation < ISO_REPEATABLE_READ)
    return false;
  const auto has_innodb= [](const THD_TRANS &part) {
    const Ha_trx_info *info= part.ha_list;
    while (info && info->ht()->db_type != DB_TYPE_INNODB)
      info= info->next();
    return info != nullptr;
  };
  return has_innodb(thd->transaction->all) && !has_innodb(thd->transaction->stmt);
}

void queue_warn_of_snapshot(THD *thd)
{
  queue_warn(thd, "the transaction used InnoDB before the wait, and with REPEATABLE READ does not see later commits, "
                  "perhaps not even the one that sent this message: COMMIT before a wait, or use READ COMMITTED",
             QUEUE_WARN_SNAPSHOT);
}

namespace {
/* Ways to members of the server that it does not show. */
struct Handler : udf_handler {
  static UDF_INIT udf_handler::*init() { return &Handler::initid; }
};
struct Function : Item_udf_func {
  static udf_handler Item_udf_func::*handler() { return &Function::udf; }
};

/* The object whose member this is. */
template <class Whole, class Part> Whole *around(Part *part, Part Whole::*member)
{
  alignas(Whole) static char room[sizeof(Whole)];
  const char *inside= reinterpret_cast<char *>(&(reinterpret_cast<Whole *>(room)->*member));
  return reinterpret_cast<Whole *>(reinterpret_cast<char *>(part) - (inside - room));
}
}

/*
  The interface of loadable functions has no place for a character set, so that drivers return bytes. What
  the server passes is a part of the item that stands for the function, which has one.
*/
void queue_returns_text(UDF_INIT *init)
{
  Item_udf_func *item= around<Item_udf_func>(around<udf_handler>(init, Handler::init()), Function::handler());
  item->collation.set(&my_charset_utf8mb4_general_ci, DERIVATION_COERCIBLE);
}

bool queue_is_read_only(THD *thd)
{
  if (!thd->is_read_only_ctx())
    return false;
  my_error(ER_OPTION_PREVENTS_STATEMENT, MYF(0), "--read-only");
  return true;
}

/*
  Whether the client has closed its connection. The server's own look takes a socket with unread bytes for an
  open one, and a client that closes in the ordinary way sends some before: COM_QUIT, or the end of TLS. The
  server has no function for this, so it is a member of THD. If that were elsewhere than in the headers of this
  build, it would not lead back to the same connection.
*/
static bool has_hung_up(const THD *thd)
{
  const NET &net= thd->net;
  if (net.thd != thd || !net.vio)
    return false;
  pollfd at= {mysql_socket_getfd(net.vio->mysql_socket), POLLRDHUP, 0};
  return poll(&at, 1, 0) == 1 && at.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

int queue_client_is_alive(void *context)
{
  THD *thd= static_cast<THD *>(context);
  return !thd_killed(thd) && thd_is_connected(thd) && !has_hung_up(thd);
}

bool queue_tables::open(THD *thd, const UDF_ARGS *args, uint first, uint count)
{
  for (uint at= first; at < first + count; at++) {
    arguments.push_back(queue_text_of(thd, args, at));
    const std::string &argument= arguments.back();
    const queue_name named(argument);
    opened.emplace_back();
    queue_opened &table= opened.back();
    if (!table.open_for_reader(thd, named, SELECT_ACL | DELETE_ACL))
      return false;
    const size_t colon= named.rest.find(':'), length= colon == std::string::npos ? 0 : named.rest.size() - colon - 1;
    const rq_slice condition= {reinterpret_cast<const uchar *>(argument.data()) + argument.size() - length, length};
    if (length && !table.may_show(thd, &condition))
      return false;
    targets.push_back({table.queue, condition, {reinterpret_cast<const uchar *>(table.reader.data()), table.reader.size()}});
  }
  return true;
}

/* Whether the function takes or leases rows. */
static bool takes_rows(const char *name)
{
  return !strncmp(name, "queue_wait", 10) || !strncmp(name, "queue_lease", 11);
}

my_bool queue_begin_call(UDF_INIT *init, const UDF_ARGS *args, char *message, const char *name, uint at_least,
                         uint at_most)
{
  if (args->arg_count < at_least || args->arg_count > at_most) {
    const std::string most= at_most > at_least ? " to " + std::to_string(at_most) : std::string();
    snprintf(message, MYSQL_ERRMSG_SIZE, "%u arguments; it takes %u%s", args->arg_count, at_least, most.c_str());
    return 1;
  }
  /* DO drops the errors of what it evaluates. So what would fail is refused before anything is taken. */
  THD *thd= _current_thd();
  queue_connection *connection= thd_sql_command(thd) == SQLCOM_DO && takes_rows(name) ? queue_connection_of(thd) : nullptr;
  if (connection && connection->do_call) {
    snprintf(message, MYSQL_ERRMSG_SIZE, "DO can take rows only once; name all tables in one call, or use two statements");
    return 1;
  }
  init->maybe_null= 1;
  init->max_length= 1024;
  init->ptr= reinterpret_cast<char *>(new (std::nothrow) Call(name, args));
  if (connection)
    connection->do_call= init->ptr;
  return !init->ptr;
}

void queue_end_call(UDF_INIT *init)
{
  const Call *call= reinterpret_cast<Call *>(init->ptr);
  if (queue_connection *connection= queue_existing_connection(_current_thd())) {
    if (connection->taking_call == call)
      connection->taking_call= nullptr;
    if (connection->leasing_call == call)
      connection->leasing_call= nullptr;
    if (connection->do_call == call)
      connection->do_call= nullptr;
  }
  delete call;
  init->ptr= nullptr;
}

/* Whether the statement shows how another one would run, or ran: nobody sees the rows that it takes. True
   with a warning. */
static bool is_explain(THD *thd, const Call *call)
{
  if (!thd->lex->describe && !thd->lex->analyze_stmt)
    return false;
  queue_warn(thd, (std::string("EXPLAIN and ANALYZE do not call ") + call->name + "(): its result is NULL").c_str());
  return true;
}

Call *queue_result(UDF_INIT *init, const UDF_ARGS *args, longlong (*evaluate)(THD *, Call *, const UDF_ARGS *))
{
  Call *call= reinterpret_cast<Call *>(init->ptr);
  if (!call->done) {
    call->done= true;
    THD *thd= _current_thd();
    const bool may= !is_explain(thd, call) && call->is_constant(args) &&
                    !queue_is_logged_as_statement(thd, (std::string(call->name) + "()").c_str());
    call->value= may ? evaluate(thd, call, args) : call->null();
  }
  return call;
}

/* The arguments as one text, for comparison: each with its length before it, and NULL with none. */
static std::string together(const UDF_ARGS *args)
{
  std::string all;
  for (uint at= 0; at < args->arg_count; at++) {
    if (args->args[at])
      all.append(std::to_string(args->lengths[at])).append(":").append(args->args[at], args->lengths[at]);
    all+= ';';
  }
  return all;
}

Call *queue_result_of_row(UDF_INIT *init, const UDF_ARGS *args, longlong (*evaluate)(THD *, Call *, const UDF_ARGS *))
{
  Call *call= reinterpret_cast<Call *>(init->ptr);
  if (!call->depends_on_row(args) && call->of_rows.empty())
    return queue_result(init, args, evaluate);
  THD *thd= _current_thd();
  const queue_connection *mine= queue_existing_connection(thd);
  /* Rows of a queue that are being read would end under the reader. */
  if (mine && mine->open_scans) {
    call->refuse(thd, QUEUE_ER_AFTER_READING,
                 std::string(call->name) + "() does not take tokens of rows in a statement that reads a queue; read them first");
    return call;
  }
  const auto found= call->of_rows.find(together(args));
  call->is_null= false;
  if (found != call->of_rows.end())
    call->value= found->second;
  else if (!is_explain(thd, call) && !queue_is_logged_as_statement(thd, (std::string(call->name) + "()").c_str())) {
    call->value= evaluate(thd, call, args);
    if (!call->is_null)
      call->of_rows[together(args)]= call->value;
    call->done= true;
  } else
    call->null();
  return call;
}

void queue_text_types(UDF_ARGS *args)
{
  for (uint at= 0; at < args->arg_count; at++)
    args->arg_type[at]= STRING_RESULT;
}
