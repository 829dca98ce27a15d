package main

import (
	"context"
	"database/sql"

	_ "github.com/go-sql-driver/mysql"
	"remoraqueue"
)

// ours is our package for Go.
type ours struct {
	db   *sql.DB
	jobs *remoraqueue.Queue[payload]
}

func newOurs(socket string) contestant {
	db, err := sql.Open("mysql", "root@unix("+socket+")/bench")
	must(err)
	db.SetMaxIdleConns(lanes)
	return ours{db, remoraqueue.Must(remoraqueue.New[payload]("jobs", remoraqueue.Options{DB: db}))}
}

func (o ours) make(ctx context.Context) error { return o.jobs.Create(ctx, o.db) }

func (o ours) fill(ctx context.Context, some []payload) error {
	var messages []remoraqueue.Message[payload]
	for _, one := range some {
		messages = append(messages, remoraqueue.Message[payload]{Payload: one})
	}
	_, err := o.jobs.PutMany(ctx, o.db, messages)
	return err
}

func (o ours) put(ctx context.Context, one payload) error {
	_, err := o.jobs.Put(ctx, o.db, one)
	return err
}

func (o ours) work(ctx context.Context, workers int) error {
	handler := func(_ context.Context, job *remoraqueue.Job[payload]) error { return record(job.Payload) }
	return o.jobs.Worker(handler, remoraqueue.WorkerOptions{Concurrency: workers}).Run(ctx)
}
