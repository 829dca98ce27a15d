/* A table that a function got by name. See queue_opened.h. */
#include "queue_server.h"

#include "sql_acl.h"
#include "sql_parse.h"
#include "sql_table.h"

#include "queue_connection.h"
#include "queue_opened.h"

extern "C" {
/* Exported by the server, but not declared in its headers. */
LEX_CSTRING *thd_current_db(THD *thd);
int thd_current_status(THD *thd);
}

void queue_warn(THD *thd, const char *text, uint number)
{
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, number, "Queue: %s", text);
}

/* The part of a name from `at` on, up to one of `ends` unless it is in backticks; `at` is then behind it. */
static std::string part_of(const std::string &text, size_t *at, const char *ends)
{
  if (*at >= text.size() || text[*at] != '`') {
    const size_t from= *at;
    *at= MY_MIN(text.find_first_of(ends, from), text.size());
    return text.substr(from, *at - from);
  }
  std::string part;
  for (size_t next= *at + 1; next < text.size(); next++) {
    const bool quote= text[next] == '`', twice= quote && next + 1 < text.size() && text[next + 1] == '`';
    if (quote && !twice) {
      *at= next + 1;
      return part;
    }
    part+= text[next];
    next+= twice;
  }
  *at= text.size();
  return std::string();
}

queue_name::queue_name(const std::string &text)
{
  size_t at= 0;
  is_quoted= text[0] == '`';
  table= part_of(text, &at, ".:");
  if (at < text.size() && text[at] == '.') {
    db= table;
    at++;
    is_quoted= text[at] == '`';
    table= part_of(text, &at, ":");
  }
  rest= text.substr(at);
}

static std::string quoted(const std::string &name)
{
  if (name.find_first_of(".:,` ") == std::string::npos)
    return name;
  std::string text= "`";
  for (const char byte : name)
    text+= std::string(byte == '`' ? 2 : 1, byte);
  return text + "`";
}

std::string queue_text_of_name(const std::string &db, const std::string &table)
{
  return quoted(db) + "." + quoted(table);
}

/* For lower_case_table_names. A letter may take more bytes in lower case; four for each byte are always
   enough. */
static std::string in_lower_case(std::string name)
{
  std::string lower(name.size() * 4, '\0');
  lower.resize(files_charset_info->casedn(&name[0], name.size(), &lower[0], lower.size()));
  return lower;
}

std::string queue_folder_of_table(const std::string &db, const std::string &table)
{
  const bool lower= lower_case_table_names;
  char path[FN_REFLEN + 1];
  const uint length= build_table_filename(path, sizeof(path) - 8, (lower ? in_lower_case(db) : db).c_str(),
                                          (lower ? in_lower_case(table) : table).c_str(), ".queue", 0);
  return std::string(path, length);
}

/* What somebody may do with a table. */
enum class Granted { nothing, columns, all };

/* Whether the user has the privileges; with the name of a column, SELECT need only be granted on that. */
static Granted granted_to(THD *thd, const std::string &db, const std::string &name, privilege_t privileges, const std::string &column)
{
  privilege_t there= NO_ACL;
  if (check_access(thd, privileges, db.c_str(), &there, nullptr, false, true))
    return Granted::nothing;
  if ((there & privileges) == privileges)
    return Granted::all;
  /* A server of another patch release may have more members, so no member of ours may follow directly. */
  struct {
    TABLE_LIST table;
    char room[4096];
  } named;
  memset(static_cast<void *>(&named), 0, sizeof(named));
  LEX_CSTRING db_name= {db.c_str(), db.size()}, table_name= {name.c_str(), name.size()};
  named.table.init_one_table(&db_name, &table_name, nullptr, TL_READ);
  named.table.grant.privilege= there;
  if (check_grant(thd, privileges, &named.table, false, 1, true))
    return Granted::nothing;
  if (!(named.table.grant.want_privilege & SELECT_ACL))
    return Granted::all;
  if (column.empty())
    return Granted::columns;
#if MYSQL_VERSION_ID < 110800
  const privilege_t on_column= get_column_grant(thd, &named.table.grant, db.c_str(), name.c_str(), column.c_str());
#else
  const privilege_t on_column= get_column_grant(thd, &named.table.grant, Lex_ident_db(db.c_str(), db.size()),
                                                Lex_ident_table(name.c_str(), name.size()),
                                                Lex_ident_column(column.c_str(), column.size()));
#endif
  return on_column & SELECT_ACL ? Granted::all : Granted::columns;
}

/* The same for the user, or for the definer of the view through which the statement reads this table:
   whoever may do more. */
static Granted granted(THD *thd, const std::string &db, const std::string &name, privilege_t privileges,
                       const std::string &column= std::string())
{
  Granted most= granted_to(thd, db, name, privileges, column);
  for (const TABLE_LIST *table= thd->lex->query_tables; table && most != Granted::all; table= table->next_global) {
    if (!table->security_ctx || table->security_ctx == thd->security_ctx || table->view ||
        db != table->db.str || name != table->table_name.str)
      continue;
    Security_context *before= thd->security_ctx;
    thd->security_ctx= table->security_ctx;
    most= MY_MAX(most, granted_to(thd, db, name, privileges, column));
    thd->security_ctx= before;
  }
  return most;
}

