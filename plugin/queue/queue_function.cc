/*
  The functions of the queue. They are native functions, so they raise errors and warnings of their own, and nothing has
  to be created in mysql.func.
*/
#define MYSQL_SERVER 1

#include <my_global.h>

#include <atomic>
#include <string>
#include <vector>

#include "sql_class.h"
#include "sql_parse.h"
#include "sql_table.h"
#include "sql_acl.h"
#include "item_create.h"
#include "item_func.h"
#include "item_strfunc.h"

#include "ha_queue.h"
#include "queue_function.h"

/* How long queue_wait() waits when it is not told. */
static const longlong timeout_default_s= 60;

static const longlong timeout_max_s= LONGLONG_MAX / 1000;

static void warn(THD *thd, const char *text)
{
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_UNKNOWN_ERROR, "Queue: %s", text);
}

/* A table that a function was given, open as long as this lives. */
class Opened {
public:
  ~Opened()
  {
    if (queue)
      rq_release(queue);
  }
  Opened()= default;
  Opened(const Opened &)= delete;
  Opened &operator=(const Opened &)= delete;

  const rq_queue *queue= nullptr;

  /* Opens `name` or `db.name`; false with a warning when it is no queue, or not one that the user may take from. */
  bool open(THD *thd, const std::string &text, privilege_t privileges)
  {
    const size_t dot= text.find('.');
    std::string db= dot == std::string::npos ? std::string() : text.substr(0, dot);
    std::string name= dot == std::string::npos ? text : text.substr(dot + 1);
    if (db.empty() && thd->db.str)
      db.assign(thd->db.str, thd->db.length);
    if (db.empty() || name.empty() || db.size() > NAME_LEN || name.size() > NAME_LEN) {
      warn(thd, db.empty() ? "no database selected" : "not the name of a table");
      return false;
    }
    if (lower_case_table_names) {
      my_casedn_str(files_charset_info, &db[0]);
      my_casedn_str(files_charset_info, &name[0]);
    }
    TABLE_LIST table;
    LEX_CSTRING db_name= {db.c_str(), db.size()}, table_name= {name.c_str(), name.size()};
    table.init_one_table(&db_name, &table_name, nullptr, TL_READ);
    if (check_table_access(thd, privileges, &table, false, 1, true)) {
      warn(thd, ("no privilege to take from " + db + "." + name).c_str());
      return false;
    }
    char path[FN_REFLEN + 1];
    const uint length= build_table_filename(path, sizeof(path) - 8, db.c_str(), name.c_str(), ".queue", 0);
    rq_error error;
    if (rq_open({reinterpret_cast<uchar *>(path), length}, &queue, &error)) {
      queue= nullptr;
      warn(thd, error.text);
      return false;
    }
    return true;
  }
};

static int still_there(void *context)
{
  THD *thd= static_cast<THD *>(context);
  return !thd_killed(thd) && thd->is_connected();
}

/* What the functions share: an integer, computed once in a statement. */
class Item_queue : public Item_longlong_func {
public:
  Item_queue(THD *thd, List<Item> &list) : Item_longlong_func(thd, list) {}
  Item_queue(THD *thd) : Item_longlong_func(thd) {}

