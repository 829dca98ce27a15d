/* Columns that show what the core knows of a row. See queue_info_columns.h. */
#include "queue_server.h"

#include <string>

#include "queue_options.h"
#include "queue_info_columns.h"
#include "queue_opened.h"

static const char *text_of(rq_slice slice)
{
  return reinterpret_cast<const char *>(slice.bytes);
}

bool queue_find_column(const TABLE *table, const char *option, const char *name, const Field **found)
{
  *found= nullptr;
  if (!name || !*name)
    return true;
  for (Field **at= table->field; *at; at++)
    if (!my_strcasecmp(system_charset_info, (*at)->field_name.str, name)) {
      *found= *at;
      return true;
    }
  my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION,
                  "Queue: %s='%s' is not a column; after renaming a column, change the option too", MYF(0), option, name);
  return false;
}

/* Finds the column that an option names, and that shows what the core knows. */
static bool find_info_column(const TABLE *table, const char *option, const char *name, bool number, int *found)
{
  const Field *field;
  if (!queue_find_column(table, option, name, &field))
    return false;
  if (field) {
    const bool fits= number ? field->cmp_type() == INT_RESULT && field->real_type() != MYSQL_TYPE_BIT
                            : field->real_type() == MYSQL_TYPE_VARCHAR || (field->flags & BLOB_FLAG);
    if (!fits || !field->real_maybe_null() || field->vcol_info) {
      my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Queue: column '%s' can't show %s: it must be %s that may be NULL, and not generated",
                      MYF(0), name, option, number ? "an integer" : "a VARCHAR or TEXT");
      return false;
    }
    *found= field->field_index;
  }
  return true;
}

bool queue_find_info_columns(const TABLE *table, const ha_table_option_struct *options, queue_info_columns *info_columns)
{
  return find_info_column(table, "FAILED", options->failed, true, &info_columns->failed) &&
         find_info_column(table, "WHY", options->why, false, &info_columns->why) &&
         find_info_column(table, "TOKEN", options->token, false, &info_columns->token);
}

static void store_text(Field *field, const std::string &text)
{
  if (text.empty())
    return;
  field->set_notnull();
  field->store(text.data(), text.size(), &my_charset_utf8mb4_bin);
}

void queue_fill_info_columns(const TABLE *table, uchar *record, const queue_info_columns &info_columns, const rq_delivery_info &known)
{
  const my_ptrdiff_t offset= record - table->record[0];
  for (const int at : {info_columns.failed, info_columns.why, info_columns.token}) {
    if (at < 0)
      continue;
    Field *field= table->field[at];
    field->move_field_offset(offset);
    field->set_null();
    if (at == info_columns.failed) {
      field->set_notnull();
      field->store(static_cast<longlong>(known.failed), true);
    } else if (at == info_columns.why)
      store_text(field, std::string(text_of(known.why), known.why.len));
    else if (known.token.len)
      store_text(field, queue_text_of_name(std::string(table->s->db.str, table->s->db.length),
                                           std::string(table->s->table_name.str, table->s->table_name.length)) +
                            ":" + std::string(text_of(known.token), known.token.len));
    field->move_field_offset(-offset);
  }
}