bool queue_opened::may_read(THD *thd, const std::string &column) const
{
  return !by_columns || (!column.empty() && granted(thd, db, table, SELECT_ACL, column) == Granted::all);
}

namespace {
struct Look {
  THD *thd;
  const queue_opened *table;
  bool refused;
  std::string column;
};
}

static int look_at(void *context, rq_slice name)
{
  Look *look= static_cast<Look *>(context);
  look->column.assign(reinterpret_cast<const char *>(name.bytes), name.len);
  look->refused= !look->table->may_read(look->thd, look->column);
  return look->refused;
}

bool queue_opened::may_show(THD *thd, const rq_slice *condition)
{
  if (!by_columns)
    return true;
  Look look= {thd, this, false, std::string()};
  rq_error error;
  /* What is wrong with the condition is told by whoever uses it. */
  rq_each_column(queue, condition, look_at, &look, &error);
  if (!look.refused)
    return true;
  return refuse(ER_COLUMNACCESS_DENIED_ERROR, look.column.empty() ? "no privilege for failed() and why() of " + name + ": SELECT is granted on columns"
                                                                  : "no privilege to read column " + look.column + " of " + name);
}

bool queue_opened::open_for_reader(THD *thd, const queue_name &named, privilege_t privileges)
{
  queue_name one= named;
  one.rest.erase(MY_MIN(one.rest.find(':'), one.rest.size()));
  if (!one.rest.empty() && one.rest[0] == '@') {
    reader= one.rest.substr(1);
    one.rest.clear();
    return open(thd, one, privileges);
  }
  const size_t at= one.table.rfind('@');
  if (at == std::string::npos || one.is_quoted)
    return open(thd, one, privileges);
  queue_name without= one;
  without.table.erase(at);
  if (open(thd, without, privileges)) {
    reader= one.table.substr(at + 1);
    return true;
  }
  /* The name of a table may have an @. */
  return is_missing && open(thd, one, privileges);
}

bool queue_opened::open(THD *thd, const queue_name &named, privilege_t privileges)
{
  db= named.db;
  table= named.table;
  is_missing= false;
  const LEX_CSTRING *current= thd_current_db(thd);
  if (db.empty() && current->str)
    db.assign(current->str, current->length);
  if (db.empty())
    return refuse(ER_NO_DB_ERROR, "no database selected");
  if (table.empty() || !named.rest.empty() || db.size() > NAME_LEN || table.size() > NAME_LEN)
    return refuse(ER_WRONG_TABLE_NAME, "not a table name; quote a name with . or : in backticks");
  if (lower_case_table_names) {
    db= in_lower_case(db);
    table= in_lower_case(table);
  }
  name= queue_text_of_name(db, table);
  const Granted may= granted(thd, db, table, privileges);
  if (may == Granted::nothing)
    return refuse(ER_TABLEACCESS_DENIED_ERROR, "no privilege for this on " + name);
  by_columns= may == Granted::columns;
  folder= queue_folder_of_table(db, table);
  return find(thd);
}

bool queue_opened::find(THD *thd)
{
  queue_connection *connection= queue_connection_of(thd);
  rq_error error;
  if (!connection)
    return refuse(0, std::string());
  if (queue)
    rq_release(queue);
  if (const int code= rq_find(connection->session, {reinterpret_cast<const uchar *>(folder.data()), folder.size()}, &queue, &error)) {
    queue= nullptr;
    is_missing= code == RQ_MISSING;
    return is_missing ? refuse(ER_NO_SUCH_TABLE, "there is no queue " + name) : refuse(ER_GET_ERRMSG, name + ": " + error.text);
  }
  return true;
}

std::pair<std::string, std::string> queue_names_of(const std::string &folder)
{
  const size_t end= folder.rfind(".queue"), name= folder.rfind('/');
  if (end == std::string::npos || name == std::string::npos || !name || end < name)
    return {};
  const size_t before= folder.rfind('/', name - 1), database= before == std::string::npos ? 0 : before + 1;
  const auto decoded= [](const std::string &part) {
    char text[NAME_LEN + 1];
    return std::string(text, filename_to_tablename(part.c_str(), text, sizeof(text), true));
  };
  return {decoded(folder.substr(database, name - database)), decoded(folder.substr(name + 1, end - name - 1))};
}

bool queue_lock_definition(THD *thd, const std::string &folder)
{
  const auto names= queue_names_of(folder);
  MDL_request request;
  MDL_REQUEST_INIT(&request, MDL_key::TABLE, names.first.c_str(), names.second.c_str(), MDL_SHARED_WRITE, MDL_TRANSACTION);
  if (!thd->mdl_context.acquire_lock(&request, static_cast<double>(thd->variables.lock_wait_timeout)))
    return true;
  /* As when a statement can't open its tables. */
  if (thd_current_status(thd) == ER_LOCK_DEADLOCK)
    thd->mark_transaction_to_rollback(true);
  return false;
}

bool queue_opened::is_read_here(THD *thd) const
{
  const auto names= queue_names_of(folder);
  return thd->mdl_context.is_lock_owner(MDL_key::TABLE, names.first.c_str(), names.second.c_str(), MDL_SHARED_READ);
}

bool queue_opened::lock(THD *thd)
{
  return queue_lock_definition(thd, folder) && find(thd);
}