  /* Constant, so that WHERE evaluates it before it reads a row, and expensive, so that it does so at execution. */
  bool is_expensive() override { return true; }
  bool fix_length_and_dec(THD *) override
  {
    max_length= MAX_BIGINT_WIDTH;
    set_maybe_null();
    return false;
  }
  longlong val_int() override
  {
    THD *thd= current_thd;
    /* Once in a statement: the second time it would consume the row that the first was given. */
    if (evaluated != thd->query_id) {
      evaluated= thd->query_id;
      result_null= false;
      result= const_item() ? evaluate(thd) : refuse_columns();
    }
    null_value= result_null;
    return null_value ? 0 : result;
  }
  bool check_vcol_func_processor(void *arg) override
  {
    return mark_unsupported_function(func_name_cstring().str, "()", arg, VCOL_IMPOSSIBLE);
  }

protected:
  virtual longlong evaluate(THD *thd)= 0;
  longlong null()
  {
    result_null= true;
    return 0;
  }
  queue_connection *connection(THD *thd) { return queue_connection_of(thd); }
  std::string text(uint at)
  {
    StringBuffer<256> buffer;
    String *value= args[at]->val_str(&buffer);
    if (!value)
      return std::string();
    String utf8;
    uint errors;
    utf8.copy(value, &my_charset_utf8mb4_bin, &errors);
    return std::string(utf8.ptr(), utf8.length());
  }
  static longlong raise(const rq_error &error)
  {
    my_printf_error(ER_GET_ERRMSG, "Queue: %s", MYF(0), error.text);
    return 0;
  }

private:
  longlong refuse_columns()
  {
    my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to %s: they must be constants", MYF(0),
                    func_name_cstring().str);
    return null();
  }

  query_id_t evaluated= 0;
  longlong result= 0;
  bool result_null= false;
};

#define QUEUE_ITEM(CLASS, NAME)                                                                                        \
  LEX_CSTRING func_name_cstring() const override                                                                       \
  {                                                                                                                    \
    static LEX_CSTRING name= {STRING_WITH_LEN(NAME)};                                                                  \
    return name;                                                                                                       \
  }                                                                                                                    \
  Item *shallow_copy(THD *thd) const override { return get_item_copy<CLASS>(thd, this); }

/* queue_wait(table[:condition] [, ... , seconds]) and queue_wait_n(rows, the same) */
class Item_queue_wait : public Item_queue {
public:
  Item_queue_wait(THD *thd, List<Item> &list) : Item_queue(thd, list) {}
  QUEUE_ITEM(Item_queue_wait, "queue_wait")

protected:
  longlong evaluate(THD *thd) override
  {
    queue_called.wait++;
    return wait(thd, 0, 1);
  }
  longlong wait(THD *thd, uint first, size_t rows_max)
  {
    queue_connection *mine= connection(thd);
    if (!mine)
      return null();
    /* With several arguments the last one is the time. */
    const bool timed= arg_count > first + 1;
    const uint tables= timed ? arg_count - 1 - first : 1;
    longlong seconds= timeout_default_s;
    if (timed) {
      seconds= args[arg_count - 1]->val_int();
      if (args[arg_count - 1]->null_value)
        return refuse(thd, mine, "the time to wait is NULL");
    }
    std::vector<Opened> opened(tables);
    std::vector<std::string> conditions(tables);
    std::vector<rq_target> targets;
    for (uint at= 0; at < tables; at++) {
      std::string argument= text(first + at);
      const size_t colon= argument.find(':');
      if (colon != std::string::npos)
        conditions[at]= argument.substr(colon + 1);
      if (!opened[at].open(thd, argument.substr(0, colon), SELECT_ACL | DELETE_ACL))
        return refuse(thd, mine, nullptr);
      const auto *bytes= reinterpret_cast<const uchar *>(conditions[at].data());
      targets.push_back({opened[at].queue, {bytes, conditions[at].size()}});
    }
    const longlong timeout_ms= seconds <= 0 ? 0 : MY_MIN(seconds, timeout_max_s) * 1000;
    int outcome= RQ_TIMED_OUT;
    size_t target= 0;
    rq_error error;
    const char *before= thd_proc_info(thd, "Waiting in queue_wait");
    thd_wait_begin(thd, THD_WAIT_SLEEP);
    int code= rq_wait(mine->session, targets.data(), targets.size(), rows_max, timeout_ms, still_there, thd, &outcome,
                      &target, &error);
    thd_wait_end(thd);
    thd_proc_info(thd, before);
    switch (code) {
    case RQ_OK:
      break;
    case RQ_CONDITION:
      return refuse(thd, mine, error.text);
    case RQ_DROPPED:
      return 0;
    default:
      raise(error);
      return null();
    }
    if (outcome != RQ_INTERRUPTED)
      queue_mark_owner(thd);
    /* An interrupt has its own error. */
    return outcome == RQ_INTERRUPTED ? null() : outcome == RQ_TAKEN ? static_cast<longlong>(target) + 1 : 0;
  }

private:
  /* NULL, as the original; what was owned is consumed nevertheless. */
  longlong refuse(THD *thd, queue_connection *mine, const char *why)
  {
    if (why)
      warn(thd, why);
    rq_error error;
    if (rq_end(mine->session, &error))
      raise(error);
    return null();
  }
};

