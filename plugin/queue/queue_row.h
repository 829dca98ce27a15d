/* Rows as the core stores them: NULL bits, fixed columns, then length and bytes of the others. */
#ifndef QUEUE_ROW_H
#define QUEUE_ROW_H

#include <deque>
#include <vector>

#include "queue_abi.h"
#include "queue_info_columns.h"

/*
  What the core must know about a table's columns to evaluate conditions, and how many bytes the fixed ones
  take. `members` holds the members of ENUMs, which the columns point into. Columns that are `info_columns` are not
  stored, here and below.
*/
std::vector<rq_column> queue_columns(const TABLE *table, const queue_info_columns &info_columns, uint *fixed,
                                     std::deque<std::vector<rq_slice>> *members);

/* What a column is to the core: one of RQ_INTEGER and so on. */
uint32_t queue_kind_of(const Field *field);

/* How many bytes the NULL bits of a row take. */
uint queue_null_bytes(const TABLE *table, const queue_info_columns &info_columns);

/* Packs a record of the server into a row; replaces the contents of `out`. */
void queue_pack(const TABLE *table, const queue_info_columns &info_columns, const uchar *record, std::vector<uchar> &out);

/* The bytes that a column has in the row of a record that is the table's first; none when it is NULL. */
rq_slice queue_bytes_of(const Field *field);

/*
  Unpacks a row into a record of the server, whose BLOBs point into the row. Returns HA_ERR_CRASHED when it is
  not a row of this table, else 0.
*/
int queue_unpack(const TABLE *table, const queue_info_columns &info_columns, uchar *record, rq_slice row);

#endif
