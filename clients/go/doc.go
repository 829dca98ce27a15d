// Package remoraqueue has jobs in a queue that is a table of MariaDB: ENGINE=QUEUE of remora.
//
// A job exists if the transaction that puts it commits. It is tried again when its worker fails, and is not
// lost when its worker or the server dies.
//
// [Queue] is a table. [Queue.Put] puts a message into it, on the caller's connection. [Queue.Worker] works on
// messages, and [Queue.Take] takes one in a transaction. The package knows SQL and no driver: give it a
// [database/sql.DB] of github.com/go-sql-driver/mysql.
package remoraqueue