class Item_queue_wait_n final : public Item_queue_wait {
public:
  Item_queue_wait_n(THD *thd, List<Item> &list) : Item_queue_wait(thd, list) {}
  QUEUE_ITEM(Item_queue_wait_n, "queue_wait_n")

protected:
  longlong evaluate(THD *thd) override
  {
    queue_called.wait++;
    longlong rows= args[0]->val_int();
    if (args[0]->null_value || rows < 1) {
      my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to queue_wait_n: at least one row", MYF(0));
      return null();
    }
    return wait(thd, 1, static_cast<size_t>(rows));
  }
};

class Item_queue_end final : public Item_queue {
public:
  Item_queue_end(THD *thd, List<Item> &list) : Item_queue(thd, list) {}
  QUEUE_ITEM(Item_queue_end, "queue_end")

protected:
  longlong evaluate(THD *thd) override
  {
    queue_called.end++;
    queue_connection *mine= connection(thd);
    rq_error error;
    if (!mine || rq_end(mine->session, &error))
      return mine ? raise(error) : null();
    return 1;
  }
};

class Item_queue_abort final : public Item_queue {
public:
  Item_queue_abort(THD *thd, List<Item> &list) : Item_queue(thd, list) {}
  QUEUE_ITEM(Item_queue_abort, "queue_abort")

protected:
  longlong evaluate(THD *thd) override
  {
    queue_called.abort++;
    queue_connection *mine= connection(thd);
    if (!mine || !rq_is_owner(mine->session)) {
      my_printf_error(ER_CANT_INITIALIZE_UDF, "Can't initialize function 'queue_abort'; not in owner mode", MYF(0));
      return null();
    }
    rq_error error;
    return rq_abort(mine->session, &error) ? raise(error) : 1;
  }
};

class Item_queue_rowid final : public Item_queue {
public:
  Item_queue_rowid(THD *thd, List<Item> &list) : Item_queue(thd, list) {}
  QUEUE_ITEM(Item_queue_rowid, "queue_rowid")

protected:
  longlong evaluate(THD *thd) override
  {
    queue_called.rowid++;
    queue_connection *mine= connection(thd);
    if (!mine || !rq_is_owner(mine->session)) {
      my_printf_error(ER_CANT_INITIALIZE_UDF, "Can't initialize function 'queue_rowid'; not in owner mode", MYF(0));
      return null();
    }
    const uint64_t row= rq_owned_row(mine->session);
    return row ? static_cast<longlong>(row) : null();
  }
};

class Item_queue_set_srcid final : public Item_queue {
public:
  Item_queue_set_srcid(THD *thd, List<Item> &list) : Item_queue(thd, list) {}
  QUEUE_ITEM(Item_queue_set_srcid, "queue_set_srcid")

protected:
  longlong evaluate(THD *thd) override
  {
    queue_called.set_srcid++;
    queue_connection *mine= connection(thd);
    const longlong slot= args[0]->val_int();
    const std::string mode= text(1);
    const longlong row= args[2]->val_int();
    if (!mine || slot < 0 || slot > 63 || (mode != "a" && mode != "w")) {
      warn(thd, "a slot is 0 to 63 and a mode 'a' or 'w'");
      return null();
    }
    rq_set_origin(mine->session, static_cast<uint32_t>(slot), mode == "w", static_cast<uint64_t>(row));
    return 1;
  }
};

