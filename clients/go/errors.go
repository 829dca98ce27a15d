package remoraqueue

import (
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// What errors of this package are, for [errors.Is]. Those of the driver come out as they are.
var (
	// ErrNotAQueue says that there is no such table, or that it has another engine.
	ErrNotAQueue = errors.New("not a queue")
	// ErrInTransaction says that the connection is within a transaction, and that what was asked for would be
	// no part of it.
	ErrInTransaction = errors.New("in a transaction")
	// ErrLeaseLost says that the lease has ended, and that somebody else may have the message.
	ErrLeaseLost = errors.New("lease lost")
	// ErrUsage says that the program gave a value that is none, such as a name with three parts. It comes
	// again at every try.
	ErrUsage = errors.New("wrong use")
)

// problem is an error with a text of its own, and of a kind.
type problem struct {
	kind error
	text string
}

func (p *problem) Error() string { return p.text }

func (p *problem) Unwrap() error { return p.kind }

func problemf(kind error, format string, values ...any) error {
	return &problem{kind: kind, text: fmt.Sprintf(format, values...)}
}

// RetryError is an error that a handler expects: it is a failed try, and nothing is logged. [Retry] and
// [RetryIn] make one.
type RetryError struct {
	// Reason is what the next try is told: [Job.Why].
	Reason string
	// Delay is how long the message waits. Nil: as the queue's backoff says.
	Delay *time.Duration
}

// Error is the reason.
func (r *RetryError) Error() string { return r.Reason }

// Retry is for a handler to return: try again, as the queue's backoff says.
func Retry(reason string) error { return &RetryError{Reason: reason} }

// RetryIn is for a handler to return: try again after this time, which is not negative.
func RetryIn(delay time.Duration, reason string) error {
	return &RetryError{Reason: reason, Delay: &delay}
}

// failure is a failed try, as the queue is told of it. Equal ones can be told with one statement.
type failure struct {
	reason string
	// As SQL: when it comes again.
	delay string
}

func failureOf(err error) *failure {
	failed := &failure{reason: err.Error(), delay: "NULL"}
	var retry *RetryError
	if errors.As(err, &retry) && retry.Delay != nil {
		// The queue would refuse a time before now, and then the message would wait for the end of its lease.
		failed.delay = seconds(max(*retry.Delay, 0))
	}
	return failed
}

// The server's numbers of errors that this package knows.
const (
	unknownThread = 1094
	// RELEASE SAVEPOINT of one that is not there.
	noSavepoint      = 1305
	queryInterrupted = 1317
	statementTimeout = 1969
)

// numberOf is the server's number of an error, and 0 if it has none. Drivers have types of their own for
// these errors, with a field Number. To name one of these types would be to need its driver.
func numberOf(err error) uint64 {
	for err != nil {
		value := reflect.Indirect(reflect.ValueOf(err))
		if value.Kind() == reflect.Struct {
			if number := value.FieldByName("Number"); number.IsValid() && number.CanUint() {
				return number.Uint()
			}
		}
		err = errors.Unwrap(err)
	}
	return 0
}

// isLasting is whether an error will come again at every try: the table, a privilege or an argument is wrong.
// The server's manual lists these numbers under "Errors and warnings".
func isLasting(err error) bool {
	switch number := numberOf(err); number {
	case 1046, 1049, 1064, 1103, 1142, 1143, 1146, 1210, 1305:
		return true
	default:
		if number >= 51001 && number <= 51007 {
			return true
		}
	}
	return errors.Is(err, ErrUsage) || isPoolClosed(err)
}

// isPoolClosed is whether the program has closed its sql.DB. That error has no name.
func isPoolClosed(err error) bool {
	return err != nil && !errors.Is(err, sql.ErrConnDone) && err.Error() == "sql: database is closed"
}

// isInterrupted is whether KILL QUERY or max_statement_time has ended a wait: the connection can be used on.
func isInterrupted(err error) bool {
	number := numberOf(err)
	return number == queryInterrupted || number == statementTimeout
}
