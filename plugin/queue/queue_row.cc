/* Rows as the core stores them. See queue_row.h. */
#include "queue_server.h"

#include "queue_row.h"

static bool is_variable(const Field *field)
{
  return field->real_type() == MYSQL_TYPE_VARCHAR || (field->flags & BLOB_FLAG);
}

static const TYPELIB *typelib_of(const Field *field)
{
#if MYSQL_VERSION_ID < 110800
  return field->get_typelib();
#else
  return static_cast<const Field_enum *>(field)->typelib();
#endif
}

/* `members` receives the members of an ENUM; it must live as long as the column. */
static void describe(const Field *field, rq_column *column, std::vector<rq_slice> *members)
{
  column->kind= RQ_OPAQUE;
  switch (field->real_type()) {
  case MYSQL_TYPE_TINY:
  case MYSQL_TYPE_SHORT:
  case MYSQL_TYPE_INT24:
  case MYSQL_TYPE_LONG:
  case MYSQL_TYPE_LONGLONG:
    column->kind= RQ_INTEGER;
    column->one= !(field->flags & UNSIGNED_FLAG);
    break;
  case MYSQL_TYPE_NEWDECIMAL:
    /* A condition can't calculate with so many digits, only test for NULL. */
    if (static_cast<const Field_new_decimal *>(field)->precision > 38)
      break;
    column->kind= RQ_DECIMAL;
    column->one= static_cast<const Field_new_decimal *>(field)->precision;
    column->two= field->decimals();
    break;
  case MYSQL_TYPE_YEAR:
    column->kind= RQ_YEAR;
    break;
  case MYSQL_TYPE_NEWDATE:
    column->kind= RQ_DATE;
    break;
  case MYSQL_TYPE_TIME2:
    column->kind= RQ_TIME;
    column->one= field->decimals();
    break;
  case MYSQL_TYPE_DATETIME2:
    column->kind= RQ_DATETIME;
    column->one= field->decimals();
    break;
  case MYSQL_TYPE_TIMESTAMP2:
    column->kind= RQ_TIMESTAMP;
    column->one= field->decimals();
    break;
  case MYSQL_TYPE_ENUM: {
    const TYPELIB *typelib= typelib_of(field);
    for (uint at= 0; at < typelib->count; at++)
      members->push_back({reinterpret_cast<const uchar *>(typelib->type_names[at]), typelib->type_lengths[at]});
    column->kind= RQ_ENUM;
    column->one= field->charset()->number;
    column->members= members->data();
    column->member_count= members->size();
    break;
  }
  case MYSQL_TYPE_STRING:
    /* UUID and INET6 look like CHAR but are not. */
    if (field->type_handler() != &type_handler_string)
      break;
    /* fall through */
  case MYSQL_TYPE_VARCHAR:
  case MYSQL_TYPE_BLOB:
    if (!field->compression_method()) {
      column->kind= RQ_TEXT;
      column->one= field->charset()->number;
    }
    break;
  default:
    break;
  }
}

uint32_t queue_kind_of(const Field *field)
{
  rq_column column= {};
  std::vector<rq_slice> members;
  describe(field, &column, &members);
  return column.kind;
}

/*
  The number of the first NULL bit in a row. It and those that follow are as the server numbers them in a table
  without the columns that are noted: there one bit comes before them if all columns have a fixed length.
*/
static uint first_null_bit(const TABLE *table, const queue_info_columns &info_columns)
{
  for (Field **at= table->field; *at; at++)
    if (is_variable(*at) && !info_columns.has(*at))
      return 0;
  return 1;
}

uint queue_null_bytes(const TABLE *table, const queue_info_columns &info_columns)
{
  if (!info_columns.any())
    return table->s->null_bytes;
  uint bits= first_null_bit(table, info_columns);
  for (Field **at= table->field; *at; at++)
    bits+= (*at)->null_ptr && !info_columns.has(*at);
  return (bits + 7) / 8;
}

/* Appends the NULL bits of a record. */
static void pack_nulls(const TABLE *table, const queue_info_columns &info_columns, const uchar *record, std::vector<uchar> &out)
{
  if (!info_columns.any()) {
    out.assign(record, record + table->s->null_bytes);
    return;
  }
  uint bit= first_null_bit(table, info_columns);
  out.assign(queue_null_bytes(table, info_columns), 0);
  if (bit)
    out[0]= 1;
  for (Field **at= table->field; *at; at++)
    if ((*at)->null_ptr && !info_columns.has(*at)) {
      if ((*at)->is_real_null(record - table->record[0]))
        out[bit / 8]|= static_cast<uchar>(1 << bit % 8);
      bit++;
    }
}

static void unpack_nulls(const TABLE *table, const queue_info_columns &info_columns, uchar *record, const uchar *bytes)
{
  if (!info_columns.any()) {
    memcpy(record, bytes, table->s->null_bytes);
    return;
  }
  uint bit= first_null_bit(table, info_columns);
  memcpy(record, table->s->default_values, table->s->null_bytes);
  for (Field **at= table->field; *at; at++)
    if ((*at)->null_ptr && !info_columns.has(*at)) {
      if (bytes[bit / 8] >> bit % 8 & 1)
        (*at)->set_null(record - table->record[0]);
      else
        (*at)->set_notnull(record - table->record[0]);
      bit++;
    }
}

