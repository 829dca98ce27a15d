package remoraqueue

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Message is a payload and when and how it is to be given.
type Message[P any] struct {
	// Payload is what JSON can hold.
	Payload P
	// Delay is the time from now on, by the server's clock, to the microsecond.
	Delay time.Duration
	// At is when the message is given. Not with Delay.
	At time.Time
	// Key is for Fifo: messages with the same key come one at a time and in order. An empty one is none.
	Key string
	// Dedupe is for Options.Dedupe: the message is left out if one with the same value came before. An empty
	// one is none.
	Dedupe string
	// Priority is for Options.Priority: the lowest comes first.
	Priority int
}

// Put puts a message into the queue and gives its id. The message is a part of the connection's transaction:
// workers see it when that commits, and never if it does not. With a sql.DB it is a transaction of its own.
//
// A Plain queue refuses a transaction, with [ErrInTransaction], because ROLLBACK would not undo the put: give
// the sql.DB if that is meant. [ErrNotAQueue] says that there is no such table, and [ErrUsage] that the
// payload is no JSON.
func (q *Queue[P]) Put(ctx context.Context, on Connection, payload P) (string, error) {
	return q.PutMessage(ctx, on, Message[P]{Payload: payload})
}

// PutMessage is Put for a message with a delay, a key, or the like. [ErrUsage] also says that the queue was
// made without the option for one of these.
func (q *Queue[P]) PutMessage(ctx context.Context, on Connection, message Message[P]) (string, error) {
	ids, err := q.PutMany(ctx, on, []Message[P]{message})
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

// PutMany puts messages with one statement, all or none of them, and gives their ids.
func (q *Queue[P]) PutMany(ctx context.Context, on Connection, messages []Message[P]) ([]string, error) {
	ids := make([]string, 0, len(messages))
	rows := make([]string, 0, len(messages))
	for _, message := range messages {
		id, err := newID()
		if err != nil {
			return nil, err
		}
		payload, err := encoded(message.Payload)
		if err != nil {
			return nil, err
		}
		values, err := q.table.values(message.Delay, message.At, message.Key, message.Dedupe, message.Priority)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
		rows = append(rows, fmt.Sprintf("(%s,%s,%s)", value(id), value(payload), values))
	}
	if len(ids) == 0 {
		return ids, nil
	}
	if err := q.table.insert(ctx, on, rows); err != nil {
		return nil, err
	}
	return ids, nil
}

func newID() (string, error) {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(random[:]), nil
}

// encoded is a payload as JSON in ASCII.
func encoded(payload any) (string, error) {
	var made bytes.Buffer
	encoder := json.NewEncoder(&made)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(payload); err != nil {
		return "", problemf(ErrUsage, "a payload is what JSON can hold: %v", err)
	}
	return escaped(strings.TrimSuffix(made.String(), "\n")), nil
}

// columns are those that a put fills.
func (t *table) columns() string {
	columns := "id,payload,at"
	if t.options.Fifo {
		columns += ",message_key"
	}
	if t.options.Dedupe {
		columns += ",dedupe_key"
	}
	if t.options.Priority {
		columns += ",priority"
	}
	return columns
}

// values are the columns after the payload. What the table has no column for would be lost, and is refused.
func (t *table) values(delay time.Duration, at time.Time, key, dedupe string, priority int) (string, error) {
	values, err := due(delay, at)
	if err != nil {
		return "", err
	}
	for _, one := range []struct {
		name    string
		isThere bool
		isGiven bool
		sql     string
	}{
		{"Key", t.options.Fifo, key != "", nullable(key)},
		{"Dedupe", t.options.Dedupe, dedupe != "", nullable(dedupe)},
		{"Priority", t.options.Priority, priority != 0, strconv.Itoa(priority)},
	} {
		if one.isThere {
			values += "," + one.sql
		} else if one.isGiven {
			return "", problemf(ErrUsage, "%s has no column for %s; make the Queue with the option for it",
				t.full(), one.name)
		}
	}
	return values, nil
}

// due is from when on a message is given. The server's clock decides.
func due(delay time.Duration, at time.Time) (string, error) {
	switch {
	case delay < 0:
		return "", problemf(ErrUsage, "the delay %v is negative", delay)
	case !at.IsZero() && delay != 0:
		return "", problemf(ErrUsage, "either Delay or At")
	case !at.IsZero():
		return value(at.UTC().Format("2006-01-02 15:04:05.000000")), nil
	case delay == 0:
		return "NULL", nil
	}
	return fmt.Sprintf("NOW(6) + INTERVAL %d MICROSECOND", delay.Microseconds()), nil
}

// insert puts rows with one INSERT: what drivers make of many rows may be one for each row.
func (t *table) insert(ctx context.Context, on Connection, rows []string) error {
	// In UTC no time occurs twice, and none is missing.
	statement := fmt.Sprintf("SET STATEMENT time_zone = '+00:00' FOR INSERT INTO %s (%s) VALUES %s",
		t.full(), t.columns(), strings.Join(rows, ","))
	if db, ok := on.(pool); ok {
		return t.insertAlone(ctx, db, statement)
	}
	if !t.isTransactional.Load() {
		found, err := t.look(ctx, on)
		if err != nil {
			return err
		}
		if !t.isTransactional.Load() && (found.inTransaction || !found.autocommit) {
			return problemf(ErrInTransaction,
				"%s is not TRANSACTIONAL, so ROLLBACK would not undo this put; give the sql.DB if that is meant",
				t.full())
		}
	}
	_, err := on.ExecContext(ctx, statement)
	return err
}

// insertAlone puts rows in a transaction of their own. A connection of the pool may be one without
// autocommit, and without a COMMIT the rows would be in the transaction of whoever gets it next.
func (t *table) insertAlone(ctx context.Context, db pool, statement string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if !t.isTransactional.Load() {
		if _, err := t.look(ctx, tx); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, statement); err != nil {
		return err
	}
	return tx.Commit()
}