class Item_queue_compact final : public Item_queue {
public:
  Item_queue_compact(THD *thd, List<Item> &list) : Item_queue(thd, list) {}
  QUEUE_ITEM(Item_queue_compact, "queue_compact")

protected:
  longlong evaluate(THD *thd) override
  {
    Opened table;
    rq_error error;
    if (!table.open(thd, text(0), DELETE_ACL))
      return null();
    return rq_compact(table.queue, &error) ? raise(error) : 1;
  }
};

class Item_queue_stats final : public Item_str_func {
public:
  Item_queue_stats(THD *thd, List<Item> &list) : Item_str_func(thd, list) {}
  QUEUE_ITEM(Item_queue_stats, "queue_stats")
  bool is_expensive() override { return true; }
  bool fix_length_and_dec(THD *) override
  {
    collation.set(&my_charset_latin1);
    max_length= 1024;
    set_maybe_null();
    return false;
  }
  String *val_str(String *out) override
  {
    StringBuffer<256> buffer;
    String *name= args[0]->val_str(&buffer);
    Opened table;
    null_value= !name || !table.open(current_thd, std::string(name->ptr(), name->length()), SELECT_ACL);
    if (null_value)
      return nullptr;
    rq_status status;
    rq_get_status(table.queue, &status);
    const std::pair<const char *, ulonglong> lines[]= {
        {"rows_written", status.rows_written},           {"rows_removed", status.rows_removed},
        {"wait_immediate", status.wait_immediate},       {"wait_delayed", status.wait_delayed},
        {"wait_timeout", status.wait_timeout},           {"restored_by_abort", status.restored_by_abort},
        {"restored_by_close", status.restored_by_close}, {"bytes_total", status.bytes},
        {"bytes_removed", status.bytes - MY_MIN(status.bytes, status.live_bytes)}};
    out->set_charset(&my_charset_latin1);
    out->length(0);
    for (const auto &line : lines) {
      out->append(line.first, strlen(line.first));
      out->append(STRING_WITH_LEN(": "));
      out->append_ulonglong(line.second);
      out->append('\n');
    }
    return out;
  }
};

/* Makes an item when a statement names the function with as many arguments as it takes. */
template <class ITEM, uint AT_LEAST, uint AT_MOST> class Create_queue final : public Create_native_func {
public:
  Item *create_native(THD *thd, const LEX_CSTRING *name, List<Item> *list) override
  {
    List<Item> none;
    List<Item> &arguments= list ? *list : none;
    if (arguments.elements < AT_LEAST || arguments.elements > AT_MOST) {
      my_error(ER_WRONG_PARAMCOUNT_TO_NATIVE_FCT, MYF(0), name->str);
      return nullptr;
    }
    return new (thd->mem_root) ITEM(thd, arguments);
  }
  static Create_queue singleton;

private:
  Create_queue()= default;
};

template <class ITEM, uint AT_LEAST, uint AT_MOST>
Create_queue<ITEM, AT_LEAST, AT_MOST> Create_queue<ITEM, AT_LEAST, AT_MOST>::singleton;

/* A statement may name so many tables to wait on. */
static const uint arguments_max= 64;

Plugin_function queue_wait_plugin(&Create_queue<Item_queue_wait, 1, arguments_max>::singleton);
Plugin_function queue_wait_n_plugin(&Create_queue<Item_queue_wait_n, 2, arguments_max>::singleton);
Plugin_function queue_end_plugin(&Create_queue<Item_queue_end, 0, arguments_max>::singleton);
Plugin_function queue_abort_plugin(&Create_queue<Item_queue_abort, 0, 0>::singleton);
Plugin_function queue_rowid_plugin(&Create_queue<Item_queue_rowid, 0, 0>::singleton);
Plugin_function queue_set_srcid_plugin(&Create_queue<Item_queue_set_srcid, 3, 3>::singleton);
Plugin_function queue_compact_plugin(&Create_queue<Item_queue_compact, 1, 1>::singleton);
Plugin_function queue_stats_plugin(&Create_queue<Item_queue_stats, 1, 1>::singleton);
