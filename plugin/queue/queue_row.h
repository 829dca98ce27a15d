/* Rows as the core keeps them: NULL bits, fixed columns, then length and bytes of the others. */
#ifndef QUEUE_ROW_H
#define QUEUE_ROW_H

#include <deque>
#include <vector>

#include "queue_abi.h"

/*
  What the core must know of a table's columns to evaluate conditions, and how many bytes the fixed ones take. The members of
  ENUMs are kept in `members`, which the columns point into.
*/
std::vector<rq_column> queue_columns(const TABLE *table, uint *fixed, std::deque<std::vector<rq_slice>> *members);

/* A record of the server as a row; replaces what is in `out`. */
void queue_pack(const TABLE *table, const uchar *record, std::vector<uchar> &out);

/*
  A row as a record of the server, whose BLOBs point into the row. HA_ERR_CRASHED when it is no row of this table, else 0.
*/
int queue_unpack(const TABLE *table, uchar *record, rq_slice row);

#endif
