package remoraqueue

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// Job is a message that is leased, as a handler sees it. P is the type of its payload.
type Job[P any] struct {
	// Payload is the column payload, read as JSON. Text that is no JSON, as another program may have put it,
	// is itself if P is string or any, and otherwise the job fails. Without such a column it is the zero
	// value.
	Payload P
	// Row has all columns as text, also numbers. Binary columns are base64.
	Row map[string]sql.NullString

	leased *leased
}

// ID is what [Queue.Put] returned: the column id as text. It is empty without such a column.
func (j *Job[P]) ID() string { return j.Row["id"].String }

// Tries is which try this is, counted from 1.
func (j *Job[P]) Tries() int {
	j.leased.mutex.Lock()
	defer j.leased.mutex.Unlock()
	return j.leased.tries
}

// Why is why the last try has failed. It is empty if nobody said so.
func (j *Job[P]) Why() string { return j.leased.why }

// Token names the lease. It changes if the message comes again while its job runs.
func (j *Job[P]) Token() string { return j.leased.currentToken() }

// Fence is a number that only grows, from lease to lease. What a job writes to can refuse a smaller one than
// it has seen.
func (j *Job[P]) Fence() uint64 {
	token := j.Token()
	number, _, _ := strings.Cut(token[strings.LastIndexByte(token, ':')+1:], "-")
	fence, _ := strconv.ParseUint(number, 10, 64)
	return fence
}

// Context ends when the lease has ended while the job runs, because somebody else may have the message:
// [context.Cause] is an [ErrLeaseLost] then. It ends also when the handler has ended. A handler of one job is
// given it, and those of a batch have one each.
func (j *Job[P]) Context() context.Context { return j.leased.context }

// Fail says that this job of a batch has failed, and why. [RetryIn] says when it comes again. The others are
// done unless they fail too.
func (j *Job[P]) Fail(why error) { j.leased.fail(why) }

// typed is a job with its payload. An error when that has another type.
func typed[P any](of *leased) (*Job[P], error) {
	job := &Job[P]{Row: of.row, leased: of}
	payload := of.row["payload"]
	if !payload.Valid {
		return job, nil
	}
	err := json.Unmarshal([]byte(payload.String), &job.Payload)
	if err == nil {
		return job, nil
	}
	switch into := any(&job.Payload).(type) {
	case *any:
		*into = payload.String
	case *string:
		*into = payload.String
	default:
		return nil, fmt.Errorf("the payload is no %T: %w", job.Payload, err)
	}
	return job, nil
}

// leased is a message that was leased, whatever the type of its payload.
type leased struct {
	row     map[string]sql.NullString
	why     string
	context context.Context
	cancel  context.CancelCauseFunc

	mutex sync.Mutex
	token string
	tries int
	// Why this try has failed.
	failed error
	// Why the lease is no longer known to be good.
	lost error
	// Whether its handler has ended, so that its token is about to be used.
	isOver bool
	// The same message, leased again before it was known how the use of the token went.
	again *leased
}

// leasedOf are the messages in what queue_lease_json() returned. Their contexts are below ctx.
func leasedOf(ctx context.Context, answer row) ([]*leased, error) {
	if len(answer) == 0 {
		return nil, nil
	}
	var found []struct {
		Token string
		Try   int
		Why   string
		Row   map[string]*string
	}
	if err := json.Unmarshal([]byte(answer[0].String), &found); err != nil {
		return nil, fmt.Errorf("an answer of the queue can't be read: %w", err)
	}
	made := make([]*leased, 0, len(found))
	for _, one := range found {
		of := &leased{token: one.Token, tries: one.Try, why: one.Why, row: make(map[string]sql.NullString)}
		for name, value := range one.Row {
			of.row[name] = sql.NullString{}
			if value != nil {
				of.row[name] = sql.NullString{String: *value, Valid: true}
			}
		}
		of.context, of.cancel = context.WithCancelCause(ctx)
		made = append(made, of)
	}
	return made, nil
}

// key is by what a worker knows the message again.
func (l *leased) key() string {
	if id := l.row["id"]; id.Valid {
		return id.String
	}
	return l.currentToken()
}

func (l *leased) currentToken() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.token
}

func (l *leased) fail(why error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.failed = why
}

// failure is why this try has failed. Nil if it has not.
func (l *leased) failure() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.failed
}

// over says that from now on its token does not change.
func (l *leased) over() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.isOver = true
}

// lose says that somebody else may have the message.
func (l *leased) lose() {
	l.mutex.Lock()
	l.lost = problemf(ErrLeaseLost, "the lease of %s has ended: somebody else may have its message", l.token)
	lost := l.lost
	l.mutex.Unlock()
	l.cancel(lost)
}

func (l *leased) lostBy() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.lost
}

// comesAgain says that the message was leased again while its job is here. One that runs continues with the
// new lease: true.
func (l *leased) comesAgain(again *leased) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.isOver {
		l.again = again
		return false
	}
	l.token, l.tries, l.lost = again.token, again.tries, nil
	return true
}

// cameAgain is the message that was leased again, and nil if it was not.
func (l *leased) cameAgain() *leased {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.again
}

// tokensOf are the tokens of jobs.
func tokensOf(jobs []*leased) []string {
	tokens := make([]string, 0, len(jobs))
	for _, job := range jobs {
		tokens = append(tokens, job.currentToken())
	}
	return tokens
}

// staleAmong are the tokens in what queue_stale() returned. A name in backticks may have commas of its own.
func staleAmong(answer row) map[string]bool {
	stale := make(map[string]bool)
	if len(answer) < 2 || !answer[1].Valid {
		return stale
	}
	isQuoted := false
	for _, token := range strings.FieldsFunc(answer[1].String, func(letter rune) bool {
		isQuoted = isQuoted != (letter == '`')
		return letter == ',' && !isQuoted
	}) {
		stale[token] = true
	}
	return stale
}
