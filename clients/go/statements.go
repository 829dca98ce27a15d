package remoraqueue

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf16"
)

// More tokens than this would make a statement that nobody can read in a log.
const tokensAtOnce = 200

// The queue keeps a reason of at most 1024 bytes.
const reasonMax = 1000

// What a worker's own connections are, whatever the pool makes of them.
const ownSession = "SET NAMES utf8mb4, autocommit = 1"

// What a handler does after a deadlock, which ends its transaction, is not committed by itself then.
const noAutocommit = "SET autocommit = 0"

// A savepoint is gone when its transaction has ended, as a deadlock ends it. @@in_transaction would say less:
// without autocommit the next statement begins another transaction.
const (
	mark      = "SAVEPOINT remora_queue_job"
	checkMark = "RELEASE SAVEPOINT remora_queue_job"
)

// quoted is a name in backticks, as SQL and the functions of the queue want it.
func quoted(name string) string {
	return "`" + strings.ReplaceAll(name, "`", "``") + "`"
}

func isASCII(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r > 0x7e }) < 0
}

// value is text as an SQL expression. It means the same in every sql_mode and character set: what is not
// plain is hex.
func value(text string) string {
	if !isASCII(text) || strings.ContainsAny(text, "\\\x00") {
		return "_utf8mb4 x'" + hex.EncodeToString([]byte(text)) + "'"
	}
	return plain(text)
}

// plain is text without a backslash as SQL text.
func plain(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// nullable is a value, and NULL if it is empty.
func nullable(text string) string {
	if text == "" {
		return "NULL"
	}
	return value(text)
}

// escaped is text in ASCII, as JSON has it: a connection with another character set changes nothing.
func escaped(text string) string {
	var made strings.Builder
	for _, letter := range text {
		if letter < 0x7f {
			made.WriteRune(letter)
			continue
		}
		for _, unit := range utf16.Encode([]rune{letter}) {
			fmt.Fprintf(&made, "\\u%04x", unit)
		}
	}
	return made.String()
}

// Integer is any integer.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Literal is text or an integer as a condition of a queue has it. Text is in quotes, and what is special
// there is twice there.
func Literal[T ~string | Integer](of T) string {
	shown := reflect.ValueOf(of)
	if shown.Kind() != reflect.String {
		return fmt.Sprint(shown)
	}
	return "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(shown.String()) + "'"
}

// seconds is a time as SQL.
func seconds(of time.Duration) string {
	return fmt.Sprintf("'%.3f'", of.Seconds())
}

// leaseStatement asks for rows. Their numbers are text, because the largest fit into no type of JSON.
func leaseStatement(table, where string, lasts time.Duration, rows int, wait time.Duration) string {
	argument := table
	if where != "" {
		argument += ":" + where
	}
	return fmt.Sprintf(
		"SET STATEMENT queue_json_strings = ON FOR SELECT queue_lease_json(%s, '%d', %s, %s)",
		seconds(lasts), rows, value(argument), seconds(wait))
}

// Each of these gives how many tokens were valid, and the others.

func ackStatement(tokens ...string) string {
	return fmt.Sprintf("SELECT queue_ack(%s), queue_stale()", joined(tokens))
}

func extendStatement(tokens []string, lasts time.Duration) string {
	return fmt.Sprintf("SELECT queue_extend(%s, %s), queue_stale()", joined(tokens), seconds(lasts))
}

func releaseStatement(tokens ...string) string {
	return fmt.Sprintf("SELECT queue_release(%s), queue_stale()", joined(tokens))
}

func nackStatement(failed *failure, tokens ...string) string {
	reason := escaped(failed.reason)
	if len(reason) > reasonMax {
		reason = reason[:reasonMax]
	}
	return fmt.Sprintf("SELECT queue_nack(%s, %s, %s), queue_stale()", joined(tokens), failed.delay, value(reason))
}

func joined(tokens []string) string {
	return value(strings.Join(tokens, ","))
}

// stateStatement asks whether there is a transaction, for autocommit, what the table is, for the number of
// the connection, and for its character set.
func stateStatement(database, table string) string {
	return fmt.Sprintf(
		"SELECT @@in_transaction, @@autocommit, (SELECT CONCAT(engine, ' ', create_options)"+
			" FROM information_schema.tables WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s),"+
			" CONNECTION_ID(), @@character_set_connection",
		nullable(database), value(table))
}