std::vector<rq_column> queue_columns(const TABLE *table, const queue_info_columns &info_columns, uint *fixed,
                                     std::deque<std::vector<rq_slice>> *members)
{
  std::vector<rq_column> columns;
  *fixed= 0;
  uint variable= 0, null_bit= first_null_bit(table, info_columns);
  for (Field **at= table->field; *at; at++) {
    const Field *field= *at;
    if (info_columns.has(field))
      continue;
    rq_column column{};
    column.name= {reinterpret_cast<const uchar *>(field->field_name.str), field->field_name.length};
    members->emplace_back();
    describe(field, &column, &members->back());
    column.is_variable= is_variable(field);
    if (column.is_variable)
      column.offset= variable++;
    else {
      column.offset= *fixed;
      column.len= field->pack_length();
      *fixed+= column.len;
    }
    column.null_bit= -1;
    if (field->null_ptr && info_columns.any())
      column.null_bit= static_cast<int>(null_bit++);
    else if (field->null_ptr)
      column.null_bit= static_cast<int>(8 * (field->null_ptr - table->record[0]) + my_bit_log2_uint64(field->null_bit));
    columns.push_back(column);
  }
  return columns;
}

static void put_length(std::vector<uchar> &out, size_t length)
{
  for (; length >= 0x80; length>>= 7)
    out.push_back(static_cast<uchar>(length | 0x80));
  out.push_back(static_cast<uchar>(length));
}

/* The value of a column of variable length; empty when it is NULL. */
static rq_slice variable_value(const Field *field, my_ptrdiff_t offset)
{
  if (field->is_real_null(offset))
    return {nullptr, 0};
  const uchar *at= field->ptr + offset;
  if (field->flags & BLOB_FLAG) {
    const Field_blob *blob= static_cast<const Field_blob *>(field);
    uchar *bytes;
    memcpy(&bytes, at + blob->pack_length_no_ptr(), sizeof(bytes));
    return {bytes, blob->get_length(at)};
  }
  const uint length_bytes= static_cast<const Field_varstring *>(field)->length_bytes;
  return {at + length_bytes, static_cast<size_t>(length_bytes == 1 ? *at : uint2korr(at))};
}

rq_slice queue_bytes_of(const Field *field)
{
  return is_variable(field) ? variable_value(field, 0) : rq_slice{field->ptr, field->pack_length()};
}

void queue_pack(const TABLE *table, const queue_info_columns &info_columns, const uchar *record, std::vector<uchar> &out)
{
  const my_ptrdiff_t offset= record - table->record[0];
  pack_nulls(table, info_columns, record, out);
  for (Field **field= table->field; *field; field++)
    if (!is_variable(*field) && !info_columns.has(*field)) {
      const uchar *at= (*field)->ptr + offset;
      out.insert(out.end(), at, at + (*field)->pack_length());
    }
  for (Field **field= table->field; *field; field++)
    if (is_variable(*field) && !info_columns.has(*field)) {
      rq_slice value= variable_value(*field, offset);
      put_length(out, value.len);
      out.insert(out.end(), value.bytes, value.bytes + value.len);
    }
}

static bool take_length(rq_slice *from, size_t *length)
{
  *length= 0;
  for (uint shift= 0; shift < 35; shift+= 7) {
    if (!from->len)
      return false;
    uchar byte= *from->bytes;
    from->bytes++;
    from->len--;
    *length|= static_cast<size_t>(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return *length <= from->len;
  }
  return false;
}

int queue_unpack(const TABLE *table, const queue_info_columns &info_columns, uchar *record, rq_slice row)
{
  const uint null_bytes= queue_null_bytes(table, info_columns);
  const my_ptrdiff_t offset= record - table->record[0];
  rq_slice rest= row;
  if (rest.len < null_bytes)
    return HA_ERR_CRASHED;
  unpack_nulls(table, info_columns, record, rest.bytes);
  rest.bytes+= null_bytes;
  rest.len-= null_bytes;
  for (Field **field= table->field; *field; field++)
    if (!is_variable(*field) && !info_columns.has(*field)) {
      const uint length= (*field)->pack_length();
      if (rest.len < length)
        return HA_ERR_CRASHED;
      memcpy((*field)->ptr + offset, rest.bytes, length);
      rest.bytes+= length;
      rest.len-= length;
    }
  for (Field **field= table->field; *field; field++) {
    if (!is_variable(*field) || info_columns.has(*field))
      continue;
    size_t length;
    if (!take_length(&rest, &length))
      return HA_ERR_CRASHED;
    uchar *at= (*field)->ptr + offset;
    if ((*field)->flags & BLOB_FLAG) {
      const Field_blob *blob= static_cast<const Field_blob *>(*field);
      const uint packed= blob->pack_length_no_ptr();
      uint32 left= static_cast<uint32>(length);
      for (uint byte= 0; byte < packed; byte++, left>>= 8)
        at[byte]= static_cast<uchar>(left);
      memcpy(at + packed, &rest.bytes, sizeof(rest.bytes));
    } else {
      const uint length_bytes= static_cast<Field_varstring *>(*field)->length_bytes;
      if (length + length_bytes > (*field)->pack_length())
        return HA_ERR_CRASHED;
      if (length_bytes == 1)
        *at= static_cast<uchar>(length);
      else
        int2store(at, static_cast<uint16>(length));
      memcpy(at + length_bytes, rest.bytes, length);
    }
    rest.bytes+= length;
    rest.len-= length;
  }
  return 0;
}
