/* A table that a function got by name. See queue_opened.h. */
#define MYSQL_SERVER 1

#include <my_global.h>

#include "sql_class.h"
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

void queue_warn(THD *thd, const char *text)
{
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_UNKNOWN_ERROR, "Queue: %s", text);
}

/* For lower_case_table_names. A letter may take more bytes in lower case; four for each byte are always
   enough. */
static std::string in_lower_case(std::string name)
{
  std::string lower(name.size() * 4, '\0');
  lower.resize(files_charset_info->casedn(&name[0], name.size(), &lower[0], lower.size()));
  return lower;
}

static bool may(THD *thd, const std::string &db, const std::string &name, privilege_t privileges)
{
  privilege_t there= NO_ACL;
  if (check_access(thd, privileges, db.c_str(), &there, nullptr, false, true))
    return false;
  if ((there & privileges) == privileges)
    return true;
  /* A server of another patch release may have more members, so no member of ours may follow directly. */
  struct {
    TABLE_LIST table;
    char room[4096];
  } named;
  memset(static_cast<void *>(&named), 0, sizeof(named));
  LEX_CSTRING db_name= {db.c_str(), db.size()}, table_name= {name.c_str(), name.size()};
  named.table.init_one_table(&db_name, &table_name, nullptr, TL_READ);
  named.table.grant.privilege= there;
  return !check_grant(thd, privileges, &named.table, false, 1, true);
}

/* Whether the user has the privilege, or the definer of the view through which the statement reads this
   table. */
static bool is_allowed(THD *thd, const std::string &db, const std::string &name, privilege_t privileges)
{
  if (may(thd, db, name, privileges))
    return true;
  for (const TABLE_LIST *table= thd->lex->query_tables; table; table= table->next_global) {
    if (!table->security_ctx || table->security_ctx == thd->security_ctx || table->view ||
        db != table->db.str || name != table->table_name.str)
      continue;
    Security_context *before= thd->security_ctx;
    thd->security_ctx= table->security_ctx;
    const bool allowed= may(thd, db, name, privileges);
    thd->security_ctx= before;
    if (allowed)
      return true;
  }
  return false;
}

bool queue_opened::open_for_reader(THD *thd, const std::string &text, privilege_t privileges)
{
  const size_t at= text.rfind('@');
  if (at == std::string::npos)
    return open(thd, text, privileges);
  if (open(thd, text.substr(0, at), privileges, true)) {
    reader= text.substr(at + 1);
    return true;
  }
  /* The name of a table may have an @. */
  return is_missing && open(thd, text, privileges);
}

bool queue_opened::open(THD *thd, const std::string &text, privilege_t privileges, bool may_be_missing)
{
  const size_t dot= text.find('.');
  std::string db= dot == std::string::npos ? std::string() : text.substr(0, dot);
  std::string table= dot == std::string::npos ? text : text.substr(dot + 1);
  const LEX_CSTRING *current= thd_current_db(thd);
  if (dot == std::string::npos && current->str)
    db.assign(current->str, current->length);
  if (db.empty() || table.empty() || db.size() > NAME_LEN || table.size() > NAME_LEN) {
    queue_warn(thd, db.empty() ? "no database selected" : "not the name of a table");
    return false;
  }
  if (lower_case_table_names) {
    db= in_lower_case(db);
    table= in_lower_case(table);
  }
  name= db + "." + table;
  if (!is_allowed(thd, db, table, privileges)) {
    queue_warn(thd, ("no privilege for this on " + name).c_str());
    return false;
  }
  char path[FN_REFLEN + 1];
  const uint length= build_table_filename(path, sizeof(path) - 8, db.c_str(), table.c_str(), ".queue", 0);
  folder.assign(path, length);
  return find(thd, may_be_missing);
}

bool queue_opened::find(THD *thd, bool may_be_missing)
{
  queue_connection *connection= queue_connection_of(thd);
  rq_error error;
  if (!connection)
    return false;
  if (queue)
    rq_release(queue);
  if (const int code= rq_find(connection->session, {reinterpret_cast<const uchar *>(folder.data()), folder.size()}, &queue, &error)) {
    queue= nullptr;
    is_missing= code == RQ_MISSING;
    if (!is_missing || !may_be_missing)
      queue_warn(thd, (is_missing ? "there is no queue " + name : name + ": " + error.text).c_str());
    return false;
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
  return queue_lock_definition(thd, folder) && find(thd, false);
}
